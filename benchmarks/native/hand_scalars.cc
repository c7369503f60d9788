// hand_scalars.cc: numbers in and out.
#include <tvm/ffi/tvm_ffi.h>
static int64_t count(int64_t n, bool twice) { return twice ? 2 * n : n; }
static double scale(double x, float by) { return x * by; }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(count, count);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale, scale);
