// atom and red: one lane after the other, whole before another thread of the host gets in.
#include <algorithm>
#include <cmath>
#include <mutex>

#include "ops.h"

namespace sim {
namespace atomic_ops {

enum What { kAdd, kMin, kMax, kAnd, kOr, kXor, kExch, kCas, kInc, kDec, kWhats };
const char* const kNames[kWhats] = {"add", "min",  "max", "and", "or",
                                    "xor", "exch", "cas", "inc", "dec"};

/// Locks for stretches of memory: blocks run in parallel, and some types have no atomic of the
/// host.
std::mutex& lock_of(const u8* p) {
  static std::mutex locks[64];
  return locks[reinterpret_cast<u64>(p) / 16 % 64];
}

template <class T>
T combine(int what, T old, T b, T c) {
  if constexpr (std::is_floating_point_v<T>) {
    switch (what) {
      case kAdd:
        return old + b;
      case kMin:
        return std::fmin(old, b);
      case kMax:
        return std::fmax(old, b);
      default:
        return b;
    }
  } else {
    switch (what) {
      case kAdd:
        return static_cast<T>(static_cast<u64>(old) + static_cast<u64>(b));
      case kMin:
        return std::min(old, b);
      case kMax:
        return std::max(old, b);
      case kAnd:
        return old & b;
      case kOr:
        return old | b;
      case kXor:
        return old ^ b;
      case kExch:
        return b;
      case kCas:
        return old == b ? c : old;
      case kInc:
        return old >= b ? 0 : old + 1;
      default:
        return old == 0 || old > b ? b : old - 1;
    }
  }
}

template <class H>
u16 add_halves(u16 a, u16 b) {
  const double sum = add_sticky(to_double(H{a}), to_double(H{b}));
  if constexpr (std::is_same_v<H, Half>)
    return to_half(sum).bits;
  else
    return to_bf16(sum).bits;
}

template <class T>
struct Plain {
  using Of = T;
  static T run(int what, T old, T b, T c) { return combine<T>(what, old, b, c); }
};
template <class H>
struct One {
  using Of = u16;
  static u16 run(int, u16 old, u16 b, u16) { return add_halves<H>(old, b); }
};
template <class H>
struct Two {
  using Of = u32;
  static u32 run(int, u32 old, u32 b, u32) {
    return add_halves<H>(static_cast<u16>(old), static_cast<u16>(b)) |
           static_cast<u32>(add_halves<H>(old >> 16, b >> 16)) << 16;
  }
};

/// imm: offset; space; what, wide base, acquires, releases, vector.
template <class F>
void atomic(Exec& x, const Ins& i, u32 m) {
  using T = typename F::Of;
  using S = Slot<T>;
  const int what = static_cast<int>(i.imm[2] & 15);
  const int parts = static_cast<int>(i.imm[2] >> 8);  // of a vector
  const i32 base = i.row[parts];
  Access a;
  a.lanes = m;
  a.bytes = sizeof(T) * parts;
  a.space = static_cast<Space>(i.imm[1]);
  a.write = true;
  a.mode = kAtomicAccess;
  for (int l = 0; l < kLanes; l++) {
    a.address[l] = i.imm[2] & 16 ? x.row<u64>(base)[l] + i.imm[0]
                                 : x.row<u32>(base)[l] + static_cast<u32>(i.imm[0]);
  }
  Block& block = *x.block;
  u8* at[kLanes];
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    block.acquire(*x.warp, a.address[l], i.imm[2] & 32);
  }
  block.resolve(x, i, a, at);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1) || !at[l]) continue;
    for (int k = 0; k < parts; k++) {
      const S b = x.row<S>(i.row[parts + 1 + k])[l];
      const S c = what == kCas ? x.row<S>(i.row[parts + 2])[l] : b;
      T old, next;
      {
        std::lock_guard<std::mutex> hold(lock_of(at[l]));
        memcpy(&old, at[l] + k * sizeof(T), sizeof(T));
        next = F::run(what, old, static_cast<T>(b), static_cast<T>(c));
        memcpy(at[l] + k * sizeof(T), &next, sizeof(T));
      }
      if (memcmp(&old, &next, sizeof(T)) != 0) block.progress();
      x.row<S>(i.row[k])[l] = old;
    }
  }
  for (int l = 0; l < kLanes; l++) {
    if (m >> l & 1) block.publish(*x.warp, a.address[l], i.imm[2] & 64);
  }
}

Handler of_type(Type t, int what) {
  switch (t) {
    case kF32:
      return what == kAdd || what == kExch ? atomic<Plain<float>> : nullptr;
    case kF64:
      return what == kAdd || what == kExch ? atomic<Plain<double>> : nullptr;
    case kF16:
      return what == kAdd ? atomic<One<Half>> : nullptr;
    case kBf16:
      return what == kAdd ? atomic<One<Bf16>> : nullptr;
    case kF16x2:
      return what == kAdd ? atomic<Two<Half>> : nullptr;
    case kBf16x2:
      return what == kAdd ? atomic<Two<Bf16>> : nullptr;
    case kB16:
    case kU16:
      return atomic<Plain<u16>>;
    case kB32:
    case kU32:
      return atomic<Plain<u32>>;
    case kS32:
      return atomic<Plain<i32>>;
    case kB64:
    case kU64:
      return atomic<Plain<u64>>;
    case kS64:
      return atomic<Plain<i64>>;
    default:
      return nullptr;
  }
}

void decode_atomic(Decoder& d) {
  const bool reduces = d.op()[0] == "red";
  int what = 0;
  while (what < kWhats && !d.has(kNames[what])) what++;
  const Type t = d.type();
  const Handler h = what < kWhats ? of_type(t, what) : nullptr;
  if (!h) d.unsupported();
  const size_t first = reduces ? 0 : 1;
  const Operand& value = d.at(first + 1);
  const bool vector = value.kind == Operand::kVector;
  const std::vector<Operand> values = vector ? value.items : std::vector<Operand>{value};
  const Decoder::Address a = d.address(d.at(first), d.space());
  std::vector<Arg> args;
  for (size_t k = 0; k < values.size(); k++) {
    if (reduces)
      args.push_back(out(d.temporary(width_of(t))));
    else
      args.push_back(out(d.def(vector ? d.at(0).items.at(k) : d.at(0), t)));
  }
  args.push_back(in(a.base));
  for (const Operand& v : values) args.push_back(in(d.use(v, t)));
  if (what == kCas) args.push_back(in(d.use(d.at(first + 2), t)));
  Ins& i = d.emit(h, args);
  i.imm[0] = a.offset;
  i.imm[1] = a.space;
  const bool both = d.has("acq_rel");
  i.imm[2] = what | a.wide << 4 | (both || d.has("acquire")) << 5 |
             (both || d.has("release")) << 6 | static_cast<i64>(values.size()) << 8;
  d.partial_barriers();
}

}  // namespace atomic_ops

void add_atomic_ops(OpTable& t) {
  using namespace atomic_ops;
  t["atom"] = t["red"] = decode_atomic;
}

}  // namespace sim
