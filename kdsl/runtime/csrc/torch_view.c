// torch_view.c: plain CPU tensors of Torch, read through the C functions that Torch keeps stable.
//
// The exchange protocol of DLPack goes through Torch's Python binding, which costs more than the
// rest of a call. What is read here is compared with what the protocol says, for tensors of all
// kinds, before it is trusted; a tensor whose dispatch keys are not those of a plain one goes the
// long way.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <string.h>

#include "core.h"

#define KEY_SETS 4
#define SCALAR_TYPES 64

static struct {
  int (*data)(void* tensor, void** out);
  int (*ndim)(void* tensor, int64_t* out);
  int (*sizes)(void* tensor, int64_t** out);
  int (*strides)(void* tensor, int64_t** out);
  int (*dtype)(void* tensor, int32_t* out);
} torch;

static uint64_t key_sets[KEY_SETS];  // of plain tensors, made in and out of inference mode
static int key_set_count;            // 0: nothing here is trusted
// DLPack's dtypes by Torch's numbers, learned from the long way; no bits: not seen yet.
static DLDataType dtypes[SCALAR_TYPES];

static inline int is_plain(PyObject* tensor) {
  if (!key_set_count) return 0;
  uint64_t keys = rt_torch_keys(tensor);
  int found = 0;
  for (int i = 0; i < key_set_count; ++i) found |= keys == key_sets[i];
  return found;
}

static inline int read_tensor(PyObject* object, DLTensor* out, int32_t* number) {
  void* tensor = rt_torch_handle(object);
  int64_t ndim;
  int failed = torch.data(tensor, &out->data) | torch.ndim(tensor, &ndim) |
               torch.sizes(tensor, &out->shape) | torch.strides(tensor, &out->strides) |
               torch.dtype(tensor, number);
  out->ndim = (int32_t)ndim;
  out->device = (DLDevice){kDLCPU, 0};
  out->byte_offset = 0;
  return !failed && *number >= 0 && *number < SCALAR_TYPES;
}

int rt_torch_view(PyObject* object, DLTensor* out) {
  int32_t number;
  if (!is_plain(object) || !read_tensor(object, out, &number)) return 0;
  __atomic_load(&dtypes[number], &out->dtype, __ATOMIC_RELAXED);
  return out->dtype.bits != 0;
}

void rt_torch_learn_dtype(PyObject* object, DLDataType dtype) {
  DLTensor view;
  int32_t number;
  if (!is_plain(object) || !read_tensor(object, &view, &number)) return;
  __atomic_store(&dtypes[number], &dtype, __ATOMIC_RELAXED);
}

// ---- the test ----------------------------------------------------------------------------------

static int find_functions(void) {
  void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return 0;
  *(void**)&torch.data = dlsym(library, "aoti_torch_get_data_ptr");
  *(void**)&torch.ndim = dlsym(library, "aoti_torch_get_dim");
  *(void**)&torch.sizes = dlsym(library, "aoti_torch_get_sizes");
  *(void**)&torch.strides = dlsym(library, "aoti_torch_get_strides");
  *(void**)&torch.dtype = dlsym(library, "aoti_torch_get_dtype");
  dlclose(library);  // Torch holds it
  return torch.data && torch.ndim && torch.sizes && torch.strides && torch.dtype;
}

static int same(const DLTensor* a, const DLTensor* b) {
  if (a->ndim != b->ndim || (const char*)a->data + a->byte_offset != b->data) return 0;
  if (a->device.device_type != kDLCPU) return 0;
  size_t axes = (size_t)a->ndim * sizeof(int64_t);
  return axes == 0 || (memcmp(a->shape, b->shape, axes) == 0 &&
                       (!a->strides || memcmp(a->strides, b->strides, axes) == 0));
}

static int agrees(const DLPackExchangeAPI* api, PyObject* tensor) {
  DLTensor theirs, ours;
  int32_t number;
  if (api->dltensor_from_py_object_no_sync(tensor, &theirs)) return 0;
  return read_tensor(tensor, &ours, &number) && same(&theirs, &ours);
}

static int note_keys(PyObject* tensor) {
  if (is_plain(tensor)) return 1;
  if (key_set_count == KEY_SETS) return 0;
  key_sets[key_set_count++] = rt_torch_keys(tensor);
  return 1;
}

void rt_torch_view_find(const DLPackExchangeAPI* api) {
  if (!api->dltensor_from_py_object_no_sync || !find_functions()) return;
  PyObject* samples = rt_import("kdsl.runtime.frameworks", "torch_plain_samples");
  PyObject* list = samples ? PyObject_CallObject(samples, NULL) : NULL;
  int good = list != NULL;
  for (Py_ssize_t i = 0; good && i < PyList_Size(list); ++i) {
    PyObject* tensor = PyList_GetItem(list, i);
    good = agrees(api, tensor) && note_keys(tensor);
  }
  if (!good) key_set_count = 0;
  Py_XDECREF(list);
  Py_XDECREF(samples);
  PyErr_Clear();
}
