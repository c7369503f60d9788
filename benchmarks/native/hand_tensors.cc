// hand_tensors.cc: a tensor that is returned, an optional number, checks, the stream.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;
static ffi::Tensor scaled(ffi::Tensor x, ffi::Optional<double> by) {
  TVM_FFI_CHECK(x.IsContiguous(), ValueError) << "x must be dense";
  TVM_FFI_CHECK_EQ(x.ndim(), 2, ValueError) << "x must be a matrix";
  if (x.dtype() != DLDataType{kDLFloat, 32, 1}) {
    TVM_FFI_THROW(TypeError) << "expected float32, got " << x.dtype();
  }
  ffi::Tensor o = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(o.data_ptr());
  const float factor = static_cast<float>(by.value_or(1.0));
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = from[i] * factor;
  return o;
}
static int64_t stream(ffi::TensorView x) {
  return reinterpret_cast<int64_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scaled, scaled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stream, stream);
