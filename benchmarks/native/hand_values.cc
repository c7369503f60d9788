// hand_values.cc: strings, arrays, a tuple.
#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;
static ffi::String named(ffi::String name, ffi::Optional<ffi::String> unit) {
  return unit.has_value() ? name + " in " + unit.value() : name;
}
static int64_t total(ffi::Array<int64_t> numbers) {
  int64_t sum = 0;
  for (int64_t number : numbers) sum += number;
  return sum;
}
static ffi::Array<ffi::String> both(ffi::Tuple<ffi::String, int64_t> pair) {
  return {pair.get<0>(), pair.get<0>()};
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(named, named);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(total, total);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(both, both);
