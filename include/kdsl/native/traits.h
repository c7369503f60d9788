// kdsl/native/traits.h: TypeTraits: how a C++ type goes into a TVMFFIAny and, checked, out of one.
//
// Of a type T, all static, the first two constants:
//   text         what messages and metadata call T
//   storage_enabled   whether an Any can keep a T, and is() and get() read it back
//   view(const T&), give(T)   the value that borrows, or owns, it
//   is(value)    whether the value is a T as it is; fits(value): whether it converts to one
//   get(value)   the T of a value that is() or fits()
//   came(out, value)   what messages say was given instead of a T; null: the value's own type
// Nothing here builds texts or optional values unless asked: it is compiled with every kernel.
#pragma once

#include <kdsl/native/error.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

class Any;
class AnyView;
template <class T>
class Optional;

namespace detail {

/// Name of a type, as data: `name` in messages, `schema` in metadata, the types it is made of.
struct TypeText {
  enum Form : char { kPlain, kFunction };
  const char* name;
  const char* schema;
  const TypeText* const* args = nullptr;
  int count = 0;
  Form form = kPlain;
};

}  // namespace detail

template <class T, class = void>
struct TypeTraits {
  static constexpr bool convert_enabled = false;
  static constexpr bool storage_enabled = false;
};
template <class T>
using TypeTraitsNoCR = TypeTraits<kdsl::own::bare_t<T>>;
/// False for handles that have traits of their own.
template <class T>
inline constexpr bool use_default_type_traits_v = true;

namespace detail {

template <class T>
using Bare = kdsl::own::bare_t<T>;
template <class T>
inline constexpr bool is_any_v = kdsl::own::is_same_v<T, Any> || kdsl::own::is_same_v<T, AnyView>;
template <class T>
inline constexpr bool is_enabled_v = TypeTraits<T>::convert_enabled;

inline constexpr TypeText kVoidText = {"void", "None"};
inline constexpr TypeText kAnyText = {"Any", "Any"};
inline constexpr TypeText kAnyViewText = {"AnyView", "Any"};
template <class T>
inline constexpr const TypeText* text_of = &TypeTraits<T>::text;
template <>
inline constexpr const TypeText* text_of<void> = &kVoidText;
template <>
inline constexpr const TypeText* text_of<Any> = &kAnyText;
template <>
inline constexpr const TypeText* text_of<AnyView> = &kAnyViewText;
template <class... T>
inline constexpr const TypeText* text_list[] = {text_of<Bare<T>>..., nullptr};

/// "Array<int>", "(0: int) -> str"
KDSL_COLD inline void write_name(Writer& out, const TypeText& type) {
  const bool function = type.form == TypeText::kFunction;
  out.put(type.name);
  if (!type.args) return;
  // Of a function the result comes first.
  out.put(function ? "(" : "<");
  for (int i = function; i < type.count; ++i) {
    if (i > function) out.put(", ");
    if (function) out.put_int(i - 1).put(": ");
    write_name(out, *type.args[i]);
  }
  out.put(function ? ") -> " : ">");
  if (function) write_name(out, *type.args[0]);
}
/// {"type":"ffi.Array","args":[{"type":"int"}]}
KDSL_COLD inline void write_schema(Writer& out, const TypeText& type) {
  out.put("{\"type\":\"").put(type.schema).put("\"");
  if (type.args) {
    out.put(",\"args\":[");
    for (int i = 0; i < type.count; ++i) {
      if (i) out.put(",");
      write_schema(out, *type.args[i]);
    }
    out.put("]");
  }
  out.put("}");
}

/// What messages call the type of a value.
KDSL_COLD inline void write_type(Writer& out, int32_t index) {
  static constexpr const char* kPlain[] = {"None",
                                           "int",
                                           "bool",
                                           "float",
                                           "void*",
                                           "DataType",
                                           "Device",
                                           "DLTensor*",
                                           "const char*",
                                           "TVMFFIByteArray*",
                                           "ObjectRValueRef",
                                           "ffi.SmallStr",
                                           "ffi.SmallBytes",
                                           "ffi.Unchanged"};
  static constexpr const char* kObjects[] = {"ffi.Object", "ffi.String",         "ffi.Bytes",
                                             "ffi.Error",  "ffi.Function",       "ffi.Shape",
                                             "ffi.Tensor", "ffi.Array",          "ffi.Map",
                                             "ffi.Module", "ffi.OpaquePyObject", "ffi.List",
                                             "ffi.Dict",   "ffi.VisitInterrupt", "ffi.BigInt"};
  const uint32_t plain = index, object = index - kTVMFFIStaticObjectBegin;
  if (plain < sizeof(kPlain) / sizeof(*kPlain)) {
    out.put(kPlain[plain]);
  } else if (object < sizeof(kObjects) / sizeof(*kObjects)) {
    out.put(kObjects[object]);
  } else {
    // The type key comes third in what a runtime knows of a type, behind two int32.
    struct TypeInfo {
      int32_t type_index, type_depth;
      TVMFFIByteArray type_key;
    };
    void* found = in_table("TVMFFIGetTypeInfo");
    if (!found) found = kdsl::address_in_tvm_ffi("TVMFFIGetTypeInfo");
    auto* info_of = reinterpret_cast<const TypeInfo* (*)(int32_t)>(found);
    const TypeInfo* info = info_of ? info_of(index) : nullptr;
    info ? out.append(info->type_key.data, info->type_key.size) : out.put("an object");
  }
}
using Came = void(Writer&, const TVMFFIAny&);
/// The same, where `came` knows it better.
KDSL_COLD inline void write_came(Writer& out, const TVMFFIAny& value, Came* came) {
  came ? came(out, value) : write_type(out, value.type_index);
}
KDSL_COLD inline String type_key(int32_t index) {
  Writer text = {};
  write_type(text, index);
  return take(text);
}

TVM_FFI_INLINE TVMFFIAny raw(int32_t index, int64_t value = 0) {
  TVMFFIAny any = {index, {0}, {0}};
  any.v_int64 = value;
  return any;
}
TVM_FFI_INLINE TVMFFIAny raw(int32_t index, const void* pointer) {
  return raw(index, reinterpret_cast<intptr_t>(pointer));
}

}  // namespace detail

struct TypeTraitsBase {
  static constexpr bool convert_enabled = true;
  static constexpr bool storage_enabled = true;
  static constexpr detail::Came* came = nullptr;
};

// ---- numbers

namespace detail {

inline bool is_integer(const TVMFFIAny& value) {
  return value.type_index == kTVMFFIInt || value.type_index == kTVMFFIBool;
}

[[noreturn]] KDSL_COLD inline void out_of_range(int64_t value, size_t size, bool is_signed) {
  Writer text = {};
  text.put("Expected an integer of ").put_int(static_cast<int>(8 * size)).put(" bits");
  fail("ValueError", text.put(is_signed ? "" : " without sign").put(" but got ").put_int(value));
}

[[noreturn]] KDSL_COLD inline void too_large(uint64_t value) {
  Writer text = {};
  text.put("Integer value ") << value;
  fail("ValueError", text.put(" is too large to fit in int64_t."));
}

}  // namespace detail

template <class T>
struct TypeTraits<T, kdsl::own::enable_if_t<kdsl::own::is_integral_v<T> || kdsl::own::is_enum_v<T>>>
    : TypeTraitsBase {
  static constexpr detail::TypeText text = {"int", "int"};
  static TVMFFIAny view(T value) {
    const auto wide = static_cast<int64_t>(value);
    if constexpr (sizeof(T) == 8 && T(-1) > T(0)) {
      if (TVM_FFI_PREDICT_FALSE(wide < 0)) detail::too_large(static_cast<uint64_t>(value));
    }
    return detail::raw(kTVMFFIInt, wide);
  }
  static TVMFFIAny give(T value) { return view(value); }
  static bool is(const TVMFFIAny& value) { return value.type_index == kTVMFFIInt; }
  static bool fits(const TVMFFIAny& value) { return detail::is_integer(value); }
  static T get(const TVMFFIAny& value) {
    const T narrow = static_cast<T>(value.v_int64);
    // 64 bits without sign are the pattern of an int64, as everywhere in TVM FFI.
    if (sizeof(T) < 8 && TVM_FFI_PREDICT_FALSE(static_cast<int64_t>(narrow) != value.v_int64)) {
      detail::out_of_range(value.v_int64, sizeof(T), T(-1) < T(0));
    }
    return narrow;
  }
};
template <class T>
struct TypeTraits<T, kdsl::own::enable_if_t<kdsl::own::is_floating_point_v<T>>> : TypeTraitsBase {
  static constexpr detail::TypeText text = {"float", "float"};
  static TVMFFIAny view(T value) {
    TVMFFIAny any = detail::raw(kTVMFFIFloat);
    any.v_float64 = static_cast<double>(value);
    return any;
  }
  static TVMFFIAny give(T value) { return view(value); }
  static bool is(const TVMFFIAny& value) { return value.type_index == kTVMFFIFloat; }
  static bool fits(const TVMFFIAny& value) { return is(value) || detail::is_integer(value); }
  static T get(const TVMFFIAny& value) {
    return static_cast<T>(is(value) ? value.v_float64 : static_cast<double>(value.v_int64));
  }
};

/// A bool that no int converts to.
class StrictBool {
 public:
  StrictBool(bool value) : value_(value) {}
  operator bool() const { return value_; }

 private:
  bool value_;
};
template <>
struct TypeTraits<StrictBool> : TypeTraitsBase {
  static constexpr detail::TypeText text = {"bool", "bool"};
  static TVMFFIAny view(bool value) { return detail::raw(kTVMFFIBool, value); }
  static TVMFFIAny give(bool value) { return view(value); }
  static bool is(const TVMFFIAny& value) { return value.type_index == kTVMFFIBool; }
  static bool fits(const TVMFFIAny& value) { return is(value); }
  static bool get(const TVMFFIAny& value) { return value.v_int64 != 0; }
};
template <>
struct TypeTraits<bool> : TypeTraits<StrictBool> {
  static bool fits(const TVMFFIAny& value) { return detail::is_integer(value); }
};

template <>
struct TypeTraits<std::nullptr_t> : TypeTraitsBase {
  static constexpr detail::TypeText text = {"None", "None"};
  static TVMFFIAny view(std::nullptr_t) { return detail::raw(kTVMFFINone); }
  static TVMFFIAny give(std::nullptr_t) { return detail::raw(kTVMFFINone); }
  static bool is(const TVMFFIAny& value) { return value.type_index == kTVMFFINone; }
  static bool fits(const TVMFFIAny& value) { return is(value); }
  static std::nullptr_t get(const TVMFFIAny&) { return nullptr; }
};
template <>
struct TypeTraits<void*> : TypeTraitsBase {
  static constexpr detail::TypeText text = {"void*", "void*"};
  static TVMFFIAny view(void* value) { return detail::raw(kTVMFFIOpaquePtr, value); }
  static TVMFFIAny give(void* value) { return view(value); }
  static bool is(const TVMFFIAny& value) { return value.type_index == kTVMFFIOpaquePtr; }
  static bool fits(const TVMFFIAny& value) { return is(value) || value.type_index == kTVMFFINone; }
  static void* get(const TVMFFIAny& value) { return is(value) ? value.v_ptr : nullptr; }
};

// ---- strings

namespace detail {

inline bool is_string(const TVMFFIAny& value) {
  return value.type_index == kTVMFFISmallStr || value.type_index == kTVMFFIStr;
}
inline bool is_bytes(const TVMFFIAny& value) {
  return value.type_index == kTVMFFISmallBytes || value.type_index == kTVMFFIBytes;
}

}  // namespace detail

template <>
struct TypeTraits<String> : TypeTraitsBase {
  static constexpr detail::TypeText text = {"str", "ffi.String"};
  static TVMFFIAny view(const String& value) { return value.any(); }
  static TVMFFIAny give(String value) { return value.give(); }
  static bool is(const TVMFFIAny& value) { return detail::is_string(value); }
  static bool fits(const TVMFFIAny& value) {
    return is(value) || value.type_index == kTVMFFIRawStr;
  }
  static String get(const TVMFFIAny& value) { return detail::bytes_of(value); }
};
template <>
struct TypeTraits<Bytes> : TypeTraitsBase {
  static constexpr detail::TypeText text = {"bytes", "ffi.Bytes"};
  static TVMFFIAny view(const Bytes& value) { return value.any(); }
  static TVMFFIAny give(Bytes value) { return value.give(); }
  static bool is(const TVMFFIAny& value) { return detail::is_bytes(value); }
  static bool fits(const TVMFFIAny& value) {
    return is(value) || value.type_index == kTVMFFIByteArrayPtr;
  }
  static Bytes get(const TVMFFIAny& value) { return detail::bytes_of(value); }
};

/// Text that the caller keeps: a result of such a type is copied.
template <>
struct TypeTraits<const char*> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static constexpr detail::TypeText text = {"const char*", "const char*"};
  static TVMFFIAny view(const char* value) { return detail::raw(kTVMFFIRawStr, value); }
  static TVMFFIAny give(const char* value) { return String(value).give(); }
  static bool fits(const TVMFFIAny& value) { return value.type_index == kTVMFFIRawStr; }
  static const char* get(const TVMFFIAny& value) { return value.v_c_str; }
};
template <size_t N>
struct TypeTraits<char[N]> : TypeTraits<const char*> {};
template <>
struct TypeTraits<TVMFFIByteArray*> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static constexpr detail::TypeText text = {"TVMFFIByteArray*", "TVMFFIByteArray*"};
  static TVMFFIAny view(TVMFFIByteArray* value) { return detail::raw(kTVMFFIByteArrayPtr, value); }
  static TVMFFIAny give(TVMFFIByteArray* value) { return Bytes(*value).give(); }
  static bool fits(const TVMFFIAny& value) { return value.type_index == kTVMFFIByteArrayPtr; }
  static TVMFFIByteArray* get(const TVMFFIAny& value) {
    return static_cast<TVMFFIByteArray*>(value.v_ptr);
  }
};
/// std::string: its file includes <string>.
template <class S>
struct TypeTraits<S, kdsl::own::enable_if_t<detail::is_std_string_v<S>>> : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static constexpr detail::TypeText text = {"std::string", "std::string"};
  // Seen only up to a NUL; the text lives as long as `value`.
  static TVMFFIAny view(const S& value) { return detail::raw(kTVMFFIRawStr, value.c_str()); }
  static TVMFFIAny give(const S& value) { return String(value).give(); }
  static bool fits(const TVMFFIAny& value) {
    return TypeTraits<String>::fits(value) || TypeTraits<Bytes>::fits(value);
  }
  static S get(const TVMFFIAny& value) {
    const TVMFFIByteArray bytes = detail::bytes_of(value);
    return S(bytes.data, bytes.size);
  }
};

}  // namespace tvm::ffi
#pragma GCC visibility pop
