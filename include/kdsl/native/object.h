// kdsl/native/object.h: reference-counted objects of the C ABI: Object, ObjectPtr, ObjectRef.
#pragma once

#include <kdsl/native/writer.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

namespace detail {
template <class T, class... Args>
T* new_object(size_t extra, Args&&... args);
}

/// Base of all objects: the head that the C ABI prescribes, and nothing else.
class Object {
 public:
  static constexpr int32_t _type_index = kTVMFFIObject;

  int32_t type_index() const { return head_.type_index; }
  int use_count() const { return static_cast<int>(head_.combined_ref_count & 0xffffffffu); }
  bool unique() const { return use_count() == 1; }
  /// Whether this is a T; objects of types that other libraries derive from T are not known here.
  template <class T>
  bool IsInstance() const {
    return T::_type_index == kTVMFFIObject || head_.type_index == T::_type_index;
  }

  /// The head, for the C functions.
  TVM_FFI_INLINE TVMFFIObject* head() const { return const_cast<TVMFFIObject*>(&head_); }

 private:
  template <class T, class... Args>
  friend T* detail::new_object(size_t extra, Args&&... args);
  TVMFFIObject head_ = {KDSL_REF_COUNT_ONE, kTVMFFIObject, 0, nullptr};
};
static_assert(sizeof(Object) == 24, "ABI: an object's head is 24 bytes");

namespace detail {
template <class T>
KDSL_PLAIN void delete_object(void* self, int flags) {
  T* dying = static_cast<T*>(static_cast<Object*>(self));
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) dying->~T();
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) kdsl_free(self);
}
}  // namespace detail

/// A new T with one reference, and `extra` bytes behind it.
template <class T, class... Args>
T* detail::new_object(size_t extra, Args&&... args) {
  void* block = detail::allocate(sizeof(T) + extra);
  T* object;
  if constexpr (noexcept(T(kdsl::own::forward<Args>(args)...))) {
    object = ::new (block) T(kdsl::own::forward<Args>(args)...);
  } else {
    try {
      object = ::new (block) T(kdsl::own::forward<Args>(args)...);
    } catch (...) {
      kdsl_free(block);
      throw;
    }
  }
  object->head_.type_index = T::_type_index;
  object->head_.deleter = delete_object<T>;
  return object;
}

/// A counted pointer to an object.
template <class T>
class ObjectPtr {
 public:
  ObjectPtr() noexcept = default;
  ObjectPtr(std::nullptr_t) {}
  ObjectPtr(const ObjectPtr& other) : ObjectPtr(other.object_) {}
  TVM_FFI_INLINE ObjectPtr(ObjectPtr&& other) noexcept : object_(other.release()) {}
  template <class U, class = kdsl::own::enable_if_t<kdsl::own::is_base_of_v<T, U>>>
  ObjectPtr(const ObjectPtr<U>& other) : ObjectPtr(other.get()) {}
  template <class U, class = kdsl::own::enable_if_t<kdsl::own::is_base_of_v<T, U>>>
  ObjectPtr(ObjectPtr<U>&& other) noexcept : object_(other.release()) {}
  ObjectPtr& operator=(ObjectPtr other) noexcept {
    swap(other);
    return *this;
  }
  TVM_FFI_INLINE ~ObjectPtr() { reset(); }

  /// Takes over a reference that the caller owns.
  TVM_FFI_INLINE static ObjectPtr own(T* object) noexcept {
    ObjectPtr taken;
    taken.object_ = object;
    return taken;
  }
  /// The same, for a pointer that is null.
  TVM_FFI_INLINE void take(T* object) noexcept { object_ = object; }
  /// One reference more to an object that somebody else owns.
  static ObjectPtr share(T* object) { return ObjectPtr(object); }

  TVM_FFI_INLINE T* get() const { return object_; }
  TVM_FFI_INLINE T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  bool operator==(const ObjectPtr& other) const { return object_ == other.object_; }
  bool operator!=(const ObjectPtr& other) const { return object_ != other.object_; }
  bool operator==(std::nullptr_t) const { return object_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return object_ != nullptr; }
  TVM_FFI_INLINE explicit operator bool() const { return object_ != nullptr; }
  bool unique() const { return object_ && object_->unique(); }
  int use_count() const { return object_ ? object_->use_count() : 0; }
  void swap(ObjectPtr& other) noexcept { kdsl::own::swap(object_, other.object_); }
  TVM_FFI_INLINE void reset() {
    if (T* object = release()) detail::drop(static_cast<const Object*>(object)->head());
  }
  /// Hands the reference to the caller.
  TVM_FFI_INLINE T* release() noexcept {
    T* object = object_;
    object_ = nullptr;
    return object;
  }

 private:
  explicit ObjectPtr(T* object) : object_(object) {
    if (object_) detail::retain(static_cast<const Object*>(object_)->head());
  }
  T* object_ = nullptr;
};

template <class T, class... Args>
ObjectPtr<T> make_object(Args&&... args) {
  return ObjectPtr<T>::own(detail::new_object<T>(0, kdsl::own::forward<Args>(args)...));
}

/// Base of all handles to objects. One that is not `defined()` stands for None.
class ObjectRef {
 public:
  using ContainerType = Object;
  static constexpr bool _type_is_nullable = true;

  ObjectRef() = default;
  TVM_FFI_INLINE explicit ObjectRef(ObjectPtr<Object> data) noexcept
      : data_(kdsl::own::move(data)) {}
  explicit ObjectRef(UnsafeInit) {}
  ObjectRef(const ObjectRef&) = default;
  ObjectRef(ObjectRef&&) noexcept = default;
  ObjectRef& operator=(const ObjectRef&) = default;
  ObjectRef& operator=(ObjectRef&&) noexcept = default;
  TVM_FFI_INLINE ~ObjectRef() {}

  bool defined() const { return data_ != nullptr; }
  bool same_as(const ObjectRef& other) const { return data_ == other.data_; }
  bool operator==(const ObjectRef& other) const { return data_ == other.data_; }
  bool operator!=(const ObjectRef& other) const { return data_ != other.data_; }
  bool operator<(const ObjectRef& other) const { return data_.get() < other.data_.get(); }
  const Object* get() const { return data_.get(); }
  const Object* operator->() const { return get(); }
  bool unique() const { return data_.unique(); }
  int use_count() const { return data_.use_count(); }
  int32_t type_index() const { return data_ ? data_->type_index() : int32_t{kTVMFFINone}; }
  template <class T, class = kdsl::own::enable_if_t<kdsl::own::is_base_of_v<Object, T>>>
  const T* as() const {
    return data_ && data_->template IsInstance<T>() ? static_cast<const T*>(data_.get()) : nullptr;
  }

 protected:
  ObjectPtr<Object> data_;
  friend struct ObjectAccess;
};

/// What conversions do with handles and nobody else should.
struct ObjectAccess {
  static const ObjectPtr<Object>& pointer(const ObjectRef& ref) { return ref.data_; }
  static ObjectPtr<Object>& pointer(ObjectRef& ref) { return ref.data_; }
  TVM_FFI_INLINE static TVMFFIObject* head(const ObjectRef& ref) {
    return ref.data_ ? ref.data_->head() : nullptr;
  }
  /// A handle of type Ref that takes over a reference.
  template <class Ref>
  static Ref make(ObjectPtr<Object> pointer) {
    Ref ref{UnsafeInit()};
    static_cast<ObjectRef&>(ref).data_ = kdsl::own::move(pointer);
    return ref;
  }
};

TVM_FFI_INLINE ObjectPtr<Object> own_object(void* object) noexcept {
  return ObjectPtr<Object>::own(static_cast<Object*>(object));
}
inline ObjectPtr<Object> share_object(void* object) {
  return ObjectPtr<Object>::share(static_cast<Object*>(object));
}

}  // namespace tvm::ffi
#pragma GCC visibility pop
