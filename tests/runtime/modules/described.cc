// described.cc: an official module that carries apache-tvm-ffi's own metadata.
#define TVM_FFI_DLL_EXPORT_INCLUDE_METADATA 1
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

namespace {

void viewed(ffi::TensorView, ffi::Optional<double>) {}

void negated(ffi::TensorView x, int64_t at) {
  float* data = static_cast<float*>(x.data_ptr());
  data[at] = -data[at];
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(viewed, viewed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(negated, negated);
