// kdsl/hosts/cpp.h: for C++17 programs: a library that is opened, views, tensors, errors thrown.
//
// Link with -ldl where glibc is older than 2.34. Headers beside exported libraries carry a copy.
#pragma once

#include <dlfcn.h>
#include <kdsl/hosts/c.h>

#include <array>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#ifndef KDSL_HOSTS_CPP_H_
#define KDSL_HOSTS_CPP_H_

namespace kdsl_host {

/// A call that failed. `kind` is "TypeError", "ValueError" and the like, what() says what is wrong.
class Error : public std::runtime_error {
 public:
  Error(std::string kind, const std::string& text)
      : std::runtime_error(text), kind(std::move(kind)) {}
  std::string kind;
};

/// The dtype of a C++ type; give 16-bit floats as (void*, KDSL_F16, shape).
template <class T>
DLDataType dtype_of() {
  using Bare = std::remove_const_t<T>;
  static_assert(std::is_arithmetic_v<Bare>, "give the dtype: View(data, KDSL_BF16, shape)");
  const int bits = 8 * static_cast<int>(sizeof(T));
  if (std::is_same_v<Bare, bool>) return KDSL_BOOL;
  if (std::is_floating_point_v<Bare>) return kdsl_dtype_of(kDLFloat, bits);
  return kdsl_dtype_of(std::is_signed_v<Bare> ? kDLInt : kDLUInt, bits);
}

/// A tensor that a call has made; ends with the last copy of it.
class Tensor {
 public:
  Tensor() : value_(kdsl_none()) {}
  explicit Tensor(TVMFFIAny owned) : value_(owned) {}
  Tensor(const Tensor& other) : value_(other.value_) {
    if (value_.type_index >= kTVMFFIStaticObjectBegin) {
      __atomic_fetch_add(&value_.v_obj->combined_ref_count, 1, __ATOMIC_RELAXED);
    }
  }
  Tensor(Tensor&& other) noexcept : value_(std::exchange(other.value_, kdsl_none())) {}
  Tensor& operator=(Tensor other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Tensor() { kdsl_release(&value_); }

  const DLTensor* dl() const { return kdsl_made(&value_, 0); }
  std::vector<int64_t> shape() const {
    const DLTensor* tensor = dl();
    return tensor ? std::vector<int64_t>(tensor->shape, tensor->shape + tensor->ndim)
                  : std::vector<int64_t>();
  }
  size_t size() const {
    size_t count = 1;
    for (int64_t size : shape()) count *= static_cast<size_t>(size);
    return dl() ? count : 0;
  }
  /// The elements, if they are of type T; else an Error.
  template <class T>
  T* data() const {
    const DLTensor* tensor = dl();
    const DLDataType want = dtype_of<T>();
    if (!tensor || tensor->dtype.code != want.code || tensor->dtype.bits != want.bits) {
      throw Error("TypeError", "Tensor::data: the elements are of another type");
    }
    return reinterpret_cast<T*>(static_cast<char*>(tensor->data) + tensor->byte_offset);
  }

 private:
  TVMFFIAny value_;
};

/// Memory of the caller's as a tensor. Strides count elements; without them rows have no gaps.
class View {
 public:
  using Sizes = std::vector<int64_t>;
  template <class T, class = std::enable_if_t<!std::is_void_v<T>>>
  View(T* data, Sizes shape, Sizes strides = {})
      : View(static_cast<const void*>(data), dtype_of<T>(), std::move(shape), std::move(strides)) {}
  View(const void* data, DLDataType dtype, Sizes shape, Sizes strides = {})
      : shape_(std::move(shape)), strides_(std::move(strides)) {
    if (!strides_.empty() && strides_.size() != shape_.size()) {
      throw Error("ValueError", "View: " + std::to_string(shape_.size()) + " sizes but " +
                                    std::to_string(strides_.size()) + " strides");
    }
    tensor_ = kdsl_view(data, dtype, static_cast<int>(shape_.size()), nullptr);
  }
  /// What a call has made, which must outlive the view.
  View(const Tensor& tensor) : View(nullptr, KDSL_U8, tensor.shape()) {
    if (!tensor.dl()) throw Error("ValueError", "View: the Tensor is empty");
    if (tensor.dl()->strides) {
      strides_.assign(tensor.dl()->strides, tensor.dl()->strides + shape_.size());
    }
    tensor_ = *tensor.dl();
  }
  /// Valid as long as this view.
  const DLTensor* dl() const {
    tensor_.shape = const_cast<int64_t*>(shape_.data());
    tensor_.strides = strides_.empty() ? nullptr : const_cast<int64_t*>(strides_.data());
    return &tensor_;
  }

 private:
  Sizes shape_, strides_;
  mutable DLTensor tensor_;
};

/// An argument, or None where there is none. A view is borrowed for the length of the call.
inline TVMFFIAny pass(const View& view) { return kdsl_tensor(view.dl()); }
inline TVMFFIAny pass(const View* view) { return kdsl_tensor(view ? view->dl() : nullptr); }

/// A library of packed functions. It stays in the process: results may outlive this handle.
class Library {
 public:
  explicit Library(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle_) throw Error("OSError", dlerror());
    last_error_ = reinterpret_cast<LastError*>(dlsym(handle_, "__kdsl_last_error"));
  }

  /// A function of the library; an Error where there is none of that name.
  TVMFFISafeCallType function(const std::string& name) const {
    void* symbol = dlsym(handle_, ("__tvm_ffi_" + name).c_str());
    if (!symbol) throw Error("AttributeError", "the library has no function " + name);
    return reinterpret_cast<TVMFFISafeCallType>(symbol);
  }

  /// Calls; what the call has made. An Error where it fails.
  TVMFFIAny call(TVMFFISafeCallType function, std::initializer_list<TVMFFIAny> args) const {
    TVMFFIAny result = kdsl_none();
    if (function(nullptr, args.begin(), static_cast<int32_t>(args.size()), &result) == 0) {
      return result;
    }
    const std::string text = last_error_ ? last_error_() : "";
    const size_t colon = text.find(": ");
    if (colon == std::string::npos) throw Error("RuntimeError", "the call failed: " + text);
    throw Error(text.substr(0, colon), text.substr(colon + 2));
  }

  /// The N tensors of an Array that a call has made.
  template <size_t N>
  static std::array<Tensor, N> several(TVMFFIAny result) {
    const Tensor array(result);
    std::array<Tensor, N> tensors;
    const auto* object = reinterpret_cast<const KdslArrayObject*>(result.v_obj);
    const auto* items = static_cast<const TVMFFIAny*>(object->seq.data);
    for (size_t i = 0; i < N; ++i) {
      __atomic_fetch_add(&items[i].v_obj->combined_ref_count, 1, __ATOMIC_RELAXED);
      tensors[i] = Tensor(items[i]);
    }
    return tensors;
  }

 private:
  using LastError = const char*();
  void* handle_;
  LastError* last_error_ = nullptr;
};

}  // namespace kdsl_host

#endif  // KDSL_HOSTS_CPP_H_
