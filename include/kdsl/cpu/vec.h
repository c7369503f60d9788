// kdsl/cpu/vec.h: vectors of W lanes on any instruction set: types, masks, conversion.
#pragma once

#include <kdsl/cpu/kernel.h>

#define KDSL_INLINE __attribute__((always_inline))
#define KDSL_UNROLL _Pragma("GCC unroll 64")

namespace kdsl {

/// Lanes of a vector, for every element type: as many floats as one register holds. KDSL_LANES
/// asks for another number, without the instruction set's own operations: tests use it.
#if defined(KDSL_LANES)
constexpr int W = KDSL_LANES;
#elif defined(__AVX512F__)
#define KDSL_AVX512
constexpr int W = 16;
#elif defined(__AVX__)
#define KDSL_AVX
constexpr int W = 8;
#else
#if defined(__SSE__)
#define KDSL_SSE
#endif
constexpr int W = 4;
#endif

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long u64;

template <class T>
struct VecOf {
  typedef T type __attribute__((vector_size(W * sizeof(T))));
  typedef T loose __attribute__((vector_size(W * sizeof(T)), aligned(sizeof(T)), may_alias));
};
template <class T>
using Vec = typename VecOf<T>::type;
/// The same at any address.
template <class T>
using Loose = typename VecOf<T>::loose;
/// A truth value in each lane: 0 or -1.
typedef Vec<i32> Mask;

constexpr float inf = __builtin_inff();
constexpr float nan = __builtin_nanf("");

constexpr i64 min(i64 a, i64 b) { return a < b ? a : b; }
constexpr i64 max(i64 a, i64 b) { return a > b ? a : b; }
/// Room for n elements in whole vectors of the widest kind, so that every variant agrees.
constexpr i64 padded(i64 n) { return (n + 15) & ~15L; }

/// How many of the next W lanes are real: all of them, or the first `n` (none when n <= 0).
struct All {};
struct Some {
  i64 n;
};

template <class T>
static inline KDSL_INLINE Vec<T> splat(T x) {
  return x - Vec<T>{};
}
template <>
inline KDSL_INLINE Vec<float> splat(float x) {
  return x + -Vec<float>{};  // adding -0.0 keeps the sign of a zero
}
static inline KDSL_INLINE Mask every(bool x) { return splat<i32>(-(i32)x); }
template <class T>
struct Bare {
  typedef T type;
};
template <class T>
struct Bare<T&> {
  typedef T type;
};
template <class T>
struct Bare<T&&> {
  typedef T type;
};
/// x in every lane of a V; true in a mask is -1.
template <class V, class T>
static inline KDSL_INLINE V splat_as(T x) {
  return splat<typename Bare<decltype(V{}[0])>::type>(x);
}
template <>
inline KDSL_INLINE Mask splat_as<Mask>(bool x) {
  return every(x);
}

template <class T>
static inline KDSL_INLINE Vec<T> lane_numbers() {
  Vec<T> v{};
  KDSL_UNROLL for (int i = 0; i < W; i++) v[i] = (T)i;
  return v;
}
/// i, i + 1, ...: the indices of W lanes that start at index i.
static inline KDSL_INLINE Vec<i64> iota(i64 i) { return lane_numbers<i64>() + i; }

static inline KDSL_INLINE Mask lanes(All) { return Mask{} - 1; }
static inline KDSL_INLINE Mask lanes(Some s) {
  return lane_numbers<i32>() < (i32)min(max(s.n, 0), W);
}

/// Lane by lane. Compilers take one lane after the other where sizes differ by more than two times,
/// and between short integers and floats: there the way leads over what has instructions.
template <class To, class From>
static inline KDSL_INLINE Vec<To> convert(From v) {
  typedef __typeof__(v[0]) E;
  constexpr bool floats = (E)0.5 != 0, to_floats = (To)0.5 != 0, integers = !floats && !to_floats;
  constexpr int from = sizeof(E), to = sizeof(To);
  constexpr bool is_signed = (E)-1 < 0;
  if constexpr (floats != to_floats && (floats ? to : from) < 4) {
    return convert<To>(convert<i32>(v));
  } else if constexpr (integers && from == 1 && to > 2 && is_signed) {
    return convert<To>(convert<i16>(v));
  } else if constexpr (integers && from == 1 && to > 2) {
    return convert<To>(convert<u16>(v));
  } else if constexpr (integers && from == 2 && to == 8 && is_signed) {
    return convert<To>(convert<i32>(v));
  } else if constexpr (integers && ((from == 2 && to == 8) || (from == 8 && to < 4))) {
    return convert<To>(convert<u32>(v));
  } else if constexpr (integers && from == 4 && to == 1) {
    return convert<To>(convert<u16>(v));
  } else {
    return __builtin_convertvector(v, Vec<To>);
  }
}
template <class V>
static inline KDSL_INLINE Mask mask(V v) {
  return convert<i32>(v);
}
template <class To, class From>
static inline KDSL_INLINE To saturate(From x) {
  constexpr bool is_signed = (To)-1 < 0;
  constexpr int bits = sizeof(To) * 8;
  constexpr From top = (From)(is_signed ? 1ul << (bits - 2) : 1ul << (bits - 1)) * 2;  // 2^bits
  constexpr To most = is_signed ? (To) ~((u64)1 << (bits - 1)) : (To) ~(To)0;
  if (x != x) return 0;
  if (x >= top) return most;
  if (is_signed ? x < -top : x < 0) return is_signed ? (To)(-most - 1) : 0;
  return (To)x;
}
/// Truncates; what does not fit becomes the nearest number that does, a NaN 0.
template <class To>
static inline KDSL_INLINE Vec<To> saturate(Vec<float> v) {
  Vec<To> r{};
  for (int i = 0; i < W; i++) r[i] = saturate<To>(v[i]);
  return r;
}

/// a * b + c, rounded once where the instruction set can.
static inline KDSL_INLINE Vec<float> fma(Vec<float> a, Vec<float> b, Vec<float> c) {
#if defined(KDSL_AVX512)
  return __builtin_ia32_vfmaddps512_mask(a, b, c, -1, 4);
#elif defined(KDSL_AVX) && defined(__FMA__)
  return __builtin_ia32_vfmaddps256(a, b, c);
#else
  return a * b + c;
#endif
}
static inline KDSL_INLINE float fma(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}
template <class T>
static inline KDSL_INLINE T fma(T a, T b, T c) {
  return a * b + c;
}

/// c ? a : b lane by lane, for any element type.
template <class T>
static inline KDSL_INLINE T where(Mask c, T a, T b) {
  return __builtin_convertvector(c, decltype(a < b)) ? a : b;
}
template <class T>
static inline KDSL_INLINE T where(bool c, T a, T b) {
  return c ? a : b;
}

}  // namespace kdsl
