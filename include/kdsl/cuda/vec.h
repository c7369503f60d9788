// kdsl/cuda/vec.h: the team as a vector machine: a Vec is one value in each thread of the block.
#pragma once

#include <kdsl/cuda/base.h>

namespace kdsl {

/// This thread's element of a vector of `team()` lanes.
template <class T>
struct Vec {
  T x;
};
/// A truth value in each thread.
struct Mask {
  bool x;
};

/// How many of the next `team()` lanes are real: all of them, or the first `n` (none when n <= 0).
struct All {};
struct Some {
  i64 n;
};
KDSL_DEV bool is_real(All) { return true; }
KDSL_DEV bool is_real(Some s) { return member() < s.n; }

// ---- arithmetic, thread by thread; small integers wrap like any other

#define KDSL_ARITHMETIC(op)                         \
  template <class T>                                \
  KDSL_DEV Vec<T> operator op(Vec<T> a, Vec<T> b) { \
    return {(T)(a.x op b.x)};                       \
  }                                                 \
  template <class T, class S>                       \
  KDSL_DEV Vec<T> operator op(Vec<T> a, S b) {      \
    return {(T)(a.x op(T) b)};                      \
  }                                                 \
  template <class T, class S>                       \
  KDSL_DEV Vec<T> operator op(S a, Vec<T> b) {      \
    return {(T)((T)a op b.x)};                      \
  }
KDSL_ARITHMETIC(+)
KDSL_ARITHMETIC(-)
KDSL_ARITHMETIC(*)
KDSL_ARITHMETIC(/)
KDSL_ARITHMETIC(&)
KDSL_ARITHMETIC(|)
KDSL_ARITHMETIC(^)
KDSL_ARITHMETIC(<<)
KDSL_ARITHMETIC(>>)
#undef KDSL_ARITHMETIC

#define KDSL_COMPARISON(op)                       \
  template <class T>                              \
  KDSL_DEV Mask operator op(Vec<T> a, Vec<T> b) { \
    return {a.x op b.x};                          \
  }                                               \
  template <class T, class S>                     \
  KDSL_DEV Mask operator op(Vec<T> a, S b) {      \
    return {a.x op(T) b};                         \
  }
KDSL_COMPARISON(==)
KDSL_COMPARISON(!=)
KDSL_COMPARISON(<)
KDSL_COMPARISON(<=)
KDSL_COMPARISON(>)
KDSL_COMPARISON(>=)
#undef KDSL_COMPARISON

template <class T>
KDSL_DEV Vec<T> operator-(Vec<T> a) {
  return {(T)-a.x};
}
template <class T>
KDSL_DEV Vec<T> operator~(Vec<T> a) {
  return {(T)~a.x};
}
template <class T>
KDSL_DEV Vec<T>& operator+=(Vec<T>& a, Vec<T> b) {
  return a = a + b;
}
KDSL_DEV Mask operator~(Mask a) { return {!a.x}; }
KDSL_DEV Mask operator&(Mask a, Mask b) { return {a.x && b.x}; }
KDSL_DEV Mask operator|(Mask a, Mask b) { return {a.x || b.x}; }
KDSL_DEV Mask operator^(Mask a, Mask b) { return {a.x != b.x}; }
KDSL_DEV Mask operator==(Mask a, Mask b) { return {a.x == b.x}; }
KDSL_DEV Mask operator!=(Mask a, Mask b) { return {a.x != b.x}; }
KDSL_DEV Mask operator<(Mask a, Mask b) { return {a.x < b.x}; }
KDSL_DEV Mask operator<=(Mask a, Mask b) { return {a.x <= b.x}; }
KDSL_DEV Mask operator>(Mask a, Mask b) { return {a.x > b.x}; }
KDSL_DEV Mask operator>=(Mask a, Mask b) { return {a.x >= b.x}; }
/// Truth as a number, 0 or 1.
KDSL_DEV Vec<i32> operator&(Mask a, int one) { return {a.x ? one : 0}; }

// ---- the same in every lane, lane numbers, conversion

template <class T>
KDSL_DEV Vec<T> splat(T x) {
  return {x};
}
KDSL_DEV Mask every(bool x) { return {x}; }
template <class V>
struct Splat;
template <class T>
struct Splat<Vec<T>> {
  KDSL_DEV Vec<T> of(T x) { return {x}; }
};
template <>
struct Splat<Mask> {
  KDSL_DEV Mask of(bool x) { return {x}; }
};
template <class V, class T>
KDSL_DEV V splat_as(T x) {
  return Splat<V>::of(x);
}

template <class T>
KDSL_DEV Vec<T> lane_numbers() {
  return {(T)member()};
}
/// i, i + 1, ...: the indices of lanes that start at index i.
KDSL_DEV Vec<i64> iota(i64 i) { return {i + member()}; }

template <class To, class From>
KDSL_DEV Vec<To> convert(Vec<From> v) {
  return {(To)v.x};
}
KDSL_DEV Mask mask(Mask m) { return m; }

template <class To, class From>
KDSL_DEV To saturate(From x) {
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
template <class To, class From>
KDSL_DEV Vec<To> saturate(Vec<From> v) {
  return {saturate<To>(v.x)};
}

/// c ? a : b lane by lane, for any element type.
template <class T>
KDSL_DEV Vec<T> where(Mask c, Vec<T> a, Vec<T> b) {
  return {c.x ? a.x : b.x};
}
KDSL_DEV Mask where(Mask c, Mask a, Mask b) { return {c.x ? a.x : b.x}; }
template <class T>
KDSL_DEV T where(bool c, T a, T b) {
  return c ? a : b;
}

}  // namespace kdsl
