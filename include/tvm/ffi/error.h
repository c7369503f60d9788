// tvm/ffi/error.h: TVM FFI's name for kdsl's headers for hand-written kernels.
#pragma once

#include <kdsl/native/c_api.h>

#include <exception>
