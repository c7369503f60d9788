// kdsl/native/c_api.h: TVM FFI's C functions for hand-written kernels, with no library to link.
//
// Each belongs to the module that includes this. What needs no state of the process is done here;
// the rest is asked of the runtime that is there (see base.h), or has a fallback that says so.
#pragma once

#include <kdsl/native/registry.h>

typedef struct {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
} TVMFFIVersion;

// Templates, but for their use like functions: few kernels need any of them.
#define KDSL_C_API KDSL_LAZY __attribute__((visibility("hidden")))

// ---- versions and counts

KDSL_C_API void TVMFFIGetVersion(TVMFFIVersion* version) {
  *version = {TVM_FFI_VERSION_MAJOR, TVM_FFI_VERSION_MINOR, TVM_FFI_VERSION_PATCH};
}
KDSL_C_API int TVMFFIObjectIncRef(TVMFFIObjectHandle object) {
  tvm::ffi::detail::retain(static_cast<TVMFFIObject*>(object));
  return 0;
}
KDSL_C_API int TVMFFIObjectDecRef(TVMFFIObjectHandle object) {
  tvm::ffi::detail::drop(object);
  return 0;
}

// ---- errors

KDSL_C_API void TVMFFIErrorSetRaised(TVMFFIObjectHandle error) {
  tvm::ffi::detail::raise_object(static_cast<TVMFFIObject*>(error));
}
KDSL_C_API void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  tvm::ffi::detail::raise_text(kind, message);
}
KDSL_C_API void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts,
                                                  int32_t count) {
  tvm::ffi::detail::Writer text = {};
  for (int32_t i = 0; i < count; ++i) text.put(parts[i] ? parts[i] : "");
  tvm::ffi::detail::raise_text(kind, text.data());
  text.free();
}
KDSL_C_API void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* error) {
  *error = tvm::ffi::detail::take_raised();
}
KDSL_C_API int TVMFFIErrorCreate(const TVMFFIByteArray* kind, const TVMFFIByteArray* message,
                                 const TVMFFIByteArray* backtrace, TVMFFIObjectHandle* out) {
  TVM_FFI_SAFE_CALL_BEGIN();
  *out = tvm::ffi::detail::new_error(*kind, *message, *backtrace);
  TVM_FFI_SAFE_CALL_END();
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

// ---- places

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
