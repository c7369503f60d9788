#include "module.h"

#include "decode.h"

namespace sim {

Loaded::Loaded(const std::string& ptx) : tree_(parse(ptx)) {
  if (tree_.functions.empty()) throw Error("the text has no PTX function");
  std::vector<std::pair<const Variable*, u64>> placed;
  for (const Variable& v : tree_.variables) {
    if (v.space != "global" && v.space != "const") continue;
    const u64 size = static_cast<u64>(bytes_of(type_named(v.type)) * v.count);
    const u64 address = Heap::get().allocate(size, false, "variable " + v.name);
    if (!address) throw Error("no memory for the variable " + v.name);
    globals_[v.name] = address;
    placed.emplace_back(&v, address);
  }
  // Initialisers may name variables that come later.
  for (const auto& [v, address] : placed) initialise(*v, address);
}

Loaded::~Loaded() {
  for (const auto& [name, address] : globals_) Heap::get().release(address);
}

void Loaded::initialise(const Variable& v, u64 address) {
  const Type t = type_named(v.type);
  const int bytes = bytes_of(t);
  u8* to = reinterpret_cast<u8*>(address);
  for (const Operand& o : v.init) {
    u64 bits = o.bits;
    if (o.kind == Operand::kName) {
      const auto it = globals_.find(o.name);
      if (it == globals_.end()) throw Error("the initialiser of " + v.name + " names " + o.name);
      bits = it->second + static_cast<u64>(o.offset);
    } else if (o.kind == Operand::kFloat && t == kF32) {
      bits = static_cast<u64>(o.offset);
    }
    memcpy(to, &bits, bytes);
    to += bytes;
  }
}

std::vector<std::string> Loaded::kernels() const {
  std::vector<std::string> out;
  for (const auto& [name, f] : tree_.functions) {
    if (f.entry && f.defined) out.push_back(name);
  }
  return out;
}

const Program& Loaded::program(const std::string& kernel) {
  std::lock_guard<std::mutex> hold(lock_);
  std::unique_ptr<Program>& known = programs_[kernel];
  if (!known) {
    const auto it = tree_.functions.find(kernel);
    if (it == tree_.functions.end() || !it->second.entry) {
      std::string names;
      for (const std::string& name : kernels()) names += (names.empty() ? "" : ", ") + name;
      programs_.erase(kernel);
      throw Error("no kernel `" + kernel + "` in the PTX; it has " +
                  (names.empty() ? "none" : names));
    }
    known = std::make_unique<Program>(Decoder(tree_, globals_).run(it->second));
  }
  return *known;
}

bool Loaded::variable(const std::string& name, u64& address, u64& size) const {
  const auto it = globals_.find(name);
  if (it == globals_.end()) return false;
  address = it->second;
  const Allocation* a = Heap::get().find(address);
  size = a ? a->size : 0;
  return true;
}

void check_launch(const Launch& l) {
  const Program& p = *l.program;
  const auto product = [](const u32* v) { return static_cast<u64>(v[0]) * v[1] * v[2]; };
  const auto shape = [](const u32* v) {
    return "(" + std::to_string(v[0]) + ", " + std::to_string(v[1]) + ", " + std::to_string(v[2]) +
           ")";
  };
  const std::string where = "kernel " + p.name + ": block " + shape(l.block);
  const u64 threads = product(l.block);
  if (threads == 0 || threads > 1024 || l.block[0] > 1024 || l.block[1] > 1024 || l.block[2] > 64) {
    throw Error(where + ": a block has 1 to 1024 threads, at most 64 in z");
  }
  if (product(l.grid) == 0 || l.grid[0] > 0x7fffffffu || l.grid[1] > 65535 || l.grid[2] > 65535) {
    throw Error("kernel " + p.name + ": grid " + shape(l.grid) +
                ": a grid has at least one block, at most 2147483647 in x and 65535 in y and z");
  }
  u64 most = 1;
  for (int n : p.max_threads) most *= static_cast<u64>(n);
  if (!p.max_threads.empty() && (threads > most || (p.exact_threads && threads != most))) {
    throw Error(where + ": the kernel is compiled for " +
                (p.exact_threads ? "exactly " : "at most ") + std::to_string(most) + " threads");
  }
  const u64 shared = p.static_shared - kSharedBase + l.dynamic_shared;
  constexpr u64 kMost = 227 * 1024;  // of sm_90, the largest
  if (shared > kMost) {
    throw Error("kernel " + p.name + ": " + std::to_string(shared) +
                " bytes of shared memory; no device has more than " + std::to_string(kMost));
  }
}

Log& Log::get() {
  static Log* const log = new Log;
  return *log;
}

void Log::add(std::string text) {
  std::lock_guard<std::mutex> hold(lock_);
  texts_.push_back(std::move(text));
}

std::vector<std::string> Log::take() {
  std::lock_guard<std::mutex> hold(lock_);
  return std::move(texts_);
}

}  // namespace sim
