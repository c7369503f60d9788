// throwing.cc: a function that throws, with apache-tvm-ffi's own headers.
#include <tvm/ffi/tvm_ffi.h>

namespace {

void Throw(int64_t number) {
  TVM_FFI_THROW(IndexError) << "number " << number;  // line 7
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(throws, Throw);
