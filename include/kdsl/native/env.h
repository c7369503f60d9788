// kdsl/native/env.h: TVM FFI's C functions that ask the environment of a call: streams, allocators.
//
// Apart from c_api.h, as in TVM FFI: a kernel that asks for none of them need not read them.
#pragma once

#include <kdsl/native/c_api.h>

#pragma GCC visibility push(hidden)
#if defined(__OPTIMIZE__) && defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
// Like KDSL_PLAIN: what allocates takes longer than what it is compiled to.
#pragma GCC push_options
#pragma GCC optimize("O0")
#include <kdsl/ffi/tensor.h>
#pragma GCC pop_options
#else
#include <kdsl/ffi/tensor.h>
#endif
#pragma GCC visibility pop

typedef void* TVMFFIStreamHandle;

/// The stream on which work for a device is to be queued; null is the device's default one.
KDSL_C_API TVMFFIStreamHandle TVMFFIEnvGetStream(int32_t device_type, int32_t device_id) {
  using GetStream = TVMFFIStreamHandle(int32_t, int32_t);
  if (__kdsl_rt && __kdsl_rt->stream) return __kdsl_rt->stream(device_type, device_id);
  // Found once, it stays: that library cannot be unloaded.
  static GetStream* found = nullptr;
  GetStream* get = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (!get) {
    get = kdsl::find_in_tvm_ffi<GetStream>("TVMFFIEnvGetStream");
    __atomic_store_n(&found, get, __ATOMIC_RELAXED);
  }
  return get ? get(device_type, device_id) : nullptr;
}
KDSL_C_API KDSL_COLD int TVMFFIEnvSetStream(int32_t device_type, int32_t device_id,
                                            TVMFFIStreamHandle stream,
                                            TVMFFIStreamHandle* original) {
  using SetStream = int(int32_t, int32_t, TVMFFIStreamHandle, TVMFFIStreamHandle*);
  auto* set = tvm::ffi::detail::in_runtime<SetStream>("TVMFFIEnvSetStream");
  if (set) return set(device_type, device_id, stream, original);
  return tvm::ffi::detail::raise_text("RuntimeError",
                                      "TVMFFIEnvSetStream: this process has no runtime that keeps "
                                      "streams; load the module with kdsl or apache-tvm-ffi");
}

/// A new tensor like `prototype` in memory of the caller's framework, else in the module's own.
KDSL_C_API KDSL_PLAIN int TVMFFIEnvTensorAlloc(DLTensor* prototype, TVMFFIObjectHandle* out) {
  *out = nullptr;
  if (prototype->device.device_type != kDLCPU && !__kdsl_rt) {
    using Alloc = int(DLTensor*, TVMFFIObjectHandle*);
    auto* alloc = kdsl::find_in_tvm_ffi<Alloc>("TVMFFIEnvTensorAlloc");
    if (alloc) return alloc(prototype, out);
    return tvm::ffi::detail::raise_text("RuntimeError",
                                        "TVMFFIEnvTensorAlloc: no framework of this process offers "
                                        "memory on that device");
  }
  auto* made = kdsl::allocate(*prototype);
  if (!made)
    return tvm::ffi::detail::raise_text("MemoryError",
                                        "TVMFFIEnvTensorAlloc: cannot allocate a tensor");
  *out = made;
  return 0;
}

KDSL_C_API KDSL_COLD int TVMFFIEnvSetDLPackManagedTensorAllocator(
    DLPackManagedTensorAllocator allocator, int global, DLPackManagedTensorAllocator* original) {
  using Set = int(DLPackManagedTensorAllocator, int, DLPackManagedTensorAllocator*);
  auto* set = tvm::ffi::detail::in_runtime<Set>("TVMFFIEnvSetDLPackManagedTensorAllocator");
  if (set) return set(allocator, global, original);
  return tvm::ffi::detail::raise_text("RuntimeError",
                                      "TVMFFIEnvSetDLPackManagedTensorAllocator: this process has "
                                      "no runtime that keeps an allocator");
}
KDSL_C_API DLPackManagedTensorAllocator TVMFFIEnvGetDLPackManagedTensorAllocator() {
  using Get = DLPackManagedTensorAllocator();
  auto* get = tvm::ffi::detail::in_runtime<Get>("TVMFFIEnvGetDLPackManagedTensorAllocator");
  return get ? get() : nullptr;
}

/// Whether the environment wants the call to end, e.g. by a KeyboardInterrupt: 0, or -1 raised.
KDSL_C_API int TVMFFIEnvCheckSignals() {
  auto* check = tvm::ffi::detail::in_runtime<int()>("TVMFFIEnvCheckSignals");
  return check ? check() : 0;
}
