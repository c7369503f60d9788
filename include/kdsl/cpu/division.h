// kdsl/cpu/division.h: floats divided with the quotient rounded down, and what is left: as NumPy.
#pragma once

#include <kdsl/cpu/real.h>

namespace kdsl {
namespace real {

/// a less the whole multiples of b that are in it, toward zero; exact for any two numbers.
__attribute__((noinline, cold)) static double remainder_far(double a, double b) {
  u64 x, y;
  __builtin_memcpy(&x, &a, 8);
  __builtin_memcpy(&y, &b, 8);
  const u64 sign = x & (u64)kSign, infinite = 0x7ff0000000000000;
  x ^= sign;
  y &= ~(u64)kSign;
  if (x >= infinite || y > infinite || y == 0) return __builtin_nan("");
  if (x < y) return a;
  const u64 point = 1ul << 52;  // subnormals have the unit of the smallest exponent, 1
  int from = (int)(x >> 52), to = (int)(y >> 52);
  u64 left = from ? (x & (point - 1)) | point : x, step = to ? (y & (point - 1)) | point : y;
  for (from += from == 0; left < point; from--) left <<= 1;
  for (to += to == 0; step < point; to--) step <<= 1;
  for (; from > to; from--) {
    if (left >= step) left -= step;
    left <<= 1;
  }
  if (left >= step) left -= step;
  if (left == 0) return __builtin_bit_cast(double, sign);
  for (; to > 1 && left < point; to--) left <<= 1;
  for (; to < 1; to++) left >>= 1;
  left = left >= point ? (left & (point - 1)) | (u64)to << 52 : left;
  return __builtin_bit_cast(double, left | sign);
}
static inline KDSL_INLINE Real remainder(Real a, Real b) {
  const Real size = abs(b), q = trunc(a / b);
  const Pair back = product(q, b);
  Real left = (a - back.high) - back.low;
  // The rounded quotient may be one too large.
  left = (left != 0.0) & ((left < 0.0) != (a < 0.0)) ? left + copysign(size, a) : left;
  left = left == 0.0 ? copysign(Real{}, a) : left;
  for (int i = 0; i < kLanes; i++)
    if (!(q[i] > -0x1p52 && q[i] < 0x1p52 && size[i] > 0x1p-900 && size[i] < 0x1p900))
      left[i] = remainder_far(a[i], b[i]);
  return left;
}

}  // namespace real

KDSL_REAL2(remainder)
static inline KDSL_INLINE Vec<float> remainder(Vec<float> x, Vec<float> y) {
  return convert<float>(remainder(convert<double>(x), convert<double>(y)));
}

static inline KDSL_INLINE Vec<float> sign_of(Vec<float> x, Vec<float> sign) {
  return (Vec<float>)(((Vec<i32>)x & 0x7fffffff) | ((Vec<i32>)sign & (i32)0x80000000));
}
static inline KDSL_INLINE Vec<double> sign_of(Vec<double> x, Vec<double> sign) {
  return (Vec<double>)(((Vec<i64>)x & ~real::kSign) | ((Vec<i64>)sign & real::kSign));
}
template <class V>
static inline KDSL_INLINE V mod_of(V a, V b) {
  const V left = remainder(a, b);
  const V other = (left < 0) != (b < 0) ? left + b : left;
  return left == 0 ? sign_of(V{}, b) : other;
}
/// Of a zero that is left, and of a quotient that rounds to zero, the sign is that of a / b.
template <class V>
static inline KDSL_INLINE V floordiv_of(V a, V b) {
  const V left = remainder(a, b);
  V q = (a - left) / b;
  q = (left != 0) & ((left < 0) != (b < 0)) ? q - 1 : q;
  const V down = floor(q), near = q - down > 0.5f ? down + 1 : down;
  return b == 0 ? a / b : q == 0 ? sign_of(V{}, a / b) : near;
}
#define KDSL_DIVISION(T)                                                                      \
  static inline KDSL_INLINE Vec<T> mod(Vec<T> a, Vec<T> b) { return mod_of(a, b); }           \
  static inline KDSL_INLINE Vec<T> floordiv(Vec<T> a, Vec<T> b) { return floordiv_of(a, b); } \
  static inline KDSL_INLINE T mod(T a, T b) { return mod(splat(a), splat(b))[0]; }            \
  static inline KDSL_INLINE T floordiv(T a, T b) { return floordiv(splat(a), splat(b))[0]; }
KDSL_DIVISION(float)
KDSL_DIVISION(double)
#undef KDSL_DIVISION

}  // namespace kdsl
