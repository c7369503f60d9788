// official.cc: a C++ function that throws, built with apache-tvm-ffi's own headers.
#include <tvm/ffi/tvm_ffi.h>

namespace {

void Throw() { TVM_FFI_THROW(ValueError) << "a reason"; }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(throws, Throw);
