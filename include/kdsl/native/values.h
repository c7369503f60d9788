// kdsl/native/values.h: dtypes and devices as values, and their texts: "float32", "cuda:1".
#pragma once

#include <kdsl/native/tensor.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

namespace detail {

/// Reads a text from the left.
class Reader {
 public:
  explicit Reader(TVMFFIByteArray text) : at_(text.data), end_(text.data + text.size) {}
  bool done() const { return at_ == end_; }
  bool word(const char* word) {
    const size_t size = __builtin_strlen(word);
    if (static_cast<size_t>(end_ - at_) < size || !same_bytes(at_, word, size)) return false;
    at_ += size;
    return true;
  }
  /// A number without sign that fits an int; else false.
  bool number(int* value) {
    const char* start = at_;
    long total = 0;
    for (; at_ != end_ && *at_ >= '0' && *at_ <= '9'; ++at_) {
      total = total * 10 + (*at_ - '0');
      if (total > 0x7fffffff) return false;
    }
    if (at_ == start) return false;
    *value = static_cast<int>(total);
    return true;
  }

 private:
  const char* at_;
  const char* end_;
};

KDSL_COLD inline bool parse_dtype(TVMFFIByteArray text, DLDataType* dtype) {
  struct Name {
    const char* text;
    uint8_t code;
    // Where the name does not go on with a number.
    uint8_t bits;
  };
  // A name that starts another one stands behind it.
  static constexpr Name kNames[] = {
      {"float8_e4m3b11fnuz", kDLFloat8_e4m3b11fnuz, 8},
      {"float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8},
      {"float8_e4m3fn", kDLFloat8_e4m3fn, 8},
      {"float8_e4m3", kDLFloat8_e4m3, 8},
      {"float8_e3m4", kDLFloat8_e3m4, 8},
      {"float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8},
      {"float8_e5m2", kDLFloat8_e5m2, 8},
      {"float8_e8m0fnu", kDLFloat8_e8m0fnu, 8},
      {"float6_e2m3fn", kDLFloat6_e2m3fn, 6},
      {"float6_e3m2fn", kDLFloat6_e3m2fn, 6},
      {"float4_e2m1fn", kDLFloat4_e2m1fn, 4},
      {"bfloat", kDLBfloat, 16},
      {"float", kDLFloat, 32},
      {"uint", kDLUInt, 32},
      {"int", kDLInt, 32},
      {"handle", kDLOpaqueHandle, 64},
      {"bool", kDLBool, 8},
      {"complex", kDLComplex, 64},
  };
  Reader reader(text);
  *dtype = {kDLOpaqueHandle, 0, 0};
  if (text.size == 0) return true;
  if (reader.word("void")) return reader.done();
  for (const Name& name : kNames) {
    if (!reader.word(name.text)) continue;
    int bits = name.bits, lanes = 1;
    const bool counted = name.code < kDLFloat8_e3m4;
    if (counted && reader.number(&bits) && (bits < 1 || bits > 255)) return false;
    if (reader.word("x") && (!reader.number(&lanes) || lanes < 1 || lanes > 65535)) return false;
    *dtype = {name.code, static_cast<uint8_t>(bits), static_cast<uint16_t>(lanes)};
    return reader.done();
  }
  return false;
}

KDSL_COLD inline bool parse_device(TVMFFIByteArray text, DLDevice* device) {
  struct Name {
    const char* text;
    DLDeviceType type;
  };
  static constexpr Name kNames[] = {
      {"cpu", kDLCPU},        {"cuda", kDLCUDA},       {"opencl", kDLOpenCL}, {"vulkan", kDLVulkan},
      {"metal", kDLMetal},    {"mps", kDLMetal},       {"vpi", kDLVPI},       {"rocm", kDLROCM},
      {"ext_dev", kDLExtDev}, {"hexagon", kDLHexagon}, {"webgpu", kDLWebGPU}, {"wgpu", kDLWebGPU},
      {"maia", kDLMAIA},      {"trn", kDLTrn},
  };
  for (const Name& name : kNames) {
    Reader reader(text);
    if (!reader.word(name.text)) continue;
    int index = 0;
    if (reader.word(":") && !reader.number(&index)) return false;
    if (!reader.done()) continue;
    *device = {name.type, index};
    return true;
  }
  return false;
}

}  // namespace detail

inline String DLDataTypeToString(DLDataType dtype) {
  detail::Writer text = {};
  text << dtype;
  return detail::take(text);
}
namespace detail {
KDSL_COLD inline DLDataType dtype_named(TVMFFIByteArray text) {
  DLDataType dtype;
  if (parse_dtype(text, &dtype)) return dtype;
  Writer message = {};
  message.put("unknown dtype `").append(text.data, text.size);
  fail("ValueError", message.put("`"));
}
}  // namespace detail
inline DLDataType StringToDLDataType(const String& text) {
  return detail::dtype_named(text.bytes());
}

template <>
struct TypeTraits<DLDataType> : TypeTraitsBase {
  static constexpr detail::TypeText text = {"DataType", "DataType"};
  static TVMFFIAny view(DLDataType dtype) {
    TVMFFIAny any = detail::raw(kTVMFFIDataType);
    any.v_dtype = dtype;
    return any;
  }
  static TVMFFIAny give(DLDataType dtype) { return view(dtype); }
  static bool is(const TVMFFIAny& value) { return value.type_index == kTVMFFIDataType; }
  static bool fits(const TVMFFIAny& value) { return is(value) || TypeTraits<String>::fits(value); }
  static DLDataType get(const TVMFFIAny& value) {
    return is(value) ? value.v_dtype : detail::dtype_named(detail::bytes_of(value));
  }
};

template <>
struct TypeTraits<DLDevice> : TypeTraitsBase {
  static constexpr detail::TypeText text = {"Device", "Device"};
  static TVMFFIAny view(DLDevice device) {
    TVMFFIAny any = detail::raw(kTVMFFIDevice);
    any.v_device = device;
    return any;
  }
  static TVMFFIAny give(DLDevice device) { return view(device); }
  static bool is(const TVMFFIAny& value) { return value.type_index == kTVMFFIDevice; }
  static bool fits(const TVMFFIAny& value) {
    DLDevice device;
    return is(value) || (TypeTraits<String>::fits(value) &&
                         detail::parse_device(detail::bytes_of(value), &device));
  }
  static DLDevice get(const TVMFFIAny& value) {
    DLDevice device = value.v_device;
    if (!is(value)) detail::parse_device(detail::bytes_of(value), &device);
    return device;
  }
};

}  // namespace tvm::ffi

template <class Traits>
std::basic_ostream<char, Traits>& operator<<(std::basic_ostream<char, Traits>& out,
                                             DLDataType dtype) {
  return out << tvm::ffi::DLDataTypeToString(dtype);
}
#pragma GCC visibility pop
