// The result of a launch as lines of fields, for whoever called from another language.
//
//   kernel   name, blocks, trapped
//   finding  kind, count, block x y z, thread, address, instruction, other instruction, text
//   ins      number, PTX line, text, stack, counters...   of every instruction that ran
//   print    what the kernel printed, newlines as \n
//
// Fields end with a tab. A stack lists `file RS line` from the inside out, parted by US.
#include <set>

#include "module.h"

namespace sim {
namespace {

std::string stack_of(const Module& m, int place) {
  std::string out;
  for (int depth = 0; place > 0 && depth < 64; depth++) {
    const Place& p = m.places[place];
    const auto file = m.files.find(p.file);
    if (!out.empty()) out += '\x1f';
    out +=
        (file == m.files.end() ? std::string("?") : file->second) + '\x1e' + std::to_string(p.line);
    place = p.inlined_at;
  }
  return out;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\n')
      out += "\\n";
    else if (c == '\t')
      out += "\\t";
    else if (c == '\\')
      out += "\\\\";
    else
      out += c;
  }
  return out;
}

}  // namespace

std::string result_text(const Launch& l) {
  const Program& p = *l.program;
  std::string out;
  const auto field = [&out](const std::string& text) { out += text + '\t'; };
  const auto number = [&out](u64 n) { out += std::to_string(n) + '\t'; };
  field("kernel");
  field(p.name);
  number(static_cast<u64>(l.grid[0]) * l.grid[1] * l.grid[2]);
  number(l.trapped);
  out += '\n';
  std::set<i32> named;
  for (const auto& [key, f] : l.findings) {
    field("finding");
    field(f.kind);
    number(f.count);
    for (u32 n : f.block) number(n);
    number(f.thread);
    number(f.address);
    field(std::to_string(f.pc));
    field(std::to_string(f.other));
    field(escaped(f.text));
    out += '\n';
    named.insert(f.pc);
    named.insert(f.other);
  }
  for (size_t k = 0; k < p.code.size(); k++) {
    const Stat& s = l.stats[k];
    if (s.executed == 0 && !named.count(static_cast<i32>(k))) continue;
    const Origin& o = p.origins[k];
    const Ins& i = p.code[k];
    field("ins");
    number(k);
    number(o.line);
    field(escaped(o.text));
    field(stack_of(*p.module, o.place));
    for (u64 n : {s.executed, s.lanes, s.wavefronts, s.ideal, s.sectors, s.bytes, s.useful,
                  s.lanes * i.flops, s.executed * i.tensor_flops}) {
      number(n);
    }
    out += '\n';
  }
  field("print");
  field(escaped(l.printed));
  out += '\n';
  return out;
}

}  // namespace sim
