// f16, bf16 and pairs of them: add sub mul fma min max neg abs, rounded once.
#include <cmath>

#include "ops.h"

namespace sim {
namespace half_ops {

enum What { kAdd, kSub, kMul, kFma, kMin, kMax, kNeg, kAbs, kWhats };
const char* const kNames[kWhats] = {"add", "sub", "mul", "fma", "min", "max", "neg", "abs"};

enum Flags { kFtz = 1, kSat = 2, kRelu = 4, kNanWins = 8 };

template <class H>
u16 bits_of(double v) {
  if constexpr (std::is_same_v<H, Half>)
    return to_half(v).bits;
  else
    return to_bf16(v).bits;
}

double flush(double v, i64 flags, double least) {
  return flags & kFtz && std::fabs(v) < least ? std::copysign(0.0, v) : v;
}

template <class H>
u16 compute(int what, u16 a, u16 b, u16 c, i64 flags) {
  if (what == kNeg) return a ^ 0x8000;
  if (what == kAbs) return a & 0x7fff;
  const double least = std::is_same_v<H, Half> ? 0x1p-14 : 0x1p-126;
  const double x = flush(to_double(H{a}), flags, least);
  const double y = flush(to_double(H{b}), flags, least);
  const double z = flush(to_double(H{c}), flags, least);
  double r = 0;
  switch (what) {
    case kAdd:
      r = add_sticky(x, y);
      break;
    case kSub:
      r = add_sticky(x, -y);
      break;
    case kMul:
      r = x * y;
      break;
    case kFma:
      r = add_sticky(x * y, z);
      break;
    default:
      if (x != x || y != y) {
        r = flags & kNanWins ? (x != x ? x : y) : (x != x ? y : x);
      } else if (x == y) {
        r = std::signbit(x) == (what == kMax) ? y : x;
      } else {
        r = (x < y) == (what == kMax) ? y : x;
      }
  }
  if (flags & kSat) r = r > 0 ? (r < 1 ? r : 1.0) : 0.0;
  if (flags & kRelu && !(r > 0)) r = r != r ? r : 0.0;
  return bits_of<H>(flush(r, flags, least));
}

template <class H, bool Pair>
void run(Exec& x, const Ins& i, u32 m) {  // imm: what, flags
  u32* d = x.row<u32>(i.row[0]);
  const u32* a = x.row<u32>(i.row[1]);
  const u32* b = i.operands > 2 ? x.row<u32>(i.row[2]) : a;
  const u32* c = i.operands > 3 ? x.row<u32>(i.row[3]) : a;
  const int what = static_cast<int>(i.imm[0]);
  for (int l = 0; l < kLanes; l++) {
    if (!(m >> l & 1)) continue;
    u32 r = compute<H>(what, a[l], b[l], c[l], i.imm[1]);
    if (Pair) {
      r |= static_cast<u32>(compute<H>(what, a[l] >> 16, b[l] >> 16, c[l] >> 16, i.imm[1])) << 16;
    }
    d[l] = r;
  }
}

}  // namespace half_ops

bool decode_half(Decoder& d) {
  using namespace half_ops;
  const Type t = d.type();
  Handler h = nullptr;
  switch (t) {
    case kF16:
      h = run<Half, false>;
      break;
    case kBf16:
      h = run<Bf16, false>;
      break;
    case kF16x2:
      h = run<Half, true>;
      break;
    case kBf16x2:
      h = run<Bf16, true>;
      break;
    default:
      return false;
  }
  int what = 0;
  while (what < kWhats && d.op()[0] != kNames[what]) what++;
  if (what == kWhats || d.has("xorsign")) return false;
  const size_t operands = what == kFma ? 4 : what == kNeg || what == kAbs ? 2 : 3;
  Ins& i = emit_same(d, h, t, operands);
  i.imm[0] = what;
  i.imm[1] = (d.has("ftz") ? kFtz : 0) | (d.has("sat") ? kSat : 0) | (d.has("relu") ? kRelu : 0) |
             (d.has("NaN") ? kNanWins : 0);
  const bool pair = t == kF16x2 || t == kBf16x2;
  if (what < kNeg) i.flops = static_cast<u8>((what == kFma ? 2 : 1) * (pair ? 2 : 1));
  return true;
}

void add_half_ops(OpTable&) {}

}  // namespace sim
