#include "types.h"

#include <cmath>

namespace sim {
namespace {

const char* const kTypeNames[] = {"pred", "b8",   "u8",    "s8",     "b16",    "u16",
                                  "s16",  "f16",  "bf16",  "b32",    "u32",    "s32",
                                  "f32",  "tf32", "f16x2", "bf16x2", "b64",    "u64",
                                  "s64",  "f64",  "b128",  "e4m3x2", "e5m2x2", "no type"};

/// A double as a float of `mantissa` and `exponent` bits; the sign bit comes first.
u32 narrow(double value, int mantissa, int exponent, Rounding r) {
  const u32 sign = std::signbit(value) ? 1u << (mantissa + exponent) : 0;
  const u32 infinity = ((1u << exponent) - 1) << mantissa;
  if (std::isnan(value)) return (1u << (mantissa + exponent)) - 1;
  double a = std::fabs(value);
  if (std::isinf(a)) return sign | infinity;
  if (a == 0) return sign;
  const int bias = (1 << (exponent - 1)) - 1;
  int e;
  std::frexp(a, &e);                      // a = m * 2^e with m in [0.5, 1)
  const int least = 1 - bias - mantissa;  // exponent of the smallest subnormal
  const int unit = std::max(e - 1 - mantissa, least);
  const double scaled = std::ldexp(a, -unit);  // exact
  double whole = std::floor(scaled);
  const double rest = scaled - whole;
  const bool negative = sign != 0;
  bool up = false;
  if (rest > 0) {
    switch (r) {
      case kNearest:
        up = rest > 0.5 || (rest == 0.5 && std::fmod(whole, 2) == 1);
        break;
      case kZero:
        break;
      case kDown:
        up = negative;
        break;
      case kUp:
        up = !negative;
        break;
      case kAway:
        up = rest >= 0.5;
        break;
    }
  }
  whole += up;
  u32 bits;
  if (whole >= std::ldexp(1, mantissa + 1)) {
    bits = (static_cast<u32>(unit + 1 + mantissa + bias) << mantissa);
  } else if (whole >= std::ldexp(1, mantissa)) {
    bits = (static_cast<u32>(unit + mantissa + bias) << mantissa) |
           (static_cast<u32>(whole) & ((1u << mantissa) - 1));
  } else {
    bits = static_cast<u32>(whole);
  }
  if (bits >= infinity) {
    const bool finite = r == kZero || (r == kDown && !negative) || (r == kUp && negative);
    bits = finite ? infinity - 1 : infinity;
  }
  return sign | bits;
}

}  // namespace

Type type_named(const std::string& name) {
  for (int t = 0; t < kNoType; t++) {
    if (name == kTypeNames[t]) return static_cast<Type>(t);
  }
  return kNoType;
}

const char* name_of(Type type) { return kTypeNames[type]; }

Half to_half(double value, Rounding r) { return {static_cast<u16>(narrow(value, 10, 5, r))}; }
Bf16 to_bf16(double value, Rounding r) { return {static_cast<u16>(narrow(value, 7, 8, r))}; }

double add_sticky(double a, double b) {
  const double sum = a + b;
  if (!std::isfinite(sum)) return sum;
  const double from_b = sum - a;
  const double error = (a - (sum - from_b)) + (b - from_b);
  u64 bits = bits_as<u64>(sum);
  if (error == 0 || bits & 1) return sum;
  // Towards the exact value, so that what follows sees that it lies between two doubles.
  bits += (error > 0) == (sum > 0) ? 1 : -1;
  return bits_as<double>(bits);
}

}  // namespace sim
