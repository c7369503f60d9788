// kdsl/ffi/args.h: read the arguments of a packed call; every failure names signature and argument.
//
// Texts: "<signature>: argument 1 `k`: expected f32[B=1, G, N, D=128], got f64[1, 8, 1024, 128]".
// Sizes that earlier arguments have bound show as NAME=value. The first failure wins; what is read
// after it is a zero value, so that code need ask `ok()` only once.
#pragma once

#include <kdsl/ffi/dims.h>
#include <kdsl/ffi/error.h>
#include <kdsl/ffi/text.h>

namespace kdsl {

/// A value and its name, for the text of an error.
template <class T>
struct Named {
  const char* name;
  T value;
};
template <class T>
constexpr Named<T> named(const char* name, T value) {
  return {name, value};
}

/// The tensor that an argument is; null where it is something else.
KDSL_INLINE const DLTensor* tensor_of(const TVMFFIAny& arg) {
  switch (arg.type_index) {
    case kTVMFFIDLTensorPtr:
      return static_cast<const DLTensor*>(arg.v_ptr);
    case kTVMFFITensor:
      return &reinterpret_cast<const KdslTensorObject*>(arg.v_obj)->tensor;
    case kTVMFFIObjectRValueRef: {
      const auto* object = *static_cast<TVMFFIObject**>(arg.v_ptr);
      if (!object || object->type_index != kTVMFFITensor) return nullptr;
      return &reinterpret_cast<const KdslTensorObject*>(object)->tensor;
    }
    default:
      return nullptr;
  }
}

class ArgReader {
 public:
  /// `args` are `count` values; a function takes at least `least` and at most `most`. `has_cuda`:
  /// its tensors may lie on a GPU.
  ArgReader(const char* signature, const TVMFFIAny* args, int count, int least, int most,
            bool has_cuda = false)
      : signature_(signature), args_(args), count_(count), has_cuda_(has_cuda) {
    if (count < least || count > most) wrong_count(least, most);
  }

  bool ok() const { return ok_; }

  /// Where the call's tensors are; host memory of any kind is the CPU's.
  DLDevice device() const { return device_; }
  bool on_cuda() const { return device_.device_type == kDLCUDA; }
  /// Whether its tensors are on a GPU, for which there is no code.
  bool lacks_cuda() const { return lacks_cuda_; }

  /// Argument `index`; None where the caller dropped it.
  const TVMFFIAny& operator[](int index) const {
    static constexpr TVMFFIAny kNone = {kTVMFFINone, {0}, {0}};
    return index < count_ ? args_[index] : kNone;
  }

  /// A number or bool. `type` is its name in the signature.
  template <class T>
  KDSL_NOINLINE T scalar(int index, const char* name, const char* type) {
    T value = {};
    if (ok_) read((*this)[index], index, name, type, value);
    return value;
  }
  /// The same; None and a dropped argument mean `otherwise`.
  template <class T>
  KDSL_NOINLINE T scalar(int index, const char* name, const char* type, T otherwise) {
    if ((*this)[index].type_index == kTVMFFINone) return otherwise;
    return scalar<T>(index, name, type);
  }

  /// An integer argument is also the size of a dim.
  KDSL_NOINLINE void bind(Dim& dim, int index, i64 value) {
    if (!ok_) return;
    if (value < 0 || (dim.is_bound() && dim.value != value)) {
      Text text;
      argument(text, index, dim.text) << "expected ";
      if (value < 0) {
        text << "a size";
      } else {
        text << dim.text << "=" << dim.value;
      }
      fail("ValueError", text << ", got " << (*this)[index]);
    }
    dim.value = value;
  }

  /// A dtype argument binds a dtype variable.
  void dtype(int index, const char* name, TypeVar& variable) {
    const TVMFFIAny& arg = (*this)[index];
    if (!ok_) return;
    if (arg.type_index != kTVMFFIDataType) return mismatch("TypeError", index, name, "dtype");
    bind(variable, index, arg.v_dtype);
  }
  void dtype(int index, const char* name, TypeVar& variable, DLDataType otherwise) {
    if ((*this)[index].type_index != kTVMFFINone) return dtype(index, name, variable);
    if (ok_) bind(variable, index, otherwise);
  }

  /// Raises what a `kdsl.require` says; `values` are Dims and Named ones. Returns -1.
  template <class... Values>
  KDSL_COLD int unmet(const char* condition, const Values&... values) {
    Text text;
    text << signature_ << ": require " << condition << " failed";
    return fail("ValueError", list(text, values...));
  }
  /// Raises that a host expression divides by zero. Returns -1.
  template <class... Values>
  KDSL_COLD int zero_division(const char* expression, const Values&... values) {
    Text text;
    text << signature_ << ": division by zero in " << expression;
    return fail("ValueError", list(text, values...));
  }
  /// Raises that the module has nothing for these dtypes, statics and sizes. Returns -1.
  template <class... Values>
  KDSL_COLD int no_specialisation(const char* compiled, const Values&... values) {
    Text text;
    text << signature_ << ": not compiled for";
    list_plain(text, " ", values...);
    return fail("ValueError", text << "; compiled: " << compiled);
  }

  /// Outputs were omitted, and there is nowhere to put what is made for them.
  KDSL_COLD int no_place() {
    Text text;
    text << signature_ << ": omitted outputs need a place for the result";
    return fail("ValueError", text);
  }

  /// Raise for the whole call, unless something was raised before. Returns -1.
  KDSL_COLD int fail(const char* kind, const Text& text) {
    if (ok_) raise(kind, text.c_str());
    ok_ = false;
    return -1;
  }
  /// Start of a text about one argument.
  KDSL_COLD Text& argument(Text& text, int index, const char* name) const {
    return text << signature_ << ": argument " << index << " `" << name << "`: ";
  }
  const char* signature() const { return signature_; }

 protected:
  friend class View;
  /// The call's tensors, latest first.
  View* views_ = nullptr;

  static void show(Text& text, const Dim& dim) { text << dim.text << "=" << dim.value; }
  static void show(Text& text, const TypeVar& type) { text << type.name << "=" << type.value; }
  template <class T>
  static void show(Text& text, const Named<T>& named) {
    text << named.name << "=" << named.value;
  }
  template <class... Values>
  static Text& list(Text& text, const Values&... values) {
    list_plain(text, ": ", values...);
    return text;
  }
  template <class... Values>
  static void list_plain(Text& text, const char* separator, const Values&... values) {
    (void)separator;
    ((text << separator, show(text, values), separator = ", "), ...);
  }

 private:
  /// Whether a tensor of this call may be there: where the first one is, all are.
  KDSL_INLINE bool admits(DLDevice device) {
    const bool is_host = device.device_type == kDLCPU || device.device_type == kDLCUDAHost ||
                         device.device_type == kDLROCMHost || device.device_type == kDLCUDAManaged;
    if (!is_host || on_cuda()) return admits_gpu(device);
    has_device_ = true;
    return true;
  }
  KDSL_NOINLINE bool admits_gpu(DLDevice device) {
    if (has_device_) {
      return device.device_type == device_.device_type && device.device_id == device_.device_id;
    }
    has_device_ = true;
    lacks_cuda_ = device.device_type == kDLCUDA && !has_cuda_;
    if (lacks_cuda_ || device.device_type != kDLCUDA) return false;
    device_ = device;
    return true;
  }
  void bind(TypeVar& variable, int index, DLDataType dtype) {
    if (variable.bound ? variable.value != dtype : !variable.offers(dtype)) {
      Text text;
      argument(text, index, variable.name) << "expected ";
      if (variable.bound) {
        text << variable.name << "=" << variable.value;
      } else {
        text << "one of ";
        for (int i = 0; i < variable.count; ++i) text << (i ? ", " : "") << variable.choices[i];
      }
      fail(variable.bound ? "TypeError" : "ValueError", text << ", got dtype " << dtype);
    }
    variable.value = dtype;
    variable.bound = true;
  }
  KDSL_COLD void wrong_count(int least, int most) {
    Text text;
    text << signature_ << ": expected ";
    if (least != most) text << least << " to ";
    text << most << (most == 1 ? " argument" : " arguments") << ", got " << count_;
    fail("TypeError", text);
  }
  KDSL_COLD void mismatch(const char* kind, int index, const char* name, const char* type,
                          const char* why = "") {
    Text text;
    argument(text, index, name);
    const DLTensor* tensor = tensor_of((*this)[index]);
    if (tensor && tensor->ndim == 0) {
      // "expected f32, got f32[()]" would read as if both were one.
      text << "expected a number (" << type << "), got the tensor " << *tensor << "; pass " << name
           << ".item()";
    } else {
      text << "expected " << type << ", got " << (*this)[index] << why;
    }
    fail(kind, text);
  }

  void read(const TVMFFIAny& arg, int index, const char* name, const char* type, bool& value) {
    if (arg.type_index != kTVMFFIBool) return mismatch("TypeError", index, name, type);
    value = arg.v_int64 != 0;
  }
  void read(const TVMFFIAny& arg, int index, const char* name, const char* type, double& value) {
    if (arg.type_index == kTVMFFIFloat) {
      value = arg.v_float64;
    } else if (arg.type_index == kTVMFFIInt) {
      value = static_cast<double>(arg.v_int64);
    } else {
      mismatch("TypeError", index, name, type);
    }
  }
  void read(const TVMFFIAny& arg, int index, const char* name, const char* type, float& value) {
    double wide = 0;
    read(arg, index, name, type, wide);
    value = static_cast<float>(wide);
    // Finite, yet it rounds to infinity.
    if (__builtin_isinf(value) && !__builtin_isinf(wide)) {
      mismatch("ValueError", index, name, type, ", which is out of range");
    }
  }
  template <class T>
  void read(const TVMFFIAny& arg, int index, const char* name, const char* type, T& value) {
    static_assert(T(1) / T(2) == T(0), "a scalar is a bool, an integer, a float or a double");
    if (arg.type_index != kTVMFFIInt) return mismatch("TypeError", index, name, type);
    value = static_cast<T>(arg.v_int64);
    if (static_cast<i64>(value) != arg.v_int64 || (T(-1) > T(0) && arg.v_int64 < 0)) {
      mismatch("ValueError", index, name, type, ", which is out of range");
    }
  }

  const char* signature_;
  const TVMFFIAny* args_;
  int count_;
  bool ok_ = true;
  bool has_cuda_;
  bool has_device_ = false;
  bool lacks_cuda_ = false;
  DLDevice device_ = {kDLCPU, 0};
};

}  // namespace kdsl
