// tensor.c: Tensor objects over memory of their own, of DLPack's owners, or of another Tensor.
#include <stdlib.h>
#include <string.h>

#include "compat.h"

#define ALIGNMENT 64  // JAX takes memory over only when it is aligned so

typedef struct {
  KdslTensorObject base;
  DLManagedTensor* legacy;
  DLManagedTensorVersioned* managed;
  TVMFFIObject* source;
} Tensor;

static void delete_tensor(void* object, int flags) {
  Tensor* self = object;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    if (self->legacy && self->legacy->deleter) self->legacy->deleter(self->legacy);
    if (self->managed && self->managed->deleter) self->managed->deleter(self->managed);
    if (self->source) release(self->source);
    self->legacy = NULL, self->managed = NULL, self->source = NULL;
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) free(self);
}

static void fill_strides(DLTensor* tensor) {
  uint64_t step = 1;
  for (int32_t i = tensor->ndim - 1; i >= 0; --i) {
    tensor->strides[i] = (int64_t)step;
    step *= tensor->shape[i] > 1 ? (uint64_t)tensor->shape[i] : 1;
  }
}

// A Tensor whose shape and strides stand behind it, before `more` bytes on a line of their own.
static Tensor* start_tensor(const DLTensor* like, size_t more) {
  size_t axes = (size_t)like->ndim * sizeof(int64_t);
  size_t head = (sizeof(Tensor) + 2 * axes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  void* block = NULL;
  if (more ? posix_memalign(&block, ALIGNMENT, head + more) : !(block = malloc(head))) return NULL;
  Tensor* self = block;
  memset(self, 0, sizeof *self);
  start_object(self, kTVMFFITensor, delete_tensor);
  DLTensor* tensor = &self->base.tensor;
  *tensor = *like;
  tensor->shape = (int64_t*)(self + 1);
  tensor->strides = tensor->shape + like->ndim;
  if (axes) memcpy(tensor->shape, like->shape, axes);
  if (axes && like->strides) {
    memcpy(tensor->strides, like->strides, axes);
  } else {
    fill_strides(tensor);
  }
  if (more) tensor->data = (char*)block + head;
  return self;
}

// Bytes of a compact tensor; -1: they cannot be counted.
static int64_t count_bytes(const DLTensor* tensor) {
  int64_t bits = (int64_t)tensor->dtype.bits * (tensor->dtype.lanes ? tensor->dtype.lanes : 1);
  int fits = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i) {
    if (tensor->shape[i] < 0) return -1;
    if (tensor->shape[i] == 0) return 0;
  }
  for (int32_t i = 0; i < tensor->ndim; ++i) {
    fits &= !__builtin_mul_overflow(bits, tensor->shape[i], &bits);
  }
  return fits && bits < INT64_MAX - 7 ? (bits + 7) / 8 : -1;
}

TVMFFIObject* new_tensor(const DLTensor* prototype) {
  DLTensor like = *prototype;
  int64_t bytes = like.ndim < 0 ? -1 : count_bytes(&like);
  if (like.device.device_type != kDLCPU) {
    fail("RuntimeError",
         "cannot allocate a tensor on device type %d: no framework has lent its "
         "allocator to this call",
         (int)like.device.device_type);
    return NULL;
  }
  if (bytes < 0 || bytes > INT64_MAX / 2) {
    fail("ValueError", "cannot allocate a tensor: its shape has no size in bytes");
    return NULL;
  }
  like.strides = NULL;
  like.byte_offset = 0;
  Tensor* self = start_tensor(&like, bytes ? (size_t)bytes : 1);
  if (self) return &self->base.head;
  no_memory();
  return NULL;
}

// ---- DLPack ------------------------------------------------------------------------------------

static int is_contiguous(const DLTensor* tensor) {
  int64_t step = 1;
  if (!tensor->strides) return 1;
  for (int32_t i = tensor->ndim - 1; i >= 0; --i) {
    if (tensor->shape[i] != 1 && tensor->strides[i] != step) return 0;
    step *= tensor->shape[i];
  }
  return 1;
}

static int check(const DLTensor* tensor, int32_t alignment, int32_t contiguous) {
  if (alignment && ((uintptr_t)tensor->data + tensor->byte_offset) % (uintptr_t)alignment) {
    return fail("RuntimeError", "the tensor's memory is not aligned to %d bytes", alignment);
  }
  if (contiguous && !is_contiguous(tensor)) {
    return fail("RuntimeError", "the tensor is not contiguous");
  }
  return 0;
}

int TVMFFITensorFromDLPack(DLManagedTensor* from, int32_t require_alignment,
                           int32_t require_contiguous, TVMFFIObjectHandle* out) {
  if (check(&from->dl_tensor, require_alignment, require_contiguous)) return -1;
  Tensor* self = start_tensor(&from->dl_tensor, 0);
  if (!self) return no_memory();
  self->legacy = from;
  *out = self;
  return 0;
}

int TVMFFITensorFromDLPackVersioned(DLManagedTensorVersioned* from, int32_t require_alignment,
                                    int32_t require_contiguous, TVMFFIObjectHandle* out) {
  if (check(&from->dl_tensor, require_alignment, require_contiguous)) return -1;
  Tensor* self = start_tensor(&from->dl_tensor, 0);
  if (!self) return no_memory();
  self->managed = from;
  *out = self;
  return 0;
}

static void end_legacy(DLManagedTensor* self) {
  release(self->manager_ctx);
  free(self);
}

int TVMFFITensorToDLPack(TVMFFIObjectHandle from, DLManagedTensor** out) {
  DLManagedTensor* made = malloc(sizeof *made);
  if (!made) return no_memory();
  retain(from);
  *made = (DLManagedTensor){*tensor_of(from), from, end_legacy};
  *out = made;
  return 0;
}

static void end_versioned(DLManagedTensorVersioned* self) {
  release(self->manager_ctx);
  free(self);
}

int TVMFFITensorToDLPackVersioned(TVMFFIObjectHandle from, DLManagedTensorVersioned** out) {
  DLManagedTensorVersioned* made = malloc(sizeof *made);
  if (!made) return no_memory();
  retain(from);
  const Tensor* own = ((TVMFFIObject*)from)->deleter == delete_tensor ? from : NULL;
  uint64_t flags = own && own->managed ? own->managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY : 0;
  *made = (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                     .manager_ctx = from,
                                     .deleter = end_versioned,
                                     .flags = flags,
                                     .dl_tensor = *tensor_of(from)};
  *out = made;
  return 0;
}

int TVMFFITensorCreateUnsafeView(TVMFFIObjectHandle source, const DLTensor* prototype,
                                 TVMFFIObjectHandle* out) {
  Tensor* self = start_tensor(prototype, 0);
  if (!self) return no_memory();
  retain(source);
  self->source = source;
  *out = self;
  return 0;
}
