// kdsl/ffi/c_abi.h: the TVM FFI values that cross a packed call, mirrored; layouts are frozen.
#pragma once
#include <kdsl/ffi/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/// What a TVMFFIAny holds. Indices from 64 up are reference-counted objects.
typedef enum KDSL_ENUM_BASE {
  kTVMFFINone = 0,
  kTVMFFIInt = 1,
  kTVMFFIBool = 2,
  kTVMFFIFloat = 3,
  kTVMFFIOpaquePtr = 4,
  kTVMFFIDataType = 5,
  kTVMFFIDevice = 6,
  kTVMFFIDLTensorPtr = 7,      ///< arguments only
  kTVMFFIRawStr = 8,           ///< arguments only
  kTVMFFIByteArrayPtr = 9,     ///< arguments only
  kTVMFFIObjectRValueRef = 10, ///< arguments only
  kTVMFFISmallStr = 11,        ///< up to 7 bytes inside the value
  kTVMFFISmallBytes = 12,
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
  kTVMFFIDynObjectBegin = 128,
} TVMFFITypeIndex;

typedef void* TVMFFIObjectHandle;

/// Flags of TVMFFIObject.deleter: run the destructor, free the memory.
typedef enum KDSL_ENUM_BASE {
  kTVMFFIObjectDeleterFlagBitMaskStrong = 1,
  kTVMFFIObjectDeleterFlagBitMaskWeak = 2,
  kTVMFFIObjectDeleterFlagBitMaskBoth = 3,
} TVMFFIObjectDeleterFlagBitMask;

/// Header of every object: strong count in the low half of the counter, weak in the high half.
typedef struct {
  uint64_t combined_ref_count;
  int32_t type_index;
  uint32_t reserved;
  void (*deleter)(void* self, int flags);
} TVMFFIObject;

/// The counter of a new object: one strong reference, one weak.
#define KDSL_REF_COUNT_ONE 0x100000001ull

/// One argument (a borrowed view) or one result (an owned value).
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

/// Follows the header of String and Bytes objects; a NUL stands after the last byte.
typedef struct {
  const char* data;
  size_t size;
} TVMFFIByteArray;

/// Follows the header of Shape objects.
typedef struct {
  const int64_t* data;
  size_t size;
} TVMFFIShapeCell;

/// Follows the header of Array and List objects; `data` is an array of TVMFFIAny.
typedef struct {
  void* data;
  int64_t size;
  int64_t capacity;
  void (*data_deleter)(void*);
} TVMFFISeqCell;

/// Follows the header of Error objects (the last two fields exist since 0.1.8).
typedef struct {
  TVMFFIByteArray kind;
  TVMFFIByteArray message;
  TVMFFIByteArray backtrace;
  void (*update_backtrace)(TVMFFIObjectHandle self, const TVMFFIByteArray* backtrace, int32_t mode);
  TVMFFIObjectHandle cause_chain;
  TVMFFIObjectHandle extra_context;
} TVMFFIErrorCell;

/// A packed function: 0 and an owned *result, or -1 and an error raised in this thread.
typedef int (*TVMFFISafeCallType)(void* self, const TVMFFIAny* args, int32_t num_args,
                                  TVMFFIAny* result);

/// Follows the header of Function objects.
typedef struct {
  TVMFFISafeCallType safe_call;
  void* cpp_call;
} TVMFFIFunctionCell;

#ifdef __cplusplus
}  // extern "C"
#endif
