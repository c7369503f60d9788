// kdsl/ffi/runtime.h: the table that a kdsl loader writes into a module before its first call.
//
// The loader looks up the symbol `__kdsl_rt` (a `const KdslRuntime*`) and stores the address of a
// table that lives as long as the process. A module works without one; any entry may be NULL.
// Fields are only ever appended: a reader compares `size` before it uses a later one.
#pragma once

#include <kdsl/ffi/c_abi.h>

#define KDSL_RUNTIME_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif

typedef struct KdslRuntime {
  /// KDSL_RUNTIME_VERSION of the loader.
  uint32_t version;
  /// sizeof(KdslRuntime) of the loader.
  uint32_t size;
  /// Keeps the error of this thread; the texts are copied. Kinds are names of Python exceptions.
  /// Since version 2 it does so in every runtime of the process.
  void (*raise)(const char* kind, const char* message);
  /// The stream on which work for a device is to be queued now.
  void* (*stream)(int32_t device_type, int32_t device_id);
  /// A new Tensor object (one reference, of the caller's framework) with the dtype, device and
  /// shape of `prototype`. Returns 0, or -1 with the reason raised.
  int (*alloc_tensor)(const DLTensor* prototype, void** out_tensor_object);
  /// Runs body(ctx, begin, end) over disjoint parts of [0, tasks), on the threads of the process;
  /// returns when all are done. NULL: the module finds threads itself.
  void (*parallel_for)(int64_t tasks, void (*body)(void* ctx, int64_t begin, int64_t end),
                       void* ctx);
  /// The loader's form of a function of TVM FFI's C API, by its name ("TVMFFIErrorSetRaised"); NULL
  /// where it has none. Modules ask here first, then libtvm_ffi where that is in the process.
  void* (*symbol)(const char* name);
} KdslRuntime;

#ifdef __cplusplus
}  // extern "C"
#endif
