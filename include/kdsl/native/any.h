// kdsl/native/any.h: AnyView, a borrowed value of any type, and Any, an owned one; Optional.
#pragma once

#include <kdsl/native/traits.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

namespace detail {

TVM_FFI_INLINE bool is_object(const TVMFFIAny& value) {
  return value.type_index >= kTVMFFIStaticObjectBegin;
}

/// One reference to the object that a value is or, as a reference that gives it up, leads to; null
/// where there is none.
KDSL_NOINLINE inline TVMFFIObject* own_in(const TVMFFIAny& value) {
  if (is_object(value)) {
    retain(value.v_obj);
    return value.v_obj;
  }
  if (value.type_index != kTVMFFIObjectRValueRef) return nullptr;
  auto** object = static_cast<TVMFFIObject**>(value.v_ptr);
  TVMFFIObject* taken = *object;
  *object = nullptr;
  return taken;
}

/// An owned value of a borrowed one.
KDSL_NOINLINE inline TVMFFIAny owned(TVMFFIAny value) {
  const int32_t index = value.type_index;
  if (is_object(value)) {
    retain(value.v_obj);
  } else if (index == kTVMFFIRawStr || index == kTVMFFIByteArrayPtr) {
    const TVMFFIByteArray bytes = bytes_of(value);
    return new_bytes(index == kTVMFFIRawStr ? kTVMFFISmallStr : kTVMFFISmallBytes, bytes.data,
                     bytes.size);
  } else if (value.type_index == kTVMFFIObjectRValueRef) {
    TVMFFIObject* taken = own_in(value);
    return taken ? raw(taken->type_index, taken) : raw(kTVMFFINone);
  } else if (value.type_index == kTVMFFIDLTensorPtr) {
    fail("RuntimeError", "DLTensor* cannot be kept, as it does not own its memory; use Tensor");
  }
  return value;
}

[[noreturn]] KDSL_COLD inline void cannot(const char* start, const TVMFFIAny& value, Came* came,
                                          const char* to, const TypeText& type) {
  Writer text = {};
  write_came(text.put(start).put(" type `"), value, came);
  write_name(text.put("` ").put(to).put(" `"), type);
  fail("TypeError", text.put("`"));
}

}  // namespace detail

class AnyView {
 public:
  AnyView() : data_(detail::raw(kTVMFFINone)) {}
  AnyView(const Any& value);
  template <class T, class = kdsl::own::enable_if_t<detail::is_enabled_v<T>>>
  AnyView(const T& value) : data_(TypeTraits<T>::view(value)) {}

  void reset() { data_ = detail::raw(kTVMFFINone); }
  int32_t type_index() const { return data_.type_index; }
  String GetTypeKey() const { return detail::type_key(data_.type_index); }
  bool operator==(std::nullptr_t) const { return data_.type_index == kTVMFFINone; }
  bool operator!=(std::nullptr_t) const { return data_.type_index != kTVMFFINone; }

  /// The value where it is a T as it is; a pointer to the object where T is a kind of object.
  template <class T>
  auto as() const {
    if constexpr (kdsl::own::is_base_of_v<Object, T>) {
      const auto* object =
          detail::is_object(data_) ? reinterpret_cast<const Object*>(data_.v_obj) : nullptr;
      return object && object->template IsInstance<T>() ? static_cast<const T*>(object) : nullptr;
    } else {
      return TypeTraits<T>::is(data_) ? Optional<T>(TypeTraits<T>::get(data_)) : Optional<T>();
    }
  }
  /// The value as a T where it converts to one.
  template <class T>
  Optional<T> try_cast() const {
    if constexpr (detail::is_any_v<T>) {
      return Optional<T>(T(*this));
    } else {
      return TypeTraits<T>::fits(data_) ? Optional<T>(TypeTraits<T>::get(data_)) : Optional<T>();
    }
  }
  /// The same; else a TypeError.
  template <class T>
  T cast() const {
    if constexpr (detail::is_any_v<T>) {
      return T(*this);
    } else {
      if (TVM_FFI_PREDICT_FALSE(!TypeTraits<T>::fits(data_))) {
        detail::cannot("Cannot convert from", data_, TypeTraits<T>::came, "to",
                       TypeTraits<T>::text);
      }
      return TypeTraits<T>::get(data_);
    }
  }
  template <class T>
  T as_or_throw() const {
    if (TVM_FFI_PREDICT_FALSE(!TypeTraits<T>::is(data_))) {
      detail::cannot("Cannot treat", data_, TypeTraits<T>::came, "as type", TypeTraits<T>::text);
    }
    return TypeTraits<T>::get(data_);
  }

  const TVMFFIAny& raw() const { return data_; }
  TVMFFIAny CopyToTVMFFIAny() const { return data_; }
  static AnyView CopyFromTVMFFIAny(const TVMFFIAny& data) {
    AnyView view;
    view.data_ = data;
    return view;
  }

 private:
  TVMFFIAny data_;
};

class Any {
 public:
  Any() : data_(detail::raw(kTVMFFINone)) {}
  Any(const Any& other) : data_(other.data_) {
    if (detail::is_object(data_)) detail::retain(data_.v_obj);
  }
  Any(Any&& other) noexcept : data_(other.give()) {}
  Any(const AnyView& view) : data_(detail::owned(view.raw())) {}
  template <class T, class = kdsl::own::enable_if_t<detail::is_enabled_v<T>>>
  Any(T value) : data_(TypeTraits<T>::give(kdsl::own::move(value))) {}
  Any& operator=(Any other) noexcept {
    swap(other);
    return *this;
  }
  ~Any() { reset(); }

  void reset() {
    const TVMFFIAny old = give();
    if (detail::is_object(old)) detail::drop(old.v_obj);
  }
  void swap(Any& other) noexcept { kdsl::own::swap(data_, other.data_); }
  int32_t type_index() const { return data_.type_index; }
  String GetTypeKey() const { return detail::type_key(data_.type_index); }
  bool operator==(std::nullptr_t) const { return data_.type_index == kTVMFFINone; }
  bool operator!=(std::nullptr_t) const { return data_.type_index != kTVMFFINone; }
  bool same_as(const Any& other) const {
    return data_.type_index == other.data_.type_index &&
           data_.zero_padding == other.data_.zero_padding && data_.v_int64 == other.data_.v_int64;
  }

  template <class T>
  auto as() const {
    return AnyView(*this).template as<T>();
  }
  template <class T>
  Optional<T> try_cast() const {
    return AnyView(*this).template try_cast<T>();
  }
  template <class T>
  T cast() const {
    return AnyView(*this).template cast<T>();
  }
  template <class T>
  T as_or_throw() const {
    return AnyView(*this).template as_or_throw<T>();
  }

  const TVMFFIAny& raw() const { return data_; }
  /// The value, which is given away.
  TVMFFIAny give() {
    const TVMFFIAny given = data_;
    data_ = detail::raw(kTVMFFINone);
    return given;
  }
  /// An Any that takes over an owned value.
  static Any own(const TVMFFIAny& value) {
    Any any;
    any.data_ = value;
    return any;
  }

 private:
  TVMFFIAny data_;
};
static_assert(sizeof(Any) == sizeof(TVMFFIAny) && sizeof(AnyView) == sizeof(TVMFFIAny));

inline AnyView::AnyView(const Any& value) : data_(value.raw()) {}

// ---- what containers ask of the types of their elements, Any included

namespace detail {

template <class T>
bool is_a(const TVMFFIAny& value) {
  if constexpr (is_any_v<T>) {
    return true;
  } else {
    return TypeTraits<T>::is(value);
  }
}
template <class T>
bool converts(const TVMFFIAny& value) {
  if constexpr (is_any_v<T>) {
    return true;
  } else {
    return TypeTraits<T>::fits(value);
  }
}
/// The T of a value that is_a() or converts().
template <class T>
T read(const TVMFFIAny& value) {
  if constexpr (is_any_v<T>) {
    return T(AnyView::CopyFromTVMFFIAny(value));
  } else {
    return TypeTraits<T>::get(value);
  }
}
template <class T>
inline constexpr Came* came_of = TypeTraits<T>::came;
template <>
inline constexpr Came* came_of<Any> = nullptr;
template <>
inline constexpr Came* came_of<AnyView> = nullptr;

}  // namespace detail

// ---- handles: the object itself, None where the handle may be undefined

namespace detail {

/// The object that a value is or, as a reference that gives it up, leads to; else null.
TVM_FFI_INLINE TVMFFIObject* object_in(const TVMFFIAny& value) {
  if (is_object(value)) return value.v_obj;
  if (value.type_index != kTVMFFIObjectRValueRef) return nullptr;
  return *static_cast<TVMFFIObject**>(value.v_ptr);
}
KDSL_NOINLINE inline bool holds(const TVMFFIAny& value, int32_t wanted, bool nullable) {
  if (value.type_index == kTVMFFINone) return nullable;
  const TVMFFIObject* object = object_in(value);
  return object && (wanted == kTVMFFIObject || object->type_index == wanted);
}

KDSL_COLD inline void came_object(Writer& out, const TVMFFIAny& value) {
  const TVMFFIObject* object = object_in(value);
  write_type(out, object ? object->type_index : value.type_index);
}

template <class Ref>
struct RefTraits : TypeTraitsBase {
  static constexpr int32_t kIndex = Ref::ContainerType::_type_index;

  static TVMFFIAny view(const Ref& ref) {
    TVMFFIObject* head = ObjectAccess::head(ref);
    return head ? raw(head->type_index, head) : raw(kTVMFFINone);
  }
  static TVMFFIAny give(Ref ref) {
    const TVMFFIAny given = view(ref);
    ObjectAccess::pointer(ref).release();
    return given;
  }
  static bool is(const TVMFFIAny& value) { return holds(value, kIndex, Ref::_type_is_nullable); }
  static bool fits(const TVMFFIAny& value) { return is(value); }
  static Ref get(const TVMFFIAny& value) {
    return ObjectAccess::make<Ref>(own_object(own_in(value)));
  }
  static constexpr Came* came = came_object;
};

/// What messages and metadata call an object of a type that has an index of its own.
template <int32_t kIndex>
inline constexpr TypeText object_text = {"ffi.Object", "ffi.Object"};
template <>
inline constexpr TypeText object_text<kTVMFFIError> = {"ffi.Error", "ffi.Error"};
template <>
inline constexpr TypeText object_text<kTVMFFIFunction> = {"ffi.Function", "ffi.Function"};
template <>
inline constexpr TypeText object_text<kTVMFFIShape> = {"ffi.Shape", "ffi.Shape"};
template <>
inline constexpr TypeText object_text<kTVMFFITensor> = {"ffi.Tensor", "ffi.Tensor"};

}  // namespace detail
template <class Ref>
struct TypeTraits<Ref, kdsl::own::enable_if_t<kdsl::own::is_base_of_v<ObjectRef, Ref> &&
                                              use_default_type_traits_v<Ref>>>
    : detail::RefTraits<Ref> {
  static constexpr detail::TypeText text = detail::object_text<Ref::ContainerType::_type_index>;
};

}  // namespace tvm::ffi
#pragma GCC visibility pop
