// Branches, calls, barriers, fences, and the functions that devices bring along: printf, assert.
#include "ops.h"

namespace sim {
namespace control_ops {

void nothing(Exec&, const Ins&, u32) {}

void decode_bra(Decoder& d) { d.branch(d.at(0).name); }

/// rows: index. imm: table.
void branch_table(Exec& x, const Ins& i, u32 m) {
  const u32* index = x.row<u32>(i.row[0]);
  const std::vector<i32>& targets = x.block->program.tables[i.imm[0]];
  for (u32 rest = m; rest;) {
    const u32 which = index[__builtin_ctz(rest)];
    u32 same = 0;
    for (int l = 0; l < kLanes; l++)
      same |= static_cast<u32>(rest >> l & 1 && index[l] == which) << l;
    rest &= ~same;
    if (which < targets.size()) {
      x.warp->splits.push_back({targets[which], same, -1});
    } else {
      x.block->report(
          "bad-branch", x, i, __builtin_ctz(same), which,
          "index " + std::to_string(which) + " of " + std::to_string(targets.size()) + " targets");
      x.warp->exited |= same;
    }
  }
}

void decode_brx(Decoder& d) {
  if (!d.has("idx")) d.unsupported();
  const int table = d.label_table(d.at(1).name);
  Ins& i = d.emit(branch_table, {in(d.use(d.at(0), kU32))});
  i.imm[0] = table;
  i.kind = Ins::kTable;
}

void check_warp_barrier(Exec& x, const Ins& i, u32 m) {
  const u32 members = x.row<u32>(i.row[0])[__builtin_ctz(m)];
  const u32 absent = members & x.warp->all & ~x.warp->exited & ~m;
  if (absent) {
    x.block->report("divergent-barrier", x, i, __builtin_ctz(absent), 0,
                    "bar.warp.sync waits for lanes that do not come with it");
  }
}

void decode_bar(Decoder& d) {
  if (d.has("warp")) {
    d.emit(check_warp_barrier, {in(d.use(d.at(0), kB32))});
    return;
  }
  if (d.has("cluster")) d.unsupported();
  const bool reduces = d.has("red"), arrives = d.has("arrive");
  // rows: result, barrier, [threads], [predicate]
  size_t k = 0;
  std::vector<Arg> args;
  if (reduces) {
    args.push_back(out(d.def(d.at(k++), d.has("popc") ? kU32 : kPred)));
  } else {
    args.push_back(in(d.constant(0, kBit)));
  }
  const Operand& barrier = d.at(k++);
  args.push_back(in(d.use(barrier, kU32)));
  bool inverted = false;
  if (reduces) {
    const Operand& last = d.at(d.count() - 1);
    const bool counted = d.count() - k == 2;
    args.push_back(in(counted ? d.use(d.at(k), kU32) : d.constant(0, kWord)));
    args.push_back(in(d.use(last, kPred)));
  } else if (k < d.count()) {
    args.push_back(in(d.use(d.at(k), kU32)));
  }
  const bool whole = !arrives && k == d.count() && barrier.kind == Operand::kInt;
  if (!whole && !reduces) d.partial_barriers();
  Ins& i = d.emit(nothing, args);
  i.kind = Ins::kBarrier;
  i.imm[0] = arrives ? 1 : !reduces ? 0 : d.has("popc") ? 2 : d.has("and") ? 3 : 4;
  i.imm[1] = inverted;
}

/// imm: whether it reaches beyond the block.
void fence(Exec& x, const Ins& i, u32) {
  if (i.imm[0]) x.block->launch.ordered.store(true, std::memory_order_relaxed);
  x.block->fence(*x.warp);
}

void decode_fence(Decoder& d) {
  d.partial_barriers();
  d.emit(fence, {}).imm[0] = !d.has("cta");
}

void trap(Exec& x, const Ins& i, u32 m) {
  x.block->report("trap", x, i, __builtin_ctz(m), 0, "the kernel stopped itself");
  x.block->launch.trapped = true;
  x.block->launch.cancelled = true;
  x.block->stop = true;
}

/// A text of the kernel's, at a generic address.
std::string text_at(Block& b, u64 address) {
  const Allocation* a = find(*b.launch.memory, address);
  if (!a) return "?";
  const char* p = reinterpret_cast<const char*>(address);
  return std::string(p, strnlen(p, a->base + a->size - address));
}

u64 argument(Exec& x, int lane, i64 offset, int bytes) {
  u64 v = 0;
  const u8* local = x.warp->local.data() + lane * x.block->program.local_bytes;
  memcpy(&v, local + offset, bytes);
  return v;
}

/// printf's text; the arguments lie in the thread's memory, each on its own alignment.
std::string formatted(Exec& x, int lane, const std::string& format, u64 arguments) {
  std::string out;
  i64 at = static_cast<i64>(arguments & ((1ull << 60) - 1));
  const bool present = arguments >> 60 == kLocalWindow >> 60;
  const auto next = [&](int bytes) -> u64 {
    at = round_up(at, bytes);
    const i64 from = at;
    at += bytes;
    if (!present || at > x.block->program.local_bytes) return 0;
    return argument(x, lane, from, bytes);
  };
  for (size_t k = 0; k < format.size(); k++) {
    if (format[k] != '%') {
      out += format[k];
      continue;
    }
    std::string spec = "%";
    int longs = 0;
    for (k++; k < format.size() && !isalpha(static_cast<u8>(format[k])) && format[k] != '%'; k++) {
      if (format[k] == '*')
        spec += std::to_string(static_cast<i32>(next(4)));
      else
        spec += format[k];
    }
    for (; k < format.size() && strchr("lhzjt", format[k]); k++) {
      longs += format[k] == 'l' || format[k] == 'z' || format[k] == 'j' || format[k] == 't';
    }
    if (k >= format.size()) break;
    const char c = format[k];
    char buffer[512] = "%";
    if (c == '%') {
    } else if (c == 's') {
      const std::string text = text_at(*x.block, next(8));
      snprintf(buffer, sizeof buffer, (spec + "s").c_str(), text.c_str());
    } else if (strchr("fFeEgGaA", c)) {
      snprintf(buffer, sizeof buffer, (spec + c).c_str(), bits_as<double>(next(8)));
    } else if (c == 'p') {
      snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(next(8)));
    } else if (c == 'c') {
      snprintf(buffer, sizeof buffer, (spec + c).c_str(), static_cast<int>(next(4)));
    } else if (longs) {
      snprintf(buffer, sizeof buffer, (spec + "ll" + c).c_str(), next(8));
    } else {
      snprintf(buffer, sizeof buffer, (spec + c).c_str(), static_cast<u32>(next(4)));
    }
    out += buffer;
  }
  return out;
}

/// imm: where the two arguments lie, where the result.
void print(Exec& x, const Ins& i, u32 m) {
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    const std::string format = text_at(*x.block, argument(x, l, i.imm[0], 8));
    *x.block->printed += formatted(x, l, format, argument(x, l, i.imm[1], 8));
    if (i.imm[2] >= 0) {
      const i32 count = 0;
      memcpy(x.warp->local.data() + l * x.block->program.local_bytes + i.imm[2], &count, 4);
    }
  }
}

void assertion(Exec& x, const Ins& i, u32 m) {
  const int l = __builtin_ctz(m);
  Block& b = *x.block;
  b.report("assert", x, i, l, 0,
           "assertion failed: " + text_at(b, argument(x, l, i.imm[0], 8)) + " (" +
               text_at(b, argument(x, l, i.imm[1], 8)) + ":" +
               std::to_string(argument(x, l, i.imm[2], 4)) + ")");
  b.launch.trapped = true;
  b.launch.cancelled = true;
  b.stop = true;
}

void decode_call(Decoder& d) {
  size_t k = d.at(0).kind == Operand::kList ? 1 : 0;
  const std::string& name = d.at(k).name;
  if (name != "vprintf" && name != "__assertfail") return d.call();
  const auto place = [&](const Operand& o) {
    Symbol s;
    if (!d.find_symbol(o.name, s) || s.space != kLocal) d.unsupported();
    return s.offset;
  };
  const std::vector<Operand>& given = d.at(k + 1).items;
  if (given.size() < 2) d.unsupported();
  Ins& i = d.emit(name == "vprintf" ? print : assertion, {});
  i.imm[0] = place(given[0]);
  i.imm[1] = place(given[1]);
  i.imm[2] = name == "vprintf" ? (k == 1 ? place(d.at(0).items[0]) : -1) : place(given[2]);
}

}  // namespace control_ops

void add_control_ops(OpTable& t) {
  using namespace control_ops;
  t["bra"] = decode_bra;
  t["brx"] = decode_brx;
  t["call"] = decode_call;
  t["ret"] = [](Decoder& d) { d.leave(); };
  t["exit"] = [](Decoder& d) { d.emit(nothing, {}).kind = Ins::kExit; };
  t["trap"] = [](Decoder& d) { d.emit(trap, {}); };
  t["bar"] = t["barrier"] = decode_bar;
  t["membar"] = t["fence"] = decode_fence;
  t["nanosleep"] = t["pmevent"] = t["brkpt"] = t["griddepcontrol"] = [](Decoder&) {};
}

}  // namespace sim
