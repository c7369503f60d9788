// kdsl/ffi/c_abi.h: the published C ABI of TVM FFI: values, objects and the packed call; data only.
//
// C11 and C++17. Names and layouts are those of apache/tvm-ffi 0.1; nothing here is a symbol to
// link. A packed function reads borrowed `args`, writes an owned value to `result` (whose
// type_index the caller has set to None) and returns 0, or returns -1 after raising.
#pragma once

#include <kdsl/ffi/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifndef TVM_FFI_C_API_H_
#define TVM_FFI_C_API_H_

#ifdef __cplusplus
extern "C" {
#endif

#ifdef __cplusplus
enum TVMFFITypeIndex : int32_t {
#else
typedef enum {
#endif
  kTVMFFIAny = -1,
  kTVMFFINone = 0,
  kTVMFFIInt = 1,
  kTVMFFIBool = 2,
  kTVMFFIFloat = 3,
  kTVMFFIOpaquePtr = 4,
  kTVMFFIDataType = 5,
  kTVMFFIDevice = 6,
  // Borrowed: these four stand in arguments only.
  kTVMFFIDLTensorPtr = 7,
  kTVMFFIRawStr = 8,
  kTVMFFIByteArrayPtr = 9,
  kTVMFFIObjectRValueRef = 10,
  // Up to 7 bytes of text inside the value itself.
  kTVMFFISmallStr = 11,
  kTVMFFISmallBytes = 12,
  kTVMFFIUnchanged = 13,
  // Reference-counted objects from here on.
  kTVMFFIStaticObjectBegin = 64,
  kTVMFFIObject = 64,
  kTVMFFIStr = 65,
  kTVMFFIBytes = 66,
  kTVMFFIError = 67,
  kTVMFFIFunction = 68,
  kTVMFFIShape = 69,
  kTVMFFITensor = 70,
  kTVMFFIArray = 71,
  kTVMFFIMap = 72,
  kTVMFFIModule = 73,
  kTVMFFIOpaquePyObject = 74,
  kTVMFFIList = 75,
  kTVMFFIDict = 76,
  kTVMFFIVisitInterrupt = 77,
  kTVMFFIBigInt = 78,
  kTVMFFIStaticObjectEnd,
  // Indices given out while a process runs.
  kTVMFFIDynObjectBegin = 128
#ifdef __cplusplus
};
#else
} TVMFFITypeIndex;
#endif

typedef void* TVMFFIObjectHandle;

/// What a deleter is asked to do: end the object's life (strong), free its memory (weak), or both.
#ifdef __cplusplus
enum TVMFFIObjectDeleterFlagBitMask : int32_t {
#else
typedef enum {
#endif
  kTVMFFIObjectDeleterFlagBitMaskStrong = 1,
  kTVMFFIObjectDeleterFlagBitMaskWeak = 2,
  kTVMFFIObjectDeleterFlagBitMaskBoth = 3
#ifdef __cplusplus
};
#else
} TVMFFIObjectDeleterFlagBitMask;
#endif

/// Head of every object. Counts: low 32 bits strong, high 32 weak; all strong references together
/// hold one weak one, so a new object has 0x1'0000'0001.
typedef struct {
  uint64_t combined_ref_count;
  int32_t type_index;
  uint32_t reserved;
  void (*deleter)(void* self, int flags);
} TVMFFIObject;

/// A value of any type. `zero_padding` is 0 unless the value is a small string.
typedef struct {
  int32_t type_index;
  union {
    uint32_t zero_padding;
    uint32_t small_str_len;
  };
  union {
    int64_t v_int64;
    double v_float64;
    void* v_ptr;
    const char* v_c_str;
    TVMFFIObject* v_obj;
    DLDataType v_dtype;
    DLDevice v_device;
    char v_bytes[8];
    uint64_t v_uint64;
  };
} TVMFFIAny;

// ---- What follows the head in each kind of object.

typedef struct {
  const char* data;
  size_t size;
} TVMFFIByteArray;

typedef struct {
  const int64_t* data;
  size_t size;
} TVMFFIShapeCell;

/// Array and List: `size` values of type TVMFFIAny at `data`. An Array keeps them in its own block.
#ifdef __cplusplus
struct TVMFFISeqCell {
#else
typedef struct {
#endif
  void* data;
  int64_t size;
  int64_t capacity;
  void (*data_deleter)(void*);
#ifdef __cplusplus
};
#else
} TVMFFISeqCell;
#endif

typedef struct {
  TVMFFIByteArray kind;
  TVMFFIByteArray message;
  TVMFFIByteArray backtrace;
  /// Never NULL: hosts call it.
  void (*update_backtrace)(TVMFFIObjectHandle self, const TVMFFIByteArray* backtrace,
                           int32_t update_mode);
  TVMFFIObjectHandle cause_chain;
  TVMFFIObjectHandle extra_context;
} TVMFFIErrorCell;

typedef int (*TVMFFISafeCallType)(void* handle, const TVMFFIAny* args, int32_t num_args,
                                  TVMFFIAny* result);

typedef struct {
  TVMFFISafeCallType safe_call;
  /// NULL unless made by C++ code that shares the caller's C++ ABI.
  void* cpp_call;
} TVMFFIFunctionCell;

typedef struct {
  void* handle;
} TVMFFIOpaqueObjectCell;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // TVM_FFI_C_API_H_

// Headers beside exported libraries carry a copy of this file: whichever comes first stands.
#ifndef KDSL_FFI_C_ABI_H_
#define KDSL_FFI_C_ABI_H_

#ifdef __cplusplus
extern "C" {
#endif

// ---- Whole objects, head and content; a table of offsets that code can name.

/// A new object's combined_ref_count: one strong reference and the weak one it holds.
#define KDSL_REF_COUNT_ONE 0x100000001ull

typedef struct {
  TVMFFIObject head;
  TVMFFIByteArray bytes;
} KdslStringObject;

typedef struct {
  TVMFFIObject head;
  DLTensor tensor;
} KdslTensorObject;

typedef struct {
  TVMFFIObject head;
  TVMFFIShapeCell shape;
} KdslShapeObject;

typedef struct {
  TVMFFIObject head;
#ifdef __cplusplus
  struct TVMFFISeqCell seq;
#else
  TVMFFISeqCell seq;
#endif
} KdslArrayObject;

typedef struct {
  TVMFFIObject head;
  TVMFFIFunctionCell function;
} KdslFunctionObject;

typedef struct {
  TVMFFIObject head;
  TVMFFIErrorCell error;
} KdslErrorObject;

#ifdef __cplusplus
}  // extern "C"
#define KDSL_STATIC_ASSERT static_assert
#else
#define KDSL_STATIC_ASSERT _Static_assert
#endif

#define KDSL_FROZEN(S, F, OFFSET) \
  KDSL_STATIC_ASSERT(offsetof(S, F) == (OFFSET), "ABI: " #S "." #F " moved")
KDSL_FROZEN(TVMFFIAny, zero_padding, 4);
KDSL_FROZEN(TVMFFIAny, v_int64, 8);
KDSL_FROZEN(TVMFFIObject, type_index, 8);
KDSL_FROZEN(TVMFFIObject, deleter, 16);
KDSL_FROZEN(DLTensor, ndim, 16);
KDSL_FROZEN(DLTensor, shape, 24);
KDSL_FROZEN(DLTensor, byte_offset, 40);
KDSL_FROZEN(KdslTensorObject, tensor, 24);
KDSL_STATIC_ASSERT(sizeof(TVMFFIObject) == 24, "ABI: an object's head is 24 bytes");
KDSL_STATIC_ASSERT(sizeof(TVMFFIAny) == 16, "ABI: TVMFFIAny is 16 bytes");
KDSL_STATIC_ASSERT(sizeof(KdslTensorObject) == 72, "ABI: a Tensor is 72 bytes");
KDSL_STATIC_ASSERT(sizeof(KdslArrayObject) == 56, "ABI: an Array is 56 bytes");
KDSL_STATIC_ASSERT(sizeof(KdslErrorObject) == 96, "ABI: an Error is 96 bytes");
#undef KDSL_FROZEN
#undef KDSL_STATIC_ASSERT

#endif  // KDSL_FFI_C_ABI_H_
