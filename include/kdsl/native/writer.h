// kdsl/native/writer.h: text put together with <<, as std::ostream writes it, without <ostream>.
#pragma once

#include <kdsl/native/base.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi::detail {

/// A type with data() and size() over chars: std::string, std::string_view, String.
template <class T, class = void>
inline constexpr bool is_text_v = false;
template <class T>
inline constexpr bool
    is_text_v<T, kdsl::own::void_t<decltype(kdsl::own::declval<const T&>().size()),
                                   decltype(kdsl::own::declval<const T&>().data())>> =
        kdsl::own::is_same_v<decltype(kdsl::own::declval<const T&>().data()), const char*>;

/// Text that grows; without memory it stops growing. It has no destructor, so that code on the way
/// to an error needs no clean-up: whoever takes the text frees it.
class Writer {
 public:
  TVM_FFI_INLINE Writer() noexcept {}
  TVM_FFI_INLINE TVMFFIByteArray bytes() const { return {data_ ? data_ : "", size_}; }
  TVM_FFI_INLINE const char* data() const { return bytes().data; }
  TVM_FFI_INLINE size_t size() const { return size_; }
  TVM_FFI_INLINE void free() { kdsl_free(data_); }

  KDSL_COLD Writer& append(const char* text, size_t size) noexcept {
    if (size_ + size >= capacity_) {
      const size_t capacity = 2 * (size_ + size) + 64;
      auto* grown = static_cast<char*>(kdsl_realloc(data_, capacity));
      if (!grown) return *this;
      data_ = grown;
      capacity_ = capacity;
    }
    kdsl_memcpy(data_ + size_, text, size);
    size_ += size;
    data_[size_] = 0;
    return *this;
  }
  // What these headers write, they write by name: a compiler chooses among all `<<` at each.
  KDSL_COLD Writer& put(const char* text) noexcept {
    if (!text) text = "(null)";
    return append(text, __builtin_strlen(text));
  }
  KDSL_COLD Writer& put_int(long long value) noexcept {
    char digits[24];
    kdsl_snprintf(digits, sizeof(digits), "%lld", value);
    return put(digits);
  }
  TVM_FFI_INLINE Writer& self() noexcept { return *this; }

  TVM_FFI_INLINE Writer& operator<<(const char* text) noexcept { return put(text); }
  TVM_FFI_INLINE Writer& operator<<(long long value) noexcept { return put_int(value); }
  KDSL_COLD Writer& operator<<(unsigned long long value) noexcept {
    char digits[24];
    kdsl_snprintf(digits, sizeof(digits), "%llu", value);
    return put(digits);
  }
  KDSL_COLD Writer& operator<<(double value) noexcept {
    char digits[32];
    kdsl_snprintf(digits, sizeof(digits), "%g", value);
    return put(digits);
  }
  KDSL_COLD Writer& operator<<(const void* pointer) noexcept {
    char digits[24];
    kdsl_snprintf(digits, sizeof(digits), pointer ? "%p" : "0", pointer);
    return put(digits);
  }
  KDSL_COLD Writer& operator<<(char value) noexcept { return append(&value, 1); }
  Writer& operator<<(signed char value) noexcept { return *this << static_cast<char>(value); }
  Writer& operator<<(unsigned char value) noexcept { return *this << static_cast<char>(value); }
  TVM_FFI_INLINE Writer& operator<<(bool value) noexcept { return put(value ? "1" : "0"); }
  TVM_FFI_INLINE Writer& operator<<(int value) noexcept { return put_int(value); }
  TVM_FFI_INLINE Writer& operator<<(long value) noexcept { return put_int(value); }
  TVM_FFI_INLINE Writer& operator<<(unsigned value) noexcept { return put_int(value); }
  Writer& operator<<(unsigned long value) noexcept {
    return *this << static_cast<unsigned long long>(value);
  }
  Writer& operator<<(std::nullptr_t) noexcept { return put("nullptr"); }
  Writer& operator<<(DLDataType dtype) noexcept;

 private:
  char* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

/// Puts off the look-up of a name until T is known.
template <class T, class Name>
struct Later {
  using type = Name;
};
template <class T>
inline constexpr bool is_written_v =
    kdsl::own::is_arithmetic_v<T> || kdsl::own::is_array_v<T> || kdsl::own::is_pointer_v<T> ||
    kdsl::own::is_same_v<T, std::nullptr_t> || kdsl::own::is_same_v<T, DLDataType>;

/// Text, enums and what has `<<` for std::ostream, for which its file includes <sstream>.
template <class T, class = kdsl::own::enable_if_t<!is_written_v<T>>>
Writer& operator<<(Writer& out, const T& value) {
  if constexpr (is_text_v<T>) {
    return out.append(value.data(), value.size());
  } else if constexpr (kdsl::own::is_enum_v<T>) {
    return out << static_cast<long long>(value);
  } else {
    typename Later<T, std::basic_ostringstream<char, std::char_traits<char>,
                                               std::allocator<char>>>::type stream;
    stream << value;
    return out << stream.str();
  }
}

/// "float32", "bool", "int8x4": how TVM FFI writes a dtype. A code that nobody knows is "custom".
KDSL_COLD inline Writer& Writer::operator<<(DLDataType dtype) noexcept {
  static constexpr const char* kNames[] = {"int",
                                           "uint",
                                           "float",
                                           "handle",
                                           "bfloat",
                                           "complex",
                                           "bool",
                                           "float8_e3m4",
                                           "float8_e4m3",
                                           "float8_e4m3b11fnuz",
                                           "float8_e4m3fn",
                                           "float8_e4m3fnuz",
                                           "float8_e5m2",
                                           "float8_e5m2fnuz",
                                           "float8_e8m0fnu",
                                           "float6_e2m3fn",
                                           "float6_e3m2fn",
                                           "float4_e2m1fn"};
  if (dtype.code == kDLOpaqueHandle && dtype.bits == 0 && dtype.lanes == 0) return put("void");
  if (dtype.code >= sizeof(kNames) / sizeof(*kNames)) {
    return put("custom[").put_int(dtype.code).put("]").put_int(dtype.bits);
  }
  put(kNames[dtype.code]);
  // The names of the short floats tell their bits; a bool has 8 and a handle those of a pointer.
  const bool whole = (dtype.code == kDLBool && dtype.bits == 8) || dtype.code == kDLOpaqueHandle;
  if (dtype.code < kDLFloat8_e3m4 && !whole) put_int(dtype.bits);
  const int lanes = static_cast<int16_t>(dtype.lanes);
  if (lanes > 1) put("x").put_int(lanes);
  if (lanes < -1) put("xvscalex").put_int(-lanes);
  return *this;
}

}  // namespace tvm::ffi::detail
#pragma GCC visibility pop
