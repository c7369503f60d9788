// kdsl/cpu/math64.h: elementary functions of doubles, off by less than 2.5 units of the last place.
#pragma once

#include <kdsl/cpu/real.h>

namespace kdsl {
namespace real {

// ---- powers

/// The nearest integer of |x| < 2^51, as a double and as an integer.
struct Nearest {
  Real value;
  Int integer;
};
static inline KDSL_INLINE Nearest nearest(Real x) {
  const Real shifted = x + 0x1.8p52;
  return {shifted - 0x1.8p52, (Int)shifted - 0x4338000000000000};
}
/// 2^n for n in [-1022, 1024]; 2^1024 is infinity.
static inline KDSL_INLINE Real power_of_two(Int n) { return (Real)((n + 1023) << 52); }
/// p * 2^n for n in [-2040, 2040]; in two steps, so that subnormals and infinity come out right.
static inline KDSL_INLINE Real times_power(Real p, Int n) {
  const Int half = (Int)((Bits)(n + 4096) >> 1) - 2048;
  return p * power_of_two(half) * power_of_two(n - half);
}
/// e^r - 1 for |r| <= log(2) / 2.
static inline KDSL_INLINE Real exp_rest(Real r) {
  static constexpr double c[] = {
      0x1.0000000000000p-1,  0x1.555555555555bp-3,  0x1.5555555555502p-5,  0x1.111111110ec1ap-7,
      0x1.6c16c16c3078bp-10, 0x1.a01a01b398ca6p-13, 0x1.a01a0135f890ep-16, 0x1.71ddefdcf2df7p-19,
      0x1.27e5b4fbe5044p-22, 0x1.af6c607dc0fe3p-26, 0x1.1e3cc9eccbc8bp-29};
  return fma(r * r, polynomial(r, c), r);
}
/// 2^f for |f| <= 1/2.
static inline KDSL_INLINE Real exp2_fraction(Real f) {
  static constexpr double c[] = {
      0x1.62e42fefa39efp-1,  0x1.ebfbdff82c58fp-3,  0x1.c6b08d704a0d1p-5,  0x1.3b2ab6fba4e82p-7,
      0x1.5d87fe78a22cdp-10, 0x1.430912f868d26p-13, 0x1.ffcbfc75e47c6p-17, 0x1.62c0224db051cp-20,
      0x1.b524db530e2e3p-24, 0x1.e4cee816dd62cp-28, 0x1.ea04202fb521dp-32, 0x1.c4dad0a297fd7p-36};
  return fma(polynomial(f, c), f, all(1.0));
}
/// x - n log(2) for the nearest n: log(2) is taken away in two parts, so that it keeps its digits.
static inline KDSL_INLINE Real less_log2(Real x, Real n) {
  return fma(n, all(-0x1.a39ef35793c76p-33), x - n * 0x1.62e42feep-1);
}
static inline KDSL_INLINE Real exp(Real x) {
  x = clamp(x, -800.0, 800.0);
  const Nearest n = nearest(x * 0x1.71547652b82fep+0);
  return times_power(1.0 + exp_rest(less_log2(x, n.value)), n.integer);
}
static inline KDSL_INLINE Real exp2(Real x) {
  x = clamp(x, -1100.0, 1100.0);
  const Nearest n = nearest(x);
  return times_power(exp2_fraction(x - n.value), n.integer);
}
static inline KDSL_INLINE Real expm1(Real x) {
  const Real y = clamp(x, -40.0, 710.1);
  const Nearest n = nearest(y * 0x1.71547652b82fep+0);
  const Real half = power_of_two(n.integer - 1), rest = exp_rest(less_log2(y, n.value));
  return abs(x) < 0x1p-54 ? x : 2.0 * (half * rest + (half - 0.5));
}
static inline KDSL_INLINE Real sigmoid(Real x) {
  const Real e = exp(-abs(x));
  return (x < 0.0 ? e : all(1.0)) / (1.0 + e);
}
static inline KDSL_INLINE Real tanh(Real x) {
  const Real a = abs(x), y = clamp(-2.0 * a, -80.0, 0.0);
  const Nearest n = nearest(y * 0x1.71547652b82fep+0);
  const Real power = power_of_two(n.integer), rest = exp_rest(less_log2(y, n.value));
  const Real less = power * rest + (power - 1.0), e = power * rest + power;  // e^y - 1, e^y
  const Real far = 1.0 - 2.0 * e / (1.0 + e), near = -less / (2.0 + less);
  return abs(x) < 0x1p-27 ? x : copysign(a < 0.55 ? near : far, x);
}

// ---- logarithms

/// x > 0 as m * 2^e with m in [sqrt(1/2), sqrt(2)).
struct Split {
  Real m, e;
};
static inline KDSL_INLINE Split split(Real x) {
  const Int small = x < 0x1p-1022;
  x = small ? x * 0x1p54 : x;
  const Int e = (Int)((Bits)((Int)x - 0x3fe6a09e667f3bcd + (1100l << 52)) >> 52) - 1100;
  const Real number = (Real)(e + 0x4338000000000000) - 0x1.8p52;
  return {(Real)((Int)x - (e << 52)), number - (small ? all(54.0) : Real{})};
}
/// log(1 + f) is f - half + tail, for 1 + f in [sqrt(1/2), sqrt(2)).
struct Log {
  Real half, tail;
};
static inline KDSL_INLINE Log log_parts(Real f) {
  static constexpr double c[] = {0x1.5555555555558p-1, 0x1.99999999951ffp-2, 0x1.2492492e07f95p-2,
                                 0x1.c71c62cb032e0p-3, 0x1.7462bba51f198p-3, 0x1.39fd87daf2a7bp-3,
                                 0x1.2b6220cb54578p-3};
  const Real s = f / (2.0 + f), z = s * s, half = 0.5 * f * f;
  return {half, s * (half + z * polynomial(z, c))};
}
static inline KDSL_INLINE Real log_edges(Real x, Real y) {
  y = x < 0.0 ? all((double)nan) : y;
  y = x == 0.0 ? all(-(double)inf) : y;
  return x == (double)inf || x != x ? x : y;
}
/// log(x (1 + c)) for a c below the last place of x.
static inline KDSL_INLINE Real log_near(Real x, Real c) {
  const Split s = split(x);
  const Real f = s.m - 1.0;
  const Log l = log_parts(f);
  const Real tail = l.tail + (s.e * 0x1.a39ef35793c76p-33 + c);
  return log_edges(x, s.e * 0x1.62e42feep-1 + (f - (l.half - tail)));
}
static inline KDSL_INLINE Real log(Real x) { return log_near(x, Real{}); }
static inline KDSL_INLINE Real log1p(Real x) {
  const Real u = 1.0 + x, lost = x < 1.0 ? x - (u - 1.0) : 1.0 - (u - x);
  return abs(x) < 0x1p-54 ? x : log_near(u, lost / u);
}
static inline KDSL_INLINE Real log2(Real x) {
  const Split s = split(x);
  const Real f = s.m - 1.0;
  const Log l = log_parts(f);
  // The factor log2(e) and what it multiplies in two parts: the product of the first is exact.
  const Real high = (Real)((Int)(f - l.half) & ~0xffffffffl), low = ((f - high) - l.half) + l.tail;
  const Real first = high * 0x1.71547652p+0, whole = s.e + first;
  const Real rest = (low + high) * 0x1.705fc2eefa2p-33 + low * 0x1.71547652p+0;
  return log_edges(x, whole + (rest + ((s.e - whole) + first)));
}

// ---- the error function

static inline KDSL_INLINE Real erf(Real x) {
  static constexpr double c[] = {
      0x1.20dd750429b6dp+0,  -0x1.812746b0379e2p-2,  0x1.ce2f21a0427bfp-4,  -0x1.b82ce312710aep-6,
      0x1.565bcd0a0a8d0p-8,  -0x1.c02db30bce87cp-11, 0x1.f9a30519c6e49p-14, -0x1.f4cf436435b3fp-17,
      0x1.b9b6404e452a9p-20, -0x1.5d7a5fdcbfa5dp-23, 0x1.e24d219e0c532p-27, -0x1.d1115ef3a200ep-31};
  // log(erfc(x)) around 1.25
  static constexpr double d[] = {
      -0x1.48050902770fdp+1,  -0x1.88ab2d9950139p+1,  -0x1.bddad46f504ecp-1,
      -0x1.0bc5a029781cfp-5,  0x1.fea76c4b27123p-8,   -0x1.a540a74fff6bep-10,
      0x1.02c592ecfe12dp-12,  -0x1.50f1691d10080p-17, -0x1.6b6c8d0e9e34ep-17,
      0x1.5ab7f6713441fp-18,  -0x1.8414d763664c6p-20, 0x1.0d58a9794815ap-22,
      -0x1.e6b88d5cfd41dp-30, -0x1.3b762fa847894p-26, 0x1.1d9693d8b0a72p-27,
      -0x1.4166ba19a7963p-29, 0x1.fd5c5548d90fdp-32,  -0x1.159000ab0d3f2p-34,
      0x1.75ec82a8f1cb3p-38,  -0x1.d3fd69a640c99p-43};
  const Real a = clamp(abs(x), 0.0, 6.0), near = x * polynomial(a * a, c);
  const Real far = 1.0 - exp(polynomial(a - 1.25, d));
  return a < 0.9 ? near : x != x ? x : copysign(far, x);
}

// ---- angles

/// x less the nearest multiple of pi/2, in two parts, and which multiple.
struct Quarter {
  Pair rest;
  Int turns;
};
/// The same for one number of at least 2^20: its 53 bits times those 192 bits of 2/pi that decide
/// the quarter and what is left of it (Payne and Hanek, 1983).
__attribute__((noinline, cold)) static void quarter_far(double x, double& high, double& low,
                                                        i64& turns) {
  static constexpr u64 two_over_pi[] = {0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0,
                                        0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
                                        0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
                                        0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
                                        0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
                                        0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea,
                                        0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};
  u64 bits;
  __builtin_memcpy(&bits, &x, 8);
  const int exponent = (int)(bits >> 52 & 2047);
  if (exponent == 2047) return;
  const int at = exponent - 1075 - 2 + 64, word = at / 64, shift = at % 64;
  u64 w[3];
  for (int i = 0; i < 3; i++)
    w[i] = two_over_pi[word + i] << shift | (two_over_pi[word + i + 1] >> 1) >> (63 - shift);
  const u64 digits = (bits & 0xfffffffffffff) | 1ul << 52;
  typedef unsigned __int128 u128;
  const u128 third = (u128)digits * w[2], second = (u128)digits * w[1] + (u64)(third >> 64);
  const u64 first = digits * w[0] + (u64)(second >> 64);
  u128 left = (u128)(first << 2 | (u64)second >> 62) << 64 | ((u64)second << 2 | (u64)third >> 62);
  turns = (i64)(first >> 62);
  const bool above = left >> 127;
  if (above) {
    left = 0 - left;
    turns++;
  }
  int zeros = 0;
  while (zeros < 127 && !(left >> 127)) {
    left <<= 1;
    zeros++;
  }
  const double unit = __builtin_bit_cast(double, (u64)(1023 - 53 - zeros) << 52);
  const Real top = all((double)(i64)(u64)(left >> 75) * unit);
  const Real next = all((double)(i64)((u64)(left >> 22) & 0x1fffffffffffff) * 0x1p-53 * unit);
  const Pair p = product(top, all(0x1.921fb54442d18p+0));
  const Pair q =
      ordered_sum(p.high, p.low + (top * 0x1.1a62633145c07p-54 + next * 0x1.921fb54442d18p+0));
  const bool negative = above != (bool)(bits >> 63);
  high = negative ? -q.high[0] : q.high[0];
  low = negative ? -q.low[0] : q.low[0];
  if (bits >> 63) turns = -turns;
}
static inline KDSL_INLINE Quarter quarter(Real x) {
  const Nearest n = nearest(clamp(x, -0x1p21, 0x1p21) * 0x1.45f306dc9c883p-1);
  // Three parts of pi/2 of which n times each is exact, and what is left.
  const Pair one = sum(x - n.value * 0x1.921fb544p+0, n.value * -0x1.0b4611a6p-34);
  const Pair two = sum(one.high, n.value * -0x1.3198a2ep-69);
  const Real low = (one.low + two.low) - n.value * 0x1.b839a252049c1p-104;
  Quarter q = {ordered_sum(two.high, low), n.integer};
  for (int i = 0; i < kLanes; i++)
    if (!(x[i] < 0x1p20 && x[i] > -0x1p20)) {
      double high = 0, rest = 0;
      i64 turns = 0;
      quarter_far(x[i], high, rest, turns);
      q.rest.high[i] = high;
      q.rest.low[i] = rest;
      q.turns[i] = turns;
    }
  return q;
}
static inline KDSL_INLINE Real sin_or_cos(Quarter q, Int which) {
  static constexpr double s[] = {-0x1.5555555555555p-3,  0x1.1111111110bacp-7,
                                 -0x1.a01a019e822d3p-13, 0x1.71de379492060p-19,
                                 -0x1.ae6008ee54aeep-26, 0x1.5e0a5826cbff8p-33};
  static constexpr double c[] = {0x1.5555555555555p-5,  -0x1.6c16c16c16964p-10,
                                 0x1.a01a019f4dedep-16, -0x1.27e4fa16da38ep-22,
                                 0x1.1eeb67db7e6adp-29, -0x1.907cdf43ec816p-37};
  const Real r = q.rest.high, low = q.rest.low, u = r * r, half = 0.5 * u;
  const Real sine = r + (r * u * polynomial(u, s) + low * (1.0 - half));
  const Real one = 1.0 - half;
  const Real cosine = one + (((1.0 - one) - half) + (u * u * polynomial(u, c) - r * low));
  const Real value = (which & 1) != 0 ? cosine : sine;
  return (Real)((Int)value ^ ((which & 2) << 62));
}
static inline KDSL_INLINE Real sin(Real x) {
  const Quarter q = quarter(x);
  return abs(x) < (double)inf ? (abs(x) < 0x1p-27 ? x : sin_or_cos(q, q.turns)) : all((double)nan);
}
static inline KDSL_INLINE Real cos(Real x) {
  const Quarter q = quarter(x);
  return abs(x) < (double)inf ? sin_or_cos(q, q.turns + 1) : all((double)nan);
}
/// atan(t) - t for |t| <= tan(pi/8).
static inline KDSL_INLINE Real atan_rest(Real t) {
  static constexpr double c[] = {
      -0x1.5555555555555p-2, 0x1.999999999939ep-3, -0x1.2492492439e95p-3, 0x1.c71c718769c3ap-4,
      -0x1.745d0b79bc564p-4, 0x1.3b1269d03ceffp-4, -0x1.10fad0492ce7fp-4, 0x1.dfebe08d6b63ep-5,
      -0x1.a0b4e4d8f6973p-5, 0x1.41ac77c3c766dp-5, -0x1.3adafbe009d9fp-6};
  const Real z = t * t;
  return t * z * polynomial(z, c);
}
/// atan(y / x) for y, x >= 0, of which not both are 0 or infinite.
static inline KDSL_INLINE Real angle(Real y, Real x) {
  const Int far = y > x * 2.414213562373095, near = y < x * 0.41421356237309503;
  const Real top = far ? -x : near ? y : y - x, bottom = far ? y : near ? x : y + x;
  const Real t = top / bottom;
  const Real base = far ? all(0x1.921fb54442d18p+0) : near ? Real{} : all(0x1.921fb54442d18p-1);
  const Real rest = far ? all(0x1.1a62633145c07p-54) : near ? Real{} : all(0x1.1a62633145c07p-55);
  return base + (t + (atan_rest(t) + rest));
}
static inline KDSL_INLINE Real atan(Real x) {
  return abs(x) < 0x1p-27 ? x : copysign(angle(abs(x), all(1.0)), x);
}
static inline KDSL_INLINE Real atan2(Real y, Real x) {
  Real a = abs(y), b = abs(x);
  const Int none = (a == 0.0) & (b == 0.0), both = (a == (double)inf) & (b == (double)inf);
  b = none | both ? all(1.0) : b;
  a = both ? all(1.0) : a;
  // Sums of the two must not overflow, nor must their quotient lose digits.
  const Int large = (a > 0x1p1000) | (b > 0x1p1000), small = (a < 0x1p-960) & (b < 0x1p-960);
  const Real scale = large ? all(0x1p-100) : small ? all(0x1p100) : all(1.0);
  const Real first = angle(a * scale, b * scale);
  const Real turned = (0x1.921fb54442d18p+1 - first) + 0x1.1a62633145c07p-53;
  return x != x || y != y ? x + y : copysign((Int)x < 0 ? turned : first, y);
}

}  // namespace real

static inline KDSL_INLINE Vec<double> rsqrt(Vec<double> x) { return 1.0 / sqrt(x); }
static inline KDSL_INLINE double rsqrt(double x) { return 1.0 / sqrt(x); }
KDSL_REAL(exp)
KDSL_REAL(exp2)
KDSL_REAL(expm1)
KDSL_REAL(sigmoid)
KDSL_REAL(tanh)
KDSL_REAL(log)
KDSL_REAL(log1p)
KDSL_REAL(log2)
KDSL_REAL(erf)
KDSL_REAL(sin)
KDSL_REAL(cos)
KDSL_REAL(atan)
KDSL_REAL2(atan2)
KDSL_REAL_FLOAT(expm1)
KDSL_REAL_FLOAT(log1p)
KDSL_REAL_FLOAT(atan)
KDSL_REAL2_FLOAT(atan2)

}  // namespace kdsl
