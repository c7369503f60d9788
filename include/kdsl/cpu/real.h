// kdsl/cpu/real.h: registers of doubles, arithmetic with a remainder, and how functions of them
// become functions of vectors and of scalars.
#pragma once

#include <kdsl/cpu/math.h>

namespace kdsl {
/// Functions of one register: a vector of W doubles is a few of them.
namespace real {

#if defined(KDSL_AVX512)
constexpr int kBytes = 64;
#elif defined(KDSL_AVX)
constexpr int kBytes = 32;
#else
constexpr int kBytes = 16;
#endif
typedef double Real __attribute__((vector_size(kBytes)));
typedef i64 Int __attribute__((vector_size(kBytes)));
typedef u64 Bits __attribute__((vector_size(kBytes)));
constexpr int kLanes = kBytes / 8;

static inline KDSL_INLINE Real all(double x) { return x + -Real{}; }
static inline KDSL_INLINE Int all(i64 x) { return x - Int{}; }

/// a * b + c, rounded once where the instruction set can.
static inline KDSL_INLINE Real fma(Real a, Real b, Real c) {
#if defined(KDSL_AVX512)
  return __builtin_ia32_vfmaddpd512_mask(a, b, c, -1, 4);
#elif defined(KDSL_AVX) && defined(__FMA__)
  return __builtin_ia32_vfmaddpd256(a, b, c);
#else
  return a * b + c;
#endif
}
static inline KDSL_INLINE Real sqrt(Real x) {
#if defined(KDSL_AVX512)
  return __builtin_ia32_sqrtpd512_mask(x, x, -1, 4);
#elif defined(KDSL_AVX)
  return __builtin_ia32_sqrtpd256(x);
#else
  KDSL_UNROLL for (int i = 0; i < kLanes; i++) x[i] = __builtin_sqrt(x[i]);
  return x;
#endif
}
/// The sum of polynomial terms c[0] + c[1] x + ...
template <int N>
static inline KDSL_INLINE Real polynomial(Real x, const double (&c)[N]) {
  Real p = all(c[N - 1]);
  KDSL_UNROLL for (int i = N - 2; i >= 0; i--) p = fma(p, x, all(c[i]));
  return p;
}

constexpr i64 kSign = (i64)1 << 63;
static inline KDSL_INLINE Real abs(Real x) { return (Real)((Int)x & ~kSign); }
/// The size of one number with the sign of another.
static inline KDSL_INLINE Real copysign(Real x, Real sign) {
  return (Real)(((Int)x & ~kSign) | ((Int)sign & kSign));
}
static inline KDSL_INLINE Real round(Real x) {
  const Real magic = copysign(all(0x1p52), x);
  return abs(x) < 0x1p52 ? copysign((x + magic) - magic, x) : x;
}
static inline KDSL_INLINE Real floor(Real x) {
  const Real even = round(x);
  return even > x ? even - 1.0 : even;
}
static inline KDSL_INLINE Real ceil(Real x) { return -floor(-x); }
static inline KDSL_INLINE Real trunc(Real x) { return copysign(floor(abs(x)), x); }
static inline KDSL_INLINE Real clamp(Real x, double low, double high) {
  x = x < low ? all(low) : x;  // a NaN passes
  return x > high ? all(high) : x;
}

/// A number in two parts, of which the second is below the last place of the first.
struct Pair {
  Real high, low;
};
static inline KDSL_INLINE Pair sum(Real a, Real b) {
  const Real s = a + b, t = s - a;
  return {s, (a - (s - t)) + (b - t)};
}
/// The same for |a| >= |b|.
static inline KDSL_INLINE Pair ordered_sum(Real a, Real b) {
  const Real s = a + b;
  return {s, b - (s - a)};
}
static inline KDSL_INLINE Pair product(Real a, Real b) {
  const Real p = a * b;
#if defined(KDSL_AVX512) || (defined(KDSL_AVX) && defined(__FMA__))
  return {p, fma(a, b, -p)};
#else
  const Real x = a * 0x1.0000002p27, y = b * 0x1.0000002p27;  // halves of 26 bits (Dekker, 1971)
  const Real ah = x - (x - a), al = a - ah, bh = y - (y - b), bl = b - bh;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
}

/// One function of registers as a function of vectors.
template <class F>
static inline KDSL_INLINE Vec<double> each(Vec<double> x, F f) {
  union {
    Vec<double> all;
    Real part[W / kLanes];
  } u = {x};
  for (int i = 0; i < W / kLanes; i++) u.part[i] = f(u.part[i]);
  return u.all;
}
template <class F>
static inline KDSL_INLINE Vec<double> each(Vec<double> x, Vec<double> y, F f) {
  union {
    Vec<double> all;
    Real part[W / kLanes];
  } u = {x}, v = {y};
  for (int i = 0; i < W / kLanes; i++) u.part[i] = f(u.part[i], v.part[i]);
  return u.all;
}

}  // namespace real

static inline KDSL_INLINE Vec<double> fma(Vec<double> a, Vec<double> b, Vec<double> c) {
  union {
    Vec<double> all;
    real::Real part[W / real::kLanes];
  } x = {a}, y = {b}, z = {c};
  for (int i = 0; i < W / real::kLanes; i++) x.part[i] = real::fma(x.part[i], y.part[i], z.part[i]);
  return x.all;
}
static inline KDSL_INLINE double fma(double a, double b, double c) {
#if defined(__FMA__)
  return __builtin_fma(a, b, c);
#else
  return a * b + c;
#endif
}

/// A function of registers of doubles, for vectors and for one number.
#define KDSL_REAL(f)                                                           \
  static inline KDSL_INLINE Vec<double> f(Vec<double> x) {                     \
    return real::each(x, [](real::Real v) KDSL_INLINE { return real::f(v); }); \
  }                                                                            \
  static inline KDSL_INLINE double f(double x) { return real::f(real::all(x))[0]; }
#define KDSL_REAL2(f)                                                                              \
  static inline KDSL_INLINE Vec<double> f(Vec<double> x, Vec<double> y) {                          \
    return real::each(x, y, [](real::Real v, real::Real w) KDSL_INLINE { return real::f(v, w); }); \
  }                                                                                                \
  static inline KDSL_INLINE double f(double x, double y) {                                         \
    return real::f(real::all(x), real::all(y))[0];                                                 \
  }
/// And for floats, which it computes in doubles and rounds once more.
#define KDSL_REAL_FLOAT(f)                               \
  static inline KDSL_INLINE Vec<float> f(Vec<float> x) { \
    return convert<float>(f(convert<double>(x)));        \
  }                                                      \
  static inline KDSL_INLINE float f(float x) { return (float)f((double)x); }
#define KDSL_REAL2_FLOAT(f)                                            \
  static inline KDSL_INLINE Vec<float> f(Vec<float> x, Vec<float> y) { \
    return convert<float>(f(convert<double>(x), convert<double>(y)));  \
  }                                                                    \
  static inline KDSL_INLINE float f(float x, float y) { return (float)f((double)x, (double)y); }

KDSL_REAL(sqrt)
KDSL_REAL(round)
KDSL_REAL(floor)
KDSL_REAL(ceil)
KDSL_REAL(trunc)

}  // namespace kdsl
