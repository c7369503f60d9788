// kdsl/cuda/math.h: elementwise operations on scalars and vectors, with the rules of NumPy.
#pragma once

#include <kdsl/cuda/vec.h>

namespace kdsl {

// ---- integers: floor division and its remainder; a zero divisor gives 0

template <class T>
KDSL_DEV T floordiv(T a, T b) {
  if (b == 0) return 0;
  if (b == (T)-1) return (T)(0 - (u64)a);  // the smallest number wraps
  return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}
template <class T>
KDSL_DEV T mod(T a, T b) {
  return (T)(b == 0 ? 0 : a - floordiv(a, b) * b);
}
/// Floats as NumPy has them: the quotient rounded down, what is left has the divisor's sign.
template <class F>
KDSL_DEV F floor_of_quotient(F a, F b, F left) {
  if (b == 0) return a / b;
  F quotient = (a - left) / b;
  if (left != 0 && (b < 0) != (left < 0)) quotient -= 1;
  if (quotient == 0) return copysign((F)0, a / b);
  const F down = ::floor(quotient);
  return quotient - down > (F)0.5 ? down + 1 : down;
}
template <class F>
KDSL_DEV F rest_of_quotient(F b, F left) {
  if (b == 0) return left;
  if (left == 0) return copysign((F)0, b);
  return (b < 0) != (left < 0) ? left + b : left;
}
KDSL_DEV float floordiv(float a, float b) { return floor_of_quotient(a, b, fmodf(a, b)); }
KDSL_DEV double floordiv(double a, double b) { return floor_of_quotient(a, b, fmod(a, b)); }
KDSL_DEV float mod(float a, float b) { return rest_of_quotient(b, fmodf(a, b)); }
KDSL_DEV double mod(double a, double b) { return rest_of_quotient(b, fmod(a, b)); }
KDSL_DEV i64 floordiv(i64 a, int b) { return floordiv<i64>(a, b); }
KDSL_DEV i64 mod(i64 a, int b) { return mod<i64>(a, b); }

// ---- a NaN on either side of maximum or minimum survives

template <class T>
KDSL_DEV T maximum(T a, T b) {
  const T greater = a > b ? a : b;
  return a != a ? a : greater;
}
template <class T>
KDSL_DEV T minimum(T a, T b) {
  const T less = a < b ? a : b;
  return a != a ? a : less;
}
#if __CUDA_ARCH__ >= 800
template <>
KDSL_FN float maximum(float a, float b) {
  float y;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
template <>
KDSL_FN float minimum(float a, float b) {
  float y;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
#endif
/// The other one where one is a NaN.
template <class T>
KDSL_DEV T fmax(T a, T b) {
  const T greater = a > b ? a : b;
  return a != a ? b : b != b ? a : greater;
}
template <class T>
KDSL_DEV T fmin(T a, T b) {
  const T less = a < b ? a : b;
  return a != a ? b : b != b ? a : less;
}
template <class T>
KDSL_DEV T abs(T x) {
  return x < 0 ? (T)-x : x;
}
KDSL_DEV float abs(float x) { return fabsf(x); }
KDSL_DEV double abs(double x) { return fabs(x); }

template <class T>
KDSL_DEV T clip(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}
template <class T>
KDSL_DEV T sign(T x) {
  return x > 0 ? (T)1 : x < 0 ? (T)-1 : x != x ? x : (T)0;
}
template <class T>
KDSL_DEV bool isnan(T x) {
  return x != x;
}
template <class T>
KDSL_DEV bool isfinite(T x) {
  return x - x == 0;  // infinity less itself is a NaN
}
template <class T>
KDSL_DEV bool isinf(T x) {
  return x == x && x - x != 0;
}
/// Shifts by what is no place of a bit leave nothing, or the sign.
template <class T>
KDSL_DEV T shl(T x, T by) {
  return by >= 0 && by < (T)(8 * sizeof(T)) ? (T)((u64)x << by) : (T)0;
}
template <class T>
KDSL_DEV T shr(T x, T by) {
  return (T)(by >= 0 && by < (T)(8 * sizeof(T)) ? x >> by : x < 0 ? -1 : 0);
}

/// a * b + c; rounded once in floats.
KDSL_DEV float fma(float a, float b, float c) { return fmaf(a, b, c); }
KDSL_DEV double fma(double a, double b, double c) { return ::fma(a, b, c); }
template <class T>
KDSL_DEV T fma(T a, T b, T c) {
  return a * b + c;
}

// ---- elementary functions, as the device library has them

#define KDSL_ELEMENTARY(name, single, wide)          \
  KDSL_DEV float name(float x) { return single(x); } \
  KDSL_DEV double name(double x) { return wide(x); }
KDSL_ELEMENTARY(sqrt, sqrtf, ::sqrt)
KDSL_ELEMENTARY(round, rintf, rint)
KDSL_ELEMENTARY(floor, floorf, ::floor)
KDSL_ELEMENTARY(ceil, ceilf, ::ceil)
KDSL_ELEMENTARY(exp, expf, ::exp)
KDSL_ELEMENTARY(exp2, exp2f, ::exp2)
KDSL_ELEMENTARY(log, logf, ::log)
KDSL_ELEMENTARY(log2, log2f, ::log2)
KDSL_ELEMENTARY(tanh, tanhf, ::tanh)
KDSL_ELEMENTARY(erf, erff, ::erf)
KDSL_ELEMENTARY(sin, sinf, ::sin)
KDSL_ELEMENTARY(cos, cosf, ::cos)
KDSL_ELEMENTARY(atan, atanf, ::atan)
KDSL_ELEMENTARY(expm1, expm1f, ::expm1)
KDSL_ELEMENTARY(log1p, log1pf, ::log1p)
KDSL_ELEMENTARY(trunc, truncf, ::trunc)
#undef KDSL_ELEMENTARY
/// An integer is its own floor.
#define KDSL_WHOLE(name)                                 \
  template <class T>                                     \
  KDSL_DEV T name(T x) {                                 \
    static_assert((T)0.5 == 0, "floats have their own"); \
    return x;                                            \
  }
KDSL_WHOLE(round)
KDSL_WHOLE(floor)
KDSL_WHOLE(ceil)
KDSL_WHOLE(trunc)
#undef KDSL_WHOLE
KDSL_DEV float pow(float x, float y) { return powf(x, y); }
KDSL_DEV double pow(double x, double y) { return ::pow(x, y); }
KDSL_DEV float atan2(float y, float x) { return atan2f(y, x); }
KDSL_DEV double atan2(double y, double x) { return ::atan2(y, x); }
template <class T>
KDSL_DEV T rsqrt(T x) {
  return 1 / sqrt(x);
}
template <class T>
KDSL_DEV T sigmoid(T x) {
  return 1 / (1 + exp(-x));
}

// ---- the same in each lane

#define KDSL_LANES_1(f)         \
  template <class T>            \
  KDSL_DEV Vec<T> f(Vec<T> a) { \
    return {f(a.x)};            \
  }
#define KDSL_LANES_2(f)                   \
  template <class T>                      \
  KDSL_DEV Vec<T> f(Vec<T> a, Vec<T> b) { \
    return {f(a.x, b.x)};                 \
  }
KDSL_LANES_1(abs)
KDSL_LANES_1(sqrt)
KDSL_LANES_1(rsqrt)
KDSL_LANES_1(round)
KDSL_LANES_1(floor)
KDSL_LANES_1(ceil)
KDSL_LANES_1(exp)
KDSL_LANES_1(exp2)
KDSL_LANES_1(log)
KDSL_LANES_1(log2)
KDSL_LANES_1(tanh)
KDSL_LANES_1(erf)
KDSL_LANES_1(sin)
KDSL_LANES_1(cos)
KDSL_LANES_1(sigmoid)
KDSL_LANES_1(atan)
KDSL_LANES_1(expm1)
KDSL_LANES_1(log1p)
KDSL_LANES_1(trunc)
KDSL_LANES_1(sign)
KDSL_LANES_2(floordiv)
KDSL_LANES_2(mod)
KDSL_LANES_2(maximum)
KDSL_LANES_2(minimum)
KDSL_LANES_2(fmax)
KDSL_LANES_2(fmin)
KDSL_LANES_2(pow)
KDSL_LANES_2(atan2)
KDSL_LANES_2(shl)
KDSL_LANES_2(shr)
#undef KDSL_LANES_1
#undef KDSL_LANES_2
template <class T>
KDSL_DEV Vec<T> clip(Vec<T> x, Vec<T> low, Vec<T> high) {
  return {clip(x.x, low.x, high.x)};
}
template <class T>
KDSL_DEV Mask isnan(Vec<T> x) {
  return {isnan(x.x)};
}
template <class T>
KDSL_DEV Mask isfinite(Vec<T> x) {
  return {isfinite(x.x)};
}
template <class T>
KDSL_DEV Mask isinf(Vec<T> x) {
  return {isinf(x.x)};
}
template <class T>
KDSL_DEV Vec<T> fma(Vec<T> a, Vec<T> b, Vec<T> c) {
  return {fma(a.x, b.x, c.x)};
}

// ---- what reductions fold with

#define KDSL_FOLD(Name, how)               \
  struct Name {                            \
    template <class T>                     \
    KDSL_FN T operator()(T a, T b) const { \
      return how;                          \
    }                                      \
  };
KDSL_FOLD(Sum, (T)(a + b))
KDSL_FOLD(Product, (T)(a * b))
KDSL_FOLD(Max, maximum(a, b))
KDSL_FOLD(Min, minimum(a, b))
KDSL_FOLD(Any, a | b)
KDSL_FOLD(Every, a& b)
#undef KDSL_FOLD

}  // namespace kdsl
