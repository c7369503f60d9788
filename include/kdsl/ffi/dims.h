// kdsl/ffi/dims.h: sizes and dtypes that arguments bind by their first use, and Python's division.
#pragma once

#include <kdsl/cpu/kernel.h>
#include <kdsl/ffi/dlpack.h>

namespace kdsl {

class View;

/// A named size, or a size that an expression of named ones gives ("D // 2"). The first tensor that
/// has it binds it; later ones must agree.
class Dim {
 public:
  static constexpr i64 kUnbound = -1;

  constexpr explicit Dim(const char* text) : text(text) {}
  operator i64() const { return value; }
  bool is_bound() const { return value != kUnbound; }

  /// As it stands in the signature.
  const char* text;
  i64 value = kUnbound;
  /// The tensor that bound it; null: a scalar argument or an expression did.
  const View* origin = nullptr;
};

/// One extent of an expected shape: a number, or a dim.
struct Extent {
  Extent() = default;
  constexpr Extent(i64 number) : dim(nullptr), number(number) {}
  constexpr Extent(int number) : dim(nullptr), number(number) {}
  constexpr Extent(Dim& dim) : dim(&dim), number(0) {}

  Dim* dim;
  i64 number;
};

// Dtypes by kdsl's names.
inline constexpr DLDataType kBool = {kDLBool, 8, 1};
inline constexpr DLDataType kI8 = {kDLInt, 8, 1}, kI16 = {kDLInt, 16, 1};
inline constexpr DLDataType kI32 = {kDLInt, 32, 1}, kI64 = {kDLInt, 64, 1};
inline constexpr DLDataType kU8 = {kDLUInt, 8, 1}, kU16 = {kDLUInt, 16, 1};
inline constexpr DLDataType kU32 = {kDLUInt, 32, 1}, kU64 = {kDLUInt, 64, 1};
inline constexpr DLDataType kF16 = {kDLFloat, 16, 1}, kBF16 = {kDLBfloat, 16, 1};
inline constexpr DLDataType kF32 = {kDLFloat, 32, 1}, kF64 = {kDLFloat, 64, 1};
inline constexpr DLDataType kF8E4M3 = {kDLFloat8_e4m3fn, 8, 1};
inline constexpr DLDataType kF8E5M2 = {kDLFloat8_e5m2, 8, 1};

constexpr bool operator==(DLDataType a, DLDataType b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
constexpr bool operator!=(DLDataType a, DLDataType b) { return !(a == b); }

/// A variable over dtypes; the first tensor that has it binds it.
class TypeVar {
 public:
  static constexpr int kMaxChoices = 16;

  template <class... Choices>
  constexpr explicit TypeVar(const char* name, Choices... choices)
      : name(name), choices{choices...}, count(sizeof...(choices)) {
    static_assert(sizeof...(choices) <= kMaxChoices, "a dtype variable has 16 choices at most");
  }

  bool operator==(DLDataType dtype) const { return bound && value == dtype; }
  bool offers(DLDataType dtype) const {
    for (int i = 0; i < count; ++i) {
      if (choices[i] == dtype) return true;
    }
    return false;
  }

  const char* name;
  DLDataType choices[kMaxChoices];
  int count;
  bool bound = false;
  DLDataType value = {};
};

/// The element type that a parameter wants: one dtype, or a variable.
struct ElementType {
  constexpr ElementType(DLDataType dtype) : variable(nullptr), dtype(dtype) {}
  constexpr ElementType(TypeVar& variable) : variable(&variable), dtype{} {}

  TypeVar* variable;
  DLDataType dtype;
};

/// a // b as in Python: rounds down. The caller has made sure that b is not 0.
constexpr i64 floordiv(i64 a, i64 b) {
  if (b == -1) return static_cast<i64>(0ul - static_cast<unsigned long>(a));
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/// a % b as in Python: has the sign of b. The caller has made sure that b is not 0.
constexpr i64 mod(i64 a, i64 b) {
  if (b == -1) return 0;
  const i64 rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

}  // namespace kdsl
