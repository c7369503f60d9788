// kdsl/cpu/power.h: x to the power of y, with NumPy's answers at 0, infinity and NaN.
#pragma once

#include <kdsl/cpu/math64.h>

namespace kdsl {
namespace real {

/// log2(x) for 0 < x < inf, with an error below 2^-64 of it.
static inline KDSL_INLINE Pair log2_pair(Real x) {
  static constexpr double c[] = {0x1.999999999999fp-3, 0x1.249249248e46ep-3, 0x1.c71c71d80ecadp-4,
                                 0x1.745d09d9e6634p-4, 0x1.3b18bed579f99p-4, 0x1.1017f7ec2012ap-4,
                                 0x1.0880c9f6801e3p-4};
  const Split s = split(x);
  // z = (m - 1) / (m + 1): log(m) is 2 z (1 + u / 3 + u^2 (1/5 + ...)) for u = z^2
  const Real top = s.m - 1.0, bottom = s.m + 1.0, lost = s.m - (bottom - 1.0);
  const Real inverse = 1.0 / bottom, z = top * inverse;
  const Pair back = product(z, bottom);
  const Real z_low = ((top - back.high) - back.low - z * lost) * inverse;
  const Pair u = product(z, z);
  const Real u_low = u.low + 2.0 * z * z_low;
  const Pair third = product(u.high, all(0x1.5555555555555p-2));
  const Real third_low = third.low + u.high * 0x1.5555555555555p-56 + u_low * 0x1.5555555555555p-2;
  const Pair more = sum(third.high, u.high * u.high * polynomial(u.high, c));
  const Pair grown = product(z, more.high);
  const Pair half = ordered_sum(z, grown.high);
  const Real half_low =
      half.low + (grown.low + z * (more.low + third_low) + z_low * more.high) + z_low;
  const Pair log = product(half.high, all(0x1.71547652b82fep+1));
  const Real log_low =
      log.low + half.high * 0x1.777d0ffda0d24p-55 + half_low * 0x1.71547652b82fep+1;
  const Pair whole = sum(s.e, log.high);
  return ordered_sum(whole.high, whole.low + log_low);
}
/// 2^(log * y) for 0 < |y| <= 2^80.
static inline KDSL_INLINE Real power_of(Pair log, Real y) {
  const Pair p = product(log.high, y);
  const Real high = clamp(p.high, -1100.0, 1100.0);
  const Real low = high == p.high ? p.low + log.low * y : Real{};
  const Nearest n = nearest(high);
  return times_power(exp2_fraction((high - n.value) + low), n.integer);
}
/// Signs and special numbers around |x|^y.
static inline KDSL_INLINE Real power_edges(Real x, Real y, Real power) {
  const Real a = abs(x), infinity = all((double)inf), half = 0.5 * y;
  power = a == 0.0 ? (y < 0.0 ? infinity : Real{}) : power;
  power = a == infinity ? (y < 0.0 ? Real{} : infinity) : power;
  const Int whole = trunc(y) == y, odd = whole & (trunc(half) != half);
  power = ((Int)x < 0) & odd ? -power : power;
  power = (x < 0.0) & (a < infinity) & ~whole ? all((double)nan) : power;
  power = x != x || y != y ? x + y : power;
  return x == 1.0 || y == 0.0 ? all(1.0) : power;
}
static inline KDSL_INLINE Real pow(Real x, Real y) {
  return power_edges(x, y, power_of(log2_pair(abs(x)), clamp(y, -0x1p80, 0x1p80)));
}
/// The same for what floats can hold: one double each is enough.
static inline KDSL_INLINE Real short_pow(Real x, Real y) {
  return power_edges(x, y, exp2(log2(abs(x)) * clamp(y, -0x1p80, 0x1p80)));
}

}  // namespace real

KDSL_REAL2(pow)
KDSL_REAL2(short_pow)
static inline KDSL_INLINE Vec<float> pow(Vec<float> x, Vec<float> y) {
  return convert<float>(short_pow(convert<double>(x), convert<double>(y)));
}
static inline KDSL_INLINE float pow(float x, float y) { return (float)short_pow(x, y); }

}  // namespace kdsl
