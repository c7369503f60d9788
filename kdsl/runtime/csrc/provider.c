// provider.c: who holds the process-wide state, and the table that modules get from us.
//
// Two runtimes with state must not live in one process. Where libtvm_ffi.so is loaded, or can be,
// errors of foreign modules, streams and allocators are its business and we call it; else the
// tables here serve. Python decides which (kdsl/runtime/provider.py), this file does it.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "errors.h"

static RtProvider providers[3];  // by in_use; each is written once
const RtProvider* rt_provider_in_use = &providers[0];

// ---- what modules call -----------------------------------------------------------------------

static void* table_stream(int32_t device_type, int32_t device_id) {
  return rt_stream_of(device_type, device_id);
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
                              .raise = rt_raise_everywhere,
                              .stream = table_stream,
                              .alloc_tensor = table_alloc_tensor,
                              .parallel_for = NULL,
                              .symbol = rt_symbol};

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

// OWN_LIBRARY: what kdsl/runtime/compat builds, for foreign modules where nothing official is.
static enum { OWN_TABLES, OWN_LIBRARY, OFFICIAL } in_use;
static const void* own_library;  // an address in it

static int read_library(void* library, RtProvider* p) {
  const struct {
    const char* name;
    void* place;
  } functions[] = {
      {"TVMFFIErrorMoveFromRaised", &p->error_move_from_raised},
      {"TVMFFIErrorSetRaised", &p->error_set_raised},
      {"TVMFFIFunctionGetGlobal", &p->function_get_global},
      {"TVMFFIFunctionSetGlobal", &p->function_set_global},
      {"TVMFFIEnvRegisterCAPI", &p->register_c_api},
      {"TVMFFIEnvSetDLPackManagedTensorAllocator", &p->set_allocator},
      {"TVMFFIEnvSetStream", &p->set_stream},
  };
  for (size_t i = 0; i < sizeof functions / sizeof *functions; ++i) {
    void* symbol = dlsym(library, functions[i].name);
    if (!symbol) return -1;  // all of them are in the first release
    memcpy(functions[i].place, &symbol, sizeof symbol);
  }
  return 0;
}

static PyObject* start_using(void* library, int kind) {
  const RtProvider* before = &providers[in_use];
  RtProvider* now = &providers[kind];
  if (read_library(library, now)) {
    PyErr_SetString(PyExc_OSError, "the libtvm_ffi.so in this process lacks functions of its API");
    return NULL;
  }
  if (in_use == OWN_LIBRARY) {  // asked for anything, it notices and hands over what it keeps
    TVMFFIByteArray nothing = {"", 0};
    TVMFFIObjectHandle none = NULL;
    before->function_get_global(&nothing, &none);
  }
  __atomic_store_n(&rt_provider_in_use, now, __ATOMIC_RELEASE);
  in_use = kind;
  if (kind == OWN_LIBRARY) own_library = (const void*)now->error_set_raised;
  // What its import into Python would do.
  now->register_c_api("PyErr_CheckSignals", (void*)PyErr_CheckSignals);
  now->register_c_api("PyGILState_Ensure", (void*)PyGILState_Ensure);
  now->register_c_api("PyGILState_Release", (void*)PyGILState_Release);
  rt_registry_move();
  return rt_provider_name(NULL, NULL);
}

// An official library that is in the process, however it was loaded; its name may go on behind
// "libtvm_ffi" where a wheel carries a copy.
static int is_official(struct dl_phdr_info* info, size_t size, void* path) {
  (void)size;
  const char* name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
  if (!name || strncmp(name, "/libtvm_ffi", 11) || strstr(name, "testing")) return 0;
  for (int i = 0; own_library && i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &info->dlpi_phdr[i];
    uintptr_t at = (uintptr_t)own_library - info->dlpi_addr - part->p_vaddr;
    if (part->p_type == PT_LOAD && at < part->p_memsz) return 0;
  }
  *(char**)path = strdup(info->dlpi_name);
  return 1;
}

static void* loaded_official(void) {
  char* path = NULL;
  dl_iterate_phdr(is_official, &path);
  void* library = path ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  free(path);
  return library;
}

PyObject* rt_provider_name(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return PyUnicode_FromString(in_use == OFFICIAL ? "tvm_ffi" : "bundled");
}

PyObject* rt_use_provider(PyObject* self, PyObject* args) {
  const char* file;
  int own = 0;
  if (!PyArg_ParseTuple(args, "z|p", &file, &own)) return NULL;
  if (in_use == OFFICIAL || (own && in_use == OWN_LIBRARY)) return rt_provider_name(self, NULL);
  void* official = own ? NULL : loaded_official();
  if (official) return start_using(official, OFFICIAL);
  if (!file) return rt_provider_name(self, NULL);
  // Global, as apache-tvm-ffi's own import does it: foreign modules find its symbols by name. Ours
  // must never be: an official library that comes later would call it in place of itself.
  void* library = dlopen(file, own ? RTLD_NOW | RTLD_LOCAL : RTLD_LAZY | RTLD_GLOBAL);
  if (!library) return PyErr_Format(PyExc_OSError, "cannot load %s: %s", file, dlerror());
  return start_using(library, own ? OWN_LIBRARY : OFFICIAL);
}
