// kdsl/hosts/c.h: for C and C++ programs that call packed functions: arguments, views, results.
//
// C11 and C++17, nothing to link. Headers beside exported libraries carry a copy.
#pragma once

#include <kdsl/ffi/c_abi.h>
#include <stdbool.h>

#ifndef KDSL_HOSTS_C_H_
#define KDSL_HOSTS_C_H_

// ---- dtypes and views

static inline DLDataType kdsl_dtype_of(int code, int bits) {
  DLDataType dtype;
  dtype.code = (uint8_t)code;
  dtype.bits = (uint8_t)bits;
  dtype.lanes = 1;
  return dtype;
}
#define KDSL_BOOL kdsl_dtype_of(kDLBool, 8)
#define KDSL_I8 kdsl_dtype_of(kDLInt, 8)
#define KDSL_I16 kdsl_dtype_of(kDLInt, 16)
#define KDSL_I32 kdsl_dtype_of(kDLInt, 32)
#define KDSL_I64 kdsl_dtype_of(kDLInt, 64)
#define KDSL_U8 kdsl_dtype_of(kDLUInt, 8)
#define KDSL_U16 kdsl_dtype_of(kDLUInt, 16)
#define KDSL_U32 kdsl_dtype_of(kDLUInt, 32)
#define KDSL_U64 kdsl_dtype_of(kDLUInt, 64)
#define KDSL_F16 kdsl_dtype_of(kDLFloat, 16)
#define KDSL_BF16 kdsl_dtype_of(kDLBfloat, 16)
#define KDSL_F32 kdsl_dtype_of(kDLFloat, 32)
#define KDSL_F64 kdsl_dtype_of(kDLFloat, 64)

/// CPU memory as a tensor whose rows lie without gaps; `shape` must outlive the view.
static inline DLTensor kdsl_view(const void* data, DLDataType dtype, int ndim,
                                 const int64_t* shape) {
  DLTensor view;
  view.data = (void*)(uintptr_t)data;
  view.device.device_type = kDLCPU;
  view.device.device_id = 0;
  view.ndim = ndim;
  view.dtype = dtype;
  view.shape = (int64_t*)(uintptr_t)shape;
  view.strides = NULL;
  view.byte_offset = 0;
  return view;
}

// ---- arguments

static inline TVMFFIAny kdsl_none(void) {
  TVMFFIAny value;
  value.type_index = kTVMFFINone;
  value.zero_padding = 0;
  value.v_int64 = 0;
  return value;
}
/// NULL is None: an output that the call is to make, or an input that is left out.
static inline TVMFFIAny kdsl_tensor(const DLTensor* tensor) {
  TVMFFIAny value = kdsl_none();
  if (!tensor) return value;
  value.type_index = kTVMFFIDLTensorPtr;
  value.v_ptr = (void*)(uintptr_t)tensor;
  return value;
}
static inline TVMFFIAny kdsl_float(double number) {
  TVMFFIAny value = kdsl_none();
  value.type_index = kTVMFFIFloat;
  value.v_float64 = number;
  return value;
}
static inline TVMFFIAny kdsl_int(int64_t number) {
  TVMFFIAny value = kdsl_none();
  value.type_index = kTVMFFIInt;
  value.v_int64 = number;
  return value;
}
static inline TVMFFIAny kdsl_bool(bool yes) {
  TVMFFIAny value = kdsl_none();
  value.type_index = kTVMFFIBool;
  value.v_int64 = yes;
  return value;
}
static inline TVMFFIAny kdsl_dtype(DLDataType dtype) {
  TVMFFIAny value = kdsl_none();
  value.type_index = kTVMFFIDataType;
  value.v_dtype = dtype;
  return value;
}

// ---- results

/// The tensor that a call has made; of several, number `index`. NULL where there is none.
static inline const DLTensor* kdsl_made(const TVMFFIAny* result, int index) {
  const TVMFFIAny* value = result;
  if (result->type_index == kTVMFFIArray) {
    const KdslArrayObject* array = (const KdslArrayObject*)result->v_obj;
    if (index < 0 || index >= array->seq.size) return NULL;
    value = (const TVMFFIAny*)array->seq.data + index;
  } else if (index != 0) {
    return NULL;
  }
  if (value->type_index != kTVMFFITensor) return NULL;
  return &((const KdslTensorObject*)value->v_obj)->tensor;
}

/// Gives up what a call has made; its tensors end with it.
static inline void kdsl_release(TVMFFIAny* result) {
  if (result->type_index >= kTVMFFIStaticObjectBegin) {
    TVMFFIObject* object = result->v_obj;
    const uint64_t before =
        __atomic_fetch_sub(&object->combined_ref_count, (uint64_t)1, __ATOMIC_ACQ_REL);
    if (before == KDSL_REF_COUNT_ONE) {
      if (object->deleter) object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskBoth);
    } else if ((before & 0xffffffffu) == 1) {
      if (object->deleter) object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskStrong);
      const uint64_t weak = (uint64_t)1 << 32;
      if (__atomic_fetch_sub(&object->combined_ref_count, weak, __ATOMIC_ACQ_REL) == weak &&
          object->deleter) {
        object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskWeak);
      }
    }
  }
  *result = kdsl_none();
}

#endif  // KDSL_HOSTS_C_H_
