// kdsl/native/std.h: the few pieces of the standard library that kernel headers need, read quickly.
//
// <type_traits>, <utility>, <optional> and <iosfwd> cost a compiler as much as all of kdsl's
// headers, so a kernel includes what it uses of them itself. Here are the traits in use, and names
// of std's templates that headers only speak of.
#pragma once

// The way to an error is compiled into every kernel, runs once at most and is not worth an
// optimizer's time: most of the time that a small kernel takes to compile.
#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && \
    !defined(KDSL_COLD)
#define KDSL_COLD __attribute__((cold, noinline, optimize("O0")))
// Work that takes long beside a call, e.g. as it allocates: compiled as it stands too.
#define KDSL_PLAIN __attribute__((noinline, optimize("O0")))
#else
#define KDSL_PLAIN __attribute__((noinline))
#endif

#include <stddef.h>

#include <initializer_list>
#include <new>

#ifdef __GLIBCXX__
// As libstdc++ declares them; default arguments come with the headers that define them.
// clang-format off: it takes the macro for a part of the name
namespace std _GLIBCXX_VISIBILITY(default) {
_GLIBCXX_BEGIN_NAMESPACE_VERSION
template <class T>
struct char_traits;
template <class T>
class allocator;
template <class T>
struct hash;
template <class T>
class optional;
struct nullopt_t;
template <class T>
struct tuple_size;
template <size_t, class T>
struct tuple_element;
struct random_access_iterator_tag;
template <class T, class Traits>
class basic_ostream;
_GLIBCXX_BEGIN_NAMESPACE_CXX11
template <class T, class Traits, class Alloc>
class basic_string;
template <class T, class Traits, class Alloc>
class basic_ostringstream;
_GLIBCXX_END_NAMESPACE_CXX11
_GLIBCXX_END_NAMESPACE_VERSION
}  // namespace std
// clang-format on
#else
#include <iosfwd>
#include <iterator>
#include <optional>
#include <string>
#include <tuple>
#endif

#define KDSL_OWN_INLINE_ __attribute__((always_inline))
#pragma GCC visibility push(hidden)
/// Each does what the name says in std, for the types that kernels have.
namespace kdsl::own {

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;

template <bool kIf, class T = void>
struct enable_if {};
template <class T>
struct enable_if<true, T> {
  using type = T;
};
template <bool kIf, class T = void>
using enable_if_t = typename enable_if<kIf, T>::type;
template <class...>
struct make_void {
  using type = void;
};
template <class... T>
using void_t = typename make_void<T...>::type;

template <class T>
struct bare {
  using type = T;
};
template <class T>
struct bare<const T> {
  using type = T;
};
template <class T>
struct bare<volatile T> {
  using type = T;
};
template <class T>
struct bare<const volatile T> {
  using type = T;
};
template <class T>
struct bare<T&> : bare<T> {};
template <class T>
struct bare<T&&> : bare<T> {};
/// Without reference, const and volatile.
template <class T>
using bare_t = typename bare<T>::type;
template <class T>
struct no_reference {
  using type = T;
};
template <class T>
struct no_reference<T&> {
  using type = T;
};
template <class T>
struct no_reference<T&&> {
  using type = T;
};
template <class T>
struct decay : bare<T> {};
template <class T>
struct decay<T&> : decay<T> {};
template <class T>
struct decay<T&&> : decay<T> {};
template <class T, size_t kSize>
struct decay<T[kSize]> {
  using type = T*;
};
template <class T, size_t kSize>
struct decay<const T[kSize]> {
  using type = const T*;
};
template <class R, class... Args>
struct decay<R(Args...)> {
  using type = R (*)(Args...);
};
template <class R, class... Args>
struct decay<R(Args...) noexcept> {
  using type = R (*)(Args...) noexcept;
};
template <class T>
using decay_t = typename decay<T>::type;

template <class T>
T&& declval() noexcept;
template <class T>
KDSL_OWN_INLINE_ constexpr typename no_reference<T>::type&& move(T&& value) noexcept {
  return static_cast<typename no_reference<T>::type&&>(value);
}
template <class T>
KDSL_OWN_INLINE_ constexpr T&& forward(typename no_reference<T>::type& value) noexcept {
  return static_cast<T&&>(value);
}
template <class T>
KDSL_OWN_INLINE_ constexpr T&& forward(typename no_reference<T>::type&& value) noexcept {
  return static_cast<T&&>(value);
}
template <class T>
void swap(T& a, T& b) noexcept {
  T kept(static_cast<T&&>(a));
  a = static_cast<T&&>(b);
  b = static_cast<T&&>(kept);
}

template <class B, class D>
inline constexpr bool is_base_of_v = __is_base_of(B, D);
template <class T>
inline constexpr bool is_enum_v = __is_enum(T);
template <class T>
inline constexpr bool is_void_v = is_same_v<bare_t<T>, void>;
template <class T>
inline constexpr bool is_pointer_v = false;
template <class T>
inline constexpr bool is_pointer_v<T*> = true;
template <class T>
inline constexpr bool is_array_v = false;
template <class T, size_t kSize>
inline constexpr bool is_array_v<T[kSize]> = true;
template <class T>
inline constexpr bool is_array_v<T[]> = true;

enum Number { kNone, kInteger, kReal };
template <class T>
inline constexpr Number number_v = kNone;
#define KDSL_NUMBER_(T, kind) \
  template <>                 \
  inline constexpr Number number_v<T> = kind;
KDSL_NUMBER_(bool, kInteger)
KDSL_NUMBER_(char, kInteger)
KDSL_NUMBER_(signed char, kInteger)
KDSL_NUMBER_(unsigned char, kInteger)
KDSL_NUMBER_(wchar_t, kInteger)
KDSL_NUMBER_(char16_t, kInteger)
KDSL_NUMBER_(char32_t, kInteger)
KDSL_NUMBER_(short, kInteger)
KDSL_NUMBER_(unsigned short, kInteger)
KDSL_NUMBER_(int, kInteger)
KDSL_NUMBER_(unsigned, kInteger)
KDSL_NUMBER_(long, kInteger)
KDSL_NUMBER_(unsigned long, kInteger)
KDSL_NUMBER_(long long, kInteger)
KDSL_NUMBER_(unsigned long long, kInteger)
KDSL_NUMBER_(float, kReal)
KDSL_NUMBER_(double, kReal)
KDSL_NUMBER_(long double, kReal)
#undef KDSL_NUMBER_
template <class T>
inline constexpr bool is_integral_v = number_v<T> == kInteger;
template <class T>
inline constexpr bool is_floating_point_v = number_v<T> == kReal;
template <class T>
inline constexpr bool is_arithmetic_v = number_v<T> != kNone;

template <class To>
void take(To);
template <class From, class To, class = void>
inline constexpr bool is_convertible_v = false;
template <class From, class To>
inline constexpr bool is_convertible_v<From, To, decltype(take<To>(declval<From>()))> = true;
template <class T, class From>
inline constexpr bool is_constructible_v = __is_constructible(T, From);

/// What a call of an F, a function or functor, gives.
template <class F, class... Args>
using result_t = decltype(declval<F>()(declval<Args>()...));
template <class Void, class F, class... Args>
inline constexpr bool callable_v = false;
template <class F, class... Args>
inline constexpr bool callable_v<void_t<result_t<F, Args...>>, F, Args...> = true;
template <class F, class... Args>
inline constexpr bool is_invocable_v = callable_v<void, F, Args...>;
template <class Void, class R, class F, class... Args>
inline constexpr bool gives_v = false;
template <class R, class F, class... Args>
inline constexpr bool gives_v<void_t<result_t<F, Args...>>, R, F, Args...> =
    is_void_v<R> || is_convertible_v<result_t<F, Args...>, R>;
template <class R, class F, class... Args>
inline constexpr bool is_invocable_r_v = gives_v<void, R, F, Args...>;

template <class T, T... kValues>
struct integer_sequence {};
template <size_t... kIndices>
using index_sequence = integer_sequence<size_t, kIndices...>;
#if defined(__has_builtin) && __has_builtin(__make_integer_seq)
template <size_t kCount>
using make_index_sequence = __make_integer_seq<integer_sequence, size_t, kCount>;
#else
template <size_t kCount>
using make_index_sequence = index_sequence<__integer_pack(kCount)...>;
#endif
template <class... T>
using index_sequence_for = make_index_sequence<sizeof...(T)>;

template <size_t kMore, class T>
struct alone {};
template <class T>
struct alone<0, T> {
  using type = typename no_reference<T>::type;
};

}  // namespace kdsl::own
#pragma GCC visibility pop
#undef KDSL_OWN_INLINE_

#if defined(__GLIBCXX__) && !defined(__CUDACC__)
// A file that moves values compiles with the official headers without <utility>. Where it is
// included, its own std::move is the better match: it has no parameters that may follow.
// clang-format off: it takes the macro for a part of the name
namespace std _GLIBCXX_VISIBILITY(default) {
_GLIBCXX_BEGIN_NAMESPACE_VERSION
template <class T, class... None>
__attribute__((always_inline)) constexpr typename kdsl::own::alone<sizeof...(None), T>::type&& move(
    T&& value, None...) noexcept {
  return static_cast<typename kdsl::own::no_reference<T>::type&&>(value);
}
_GLIBCXX_END_NAMESPACE_VERSION
}  // namespace std
// clang-format on
#endif
