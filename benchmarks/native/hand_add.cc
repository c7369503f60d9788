// hand_add.cc: three tensors, a loop and an error.
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;
static void add(ffi::TensorView x, ffi::TensorView y, ffi::TensorView o) {
  if (x.ndim() != 1) TVM_FFI_THROW(ValueError) << "x must be a vector, got ndim " << x.ndim();
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) static_cast<float*>(o.data_ptr())[i] = a[i] + b[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add);
