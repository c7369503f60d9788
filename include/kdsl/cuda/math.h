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
#undef KDSL_ELEMENTARY
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
KDSL_LANES_2(floordiv)
KDSL_LANES_2(mod)
KDSL_LANES_2(maximum)
KDSL_LANES_2(minimum)
KDSL_LANES_2(fmax)
KDSL_LANES_2(fmin)
#undef KDSL_LANES_1
#undef KDSL_LANES_2
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
