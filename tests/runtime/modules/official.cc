// official.cc: functions exported with apache-tvm-ffi's own headers, to be called by both runtimes.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

#include <string>

namespace ffi = tvm::ffi;

namespace {

void scale_into(ffi::TensorView x, double factor, ffi::TensorView y) {
  if (x.ndim() != 1 || y.ndim() != 1) TVM_FFI_THROW(ValueError) << "expected vectors";
  if (x.size(0) != y.size(0)) {
    TVM_FFI_THROW(ValueError) << "expected size " << x.size(0) << ", got " << y.size(0);
  }
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) {
    to[i * y.stride(0)] = from[i * x.stride(0)] * static_cast<float>(factor);
  }
}

ffi::Tensor doubled(ffi::Tensor x) {
  ffi::Tensor y = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = 2 * from[i];
  return y;
}

ffi::Array<ffi::Tensor> both(ffi::Tensor x) { return {x, doubled(x)}; }

int64_t total(ffi::Array<int64_t> numbers) {
  int64_t sum = 0;
  for (int64_t n : numbers) sum += n;
  return sum;
}

ffi::String greet(ffi::String name, bool loud) {
  return std::string("hello ") + std::string(name.data(), name.size()) + (loud ? "!" : "");
}

ffi::Optional<double> maybe(ffi::Optional<double> value) { return value; }

ffi::Any same(ffi::Any value) { return value; }

// Outlives the call: the tensor is kept and read by the next one.
ffi::Any kept;
ffi::Any exchange(ffi::Any value) {
  ffi::Any before = kept;
  kept = value;
  return before;
}

void fail(ffi::String kind) {
  throw ffi::Error(std::string(kind.data(), kind.size()), "on purpose", "");
}

ffi::Shape shape_of(ffi::TensorView x) { return x.shape(); }

DLDataType dtype_of(ffi::TensorView x) { return x.dtype(); }

ffi::Function adder(int64_t by) {
  return ffi::Function::FromTyped([by](int64_t value) { return value + by; });
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale_into, scale_into);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(doubled, doubled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(both, both);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(total, total);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(greet, greet);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(maybe, maybe);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(same, same);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(exchange, exchange);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, fail);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(shape_of, shape_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dtype_of, dtype_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(adder, adder);
