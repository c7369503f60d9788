// kdsl/ffi/text.h: a message put together piece by piece; only ever used on the way to an error.
#pragma once

#include <kdsl/ffi/c_abi.h>
#include <kdsl/ffi/libc.h>

namespace kdsl {

/// Text of bounded length; what does not fit is cut off and marked with "...".
class Text {
 public:
  KDSL_COLD Text& operator<<(const char* piece) {
    while (*piece && size_ < kCapacity) data_[size_++] = *piece++;
    data_[size_] = 0;
    if (*piece) {
      for (int i = 1; i <= 3; ++i) data_[size_ - i] = '.';
    }
    return *this;
  }

  KDSL_COLD Text& operator<<(long value) {
    char digits[24];
    kdsl_snprintf(digits, sizeof(digits), "%ld", value);
    return *this << digits;
  }
  Text& operator<<(int value) { return *this << static_cast<long>(value); }
  KDSL_COLD Text& operator<<(unsigned long value) {
    char digits[24];
    kdsl_snprintf(digits, sizeof(digits), "%lu", value);
    return *this << digits;
  }
  Text& operator<<(unsigned value) { return *this << static_cast<unsigned long>(value); }
  Text& operator<<(bool value) { return *this << (value ? "True" : "False"); }

  /// The shortest decimal that reads back as the same number, as Python writes it.
  Text& operator<<(double value) {
    return decimal(value, [](double wide, double read) { return wide == read; });
  }
  Text& operator<<(float value) {
    return decimal(value, [](double wide, double read) {
      return static_cast<float>(wide) == static_cast<float>(read);
    });
  }

  const char* c_str() const { return data_; }

 private:
  KDSL_COLD Text& decimal(double value, bool (*same)(double, double)) {
    if (value != value) return *this << "nan";
    char digits[48];
    int places = 0;
    for (; places < 17; ++places) {
      kdsl_snprintf(digits, sizeof(digits), "%.*e", places, value);
      if (same(value, kdsl_strtod(digits, nullptr))) break;
    }
    const char* mark = digits;
    while (*mark && *mark != 'e') ++mark;
    if (!*mark) return *this << digits;  // inf
    const int exponent = static_cast<int>(kdsl_strtod(mark + 1, nullptr));
    if (exponent >= -4 && exponent < 16) {
      const int decimals = places - exponent > 1 ? places - exponent : 1;
      kdsl_snprintf(digits, sizeof(digits), "%.*f", decimals, kdsl_strtod(digits, nullptr));
    }
    return *this << digits;
  }

  static constexpr int kCapacity = 4000;
  int size_ = 0;
  char data_[kCapacity + 1] = {};
};

/// Name of a dtype as kdsl writes it ("bf16"); bits and code where kdsl has no name for it.
KDSL_COLD inline Text& operator<<(Text& text, DLDataType dtype) {
  struct Name {
    uint8_t code, bits;
    const char* text;
  };
  static constexpr Name kNames[] = {
      {kDLBool, 8, "bool"},
      {kDLBfloat, 16, "bf16"},
      {kDLFloat8_e4m3fn, 8, "f8e4m3"},
      {kDLFloat8_e5m2, 8, "f8e5m2"},
  };
  const char* prefix = dtype.code == kDLInt       ? "i"
                       : dtype.code == kDLUInt    ? "u"
                       : dtype.code == kDLFloat   ? "f"
                       : dtype.code == kDLComplex ? "complex"
                                                  : nullptr;
  if (prefix) {
    text << prefix << static_cast<int>(dtype.bits);
  } else {
    const char* known = nullptr;
    for (const Name& name : kNames) {
      if (name.code == dtype.code && name.bits == dtype.bits) known = name.text;
    }
    if (known) {
      text << known;
    } else {
      text << "dtype(" << static_cast<int>(dtype.code) << ", " << static_cast<int>(dtype.bits)
           << ")";
    }
  }
  if (dtype.lanes != 1) text << "x" << static_cast<int>(dtype.lanes);
  return text;
}

/// " on cuda:0"; nothing for the CPU.
KDSL_COLD inline Text& operator<<(Text& text, DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
      return text;
    case kDLCUDA:
      text << " on cuda:";
      break;
    case kDLROCM:
      text << " on rocm:";
      break;
    case kDLMetal:
      text << " on mps:";
      break;
    default:
      text << " on device type " << static_cast<int>(device.device_type) << ":";
      break;
  }
  return text << static_cast<int>(device.device_id);
}

/// "f32[2, 8]", " on cuda:0" after it for a tensor on a GPU.
KDSL_COLD inline Text& operator<<(Text& text, const DLTensor& tensor) {
  if (tensor.ndim && !tensor.shape) return text << tensor.dtype << " without a shape";
  text << tensor.dtype << "[";
  for (int i = 0; i < tensor.ndim; ++i) {
    text << (i ? ", " : "") << static_cast<long>(tensor.shape[i]);
  }
  return text << (tensor.ndim ? "]" : "()]") << tensor.device;
}

/// What a caller passed: "f32[2, 8]", "None", "int 3", "str".
KDSL_COLD inline Text& operator<<(Text& text, const TVMFFIAny& value) {
  switch (value.type_index) {
    case kTVMFFINone:
      return text << "None";
    case kTVMFFIInt:
      return text << "int " << static_cast<long>(value.v_int64);
    case kTVMFFIBool:
      return text << "bool " << (value.v_int64 != 0);
    case kTVMFFIFloat:
      return text << "float " << value.v_float64;
    case kTVMFFIOpaquePtr:
      return text << "a pointer";
    case kTVMFFIDataType:
      return text << "dtype " << value.v_dtype;
    case kTVMFFIDevice:
      return text << "a device";
    case kTVMFFIRawStr:
    case kTVMFFISmallStr:
    case kTVMFFIStr:
      return text << "str";
    case kTVMFFIByteArrayPtr:
    case kTVMFFISmallBytes:
    case kTVMFFIBytes:
      return text << "bytes";
    case kTVMFFIDLTensorPtr:
      if (!value.v_ptr) return text << "a null tensor pointer";
      return text << *static_cast<const DLTensor*>(value.v_ptr);
    case kTVMFFITensor:
      return text << reinterpret_cast<KdslTensorObject*>(value.v_obj)->tensor;
    case kTVMFFIFunction:
      return text << "a function";
    case kTVMFFIShape:
      return text << "a shape";
    case kTVMFFIArray:
      return text << "an array";
    case kTVMFFIList:
      return text << "a list";
    case kTVMFFIMap:
    case kTVMFFIDict:
      return text << "a map";
    case kTVMFFIModule:
      return text << "a module";
    default:
      return text << "an object";
  }
}

}  // namespace kdsl
