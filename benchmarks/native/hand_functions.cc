// hand_functions.cc: functions as values, and a global one.
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;
static int64_t apply(ffi::Function function, int64_t value) {
  return function(value, "twice").cast<int64_t>();
}
static ffi::Function adder(int64_t by) {
  return ffi::Function::FromTyped([by](int64_t value) { return value + by; });
}
TVM_FFI_STATIC_INIT_BLOCK() {
  ffi::reflection::GlobalDef().def("benchmark.triple", [](int64_t value) { return 3 * value; });
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(apply, apply);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(adder, adder);
