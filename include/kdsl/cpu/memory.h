// kdsl/cpu/memory.h: loads and stores of whole and partial vectors, for every stored element type.
#pragma once

#include <kdsl/cpu/vec.h>

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

/// How an element type lies in memory (`Raw`) and what it is in registers.
template <class T>
struct Stored {
  typedef T Raw;
  static KDSL_INLINE Vec<T> decode(Vec<T> v) { return v; }
  static KDSL_INLINE Vec<T> encode(Vec<T> v) { return v; }
};

template <>
struct Stored<bool> {
  typedef i8 Raw;
  static KDSL_INLINE Mask decode(Vec<i8> v) { return mask(v != 0); }
  static KDSL_INLINE Vec<i8> encode(Mask m) { return convert<i8>(m & 1); }
};

/// Rounds to nearest even; a NaN stays a quiet NaN.
template <>
struct Stored<bf16> {
  typedef u16 Raw;
  static KDSL_INLINE Vec<float> decode(Vec<u16> v) { return (Vec<float>)(convert<u32>(v) << 16); }
  static KDSL_INLINE Vec<u16> encode(Vec<float> x) { return convert<u16>(rounded(x) >> 16); }
  /// The bits of the nearest f32 that is a bf16; what is below the upper half is not cleared.
  static KDSL_INLINE Vec<u32> rounded(Vec<float> x) {
    const Vec<u32> u = (Vec<u32>)x;
    const Vec<u32> even = u + 0x7fff + ((u >> 16) & 1);
    return x != x ? u | 0x400000 : even;
  }
};

/// A float format of at most 16 bits, as bits of an f32 and of its own.
struct SmallFloat {
  int shift;   // mantissa bits that an f32 has more
  u32 rebias;  // f32 bits of what its exponents start from
  u32 normal;  // f32 bits of its least normal number
  u32 most;    // f32 bits above which a number is too large
  u32 too_large, nan, sign;
  u32 magic;  // f32 bits of a power of two whose last place is the least subnormal
};
/// Rounds to nearest even, also among subnormals.
static inline KDSL_INLINE Vec<u32> encode_small(Vec<float> x, SmallFloat f) {
  const Vec<u32> u = (Vec<u32>)x, a = u & 0x7fffffff;
  const Vec<u32> half = splat<u32>((1u << (f.shift - 1)) - 1) + ((a >> f.shift) & 1);
  const Vec<u32> even = (a - f.rebias + half) >> f.shift;
  const Vec<float> magic = (Vec<float>)splat<u32>(f.magic);
  const Vec<u32> tiny = (Vec<u32>)((Vec<float>)a + magic) - f.magic;
  const Vec<u32> over = a > 0x7f800000 ? splat<u32>(f.nan) : splat<u32>(f.too_large);
  const Vec<u32> sign = (u >> 31) * f.sign;
  return (a < f.normal ? tiny : a > f.most ? over : even) | sign;
}
/// Exact. An exponent field of zero is a subnormal: its leading one is put in and taken out again.
static inline KDSL_INLINE Vec<u32> decode_small(Vec<u32> h, SmallFloat f) {
  const Vec<u32> magnitude = (h & (f.sign - 1)) << f.shift;
  const Vec<float> least = (Vec<float>)splat<u32>(f.normal);
  const Vec<u32> subnormal = (Vec<u32>)((Vec<float>)(magnitude | f.normal) - least);
  return magnitude < 0x800000 ? subnormal : magnitude + f.rebias;
}
/// The sign of a small float, where an f32 has it.
static inline KDSL_INLINE Vec<u32> sign_bits(Vec<u32> h, SmallFloat f) {
  return (h & f.sign) * (0x80000000u / f.sign);
}

/// IEEE half precision; too large becomes infinite.
template <>
struct Stored<f16> {
  typedef u16 Raw;
  static constexpr SmallFloat kFormat = {13,     0x38000000, 0x38800000, 0x477fefff,
                                         0x7c00, 0x7e00,     0x8000,     0x3f000000};
  static KDSL_INLINE Vec<float> decode(Vec<u16> v) {
    const Vec<u32> h = convert<u32>(v), special = ((h & 0x3ff) << 13) | 0x7f800000;
    const Vec<u32> finite = decode_small(h, kFormat);
    return (Vec<float>)(((h & 0x7c00) == 0x7c00 ? special : finite) | sign_bits(h, kFormat));
  }
  static KDSL_INLINE Vec<u16> encode(Vec<float> x) {
    return convert<u16>(encode_small(x, kFormat));
  }
};

/// 5 exponent bits; too large becomes infinite.
template <>
struct Stored<f8e5m2> {
  typedef u8 Raw;
  static constexpr SmallFloat kFormat = {21,   0x38000000, 0x38800000, 0x476fffff,
                                         0x7c, 0x7e,       0x80,       0x43000000};
  static KDSL_INLINE Vec<float> decode(Vec<u8> v) {
    const Vec<u32> h = convert<u32>(v), special = ((h & 3) << 21) | 0x7f800000;
    const Vec<u32> finite = decode_small(h, kFormat);
    return (Vec<float>)(((h & 0x7c) == 0x7c ? special : finite) | sign_bits(h, kFormat));
  }
  static KDSL_INLINE Vec<u8> encode(Vec<float> x) { return convert<u8>(encode_small(x, kFormat)); }
};

/// 4 exponent bits, no infinity; too large becomes NaN.
template <>
struct Stored<f8e4m3> {
  typedef u8 Raw;
  static constexpr SmallFloat kFormat = {20,   0x3c000000, 0x3c800000, 0x43e80000,
                                         0x7f, 0x7f,       0x80,       0x46800000};
  static KDSL_INLINE Vec<float> decode(Vec<u8> v) {
    const Vec<u32> h = convert<u32>(v), finite = decode_small(h, kFormat);
    const Vec<u32> number = (h & 0x7f) == 0x7f ? splat<u32>(0x7fc00000) : finite;
    return (Vec<float>)(number | sign_bits(h, kFormat));
  }
  static KDSL_INLINE Vec<u8> encode(Vec<float> x) { return convert<u8>(encode_small(x, kFormat)); }
};

// ---- whole vectors, and vectors of which some lanes are real: the others read 0, write nothing

template <class R>
static inline KDSL_INLINE Vec<R> load_raw(const R* p, All) {
  return *(const Loose<R>*)p;
}
template <class R>
static inline KDSL_INLINE Vec<R> load_raw(const R* p, Some s) {
  if (s.n >= W) return load_raw(p, All{});
  R t[W] = {};
  for (int i = 0; i < W && i < s.n; i++) t[i] = p[i];
  return load_raw(t, All{});
}
template <class R>
static inline KDSL_INLINE void store_raw(R* p, Vec<R> v, All) {
  *(Loose<R>*)p = v;
}
template <class R>
static inline KDSL_INLINE void store_raw(R* p, Vec<R> v, Some s) {
  if (s.n >= W) return store_raw(p, v, All{});
  for (int i = 0; i < W && i < s.n; i++) p[i] = v[i];
}
#if defined(KDSL_AVX512)
static inline KDSL_INLINE u16 lane_bits(Some s) {
  return s.n >= W ? 0xffff : s.n <= 0 ? 0 : (u16)((1u << s.n) - 1);
}
static inline KDSL_INLINE Vec<float> load_raw(const float* p, Some s) {
  return __builtin_ia32_loadups512_mask(p, Vec<float>{}, lane_bits(s));
}
static inline KDSL_INLINE void store_raw(float* p, Vec<float> v, Some s) {
  __builtin_ia32_storeups512_mask(p, v, lane_bits(s));
}
#elif defined(KDSL_AVX)
static inline KDSL_INLINE Vec<float> load_raw(const float* p, Some s) {
  return __builtin_ia32_maskloadps256((const Vec<float>*)p, lanes(s));
}
static inline KDSL_INLINE void store_raw(float* p, Vec<float> v, Some s) {
  __builtin_ia32_maskstoreps256((Vec<float>*)p, lanes(s), v);
}
#endif

template <class T, class L = All>
static inline KDSL_INLINE auto ld(const T* p, L n = {}) {
  return Stored<T>::decode(load_raw((const typename Stored<T>::Raw*)p, n));
}
template <class T, class V, class L = All>
static inline KDSL_INLINE void st(T* p, V v, L n = {}) {
  store_raw((typename Stored<T>::Raw*)p, Stored<T>::encode(v), n);
}

/// Writes past the cache: for results that nobody reads soon. The address is vector-aligned.
static inline KDSL_INLINE void stream(float* p, Vec<float> v) {
#if defined(KDSL_AVX512)
  __builtin_ia32_movntps512(p, v);
#elif defined(KDSL_AVX)
  __builtin_ia32_movntps256(p, v);
#elif defined(KDSL_SSE)
  __builtin_ia32_movntps(p, v);
#else
  st(p, v);
#endif
}
/// A result of so many bytes leaves the caches before anyone reads it.
constexpr bool is_far(i64 bytes) { return bytes > 16 << 20; }
/// A store that goes past the cache where the result is far and the vector whole and aligned.
static inline KDSL_INLINE void st_far(float* p, Vec<float> v, All, bool far) {
  if (far && ((u64)p & (sizeof v - 1)) == 0)
    stream(p, v);
  else
    st(p, v);
}
static inline KDSL_INLINE void st_far(float* p, Vec<float> v, Some n, bool) { st(p, v, n); }
/// Makes such stores visible before whatever follows.
static inline KDSL_INLINE void stream_fence() {
#if defined(__SSE__)
  __builtin_ia32_sfence();
#endif
}

// ---- single elements, as they compute

template <class T>
static inline KDSL_INLINE T get(const T* p) {
  return *p;
}
static inline KDSL_INLINE float get(const bf16* p) {
  const u32 bits = (u32)p->bits << 16;
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
/// A small float that has to be decoded.
template <class T>
static inline KDSL_INLINE float get_small(const T* p) {
  return Stored<T>::decode(splat<typename Stored<T>::Raw>(p->bits))[0];
}
static inline KDSL_INLINE float get(const f16* p) { return get_small(p); }
static inline KDSL_INLINE float get(const f8e4m3* p) { return get_small(p); }
static inline KDSL_INLINE float get(const f8e5m2* p) { return get_small(p); }
template <class T, class V>
static inline KDSL_INLINE void put(T* p, V x) {
  *p = (T)x;
}
static inline KDSL_INLINE void put(bf16* p, float x) {
  p->bits = Stored<bf16>::encode(splat(x))[0];
}
static inline KDSL_INLINE void put(f16* p, float x) { p->bits = Stored<f16>::encode(splat(x))[0]; }
static inline KDSL_INLINE void put(f8e4m3* p, float x) {
  p->bits = Stored<f8e4m3>::encode(splat(x))[0];
}
static inline KDSL_INLINE void put(f8e5m2* p, float x) {
  p->bits = Stored<f8e5m2>::encode(splat(x))[0];
}

/// x rounded to the values of a 16-bit float type; still a float.
template <class H>
static inline KDSL_INLINE Vec<float> round_to(Vec<float> x) {
  return Stored<H>::decode(Stored<H>::encode(x));
}
template <>
inline KDSL_INLINE Vec<float> round_to<bf16>(Vec<float> x) {
  return (Vec<float>)(Stored<bf16>::rounded(x) & 0xffff0000);
}
template <class H>
static inline KDSL_INLINE float round_to(float x) {
  return round_to<H>(splat(x))[0];
}

// ---- W elements that lie `step` apart

static inline KDSL_INLINE i64 count(All) { return W; }
static inline KDSL_INLINE i64 count(Some s) { return s.n; }

template <class T, class L = All>
static inline KDSL_INLINE auto gather(const T* p, i64 step, L n = {}) {
  T t[W] = {};
  for (int i = 0; i < W && i < count(n); i++) t[i] = p[i * step];
  return ld(t);
}
/// W elements, each at an offset of its own; a lane that is not real is not read.
template <class T, class L = All>
static inline KDSL_INLINE auto gather_at(const T* p, Vec<i64> offsets, L n = {}) {
  T t[W] = {};
  for (int i = 0; i < W && i < count(n); i++) t[i] = p[offsets[i]];
  return ld(t);
}
template <class T, class V, class L = All>
static inline KDSL_INLINE void scatter_at(T* p, Vec<i64> offsets, V v, L n = {}) {
  T t[W];
  st(t, v);
  for (int i = 0; i < W && i < count(n); i++) p[offsets[i]] = t[i];
}
template <class T, class V, class L = All>
static inline KDSL_INLINE void scatter(T* p, i64 step, V v, L n = {}) {
  T t[W];
  st(t, v);
  for (int i = 0; i < W && i < count(n); i++) p[i * step] = t[i];
}

}  // namespace kdsl
