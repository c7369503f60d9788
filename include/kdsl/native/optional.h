// kdsl/native/optional.h: Optional<T>: a T or None; Variant<...>: one of several types.
#pragma once

#include <kdsl/native/any.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

/// A T or None; an undefined handle is None too. Converts from and to std::optional<T>.
template <class T>
class Optional {
 public:
  using value_type = T;

  Optional() : none_(), has_(false) {}
  Optional(const std::nullopt_t&) : Optional() {}
  Optional(std::nullptr_t) : Optional() {}
  Optional(T value) : value_(kdsl::own::move(value)), has_(true) {}
  template <class U, class = kdsl::own::enable_if_t<
                         !kdsl::own::is_same_v<kdsl::own::decay_t<U>, T> &&
                         kdsl::own::is_convertible_v<U&&, T> &&
                         !kdsl::own::is_same_v<kdsl::own::decay_t<U>, Optional> &&
                         !kdsl::own::is_same_v<kdsl::own::decay_t<U>, std::nullptr_t>>>
  Optional(U&& value) : value_(kdsl::own::forward<U>(value)), has_(true) {}
  template <class O, class = kdsl::own::enable_if_t<kdsl::own::is_same_v<O, std::optional<T>>>,
            class = void>
  Optional(const O& other) : Optional() {
    if (other) emplace(*other);
  }
  Optional(const Optional& other) : Optional() {
    if (other.has_) emplace(other.value_);
  }
  Optional(Optional&& other) noexcept : Optional() {
    if (other.has_) emplace(kdsl::own::move(other.value_));
  }
  Optional& operator=(const Optional& other) { return *this = Optional(other); }
  Optional& operator=(Optional&& other) noexcept {
    if (this == &other) return *this;
    reset();
    if (other.has_) emplace(kdsl::own::move(other.value_));
    return *this;
  }
  ~Optional() { reset(); }
  operator std::optional<T>() const {
    if (has_value()) return value_;
    return {};
  }

  bool has_value() const {
    if constexpr (kdsl::own::is_base_of_v<ObjectRef, T>) {
      return has_ && value_.defined();
    } else {
      return has_;
    }
  }
  explicit operator bool() const { return has_value(); }
  const T& value() const& { return check(), value_; }
  T value() && { return check(), kdsl::own::move(value_); }
  template <class U>
  T value_or(U&& otherwise) const {
    return has_value() ? value_ : T(kdsl::own::forward<U>(otherwise));
  }
  const T& operator*() const& { return value_; }
  T& operator*() & { return value_; }
  T operator*() && { return kdsl::own::move(value_); }
  const T* operator->() const { return &value_; }
  template <class U>
  void emplace(U&& value) {
    reset();
    ::new (static_cast<void*>(&value_)) T(kdsl::own::forward<U>(value));
    has_ = true;
  }
  void reset() {
    if (has_) value_.~T();
    has_ = false;
  }

  friend bool operator==(const Optional& a, const std::nullopt_t&) { return !a.has_value(); }
  friend bool operator!=(const Optional& a, const std::nullopt_t&) { return a.has_value(); }
  friend bool operator==(const Optional& a, std::nullptr_t) { return !a.has_value(); }
  friend bool operator!=(const Optional& a, std::nullptr_t) { return a.has_value(); }
  friend bool operator==(const Optional& a, const Optional& b) {
    return a.has_value() == b.has_value() && (!a.has_value() || a.value_ == b.value_);
  }
  friend bool operator!=(const Optional& a, const Optional& b) { return !(a == b); }
  friend bool operator==(const Optional& a, const T& b) { return a.has_value() && a.value_ == b; }
  friend bool operator!=(const Optional& a, const T& b) { return !(a == b); }

 private:
  void check() const {
    if (!has_value()) detail::fail("RuntimeError", "Back optional access");
  }
  union {
    char none_;
    T value_;
  };
  bool has_;
};

namespace detail {

/// Optional<T> and std::optional<T>.
template <class O, class T>
struct OptionalTraits : TypeTraitsBase {
  static constexpr bool storage_enabled = TypeTraits<T>::storage_enabled;
  static constexpr TypeText text = {"Optional", "Optional", text_list<T>, 1};

  static TVMFFIAny view(const O& value) {
    return value.has_value() ? TypeTraits<T>::view(*value) : raw(kTVMFFINone);
  }
  static TVMFFIAny give(O value) {
    return value.has_value() ? TypeTraits<T>::give(*kdsl::own::move(value)) : raw(kTVMFFINone);
  }
  static bool is(const TVMFFIAny& value) {
    return value.type_index == kTVMFFINone || TypeTraits<T>::is(value);
  }
  static bool fits(const TVMFFIAny& value) {
    return value.type_index == kTVMFFINone || TypeTraits<T>::fits(value);
  }
  static O get(const TVMFFIAny& value) {
    if (value.type_index == kTVMFFINone) return O();
    return O(TypeTraits<T>::get(value));
  }
  static constexpr Came* came = TypeTraits<T>::came;
};

}  // namespace detail

template <class T>
struct TypeTraits<Optional<T>, kdsl::own::enable_if_t<detail::is_enabled_v<T>>>
    : detail::OptionalTraits<Optional<T>, T> {};
template <class T>
struct TypeTraits<std::optional<T>, kdsl::own::enable_if_t<detail::is_enabled_v<T>>>
    : detail::OptionalTraits<std::optional<T>, T> {};

/// One of several types.
template <class... V>
class Variant {
 public:
  explicit Variant(UnsafeInit) {}
  template <class T,
            class = kdsl::own::enable_if_t<(kdsl::own::is_convertible_v<T, V> || ...) &&
                                           !kdsl::own::is_same_v<kdsl::own::decay_t<T>, Variant>>>
  Variant(T value) : value_(kdsl::own::move(value)) {}

  template <class T>
  auto as() const {
    return value_.template as<T>();
  }
  template <class T>
  T get() const {
    static_assert((kdsl::own::is_same_v<T, V> || ...), "the variant has no such type");
    return value_.template as_or_throw<T>();
  }
  int32_t type_index() const { return value_.type_index(); }
  String GetTypeKey() const { return value_.GetTypeKey(); }

 private:
  template <class, class>
  friend struct TypeTraits;
  Any value_;
};

template <class... V>
struct TypeTraits<Variant<V...>> : TypeTraitsBase {
  using T = Variant<V...>;
  static constexpr detail::TypeText text = {"Variant", "Variant", detail::text_list<V...>,
                                            sizeof...(V)};
  static TVMFFIAny view(const T& value) { return value.value_.raw(); }
  static TVMFFIAny give(T value) { return value.value_.give(); }
  static bool is(const TVMFFIAny& value) { return (TypeTraits<V>::is(value) || ...); }
  static bool fits(const TVMFFIAny& value) { return (TypeTraits<V>::fits(value) || ...); }
  static T get(const TVMFFIAny& value) {
    T variant{UnsafeInit()};
    if (is(value)) {
      variant.value_ = Any(AnyView::CopyFromTVMFFIAny(value));
    } else {
      (void)(... || take<V>(variant, value));
    }
    return variant;
  }

 private:
  template <class One>
  static bool take(T& variant, const TVMFFIAny& value) {
    if (!TypeTraits<One>::fits(value)) return false;
    variant.value_ = Any(TypeTraits<One>::get(value));
    return true;
  }
};

}  // namespace tvm::ffi
#pragma GCC visibility pop
