// kdsl/cpu/math.h: elementwise operations on vectors and scalars, with the rules of NumPy.
#pragma once

#include <kdsl/cpu/vec.h>

namespace kdsl {

// ---- integers: floor division and its remainder; a zero divisor gives 0

template <class T>
constexpr auto is_vector(int) -> decltype(T{}[0], true) {
  return true;
}
template <class T>
constexpr bool is_vector(long) {
  return false;
}
/// An element of a vector, a scalar itself: for its type.
template <class T>
static inline auto one_of(T x) {
  if constexpr (is_vector<T>(0)) {
    return typename Bare<decltype(x[0])>::type{};
  } else {
    return x;
  }
}
template <class T>
static inline KDSL_INLINE T floordiv(T a, T b) {
  if constexpr (is_vector<T>(0)) {
    for (int i = 0; i < W; i++) {
      const auto x = a[i], y = b[i];
      a[i] = floordiv(x, y);
    }
    return a;
  } else {
    if (b == 0) return 0;
    if ((T)-1 < 0 && b == (T)-1) return (T)(0 - (u64)a);  // the smallest number wraps
    return (T)(a / b - (a % b != 0 && (a < 0) != (b < 0)));
  }
}
template <class T>
static inline KDSL_INLINE T mod(T a, T b) {
  if constexpr (is_vector<T>(0)) {
    return where(mask(b == 0), T{}, a - floordiv(a, b) * b);
  } else {
    return (T)(b == 0 ? 0 : a - floordiv(a, b) * b);
  }
}
static inline i64 floordiv(i64 a, int b) { return floordiv<i64>(a, b); }
static inline i64 mod(i64 a, int b) { return mod<i64>(a, b); }

// ---- shifts: by more than there are bits, all of them are gone

template <class T>
static inline KDSL_INLINE T shl(T x, T by) {
  constexpr int bits = 8 * sizeof(one_of(x));
  if constexpr (is_vector<T>(0)) {
    return (by >= 0) & (by < bits) ? x << by : T{};
  } else {
    return by >= 0 && by < bits ? (T)((u64)x << by) : (T)0;
  }
}
template <class T>
static inline KDSL_INLINE T shr(T x, T by) {
  constexpr int bits = 8 * sizeof(one_of(x));
  if constexpr (is_vector<T>(0)) {
    return (by >= 0) & (by < bits) ? x >> by : x < 0 ? T{} - 1 : T{};
  } else {
    return (T)(by >= 0 && by < bits ? x >> by : x < 0 ? -1 : 0);
  }
}

// ---- a NaN on either side of maximum or minimum survives

template <class T>
static inline KDSL_INLINE T maximum(T a, T b) {
  const T greater = a > b ? a : b;
  return a != a ? a : greater;
}
template <class T>
static inline KDSL_INLINE T minimum(T a, T b) {
  const T less = a < b ? a : b;
  return a != a ? a : less;
}
/// The other one where one is a NaN.
template <class T>
static inline KDSL_INLINE T fmax(T a, T b) {
  const T greater = a > b ? a : b;
  return a != a ? b : b != b ? a : greater;
}
template <class T>
static inline KDSL_INLINE T fmin(T a, T b) {
  const T less = a < b ? a : b;
  return a != a ? b : b != b ? a : less;
}
template <class T>
static inline KDSL_INLINE T abs(T x) {
  return x < 0 ? -x : x;
}
static inline KDSL_INLINE Vec<float> abs(Vec<float> x) {
  return (Vec<float>)((Vec<i32>)x & 0x7fffffff);
}
static inline KDSL_INLINE Vec<double> abs(Vec<double> x) {
  return (Vec<double>)((Vec<i64>)x & ~((i64)1 << 63));
}
static inline KDSL_INLINE float abs(float x) { return __builtin_fabsf(x); }
static inline KDSL_INLINE double abs(double x) { return __builtin_fabs(x); }
template <class T>
static inline KDSL_INLINE T clip(T x, T low, T high) {
  return minimum(maximum(x, low), high);
}
template <class T>
static inline KDSL_INLINE T sign(T x) {
  const T one = T{} + 1, zero{};
  return x > 0 ? one : x < 0 ? (T)(zero - one) : x != x ? x : zero;
}
/// A truth value of each lane, or of a scalar.
template <class T>
static inline KDSL_INLINE auto truth(T x) {
  if constexpr (is_vector<T>(0)) {
    return mask(x);
  } else {
    return x;
  }
}
template <class T>
static inline KDSL_INLINE auto isnan(T x) {
  return truth(x != x);
}
template <class T>
static inline KDSL_INLINE auto isfinite(T x) {
  return truth(x - x == 0);  // infinity less itself is a NaN
}
template <class T>
static inline KDSL_INLINE auto isinf(T x) {
  return truth((x == x) & (x - x != 0));
}
/// An integer is its own floor.
template <class T>
static inline KDSL_INLINE T itself(T x) {
  static_assert((decltype(one_of(x)))0.5 == 0, "floats have a floor of their own");
  return x;
}
template <class T>
static inline KDSL_INLINE T floor(T x) {
  return itself(x);
}
template <class T>
static inline KDSL_INLINE T ceil(T x) {
  return itself(x);
}
template <class T>
static inline KDSL_INLINE T trunc(T x) {
  return itself(x);
}
template <class T>
static inline KDSL_INLINE T round(T x) {
  return itself(x);
}
static inline KDSL_INLINE Vec<float> sqrt(Vec<float> x) {
#if defined(KDSL_AVX512)
  return __builtin_ia32_sqrtps512_mask(x, x, -1, 4);
#elif defined(KDSL_AVX)
  return __builtin_ia32_sqrtps256(x);
#elif defined(KDSL_SSE)
  return __builtin_ia32_sqrtps(x);
#else
  KDSL_UNROLL for (int i = 0; i < W; i++) x[i] = __builtin_sqrtf(x[i]);
  return x;
#endif
}
static inline KDSL_INLINE Vec<float> rsqrt(Vec<float> x) { return 1.0f / sqrt(x); }
/// To the integer below, above, or the nearest even one; large numbers are integers already.
static inline KDSL_INLINE Vec<float> round(Vec<float> x) {
  const Vec<float> magic = (Vec<float>)(((Vec<i32>)x & (i32)0x80000000) | 0x4b000000);
  const Vec<float> even =
      (Vec<float>)((Vec<i32>)((x + magic) - magic) | ((Vec<i32>)x & (i32)0x80000000));
  return abs(x) < 0x1p23f ? even : x;
}
static inline KDSL_INLINE Vec<float> floor(Vec<float> x) {
  const Vec<float> even = round(x);
  return even > x ? even - 1.0f : even;
}
static inline KDSL_INLINE Vec<float> ceil(Vec<float> x) { return -floor(-x); }
static inline KDSL_INLINE Vec<float> trunc(Vec<float> x) {
  return (Vec<float>)((Vec<i32>)floor(abs(x)) | ((Vec<i32>)x & (i32)0x80000000));
}

/// The nearest integer of |x| < 2^22, as a float and as an integer.
struct Rounded {
  Vec<float> value;
  Vec<i32> integer;
};
static inline KDSL_INLINE Rounded nearest(Vec<float> x) {
  const Vec<float> shifted = x + 0x1.8p23f;
  return {shifted - 0x1.8p23f, (Vec<i32>)shifted - 0x4b400000};
}
/// p * 2^n for n in [-300, 300]; in two steps, so that subnormals and infinity come out right.
static inline KDSL_INLINE Vec<float> times_power(Vec<float> p, Vec<i32> n) {
  const Vec<i32> half = n >> 1;
  return p * (Vec<float>)((half + 127) << 23) * (Vec<float>)((n - half + 127) << 23);
}
static inline KDSL_INLINE Vec<float> clamp(Vec<float> x, float low, float high) {
  x = x < low ? splat(low) : x;  // a NaN passes
  return x > high ? splat(high) : x;
}
/// 2^f for f in [-1/2, 1/2]; minimax, relative error 1.9e-9 before rounding.
static inline KDSL_INLINE Vec<float> exp2_fraction(Vec<float> f) {
  Vec<float> p = fma(f, splat(1.5345812e-4f), splat(1.33999314e-3f));
  p = fma(p, f, splat(9.61848896e-3f));
  p = fma(p, f, splat(5.55032878e-2f));
  p = fma(p, f, splat(2.40226469e-1f));
  p = fma(p, f, splat(6.93147206e-1f));
  return fma(p, f, splat(1.0f));
}
static inline KDSL_INLINE Vec<float> exp2(Vec<float> x) {
  x = clamp(x, -200.0f, 200.0f);
  const Rounded n = nearest(x);
  return times_power(exp2_fraction(x - n.value), n.integer);
}
/// exp(x) = 2^n exp(r): n ln 2 is taken away in two parts so that r keeps its digits.
static inline KDSL_INLINE Vec<float> exp(Vec<float> x) {
  x = clamp(x, -140.0f, 140.0f);
  const Rounded n = nearest(x * 1.44269504f);
  const Vec<float> r = fma(n.value, splat(2.12194440e-4f), x - n.value * 0.693359375f);
  return times_power(exp2_fraction(r * 1.44269504f), n.integer);
}
/// Splits x > 0 into m * 2^e with m in [sqrt(1/2), sqrt(2)).
struct Split {
  Vec<float> m, e;
};
static inline KDSL_INLINE Split split(Vec<float> x) {
  const Mask small = x < 0x1p-126f;
  x = small ? x * 0x1p24f : x;
  const Vec<i32> e = ((Vec<i32>)x - 0x3f3504f3) >> 23;
  const Vec<float> m = (Vec<float>)((Vec<i32>)x - (e << 23));
  return {m, convert<float>(e) - (small ? splat(24.0f) : Vec<float>{})};
}
/// log(m) / z for z = (m - 1) / (m + 1), from z^2; relative error 7e-10 before rounding.
static inline KDSL_INLINE Vec<float> log_series(Vec<float> u) {
  return ((u * 0.299286385f + 0.399746849f) * u + 0.666668169f) * u + 2.0f;
}
static inline KDSL_INLINE Vec<float> log_edges(Vec<float> x, Vec<float> y) {
  y = x < 0.0f ? splat(nan) : y;
  y = x == 0.0f ? splat(-inf) : y;
  return x == inf || x != x ? x : y;
}
static inline KDSL_INLINE Vec<float> log(Vec<float> x) {
  const Split s = split(x);
  const Vec<float> t = s.m - 1.0f, z = t / (s.m + 1.0f), u = z * z;
  const Vec<float> tail = z * (log_series(u) - 2.0f) - z * t;  // log(m) = t + tail
  return log_edges(x, s.e * 0.693359375f + (t + (tail - s.e * 2.12194440e-4f)));
}
static inline KDSL_INLINE Vec<float> log2(Vec<float> x) {
  const Split s = split(x);
  const Vec<float> z = (s.m - 1.0f) / (s.m + 1.0f);
  return log_edges(x, s.e + z * log_series(z * z) * 1.44269504f);
}
static inline KDSL_INLINE Vec<float> sigmoid(Vec<float> x) {
  const Vec<float> e = exp(-abs(x));
  return (x < 0.0f ? e : splat(1.0f)) / (1.0f + e);
}
/// Near 0 an odd polynomial (relative error 4e-9), elsewhere by exp.
static inline KDSL_INLINE Vec<float> tanh(Vec<float> x) {
  const Vec<float> u = x * x, a = abs(x);
  Vec<float> p = fma(u, splat(-5.659989e-3f), splat(2.05909886e-2f));
  p = fma(p, u, splat(-5.37210683e-2f));
  p = fma(p, u, splat(1.33311275e-1f));
  p = fma(p, u, splat(-3.33332605e-1f));
  const Vec<float> near = x + x * (p * u), e = exp(-2.0f * a);
  const Vec<float> far = (1.0f - e) / (1.0f + e);
  return (Vec<float>)((Vec<i32>)(a < 0.625f ? near : far) | ((Vec<i32>)x & (i32)0x80000000));
}
/// Near 0 an odd polynomial (relative error 3e-10), elsewhere 1 - exp of one (6e-11); 1 from 4 on.
static inline KDSL_INLINE Vec<float> erf(Vec<float> x) {
  const Vec<float> a = clamp(abs(x), 0.0f, 4.0f), u = a * a;
  Vec<float> p = fma(u, splat(8.51310487e-5f), splat(-8.17563956e-4f));
  p = fma(p, u, splat(5.20385919e-3f));
  p = fma(p, u, splat(-2.68605085e-2f));
  p = fma(p, u, splat(1.12837150e-1f));
  p = fma(p, u, splat(-3.76126350e-1f));
  const Vec<float> near = x * fma(p, u, splat(1.12837917f));
  Vec<float> q = fma(a, splat(-2.08285111e-5f), splat(4.31392395e-4f));
  q = fma(q, a, splat(-4.15624957e-3f));
  q = fma(q, a, splat(2.50806032e-2f));
  q = fma(q, a, splat(-1.08220365e-1f));
  q = fma(q, a, splat(-6.33400867e-1f));
  q = fma(q, a, splat(-1.1294884f));
  const Vec<float> far = 1.0f - exp(fma(q, a, splat(1.69203635e-4f)));
  const Vec<float> signed_far = (Vec<float>)((Vec<i32>)far | ((Vec<i32>)x & (i32)0x80000000));
  return a < 0.9f ? near : x != x ? x : signed_far;
}
/// x less the nearest multiple of pi/2, and which multiple.
struct Quarter {
  Vec<float> rest;
  Vec<i32> turns;
};
/// The same for one number of at least 2^26: its 24 bits times those 128 bits of 2/pi that decide
/// the quarter and what is left of it (Payne and Hanek, 1983).
static inline void quarter_far(float x, float& rest, i32& turns) {
  constexpr u64 two_over_pi[] = {0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041,
                                 0xfe5163abdebbc561};
  u32 bits;
  __builtin_memcpy(&bits, &x, 4);
  const int exponent = (int)(bits >> 23 & 255) - 150, at = exponent - 2;
  if (at < 0 || at > 103) return;
  const int word = at / 64, shift = at % 64;
  u64 w[2];
  for (int i = 0; i < 2; i++)
    w[i] = two_over_pi[word + i] << shift | (two_over_pi[word + i + 1] >> 1) >> (63 - shift);
  const unsigned __int128 window = (unsigned __int128)w[0] << 64 | w[1];
  const unsigned __int128 product = window * ((bits & 0x7fffff) | 0x800000);
  const i64 fraction = (i64)(product >> 62);  // of a quarter, in units of 2^-64, signed
  turns = (i32)(product >> 126) + (fraction < 0);
  rest = (float)((double)fraction * (0x1.921fb54442d18p+0 * 0x1p-64));
  if (bits >> 31) {
    turns = -turns;
    rest = -rest;
  }
}
static inline KDSL_INLINE Quarter quarter(Vec<float> x) {
  const Vec<double> wide = convert<double>(x);
  const Vec<double> shifted = wide * 0x1.45f306dc9c883p-1 + 0x1.8p52, n = shifted - 0x1.8p52;
  const Vec<double> rest = (wide - n * 0x1.921fb54p+0) - n * 0x1.10b4611a62633p-30;
  Quarter q = {convert<float>(rest), convert<i32>(n)};
  for (int i = 0; i < W; i++)
    if (!(x[i] < 0x1p26f && x[i] > -0x1p26f)) {
      float left = 0;
      i32 turns = 0;
      quarter_far(x[i], left, turns);
      q.rest[i] = left;
      q.turns[i] = turns;
    }
  return q;
}
static inline KDSL_INLINE Vec<float> sin_or_cos(Quarter q, Vec<i32> which) {
  const Vec<float> r = q.rest, u = r * r;
  Vec<float> s = fma(u, splat(-1.9501822e-4f), splat(8.33201645e-3f));
  s = fma(s, u, splat(-1.66666502e-1f));
  const Vec<float> sine = fma(r * u, s, r);
  Vec<float> c = fma(u, splat(2.43726792e-5f), splat(-1.38865291e-3f));
  c = fma(c, u, splat(4.16666132e-2f));
  c = fma(c, u, splat(-4.99999996e-1f));
  const Vec<float> cosine = fma(c, u, splat(1.0f));
  const Vec<float> value = (which & 1) ? cosine : sine;
  return (Vec<float>)((Vec<i32>)value ^ ((which & 2) << 30));
}
static inline KDSL_INLINE Vec<float> sin(Vec<float> x) {
  const Quarter q = quarter(x);
  return abs(x) < inf ? (x == 0.0f ? x : sin_or_cos(q, q.turns)) : splat(nan);
}
static inline KDSL_INLINE Vec<float> cos(Vec<float> x) {
  const Quarter q = quarter(x);
  return abs(x) < inf ? sin_or_cos(q, q.turns + 1) : splat(nan);
}

#define KDSL_SCALAR(f) \
  static inline KDSL_INLINE float f(float x) { return f(splat(x))[0]; }
KDSL_SCALAR(sqrt)
KDSL_SCALAR(round)
KDSL_SCALAR(floor)
KDSL_SCALAR(ceil)
KDSL_SCALAR(trunc)
KDSL_SCALAR(rsqrt)
KDSL_SCALAR(exp)
KDSL_SCALAR(exp2)
KDSL_SCALAR(log)
KDSL_SCALAR(log2)
KDSL_SCALAR(sigmoid)
KDSL_SCALAR(tanh)
KDSL_SCALAR(erf)
KDSL_SCALAR(sin)
KDSL_SCALAR(cos)
#undef KDSL_SCALAR

// ---- along the lanes of a vector

/// Sums of all elements up to each lane, those before the vector (`so_far`) included; in order.
template <class V, class T>
static inline KDSL_INLINE V running_sum(V x, T& so_far) {
  KDSL_UNROLL for (int i = 0; i < W; i++) {
    so_far = (T)(so_far + x[i]);
    x[i] = so_far;
  }
  return x;
}

// ---- all lanes into one

struct Sum {
  template <class T>
  KDSL_INLINE T operator()(T a, T b) const {
    return a + b;
  }
};
struct Product {
  template <class T>
  KDSL_INLINE T operator()(T a, T b) const {
    return a * b;
  }
};
struct Max {
  template <class T>
  KDSL_INLINE T operator()(T a, T b) const {
    return maximum(a, b);
  }
};
struct Min {
  template <class T>
  KDSL_INLINE T operator()(T a, T b) const {
    return minimum(a, b);
  }
};
struct Any {
  template <class T>
  KDSL_INLINE T operator()(T a, T b) const {
    return a | b;
  }
};
struct Every {
  template <class T>
  KDSL_INLINE T operator()(T a, T b) const {
    return a & b;
  }
};

template <class F, class T, int U>
static inline KDSL_INLINE auto across(F f, T (&v)[U]) {
  T x = v[0];
  KDSL_UNROLL for (int u = 1; u < U; u++) x = f(x, v[u]);
  auto total = x[0];
  KDSL_UNROLL for (int i = 1; i < W; i++) total = f(total, (decltype(total))x[i]);
  return total;
}

}  // namespace kdsl
