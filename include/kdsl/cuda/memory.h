// kdsl/cuda/memory.h: elements and vectors of every stored type, to and from memory.
#pragma once

#include <kdsl/cuda/vec.h>

namespace kdsl {

/// Stored types that compute as float.
struct bf16 {
  u16 bits;
};
struct f16 {
  u16 bits;
};
struct f8e4m3 {
  u8 bits;
};
struct f8e5m2 {
  u8 bits;
};

/// A float format of 8 bits, as bits of an f32 and of its own.
struct SmallFloat {
  int shift;   // mantissa bits that an f32 has more
  u32 rebias;  // f32 bits of what its exponents start from
  u32 normal;  // f32 bits of its least normal number
  u32 most;    // f32 bits above which a number is too large
  u32 too_large, nan;
  u32 magic;  // f32 bits of a power of two whose last place is the least subnormal
};
/// Rounds to nearest even, also among subnormals.
KDSL_DEV u8 encode_small(float x, SmallFloat f) {
  const u32 u = __float_as_uint(x), a = u & 0x7fffffff;
  const u32 half = (1u << (f.shift - 1)) - 1 + ((a >> f.shift) & 1);
  const u32 even = (a - f.rebias + half) >> f.shift;
  const u32 tiny = __float_as_uint(__uint_as_float(a) + __uint_as_float(f.magic)) - f.magic;
  const u32 over = a > 0x7f800000 ? f.nan : f.too_large;
  return (u8)((a < f.normal ? tiny : a > f.most ? over : even) | (u >> 31) * 0x80);
}
/// Exact. An exponent field of zero is a subnormal: its leading one is put in and taken out again.
KDSL_DEV u32 decode_small(u32 h, SmallFloat f) {
  const u32 magnitude = (h & 0x7f) << f.shift;
  const float least = __uint_as_float(f.normal);
  const u32 subnormal = __float_as_uint(__uint_as_float(magnitude | f.normal) - least);
  return magnitude < 0x800000 ? subnormal : magnitude + f.rebias;
}
/// 5 exponent bits; too large becomes infinite.
#define KDSL_E5M2 SmallFloat{21, 0x38000000, 0x38800000, 0x476fffff, 0x7c, 0x7e, 0x43000000}
/// 4 exponent bits, no infinity; too large becomes NaN.
#define KDSL_E4M3 SmallFloat{20, 0x3c000000, 0x3c800000, 0x43e80000, 0x7f, 0x7f, 0x46800000}

// ---- single elements: as they lie in memory, as they compute

template <class T>
KDSL_DEV T decode(T x) {
  return x;
}
KDSL_DEV float decode(f16 h) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h.bits));
  return x;
}
KDSL_DEV float decode(bf16 h) { return __uint_as_float((u32)h.bits << 16); }
KDSL_DEV float decode(f8e5m2 h) {
  const u32 special = ((h.bits & 3u) << 21) | 0x7f800000;
  const u32 number = (h.bits & 0x7c) == 0x7c ? special : decode_small(h.bits, KDSL_E5M2);
  return __uint_as_float(number | (h.bits & 0x80u) << 24);
}
KDSL_DEV float decode(f8e4m3 h) {
  const u32 number = (h.bits & 0x7f) == 0x7f ? 0x7fc00000 : decode_small(h.bits, KDSL_E4M3);
  return __uint_as_float(number | (h.bits & 0x80u) << 24);
}

template <class S>
struct Encode {
  template <class T>
  KDSL_DEV S of(T x) {
    return (S)x;
  }
};
template <>
struct Encode<f16> {
  KDSL_DEV f16 of(float x) {
    f16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
    return h;
  }
};
template <>
struct Encode<bf16> {
  KDSL_DEV bf16 of(float x) {
    bf16 h;
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h.bits) : "f"(x));
#else
    const u32 u = __float_as_uint(x);
    h.bits = (u16)((x != x ? u | 0x400000 : u + 0x7fff + ((u >> 16) & 1)) >> 16);
#endif
    return h;
  }
};
template <>
struct Encode<f8e5m2> {
  KDSL_DEV f8e5m2 of(float x) { return {encode_small(x, KDSL_E5M2)}; }
};
template <>
struct Encode<f8e4m3> {
  KDSL_DEV f8e4m3 of(float x) { return {encode_small(x, KDSL_E4M3)}; }
};

template <class T>
KDSL_DEV auto get(const T* p) {
  return decode(*p);
}
/// All threads have the same x: one of them writes it.
template <class T, class V>
KDSL_DEV void put(T* p, V x) {
  if (member() == 0) *p = Encode<T>::of(x);
}
/// x rounded to the values of a small float type; still a float.
template <class H>
KDSL_DEV float round_to(float x) {
  return decode(Encode<H>::of(x));
}
template <class H>
KDSL_DEV Vec<float> round_to(Vec<float> v) {
  return {round_to<H>(v.x)};
}

// ---- vectors: a lane that is not real reads 0 and writes nothing

template <class T>
struct VecOf {
  typedef Vec<T> type;
};
template <>
struct VecOf<bool> {
  typedef Mask type;
};
template <class T>
KDSL_DEV auto in_lane(T x) {
  return typename VecOf<T>::type{x};
}

template <class T, class L = All>
KDSL_DEV auto gather(const T* p, i64 step, L n = {}) {
  return in_lane(is_real(n) ? get(p + member() * step) : decltype(get(p))());
}
template <class T, class L = All>
KDSL_DEV auto ld(const T* p, L n = {}) {
  return gather(p, 1, n);
}
/// Each lane at an offset of its own.
template <class T, class L = All>
KDSL_DEV auto gather_at(const T* p, Vec<i64> offsets, L n = {}) {
  return in_lane(is_real(n) ? get(p + offsets.x) : decltype(get(p))());
}
template <class T, class V, class L = All>
KDSL_DEV void scatter_at(T* p, Vec<i64> offsets, V v, L n = {}) {
  if (is_real(n)) p[offsets.x] = Encode<T>::of(v.x);
}
template <class T, class V, class L = All>
KDSL_DEV void scatter(T* p, i64 step, V v, L n = {}) {
  if (is_real(n)) p[member() * step] = Encode<T>::of(v.x);
}
template <class T, class V, class L = All>
KDSL_DEV void st(T* p, V v, L n = {}) {
  scatter(p, 1, v, n);
}

}  // namespace kdsl
