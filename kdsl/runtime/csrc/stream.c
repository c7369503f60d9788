// stream.c: on which stream work for a device is queued, and who waits for whom.
//
// The first that says something counts: kdsl.runtime.use_stream in this thread, the framework of
// the first tensor on the device, the calls around this one; else it is the default stream.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdlib.h>

#include "core.h"

// ---- stream objects ---------------------------------------------------------------------------

static int has(PyTypeObject* type, const char* attribute) {
  return PyObject_HasAttrString((PyObject*)type, attribute);
}

static int is_cupy(PyTypeObject* type) {
  PyTypeObject* stream = (PyTypeObject*)rt_loaded("cupy.cuda", "Stream");
  PyTypeObject* outside = (PyTypeObject*)rt_loaded("cupy.cuda", "ExternalStream");
  int is =
      (stream && PyType_IsSubtype(type, stream)) || (outside && PyType_IsSubtype(type, outside));
  Py_XDECREF((PyObject*)outside);
  Py_XDECREF((PyObject*)stream);
  return is;
}

int rt_is_stream(PyTypeObject* type) {
  return has(type, "__cuda_stream__") || has(type, "cuda_stream") || is_cupy(type);
}

PyObject* rt_stream_address(PyObject* stream) {
  PyTypeObject* type = Py_TYPE(stream);
  if (has(type, "cuda_stream")) return PyObject_GetAttrString(stream, "cuda_stream");
  if (is_cupy(type)) return PyObject_GetAttrString(stream, "ptr");
  PyObject* pair = PyObject_CallMethod(stream, "__cuda_stream__", NULL);  // (version, handle)
  PyObject* handle = pair ? PySequence_GetItem(pair, 1) : NULL;
  Py_XDECREF(pair);
  return handle;
}

PyObject* rt_stream_handle(PyObject* self, PyObject* object) {
  (void)self;
  if (!rt_is_stream(Py_TYPE(object))) Py_RETURN_NONE;
  PyObject* handle = rt_stream_address(object);
  PyObject* number = handle ? PyNumber_Index(handle) : NULL;
  Py_XDECREF(handle);
  return number;
}

// ---- what use_stream says ---------------------------------------------------------------------

#define MOST 16

typedef struct {
  int32_t device_type;
  int32_t device_id;
  void* stream;
  void* before;  ///< what the provider had
} Said;

static __thread Said said[MOST] __attribute__((tls_model("initial-exec")));
static __thread int said_count __attribute__((tls_model("initial-exec")));

static Said* find(int32_t device_type, int32_t device_id) {
  for (int i = 0; i < said_count; ++i) {
    if (said[i].device_type == device_type && said[i].device_id == device_id) return &said[i];
  }
  return NULL;
}

int rt_stream_said(int32_t device_type, int32_t device_id, void** stream) {
  const Said* one = find(device_type, device_id);
  if (one) *stream = one->stream;
  return one != NULL;
}

void* rt_stream_of(int32_t device_type, int32_t device_id) {
  void* stream = NULL;
  if (rt_stream_said(device_type, device_id, &stream)) return stream;
  for (const Frame* frame = rt_current; frame; frame = frame->outer) {
    if (frame->device_type == device_type && frame->device_id == device_id) return frame->stream;
  }
  return NULL;
}

// Modules that ask the provider get the same answer.
static void tell_provider(const Said* one, void* stream, void** before) {
  if (rt_provider.set_stream) {
    rt_provider.set_stream(one->device_type, one->device_id, stream, before);
  }
}

static int say(int32_t device_type, int32_t device_id, PyObject* handle) {
  Said* one = find(device_type, device_id);
  if (handle == Py_None) {
    if (!one) return 0;
    tell_provider(one, one->before, NULL);
    *one = said[--said_count];
    return 0;
  }
  void* stream = PyLong_AsVoidPtr(handle);
  if (!stream && PyErr_Occurred()) return -1;
  if (!one && said_count == MOST) {
    PyErr_Format(PyExc_ValueError, "use_stream: expected at most %d devices at once", MOST);
    return -1;
  }
  void* ignored;
  int fresh = !one;
  if (fresh) one = &said[said_count++];
  if (fresh) *one = (Said){device_type, device_id, stream, NULL};
  one->stream = stream;
  tell_provider(one, stream, fresh ? &one->before : &ignored);
  return 0;
}

PyObject* rt_set_stream(PyObject* self, PyObject* arguments) {
  (void)self;
  int device_type, device_id;
  PyObject* handle;
  if (!PyArg_ParseTuple(arguments, "iiO", &device_type, &device_id, &handle)) return NULL;
  const Said* one = find(device_type, device_id);
  PyObject* before = one ? PyLong_FromVoidPtr(one->stream) : Py_None;
  if (!before) return NULL;
  if (!one) Py_INCREF(before);
  if (!say(device_type, device_id, handle)) return before;
  Py_DECREF(before);
  return NULL;
}

PyObject* rt_get_stream(PyObject* self, PyObject* arguments) {
  (void)self;
  int device_type, device_id;
  if (!PyArg_ParseTuple(arguments, "ii", &device_type, &device_id)) return NULL;
  return PyLong_FromVoidPtr(rt_stream_of(device_type, device_id));
}

int rt_note_device(Frame* frame, DLDevice device, const DLPackExchangeAPI* api) {
  if (frame->device_type) return 0;
  frame->device_type = device.device_type;
  frame->device_id = device.device_id;
  frame->stream = NULL;
  if (rt_stream_said(device.device_type, device.device_id, &frame->stream)) return 0;
  if (api && api->current_work_stream) {
    return api->current_work_stream(device.device_type, device.device_id, &frame->stream);
  }
  frame->stream = rt_stream_of(device.device_type, device.device_id);
  return 0;
}

// ---- order between streams --------------------------------------------------------------------

static void* driver_function(const char* name) {
  void* found = dlsym(RTLD_DEFAULT, name);
  if (found) return found;
  static void* library;
  if (!library) library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  return library ? dlsym(library, name) : NULL;
}

// Queue on `after` a wait for all that is on `before` now; 0 when the driver does it.
static int wait_on_device(void* before, void* after) {
  int (*create)(void**, unsigned), (*record)(void*, void*), (*wait)(void*, void*, unsigned),
      (*destroy)(void*);
  *(void**)&create = driver_function("cuEventCreate");
  *(void**)&record = driver_function("cuEventRecord");
  *(void**)&wait = driver_function("cuStreamWaitEvent");
  *(void**)&destroy = driver_function("cuEventDestroy_v2");
  void* event = NULL;
  const unsigned without_timing = 2;
  if (!create || !record || !wait || !destroy || create(&event, without_timing)) return -1;
  int failed = record(event, before) || wait(after, event, 0);
  destroy(event);  // the driver keeps it until it has happened
  return failed ? -1 : 0;
}

int rt_stream_wait(DLDevice device, void* before, void* after) {
  if (before == after || device.device_type != kDLCUDA) return 0;
  if (wait_on_device(before, after) == 0) return 0;
  PyErr_SetString(PyExc_BufferError,
                  "cannot make the consumer's stream wait for the tensor: the CUDA driver is "
                  "missing or refuses; pass stream=-1 and synchronize");
  return -1;
}

int rt_consumer_stream(DLDevice device, PyObject* stream, void** out, int* waits) {
  long long handle = 0;
  *waits = 1;
  if (stream != Py_None) {
    handle = PyLong_AsLongLong(stream);
    if (handle == -1 && PyErr_Occurred()) return -1;
    *waits = handle != -1;
    // DLPack writes the default stream of CUDA as 1, the one per thread as 2, which is a handle.
    if (device.device_type == kDLCUDA && handle == 1) handle = 0;
  }
  *out = (void*)(intptr_t)handle;
  return 0;
}

PyObject* rt_stream_for_producer(DLDevice device, void* stream) {
  switch (device.device_type) {
    case kDLCUDA:
      return PyLong_FromVoidPtr(stream ? stream : (void*)1);
    case kDLROCM:
      return PyLong_FromVoidPtr(stream);
    default:
      Py_RETURN_NONE;
  }
}
