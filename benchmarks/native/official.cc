// official.cc: a C++ function that throws, built with apache-tvm-ffi's headers and with ours.
#include <tvm/ffi/tvm_ffi.h>

namespace {

void Throw() { TVM_FFI_THROW(ValueError) << "a reason"; }

// What of that is C++: raised and caught n times, without a runtime between.
void Caught(int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    try {
      Throw();
    } catch (const tvm::ffi::Error&) {
    }
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(throws, Throw);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(caught, Caught);
