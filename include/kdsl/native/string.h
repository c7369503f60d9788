// kdsl/native/string.h: String and Bytes: up to 7 bytes inside the value, longer ones in an object.
#pragma once

#include <kdsl/native/object.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

namespace detail {

/// std::string, without its header.
template <class T>
inline constexpr bool is_std_string_v = false;
template <class Traits, class Alloc>
inline constexpr bool is_std_string_v<std::basic_string<char, Traits, Alloc>> = true;

TVM_FFI_INLINE bool is_bytes_object(const TVMFFIAny& value) {
  return value.type_index == kTVMFFIStr || value.type_index == kTVMFFIBytes;
}

/// The bytes that a value of one of the string types holds.
KDSL_NOINLINE inline TVMFFIByteArray bytes_of(const TVMFFIAny& value) {
  if (is_bytes_object(value)) return reinterpret_cast<KdslStringObject*>(value.v_obj)->bytes;
  if (value.type_index == kTVMFFIRawStr) return {value.v_c_str, __builtin_strlen(value.v_c_str)};
  if (value.type_index == kTVMFFIByteArrayPtr) return *static_cast<TVMFFIByteArray*>(value.v_ptr);
  return {value.v_bytes, value.small_str_len};
}

KDSL_PLAIN inline void delete_bytes(void* self, int flags) noexcept {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) kdsl_free(self);
}
/// An owned value that holds a copy, a String or Bytes as `small` says.
KDSL_PLAIN inline TVMFFIAny new_bytes(int32_t small, const char* data, size_t size) {
  TVMFFIAny value = {small, {0}, {0}};
  constexpr size_t kMostSmall = 7;
  if (size <= kMostSmall) {
    value.small_str_len = static_cast<uint32_t>(size);
    if (size) __builtin_memcpy(value.v_bytes, data, size);
    return value;
  }
  auto* object = static_cast<KdslStringObject*>(allocate(sizeof(KdslStringObject) + size + 1));
  auto* copy = reinterpret_cast<char*>(object + 1);
  __builtin_memcpy(copy, data, size);
  copy[size] = 0;
  value.type_index = small == kTVMFFISmallStr ? kTVMFFIStr : kTVMFFIBytes;
  object->head = {KDSL_REF_COUNT_ONE, value.type_index, 0, delete_bytes};
  object->bytes = {copy, size};
  value.v_obj = &object->head;
  return value;
}

/// An owned value of a string type: what String and Bytes do alike.
class BytesValue {
 public:
  BytesValue(const BytesValue& other) : value_(other.value_) {
    if (is_bytes_object(value_)) retain(value_.v_obj);
  }
  BytesValue(BytesValue&& other) noexcept : value_(other.give()) {}
  BytesValue& operator=(const BytesValue& other) { return *this = BytesValue(other); }
  BytesValue& operator=(BytesValue&& other) noexcept {
    kdsl::own::swap(value_, other.value_);
    return *this;
  }
  ~BytesValue() {
    if (is_bytes_object(value_)) drop(value_.v_obj);
  }

  const char* data() const { return is_bytes_object(value_) ? bytes().data : value_.v_bytes; }
  size_t size() const { return bytes().size; }
  bool empty() const { return size() == 0; }
  /// To a std::string.
  template <class S, class = kdsl::own::enable_if_t<is_std_string_v<S>>>
  operator S() const {
    return S(data(), size());
  }

  TVMFFIByteArray bytes() const { return bytes_of(value_); }
  /// The value, borrowed; and given away.
  const TVMFFIAny& any() const { return value_; }
  TVMFFIAny give() {
    const TVMFFIAny given = value_;
    value_.type_index = given.type_index == kTVMFFIStr || given.type_index == kTVMFFISmallStr
                            ? kTVMFFISmallStr
                            : kTVMFFISmallBytes;
    value_.small_str_len = 0;
    value_.v_int64 = 0;
    return given;
  }

 protected:
  BytesValue(int32_t small, const char* data, size_t size) : value_(new_bytes(small, data, size)) {}
  TVM_FFI_INLINE explicit BytesValue(const TVMFFIAny& value) noexcept : value_(value) {}
  TVMFFIAny value_;
};

}  // namespace detail

class Bytes : public detail::BytesValue {
 public:
  Bytes() : Bytes("", 0) {}
  Bytes(const char* data, size_t size) : BytesValue(kTVMFFISmallBytes, data, size) {}
  Bytes(TVMFFIByteArray bytes) : Bytes(bytes.data, bytes.size) {}
  template <class S, class = kdsl::own::enable_if_t<detail::is_std_string_v<S>>>
  Bytes(const S& text) : Bytes(text.data(), text.size()) {}
};

class String : public detail::BytesValue {
 public:
  static constexpr size_t npos = static_cast<size_t>(-1);

  String() : BytesValue(TVMFFIAny{kTVMFFISmallStr, {0}, {0}}) {}
  String(std::nullptr_t) = delete;
  String(const char* text) : String(text, __builtin_strlen(text)) {}
  String(const char* data, size_t size) : BytesValue(kTVMFFISmallStr, data, size) {}
  String(TVMFFIByteArray bytes) : String(bytes.data, bytes.size) {}
  /// A String that takes over an owned value.
  TVM_FFI_INLINE static String own(const TVMFFIAny& value) noexcept {
    return String(value, nullptr);
  }
  /// Of a std::string or std::string_view.
  template <class S, class = kdsl::own::enable_if_t<detail::is_text_v<S> &&
                                                    !kdsl::own::is_base_of_v<BytesValue, S>>>
  String(const S& text) : String(text.data(), text.size()) {}

  const char* c_str() const { return data(); }
  size_t length() const { return size(); }
  char at(size_t pos) const;
  void swap(String& other) noexcept { kdsl::own::swap(value_, other.value_); }

  /// Less than, equal to or greater than 0, by bytes.
  int compare(const char* other, size_t count) const;
  int compare(const String& other) const { return compare(other.data(), other.size()); }

  size_t find(const char* text, size_t pos, size_t count) const {
    for (; pos <= size() && count <= size() - pos; ++pos) {
      if (detail::same_bytes(data() + pos, text, count)) return pos;
    }
    return npos;
  }
  size_t find(const String& text, size_t pos = 0) const {
    return find(text.data(), pos, text.size());
  }
  String substr(size_t pos = 0, size_t count = npos) const;
  bool starts_with(const String& prefix) const {
    return prefix.size() <= size() && detail::same_bytes(data(), prefix.data(), prefix.size());
  }
  bool ends_with(const String& suffix) const {
    return suffix.size() <= size() &&
           detail::same_bytes(data() + size() - suffix.size(), suffix.data(), suffix.size());
  }

 private:
  TVM_FFI_INLINE String(const TVMFFIAny& value, void*) noexcept : BytesValue(value) {}
};

namespace detail {

/// What a String may be compared with and joined to, at the side of one.
template <class A, class B>
using IfText = kdsl::own::enable_if_t<
    (kdsl::own::is_same_v<A, String> || kdsl::own::is_same_v<B, String>) &&
    kdsl::own::is_convertible_v<A, String> && kdsl::own::is_convertible_v<B, String> &&
    !kdsl::own::is_same_v<A, std::nullptr_t> && !kdsl::own::is_same_v<B, std::nullptr_t>>;

/// The bytes of what can be compared with a String and joined to one.
TVM_FFI_INLINE TVMFFIByteArray text_in(const char* text) { return {text, __builtin_strlen(text)}; }
TVM_FFI_INLINE TVMFFIByteArray text_in(TVMFFIByteArray text) { return text; }
TVM_FFI_INLINE TVMFFIByteArray text_in(const String& text) { return text.bytes(); }
template <class T, class = kdsl::own::enable_if_t<is_text_v<T>>>
TVMFFIByteArray text_in(const T& text) {
  return {text.data(), text.size()};
}

KDSL_LAZY KDSL_PLAIN String join(TVMFFIByteArray a, TVMFFIByteArray b) {
  Writer text = {};
  text.append(a.data, a.size).append(b.data, b.size);
  const TVMFFIAny joined = new_bytes(kTVMFFISmallStr, text.data(), text.size());
  text.free();
  return String::own(joined);
}
/// Less than, equal to or greater than 0, by bytes.
KDSL_LAZY KDSL_NOINLINE int compare(TVMFFIByteArray a, TVMFFIByteArray b) {
  const size_t shared = a.size < b.size ? a.size : b.size;
  const int order = shared ? __builtin_memcmp(a.data, b.data, shared) : 0;
  return order ? order : a.size < b.size ? -1 : a.size > b.size;
}

}  // namespace detail

inline int String::compare(const char* other, size_t count) const {
  return detail::compare(bytes(), {other, count});
}

template <class A, class B, class = detail::IfText<kdsl::own::decay_t<A>, kdsl::own::decay_t<B>>>
String operator+(const A& a, const B& b) {
  return detail::join(detail::text_in(a), detail::text_in(b));
}
#define KDSL_COMPARE_(op)                                                         \
  template <class A, class B,                                                     \
            class = detail::IfText<kdsl::own::decay_t<A>, kdsl::own::decay_t<B>>> \
  bool operator op(const A& a, const B& b) {                                      \
    return detail::compare(detail::text_in(a), detail::text_in(b)) op 0;          \
  }
KDSL_COMPARE_(==)
KDSL_COMPARE_(!=)
KDSL_COMPARE_(<)
KDSL_COMPARE_(<=)
KDSL_COMPARE_(>)
KDSL_COMPARE_(>=)
#undef KDSL_COMPARE_

inline bool operator==(const Bytes& a, const Bytes& b) {
  return a.size() == b.size() && detail::same_bytes(a.data(), b.data(), a.size());
}
inline bool operator!=(const Bytes& a, const Bytes& b) { return !(a == b); }

template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                             const String& text) {
  return out.write(text.data(), static_cast<long>(text.size()));
}

}  // namespace tvm::ffi

template <>
struct std::hash<tvm::ffi::String> {
  size_t operator()(const tvm::ffi::String& text) const {
    size_t state = 14695981039346656037u;
    for (size_t i = 0; i < text.size(); ++i) {
      state = (state ^ static_cast<unsigned char>(text.data()[i])) * 1099511628211u;
    }
    return state;
  }
};
#pragma GCC visibility pop
