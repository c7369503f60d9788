// tvm/ffi/extra/c_env_api.h: TVM FFI's name for kdsl's C API; for C the types alone.
#pragma once

#ifdef __cplusplus
#include <kdsl/native/env.h>
#else
#include <kdsl/ffi/c_abi.h>

#define TVM_FFI_DLL_EXPORT __attribute__((visibility("default")))
#endif
