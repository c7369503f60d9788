// api.h: the functions and records of TVM FFI's published C ABI beyond its values; data and names.
//
// Every function may be called from any thread. One that returns int gives 0, or -1 after it left
// an Error object in the slot of the thread.
#pragma once
#include <kdsl/ffi/c_abi.h>

#define API __attribute__((visibility("default")))

typedef struct {
  uint32_t major, minor, patch;
} TVMFFIVersion;

// ---- what the type table keeps

typedef int (*TVMFFIFieldGetter)(void* field, TVMFFIAny* result);
typedef int (*TVMFFIObjectCreator)(TVMFFIObjectHandle* result);

typedef struct {
  TVMFFIByteArray name, doc, metadata;
  int64_t flags, size, alignment, offset;
  TVMFFIFieldGetter getter;
  void* setter;
  TVMFFIAny default_value_or_factory;
  int32_t field_static_type_index;
} TVMFFIFieldInfo;

typedef struct {
  TVMFFIByteArray name, doc, metadata;
  int64_t flags;
  TVMFFIAny method;
} TVMFFIMethodInfo;

typedef struct {
  TVMFFIByteArray doc;
  TVMFFIObjectCreator creator;
  int32_t total_size;
  int32_t structural_eq_hash_kind;
} TVMFFITypeMetadata;

/// Values of one attribute, the first of them for the type with index `begin_index`.
typedef struct {
  const TVMFFIAny* data;
  int32_t size;
  int32_t begin_index;
} TVMFFITypeAttrColumn;

typedef struct TVMFFITypeInfo {
  int32_t type_index, type_depth;
  TVMFFIByteArray type_key;
  const struct TVMFFITypeInfo** type_ancestors;
  uint64_t type_key_hash;
  int32_t num_fields, num_methods;
  const TVMFFIFieldInfo* fields;
  const TVMFFIMethodInfo* methods;
  const TVMFFITypeMetadata* metadata;
} TVMFFITypeInfo;

typedef struct {
  void* (*allocate)(size_t size, size_t alignment, int32_t type_index, void* context);
  void* context;
} TVMFFICustomAllocator;

// ---- object.c, text.c

API void TVMFFIGetVersion(TVMFFIVersion* out);
API int TVMFFIObjectIncRef(TVMFFIObjectHandle object);
API int TVMFFIObjectDecRef(TVMFFIObjectHandle object);
API int TVMFFIObjectCreateOpaque(void* handle, int32_t type_index, void (*deleter)(void*),
                                 TVMFFIObjectHandle* out);
API TVMFFICustomAllocator* TVMFFIGetCustomAllocator(void);
API int TVMFFISetCustomAllocator(TVMFFICustomAllocator* allocator);
API int TVMFFIAnyViewToOwnedAny(const TVMFFIAny* view, TVMFFIAny* out);
API int TVMFFIStringFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out);
API int TVMFFIBytesFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out);
API int TVMFFIBigIntFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out);
API TVMFFIByteArray TVMFFIBigIntGetContentByteArray(const TVMFFIAny* value);
API int TVMFFIHandleInitOnce(void** handle, int (*init)(void** result));
API int TVMFFIHandleDeinitOnce(void** handle, int (*deinit)(void* handle));

// ---- error.c

API void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* out);
API void TVMFFIErrorSetRaised(TVMFFIObjectHandle error);
API void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message);
API void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count);
API int TVMFFIErrorCreate(const TVMFFIByteArray* kind, const TVMFFIByteArray* message,
                          const TVMFFIByteArray* backtrace, TVMFFIObjectHandle* out);
API int TVMFFIErrorCreateWithCauseAndExtraContext(
    const TVMFFIByteArray* kind, const TVMFFIByteArray* message, const TVMFFIByteArray* backtrace,
    TVMFFIObjectHandle cause_chain, TVMFFIObjectHandle extra_context, TVMFFIObjectHandle* out);
API const TVMFFIByteArray* TVMFFIBacktrace(const char* file, int line, const char* function,
                                           int cross_ffi_boundary);

// ---- function.c

API int TVMFFIFunctionCreate(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void*),
                             TVMFFIObjectHandle* out);
API int TVMFFIFunctionCall(TVMFFIObjectHandle function, TVMFFIAny* args, int32_t count,
                           TVMFFIAny* result);
API int TVMFFIFunctionGetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle* out);
API int TVMFFIFunctionSetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle function,
                                int allow_override);
API int TVMFFIFunctionSetGlobalFromMethodInfo(const TVMFFIMethodInfo* info, int allow_override);

// ---- types.c, reflection.c

API int TVMFFITypeKeyToIndex(const TVMFFIByteArray* key, int32_t* out);
API int32_t TVMFFITypeGetOrAllocIndex(const TVMFFIByteArray* key, int32_t static_index,
                                      int32_t depth, int32_t child_slots,
                                      int32_t child_slots_can_overflow, int32_t parent_index);
API const TVMFFITypeInfo* TVMFFIGetTypeInfo(int32_t type_index);
API int TVMFFITypeRegisterField(int32_t type_index, const TVMFFIFieldInfo* info);
API int TVMFFITypeRegisterMethod(int32_t type_index, const TVMFFIMethodInfo* info);
API int TVMFFITypeRegisterMetadata(int32_t type_index, const TVMFFITypeMetadata* metadata);
API int TVMFFITypeRegisterAttr(int32_t type_index, const TVMFFIByteArray* name,
                               const TVMFFIAny* value);
API const TVMFFITypeAttrColumn* TVMFFIGetTypeAttrColumn(const TVMFFIByteArray* name);

// ---- tensor.c, dtype.c

API int TVMFFITensorFromDLPack(DLManagedTensor* from, int32_t require_alignment,
                               int32_t require_contiguous, TVMFFIObjectHandle* out);
API int TVMFFITensorToDLPack(TVMFFIObjectHandle from, DLManagedTensor** out);
API int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned* from, int32_t require_alignment,
                                        int32_t require_contiguous, TVMFFIObjectHandle* out);
API int TVMFFITensorToDLPackVersioned(TVMFFIObjectHandle from, DLManagedTensorVersioned** out);
API int TVMFFITensorCreateUnsafeView(TVMFFIObjectHandle source, const DLTensor* prototype,
                                     TVMFFIObjectHandle* out);
API int TVMFFIDataTypeFromString(const TVMFFIByteArray* text, DLDataType* out);
API int TVMFFIDataTypeToString(const DLDataType* dtype, TVMFFIAny* out);

// ---- env.c, module.c

API int TVMFFIEnvSetStream(int32_t device_type, int32_t device_id, void* stream, void** original);
API void* TVMFFIEnvGetStream(int32_t device_type, int32_t device_id);
API int TVMFFIEnvSetDLPackManagedTensorAllocator(DLPackManagedTensorAllocator allocator,
                                                 int write_to_global_context,
                                                 DLPackManagedTensorAllocator* original);
API DLPackManagedTensorAllocator TVMFFIEnvGetDLPackManagedTensorAllocator(void);
API int TVMFFIEnvTensorAlloc(DLTensor* prototype, TVMFFIObjectHandle* out);
API int TVMFFIEnvCheckSignals(void);
API int TVMFFIEnvRegisterCAPI(const char* name, void* symbol);
API int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library, const char* name,
                                      TVMFFIObjectHandle* out);
API int TVMFFIEnvModRegisterContextSymbol(const char* name, void* symbol);
API int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol);
