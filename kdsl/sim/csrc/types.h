// types.h: the types that instructions name, and how registers hold them.
#pragma once
#include <string>
#include <type_traits>

#ifdef __F16C__
#include <immintrin.h>
#endif

#include "base.h"

namespace sim {

enum Type : u8 {
  kPred,
  kB8,
  kU8,
  kS8,
  kB16,
  kU16,
  kS16,
  kF16,
  kBf16,
  kB32,
  kU32,
  kS32,
  kF32,
  kTf32,
  kF16x2,
  kBf16x2,
  kB64,
  kU64,
  kS64,
  kF64,
  kB128,
  kE4m3x2,
  kE5m2x2,
  kNoType,
};

/// The type of that name, or kNoType.
Type type_named(const std::string& name);
const char* name_of(Type type);

inline int bytes_of(Type t) {
  if (t <= kS8) return 1;
  if (t <= kBf16 || t == kE4m3x2 || t == kE5m2x2) return 2;
  if (t <= kBf16x2) return 4;
  return t == kB128 ? 16 : 8;
}
inline bool is_signed(Type t) { return t == kS8 || t == kS16 || t == kS32 || t == kS64; }
inline bool is_unsigned(Type t) {
  return t == kU8 || t == kU16 || t == kU32 || t == kU64 || t == kB8 || t == kB16 || t == kB32 ||
         t == kB64;
}

/// How a lane of a register is held: one bit, four bytes (also for narrower types: who
/// reads one cuts it off) or eight.
enum Width : u8 { kBit, kWord, kLong };
inline Width width_of(Type t) { return t == kPred ? kBit : bytes_of(t) <= 4 ? kWord : kLong; }

/// 16-bit floats, computed with as doubles: f16 and bf16 values and products are exact there.
struct Half {
  u16 bits;
};
struct Bf16 {
  u16 bits;
};

inline float to_float(Half h) {
#ifdef __F16C__
  return _cvtsh_ss(h.bits);
#else
  const u32 sign = static_cast<u32>(h.bits & 0x8000) << 16;
  const u32 exponent = h.bits >> 10 & 31, mantissa = h.bits & 1023;
  if (exponent == 31) return bits_as<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0) {
    const float small = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -small : small;
  }
  return bits_as<float>(sign | (exponent + 112) << 23 | mantissa << 13);
#endif
}
inline float to_float(Bf16 h) { return bits_as<float>(static_cast<u32>(h.bits) << 16); }
/// Eight at once.
inline void to_floats(const Half* from, float* to) {
#ifdef __F16C__
  _mm256_storeu_ps(to, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#else
  for (int k = 0; k < 8; k++) to[k] = to_float(from[k]);
#endif
}
inline void to_floats(const Bf16* from, float* to) {
  for (int k = 0; k < 8; k++) to[k] = to_float(from[k]);
}
inline double to_double(Half h) { return to_float(h); }
inline double to_double(Bf16 h) { return to_float(h); }

enum Rounding : u8 { kNearest, kZero, kDown, kUp, kAway };
/// The nearest value of 16 bits in the given direction; NaN becomes 0x7fff.
Half to_half(double value, Rounding r = kNearest);
Bf16 to_bf16(double value, Rounding r = kNearest);
/// Without rounding twice: a + b with the last bit set where the sum is inexact.
double add_sticky(double a, double b);

/// What a row of T holds a lane in.
template <class T>
using Slot = std::conditional_t<std::is_floating_point_v<T>, T,
                                std::conditional_t<sizeof(T) == 8 || sizeof(T) == 4, T, u32>>;

template <class T>
inline T get(Slot<T> slot) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bf16>) {
    return T{static_cast<u16>(slot)};
  } else {
    return static_cast<T>(slot);
  }
}
template <class T>
inline Slot<T> put(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, Bf16>) {
    return value.bits;
  } else if constexpr (sizeof(T) < 4) {
    // A signed value fills the register with its sign, as in PTX; readers cut what they need.
    return static_cast<u32>(static_cast<i32>(value));
  } else {
    return value;
  }
}

}  // namespace sim
