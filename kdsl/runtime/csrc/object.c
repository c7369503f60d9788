// object.c: reference counts, the memory of objects, and Tensor objects with the published layout.
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core.h"

// First touch of fresh memory costs more than the kernel that writes it; 2 MiB pages help. Smaller
// blocks are better off without: the C library gives out again, untouched, what was freed before.
#define HUGE_PAGE ((size_t)2 << 20)
#define HUGE_FROM ((size_t)32 << 20)
#define ALIGNMENT 64

void rt_incref(void* object) {
  __atomic_fetch_add(&((TVMFFIObject*)object)->combined_ref_count, 1, __ATOMIC_RELAXED);
}

void rt_decref(void* object) {
  TVMFFIObject* self = object;
  uint64_t before = __atomic_fetch_sub(&self->combined_ref_count, 1, __ATOMIC_RELEASE);
  if (before == KDSL_REF_COUNT_ONE) {
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (self->deleter) self->deleter(self, kTVMFFIObjectDeleterFlagBitMaskBoth);
  } else if ((before & 0xffffffffu) == 1) {  // weak references remain
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (self->deleter) self->deleter(self, kTVMFFIObjectDeleterFlagBitMaskStrong);
    before = __atomic_fetch_sub(&self->combined_ref_count, 1ull << 32, __ATOMIC_ACQ_REL);
    if (before >> 32 == 1 && self->deleter) {
      self->deleter(self, kTVMFFIObjectDeleterFlagBitMaskWeak);
    }
  }
}

// Before each object lie two words that the published headers keep for hosts: what a host ties to
// the object, and how to reclaim both. Zero says that nothing is tied.
#define PREFIX ((size_t)16)

static void init_header(TVMFFIObject* header, int32_t type_index, void (*deleter)(void*, int)) {
  *header = (TVMFFIObject){KDSL_REF_COUNT_ONE, type_index, 0, deleter};
}

void* rt_object_new(size_t size, int32_t type_index, void (*deleter)(void*, int)) {
  char* block = calloc(1, PREFIX + size);
  if (!block) return NULL;
  TVMFFIObject* object = (TVMFFIObject*)(block + PREFIX);
  init_header(object, type_index, deleter);
  return object;
}

void rt_object_free(void* object) { free((char*)object - PREFIX); }

void rt_value_release(TVMFFIAny* value) {
  TVMFFIAny before = *value;
  *value = (TVMFFIAny){.type_index = kTVMFFINone};
  if (before.type_index >= kTVMFFIStaticObjectBegin) rt_decref(before.v_obj);
}

void rt_python_release(PyObject* object) {
  if (!object) return;
  if (rt_has_gil()) {
    Py_DECREF(object);
    return;
  }
  PyGILState_STATE gil;
  if (!rt_python_enter(&gil)) return;
  Py_DECREF(object);
  PyGILState_Release(gil);
}

void rt_value_retain(const TVMFFIAny* value) {
  if (value->type_index >= kTVMFFIStaticObjectBegin) rt_incref(value->v_obj);
}

// ---- Tensor ----------------------------------------------------------------------------------

static void tensor_delete(void* self, int flags) {
  RtTensor* t = self;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    if (t->managed && t->managed->deleter) t->managed->deleter(t->managed);
    if (t->legacy && t->legacy->deleter) t->legacy->deleter(t->legacy);
    rt_python_release(t->owner);
    t->managed = NULL, t->legacy = NULL, t->owner = NULL;
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) rt_object_free(t);
}

int rt_tensor_is_own(const TVMFFIObject* object) { return object->deleter == tensor_delete; }

int64_t rt_numel(const DLTensor* tensor) {
  int64_t n = 1;
  for (int32_t i = 0; i < tensor->ndim; ++i) n *= tensor->shape[i];
  return n;
}

// Bytes of a compact tensor, or -1 when they cannot be counted.
static int64_t compact_bytes(int32_t ndim, const int64_t* shape, DLDataType dtype) {
  int64_t count = (int64_t)dtype.bits * (dtype.lanes ? dtype.lanes : 1);
  int fits = 1, empty = 0;
  for (int32_t i = 0; i < ndim; ++i) {
    if (shape[i] < 0) return -1;
    empty |= shape[i] == 0;
    fits &= !__builtin_mul_overflow(count, shape[i], &count);
  }
  if (empty) return 0;  // whatever the other sizes are
  return fits ? count / 8 + (count % 8 != 0) : -1;
}

static void fill_compact_strides(int32_t ndim, const int64_t* shape, int64_t* strides) {
  uint64_t step = 1;  // without elements it may not fit, and nobody uses it
  for (int32_t i = ndim - 1; i >= 0; --i) {
    strides[i] = (int64_t)step;
    step *= shape[i] > 1 ? (uint64_t)shape[i] : 1;
  }
}

RtTensor* rt_tensor_new(int32_t ndim, const int64_t* shape, DLDataType dtype) {
  int64_t bytes = ndim < 0 ? -1 : compact_bytes(ndim, shape, dtype);
  if (bytes < 0 || bytes > INT64_MAX / 2) {
    rt_error_set("ValueError", "cannot allocate a tensor: its shape has no size in bytes");
    return NULL;
  }
  size_t axes = (size_t)ndim * sizeof(int64_t);
  size_t head = (PREFIX + sizeof(RtTensor) + 2 * axes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  size_t total = head + (size_t)bytes;
  int huge = total >= HUGE_FROM;
  void* block = NULL;
  if (posix_memalign(&block, huge ? HUGE_PAGE : ALIGNMENT, total)) {
    rt_error_set("MemoryError", "cannot allocate a tensor: out of memory");
    return NULL;
  }
#ifdef MADV_HUGEPAGE
  if (huge) madvise(block, total / HUGE_PAGE * HUGE_PAGE, MADV_HUGEPAGE);
#endif
  memset(block, 0, PREFIX + sizeof(RtTensor));
  RtTensor* t = (RtTensor*)((char*)block + PREFIX);
  init_header(&t->header, kTVMFFITensor, tensor_delete);
  int64_t* own_shape = (int64_t*)(t + 1);
  if (ndim) memcpy(own_shape, shape, axes);
  fill_compact_strides(ndim, own_shape, own_shape + ndim);
  t->tensor = (DLTensor){.data = (char*)block + head,
                         .device = {kDLCPU, 0},
                         .ndim = ndim,
                         .dtype = dtype,
                         .shape = own_shape,
                         .strides = own_shape + ndim};
  return t;
}

RtTensor* rt_tensor_wrap(const DLTensor* view, DLManagedTensorVersioned* managed,
                         DLManagedTensor* legacy, PyObject* owner) {
  size_t axes = (size_t)view->ndim * sizeof(int64_t);
  RtTensor* t = rt_object_new(sizeof *t + 2 * axes, kTVMFFITensor, tensor_delete);
  if (!t) return NULL;
  t->tensor = *view;
  t->tensor.shape = (int64_t*)(t + 1);
  t->tensor.strides = t->tensor.shape + view->ndim;
  if (axes) memcpy(t->tensor.shape, view->shape, axes);
  if (axes && view->strides)
    memcpy(t->tensor.strides, view->strides, axes);
  else
    fill_compact_strides(view->ndim, t->tensor.shape, t->tensor.strides);
  t->managed = managed, t->legacy = legacy, t->owner = owner;
  t->read_only = managed && managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
  return t;
}

RtTensor* rt_tensor_of_python(const DLTensor* view, PyObject* owner, int read_only) {
  RtTensor* t = rt_tensor_wrap(view, NULL, NULL, owner);
  if (!t) return NULL;
  Py_INCREF(owner);
  t->read_only = read_only;
  return t;
}

int rt_tensor_is_read_only(const TVMFFIObject* object) {
  return rt_tensor_is_own(object) && ((const RtTensor*)object)->read_only;
}

static void export_delete(DLManagedTensorVersioned* self) {
  rt_decref(self->manager_ctx);
  free(self);
}

DLManagedTensorVersioned* rt_tensor_export(TVMFFIObject* object) {
  RtTensor* own = (RtTensor*)object;
  if (rt_tensor_is_own(object) && own->managed &&
      __atomic_load_n(&object->combined_ref_count, __ATOMIC_ACQUIRE) == KDSL_REF_COUNT_ONE) {
    DLManagedTensorVersioned* inner = own->managed;  // nobody else looks: hand over what is inside
    own->managed = NULL;
    rt_decref(object);
    return inner;
  }
  DLManagedTensorVersioned* m = malloc(sizeof *m);
  if (!m) {
    rt_decref(object);
    return NULL;
  }
  *m = (DLManagedTensorVersioned){
      .version = {1, 0},
      .manager_ctx = object,
      .deleter = export_delete,
      .flags = rt_tensor_is_read_only(object) ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
      .dl_tensor = *rt_tensor_of(object)};
  return m;
}
