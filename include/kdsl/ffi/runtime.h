// kdsl/ffi/runtime.h: what a host offers to a module; a loader writes it into `__kdsl_rt`.
#pragma once
#include <kdsl/ffi/c_abi.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KDSL_RUNTIME_VERSION 1

/// The table lives as long as the process. A module reads only fields that lie within `size`.
typedef struct KdslRuntime {
  uint32_t version;
  uint32_t size;
  /// Raise an error in this thread, e.g. ("ValueError", "..."); the call then returns -1.
  void (*raise)(const char* kind, const char* message);
  /// The stream on which work for this device is to be launched.
  void* (*stream)(int32_t device_type, int32_t device_id);
  /// A new compact tensor with the prototype's shape, dtype and device, owned by the caller.
  /// Returns 0, or -1 with an error raised.
  int (*alloc_tensor)(const DLTensor* prototype, void** out_tensor_object);
  /// Run body over [0, tasks) in any split, on any threads, and wait. May be NULL.
  void (*parallel_for)(int64_t tasks, void (*body)(void* ctx, int64_t begin, int64_t end),
                       void* ctx);
} KdslRuntime;

#ifdef __cplusplus
}  // extern "C"
#endif
