// Functions that devices approximate: ex2 lg2 sin cos tanh rsqrt. Here they are as good as floats
// can hold them, which lies within the error that PTX allows.
#include <cmath>

#include "ops.h"

namespace sim {
namespace special_ops {

inline float flush(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.f, v) : v; }
inline float canonical(float v) { return v != v ? bits_as<float>(0x7fffffffu) : v; }

struct Ex2 {
  /// 2**a without branches, so that lanes run side by side: a power of two times a polynomial.
  static float apply(float a) {
    const float bounded = a < -150.f ? -150.f : a > 129.f ? 129.f : a == a ? a : 0.f;
    const double v = bounded;
    const double shifted = v + 0x1.8p52;  // the nearest integer, in the low bits
    const double f = v - (shifted - 0x1.8p52);
    double p = 1.5252733804059841e-05;
    p = p * f + 0.00015403530393381610;
    p = p * f + 0.0013333558146428443;
    p = p * f + 0.0096181291076284772;
    p = p * f + 0.055504108664821580;
    p = p * f + 0.24022650695910071;
    p = p * f + 0.69314718055994531;
    p = p * f + 1.0;
    const u64 power = (bits_as<u64>(shifted) + 1023) << 52;
    const float r = static_cast<float>(p * bits_as<double>(power));
    return a == a ? r : a;
  }
};
struct Lg2 {
  static float apply(float a) { return static_cast<float>(std::log2(static_cast<double>(a))); }
};
struct Sin {
  static float apply(float a) { return static_cast<float>(std::sin(static_cast<double>(a))); }
};
struct Cos {
  static float apply(float a) { return static_cast<float>(std::cos(static_cast<double>(a))); }
};
struct Tanh {
  static float apply(float a) { return static_cast<float>(std::tanh(static_cast<double>(a))); }
};
struct Rsqrt {
  static float apply(float a) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); }
  static double apply(double a) { return 1 / std::sqrt(a); }
};

template <class F, bool Ftz>
struct With {
  static float apply(float a) {
    const float r = F::apply(Ftz ? flush(a) : a);
    return canonical(Ftz ? flush(r) : r);
  }
};

/// f16 and bf16 forms: computed in f32 and rounded once.
template <class F, class H>
struct Narrow {
  static H apply(H a) {
    const double r = F::apply(to_float(a));
    if constexpr (std::is_same_v<H, Half>)
      return to_half(r);
    else
      return to_bf16(r);
  }
};
template <class F, class H>
struct Pair {
  static u32 apply(u32 a) {
    const u32 low = Narrow<F, H>::apply(H{static_cast<u16>(a)}).bits;
    return low | static_cast<u32>(Narrow<F, H>::apply(H{static_cast<u16>(a >> 16)}).bits) << 16;
  }
};

template <class F>
void decode(Decoder& d) {
  const Type t = d.type();
  Handler h = nullptr;
  switch (t) {
    case kF32:
      h = d.has("ftz") ? unary<float, float, With<F, true>> : unary<float, float, With<F, false>>;
      break;
    case kF16:
      h = unary<Half, Half, Narrow<F, Half>>;
      break;
    case kBf16:
      h = unary<Bf16, Bf16, Narrow<F, Bf16>>;
      break;
    case kF16x2:
      h = unary<u32, u32, Pair<F, Half>>;
      break;
    case kBf16x2:
      h = unary<u32, u32, Pair<F, Bf16>>;
      break;
    default:
      d.unsupported();
  }
  emit_same(d, h, t, 2).flops = 1;
}

void decode_rsqrt(Decoder& d) {
  if (d.type() != kF64) return decode<Rsqrt>(d);
  emit_same(d, unary<double, double, Rsqrt>, kF64, 2).flops = 1;
}

}  // namespace special_ops

void add_special_float_ops(OpTable& t) {
  using namespace special_ops;
  t["ex2"] = decode<Ex2>;
  t["lg2"] = decode<Lg2>;
  t["sin"] = decode<Sin>;
  t["cos"] = decode<Cos>;
  t["tanh"] = decode<Tanh>;
  t["rsqrt"] = decode_rsqrt;
}

}  // namespace sim
