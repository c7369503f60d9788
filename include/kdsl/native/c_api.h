// kdsl/native/c_api.h: TVM FFI's C functions for hand-written kernels, with no library to link.
//
// Each belongs to the module that includes this. What needs no state of the process is done here;
// the rest is asked of the runtime that is there (see base.h), or has a fallback that says so.
#pragma once

#include <kdsl/native/registry.h>

typedef void* TVMFFIStreamHandle;

typedef struct {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
} TVMFFIVersion;

#define KDSL_C_API extern "C" __attribute__((visibility("hidden"), unused)) inline

// ---- versions and counts

KDSL_C_API void TVMFFIGetVersion(TVMFFIVersion* version) {
  *version = {TVM_FFI_VERSION_MAJOR, TVM_FFI_VERSION_MINOR, TVM_FFI_VERSION_PATCH};
}
KDSL_C_API int TVMFFIObjectIncRef(TVMFFIObjectHandle object) {
  tvm::ffi::detail::retain(static_cast<TVMFFIObject*>(object));
  return 0;
}
KDSL_C_API int TVMFFIObjectDecRef(TVMFFIObjectHandle object) {
  kdsl::release(static_cast<TVMFFIObject*>(object));
  return 0;
}

// ---- errors

KDSL_C_API void TVMFFIErrorSetRaised(TVMFFIObjectHandle error) {
  tvm::ffi::detail::raise_object(static_cast<TVMFFIObject*>(error));
}
KDSL_C_API void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  kdsl::raise(kind, message);
}
KDSL_C_API void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts,
                                                  int32_t count) {
  tvm::ffi::detail::Writer text = {};
  for (int32_t i = 0; i < count; ++i) text << (parts[i] ? parts[i] : "");
  tvm::ffi::detail::raise(kind, text);
}
KDSL_C_API void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* error) {
  tvm::ffi::Error raised = tvm::ffi::detail::take_raised();
  *error = tvm::ffi::ObjectAccess::pointer(raised).release();
}
KDSL_C_API int TVMFFIErrorCreate(const TVMFFIByteArray* kind, const TVMFFIByteArray* message,
                                 const TVMFFIByteArray* backtrace, TVMFFIObjectHandle* out) {
  *out = tvm::ffi::detail::new_error(*kind, *message, *backtrace);
  return *out ? 0 : kdsl::raise("MemoryError", "out of memory");
}

// ---- functions

KDSL_C_API int TVMFFIFunctionCreate(void* self, TVMFFISafeCallType call, void (*deleter)(void*),
                                    TVMFFIObjectHandle* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  tvm::ffi::Function function = tvm::ffi::Function::FromExternC(self, call, deleter);
  *out = tvm::ffi::ObjectAccess::pointer(function).release();
  TVM_FFI_SAFE_CALL_END();
}
KDSL_C_API int TVMFFIFunctionCall(TVMFFIObjectHandle function, TVMFFIAny* args, int32_t num_args,
                                  TVMFFIAny* result) {
  auto* object = static_cast<KdslFunctionObject*>(function);
  return object->function.safe_call(function, args, num_args, result);
}
KDSL_C_API int TVMFFIFunctionGetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  return tvm::ffi::detail::get_global(*name, out);
  TVM_FFI_SAFE_CALL_END();
}
KDSL_C_API int TVMFFIFunctionSetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle function,
                                       int override) {
  TVM_FFI_SAFE_CALL_BEGIN();
  return tvm::ffi::detail::set_global(*name, function, override != 0);
  TVM_FFI_SAFE_CALL_END();
}
KDSL_C_API int TVMFFIAnyViewToOwnedAny(const TVMFFIAny* view, TVMFFIAny* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *out = tvm::ffi::detail::owned(*view);
  TVM_FFI_SAFE_CALL_END();
}

// ---- strings and dtypes

KDSL_C_API int TVMFFIStringFromByteArray(const TVMFFIByteArray* bytes, TVMFFIAny* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *out = tvm::ffi::String(*bytes).give();
  TVM_FFI_SAFE_CALL_END();
}
KDSL_C_API int TVMFFIBytesFromByteArray(const TVMFFIByteArray* bytes, TVMFFIAny* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *out = tvm::ffi::Bytes(*bytes).give();
  TVM_FFI_SAFE_CALL_END();
}
KDSL_C_API int TVMFFIDataTypeFromString(const TVMFFIByteArray* text, DLDataType* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *out = tvm::ffi::StringToDLDataType(*text);
  TVM_FFI_SAFE_CALL_END();
}
KDSL_C_API int TVMFFIDataTypeToString(const DLDataType* dtype, TVMFFIAny* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *out = tvm::ffi::DLDataTypeToString(*dtype).give();
  TVM_FFI_SAFE_CALL_END();
}

// ---- tensors

KDSL_C_API int TVMFFITensorFromDLPack(DLManagedTensor* from, int32_t alignment, int32_t contiguous,
                                      TVMFFIObjectHandle* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  auto tensor = tvm::ffi::Tensor::FromDLPack(from, alignment, contiguous != 0);
  *out = tvm::ffi::ObjectAccess::pointer(tensor).release();
  TVM_FFI_SAFE_CALL_END();
}
KDSL_C_API int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned* from, int32_t alignment,
                                               int32_t contiguous, TVMFFIObjectHandle* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  auto tensor = tvm::ffi::Tensor::FromDLPackVersioned(from, alignment, contiguous != 0);
  *out = tvm::ffi::ObjectAccess::pointer(tensor).release();
  TVM_FFI_SAFE_CALL_END();
}

// ---- the environment of a call

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
KDSL_C_API int TVMFFIEnvSetStream(int32_t device_type, int32_t device_id, TVMFFIStreamHandle stream,
                                  TVMFFIStreamHandle* original) {
  using SetStream = int(int32_t, int32_t, TVMFFIStreamHandle, TVMFFIStreamHandle*);
  auto* set = tvm::ffi::detail::in_runtime<SetStream>("TVMFFIEnvSetStream");
  if (set) return set(device_type, device_id, stream, original);
  return kdsl::raise("RuntimeError",
                     "TVMFFIEnvSetStream: this process has no runtime that keeps "
                     "streams; load the module with kdsl or apache-tvm-ffi");
}

/// A new tensor like `prototype` in memory of the caller's framework, else in the module's own.
KDSL_C_API int TVMFFIEnvTensorAlloc(DLTensor* prototype, TVMFFIObjectHandle* out) {
  *out = nullptr;
  if (prototype->device.device_type != kDLCPU && !__kdsl_rt) {
    using Alloc = int(DLTensor*, TVMFFIObjectHandle*);
    auto* alloc = kdsl::find_in_tvm_ffi<Alloc>("TVMFFIEnvTensorAlloc");
    if (alloc) return alloc(prototype, out);
    return kdsl::raise("RuntimeError",
                       "TVMFFIEnvTensorAlloc: no framework of this process offers "
                       "memory on that device");
  }
  auto* made = kdsl::allocate(*prototype);
  if (!made) return kdsl::raise("MemoryError", "TVMFFIEnvTensorAlloc: cannot allocate a tensor");
  *out = made;
  return 0;
}

KDSL_C_API int TVMFFIEnvSetDLPackManagedTensorAllocator(DLPackManagedTensorAllocator allocator,
                                                        int global,
                                                        DLPackManagedTensorAllocator* original) {
  using Set = int(DLPackManagedTensorAllocator, int, DLPackManagedTensorAllocator*);
  auto* set = tvm::ffi::detail::in_runtime<Set>("TVMFFIEnvSetDLPackManagedTensorAllocator");
  if (set) return set(allocator, global, original);
  return kdsl::raise("RuntimeError",
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

KDSL_C_API const TVMFFIByteArray* TVMFFIBacktrace(const char* file, int line, const char* function,
                                                  int) {
  // Valid until this thread asks again.
  static thread_local char text[1024];
  static thread_local TVMFFIByteArray bytes;
  const int size = kdsl_snprintf(text, sizeof(text), "  File \"%s\", line %d, in %s\n",
                                 file ? file : "?", line, function ? function : "?");
  constexpr int kMost = sizeof(text) - 1;
  bytes = {text, static_cast<size_t>(size < kMost ? size : kMost)};
  return &bytes;
}

#undef KDSL_C_API
