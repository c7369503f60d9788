// provider.c: who holds the process-wide state, and the table that modules get from us.
//
// Two runtimes with state must not live in one process. Where libtvm_ffi.so is loaded, or can be,
// errors of foreign modules, streams and allocators are its business and we call it; else the
// tables here serve. Python decides which (kdsl/runtime/provider.py), this file does it.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

RtProvider rt_provider;

// ---- what modules call -----------------------------------------------------------------------

static void table_raise(const char* kind, const char* message) { rt_error_set(kind, message); }

static void* table_stream(int32_t device_type, int32_t device_id) {
  const Frame* frame = rt_current;
  for (; frame; frame = frame->outer) {
    if (frame->device_type == device_type && frame->device_id == device_id) return frame->stream;
  }
  return NULL;
}

static void note_error(void* seen, const char* kind, const char* message) {
  *(int*)seen = 1;
  rt_error_set(kind, message);
}

static int exchange_alloc(const DLPackExchangeAPI* api, const DLTensor* prototype, void** out) {
  DLTensor copy = *prototype;
  DLManagedTensorVersioned* managed = NULL;
  int seen = 0;
  copy.data = NULL;
  copy.byte_offset = 0;
  if (api->managed_tensor_allocator(&copy, &managed, &seen, note_error) || !managed) {
    if (!seen) rt_error_set("MemoryError", "the framework's allocator failed");
    return -1;
  }
  RtTensor* tensor = rt_tensor_wrap(&managed->dl_tensor, managed, NULL, NULL);
  if (!tensor) {
    if (managed->deleter) managed->deleter(managed);
    rt_error_set("MemoryError", "out of memory");
    return -1;
  }
  *out = tensor;
  return 0;
}

// CPU memory is ours for every framework: a Torch tensor made from it costs two thirds of one from
// Torch's allocator, and from 32 MiB on its huge pages save more than the kernel takes. On other
// devices only the framework can allocate.
static int table_alloc_tensor(const DLTensor* prototype, void** out) {
  const Frame* frame = rt_current;
  *out = NULL;
  if (prototype->device.device_type == kDLCPU) {
    *out = rt_tensor_new(prototype->ndim, prototype->shape, prototype->dtype);
    return *out ? 0 : -1;
  }
  if (frame && frame->family == FAMILY_EXCHANGE && frame->api->managed_tensor_allocator) {
    return exchange_alloc(frame->api, prototype, out);
  }
  rt_error_set("ValueError", "cannot allocate a result: no framework offers memory on its device");
  return -1;
}

const KdslRuntime rt_table = {.version = KDSL_RUNTIME_VERSION,
                              .size = sizeof(KdslRuntime),
                              .raise = table_raise,
                              .stream = table_stream,
                              .alloc_tensor = table_alloc_tensor,
                              .parallel_for = NULL};

int rt_own_allocator(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
                     void (*set_error)(void*, const char*, const char*)) {
  RtTensor* tensor = prototype->device.device_type == kDLCPU
                         ? rt_tensor_new(prototype->ndim, prototype->shape, prototype->dtype)
                         : NULL;
  *out = tensor ? rt_tensor_export(&tensor->header) : NULL;
  rt_error_clear();
  if (*out) return 0;
  set_error(context, "MemoryError", "kdsl cannot allocate this tensor");
  return -1;
}

// ---- which provider --------------------------------------------------------------------------

static void* find(void* library, const char* name) { return dlsym(library, name); }

static int fill(void* library) {
  RtProvider p;
  memset(&p, 0, sizeof p);
  *(void**)&p.error_move_from_raised = find(library, "TVMFFIErrorMoveFromRaised");
  *(void**)&p.error_set_raised_from_cstr = find(library, "TVMFFIErrorSetRaisedFromCStr");
  *(void**)&p.set_allocator = find(library, "TVMFFIEnvSetDLPackManagedTensorAllocator");
  *(void**)&p.set_stream = find(library, "TVMFFIEnvSetStream");
  if (!p.error_move_from_raised) return -1;
  rt_provider = p;
  return 0;
}

PyObject* rt_provider_name(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return PyUnicode_FromString(rt_provider.error_move_from_raised ? "tvm_ffi" : "bundled");
}

PyObject* rt_use_provider(PyObject* self, PyObject* path) {
  if (rt_provider.error_move_from_raised) return rt_provider_name(self, NULL);
  void* library = dlopen("libtvm_ffi.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library && path != Py_None) {
    const char* file = PyUnicode_AsUTF8AndSize(path, NULL);
    if (!file) return NULL;
    // Global, as apache-tvm-ffi's own import does it: foreign modules find its symbols by name.
    library = dlopen(file, RTLD_LAZY | RTLD_GLOBAL);
    if (!library) return PyErr_Format(PyExc_OSError, "cannot load %s: %s", file, dlerror());
  }
  if (library && fill(library)) {
    return PyErr_Format(PyExc_OSError, "libtvm_ffi.so has no TVMFFIErrorMoveFromRaised");
  }
  return rt_provider_name(self, NULL);
}
