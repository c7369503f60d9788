// kdsl/ffi/tensor.h: the objects a module returns: tensors and arrays of them, and who owns what.
#pragma once

#include <kdsl/cpu/kernel.h>
#include <kdsl/ffi/error.h>
#include <kdsl/ffi/object.h>

namespace kdsl {

/// Number of bytes of a tensor without gaps; -1 when that is more than an address can count.
inline i64 byte_count(const DLTensor& tensor) {
  i64 bytes = (tensor.dtype.bits * tensor.dtype.lanes + 7) / 8;
  bool empty = false, fits = true;
  for (int i = 0; i < tensor.ndim; ++i) {
    empty = empty || tensor.shape[i] == 0;
    fits = !__builtin_mul_overflow(bytes, tensor.shape[i], &bytes) && fits;
  }
  return empty ? 0 : fits ? bytes : -1;
}

/// A Tensor object of our own: one block that holds head, shape, strides and aligned elements.
inline KdslTensorObject* new_tensor(const DLTensor& prototype) {
  constexpr size_t kAlign = 64;
  const i64 bytes = byte_count(prototype);
  const size_t head = sizeof(KdslTensorObject) + 2 * sizeof(int64_t) * prototype.ndim;
  if (bytes < 0 || static_cast<size_t>(bytes) > SIZE_MAX / 2 - head - kAlign) return nullptr;
  auto* object = static_cast<KdslTensorObject*>(kdsl_malloc(head + bytes + kAlign));
  if (!object) return nullptr;
  object->head = {KDSL_REF_COUNT_ONE, kTVMFFITensor, 0, [](void* self, int flags) {
                    if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) kdsl_free(self);
                  }};
  auto* shape = reinterpret_cast<int64_t*>(object + 1);
  int64_t* strides = shape + prototype.ndim;
  // Without elements, sizes may be such that strides do not fit; nobody uses them.
  uint64_t stride = 1;
  for (int i = prototype.ndim - 1; i >= 0; --i) {
    shape[i] = prototype.shape[i];
    strides[i] = static_cast<i64>(stride);
    stride *= shape[i] > 0 ? shape[i] : 1;
  }
  const auto end = reinterpret_cast<uintptr_t>(strides + prototype.ndim);
  object->tensor = prototype;
  object->tensor.data = reinterpret_cast<void*>((end + kAlign - 1) / kAlign * kAlign);
  object->tensor.shape = shape;
  object->tensor.strides = strides;
  object->tensor.byte_offset = 0;
  return object;
}

/// A Tensor from the allocator of libtvm_ffi, if it is there and has one; else null, nothing
/// raised.
KDSL_COLD inline KdslTensorObject* new_tvm_ffi_tensor(DLTensor prototype) {
  using Alloc = int(DLTensor*, TVMFFIObjectHandle*);
  using MoveError = void(TVMFFIObjectHandle*);
  // Found once, it stays: that library cannot be unloaded.
  static Alloc* found = nullptr;
  Alloc* alloc = __atomic_load_n(&found, __ATOMIC_RELAXED);
  if (!alloc) {
    alloc = find_in_tvm_ffi<Alloc>("TVMFFIEnvTensorAlloc");
    __atomic_store_n(&found, alloc, __ATOMIC_RELAXED);
  }
  if (!alloc) return nullptr;
  TVMFFIObjectHandle made = nullptr;
  if (alloc(&prototype, &made) == 0) return static_cast<KdslTensorObject*>(made);
  // It has no allocator until a torch tensor was passed. Take its error back: we do without.
  TVMFFIObjectHandle error = nullptr;
  if (auto* take = find_in_tvm_ffi<MoveError>("TVMFFIErrorMoveFromRaised")) take(&error);
  if (error) release(static_cast<TVMFFIObject*>(error));
  return nullptr;
}

/// A new tensor with the dtype, device and shape of `prototype`, of the caller's framework when
/// that can be had. Null without memory; something may have been raised that says less than the
/// caller can.
inline KdslTensorObject* allocate(const DLTensor& prototype) {
  if (__kdsl_rt && __kdsl_rt->alloc_tensor) {
    void* made = nullptr;
    const int failed = __kdsl_rt->alloc_tensor(&prototype, &made);
    return failed ? nullptr : static_cast<KdslTensorObject*>(made);
  }
  KdslTensorObject* made = new_tvm_ffi_tensor(prototype);
  return made ? made : new_tensor(prototype);
}

/// An Array that takes over one reference to each tensor; null, and nothing taken, without memory.
inline KdslArrayObject* new_array(KdslTensorObject* const* tensors, int count) {
  const size_t size = sizeof(KdslArrayObject) + count * sizeof(TVMFFIAny);
  auto* array = static_cast<KdslArrayObject*>(kdsl_malloc(size));
  if (!array) return nullptr;
  auto* items = reinterpret_cast<TVMFFIAny*>(array + 1);
  for (int i = 0; i < count; ++i) {
    items[i].type_index = kTVMFFITensor;
    items[i].zero_padding = 0;
    items[i].v_obj = &tensors[i]->head;
  }
  array->head = {KDSL_REF_COUNT_ONE, kTVMFFIArray, 0, [](void* self, int flags) {
                   auto* array = static_cast<KdslArrayObject*>(self);
                   if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
                     auto* items = static_cast<TVMFFIAny*>(array->seq.data);
                     for (i64 i = 0; i < array->seq.size; ++i) release(items[i].v_obj);
                   }
                   if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) kdsl_free(self);
                 }};
  array->seq.data = items;
  array->seq.size = array->seq.capacity = count;
  array->seq.data_deleter = nullptr;
  return array;
}

}  // namespace kdsl
