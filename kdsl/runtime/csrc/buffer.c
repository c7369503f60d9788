// buffer.c: arrays by the buffer protocol (JAX on the CPU and others) and by `__dlpack__`.
#include <string.h>

#include "core.h"

int rt_has_buffer(PyTypeObject* type) { return PyType_GetSlot(type, RT_SLOT_GETBUFFER) != NULL; }

int rt_is_jax(PyTypeObject* type) {
  static PyObject* array;  // jax.Array, an abstract class
  if (!array) array = rt_loaded("jax", "Array");
  if (!array) return 0;
  int is = PyObject_IsSubclass((PyObject*)type, array);
  if (is < 0) PyErr_Clear();
  return is > 0;
}

static int letter_dtype(const char* format, Py_ssize_t itemsize, DLDataType* out) {
  if (!format) format = "B";
  if (*format == '@' || *format == '=' || *format == '<') ++format;
  int complex = *format == 'Z';
  format += complex;
  if (!format[0] || format[1] || itemsize < 1 || itemsize > 16) return -1;
  uint8_t code;
  if (complex && strchr("fd", *format))
    code = kDLComplex;
  else if (complex)
    return -1;
  else if (*format == '?')
    code = kDLBool;
  else if (strchr("bhilqn", *format))
    code = kDLInt;
  else if (strchr("BHILQN", *format))
    code = kDLUInt;
  else if (strchr("efd", *format))
    code = kDLFloat;
  else
    return -1;
  *out = (DLDataType){code, (uint8_t)(itemsize * 8), 1};
  return 0;
}

// 1: taken; 0: this object has no such buffer, no exception; -1: exception.
static int take_buffer(Frame* frame, Py_ssize_t index, PyObject* object, Family family) {
  Hold* hold = rt_hold(frame, HOLD_BUFFER);
  if (!hold) return -1;
  RtBuffer* b = &hold->buffer;
  if (PyObject_GetBuffer(object, b, RT_BUF_STRIDES | RT_BUF_FORMAT)) {
    b->obj = NULL;
    return 0;
  }
  DLDataType dtype;
  if (letter_dtype(b->format, b->itemsize, &dtype)) {
    return rt_argument_error(frame, index, "dtype");
  }
  if (b->ndim > 0 && !b->shape) return rt_argument_error(frame, index, "export");
  int64_t* strides = rt_strides(frame, b->ndim);
  if (!strides) return -1;
  int64_t fraction = 0;
  for (int i = 0; b->strides && i < b->ndim; ++i) {
    strides[i] = b->strides[i] / b->itemsize;
    fraction |= b->strides[i] % b->itemsize;
  }
  if (fraction) return rt_argument_error(frame, index, "unaligned");
  frame->views[index] = (DLTensor){.data = b->buf,
                                   .device = {kDLCPU, 0},
                                   .ndim = b->ndim,
                                   .dtype = dtype,
                                   .shape = b->ndim ? (int64_t*)b->shape : strides,
                                   .strides = b->ndim && !b->strides ? NULL : strides};
  // ctypes gives none, though asked for them: row after row.
  if (RT_UNLIKELY(b->ndim && !b->strides) && rt_complete_strides(frame, index)) return -1;
  rt_note_family(frame, family, NULL);
  if (frame->owned) {
    // The exporter is kept, not its buffer: releasing a buffer from another thread is not safe.
    RtTensor* tensor = rt_tensor_of_python(&frame->views[index], object, b->readonly);
    return rt_put_owned(frame, index, tensor) ? -1 : 1;
  }
  // What JAX shows is never writable; rt_take_jax sees to it.
  return rt_put_view(frame, index, !b->readonly || family == FAMILY_JAX) ? -1 : 1;
}

static int take_or_raise(Frame* frame, Py_ssize_t index, PyObject* object, Family family) {
  int taken = take_buffer(frame, index, object, family);
  if (taken > 0) return 0;
  return taken < 0 ? -1 : rt_argument_error(frame, index, "export");
}

int rt_take_buffer(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  return take_or_raise(frame, index, object, FAMILY_OTHER);
}

int rt_take_numpy_buffer(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  return take_or_raise(frame, index, object, FAMILY_NUMPY);
}

// Where an object says it lies; the CPU when it says nothing. -1 with an exception.
static int device_of(PyObject* object, DLDevice* device) {
  int type = kDLCPU, id = 0;
  PyObject* method = PyObject_GetAttrString(object, "__dlpack_device__");
  if (!method) {
    PyErr_Clear();
    *device = (DLDevice){kDLCPU, 0};
    return 0;
  }
  PyObject* pair = PyObject_CallObject(method, NULL);
  Py_DECREF(method);
  int failed = !pair || !PyArg_ParseTuple(pair, "ii", &type, &id);
  Py_XDECREF(pair);
  *device = (DLDevice){(DLDeviceType)type, id};
  return failed ? -1 : 0;
}

static PyObject* export_call(PyObject* method, PyObject* stream, int versioned) {
  PyObject* none = PyTuple_New(0);
  PyObject* keywords = none ? PyDict_New() : NULL;
  PyObject* version = keywords && versioned ? Py_BuildValue("(ii)", 1, 3) : NULL;
  int failed = !keywords || (versioned && !version);
  if (!failed && version) failed = PyDict_SetItemString(keywords, "max_version", version);
  if (!failed && stream != Py_None) failed = PyDict_SetItemString(keywords, "stream", stream);
  PyObject* capsule = failed ? NULL : PyObject_Call(method, none, keywords);
  Py_XDECREF(version);
  Py_XDECREF(keywords);
  Py_XDECREF(none);
  return capsule;
}

static PyObject* export_either(PyObject* method, PyObject* stream) {
  PyObject* capsule = export_call(method, stream, 1);
  if (capsule || !PyErr_ExceptionMatches(PyExc_TypeError)) return capsule;
  PyErr_Clear();  // a producer from before DLPack 1.0
  return export_call(method, stream, 0);
}

static const DLTensor* tensor_in(PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
    DLManagedTensorVersioned* m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    return m->version.major == 1 ? &m->dl_tensor : NULL;
  }
  if (!PyCapsule_IsValid(capsule, "dltensor")) return NULL;
  return &((DLManagedTensor*)PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor;
}

// On a device the producer is told our stream, and makes it wait for what is still on its own.
static PyObject* export_on(Frame* frame, PyObject* object, PyObject* method) {
  DLDevice device;
  if (device_of(object, &device)) return NULL;
  if (!rt_is_host(device) && rt_note_device(frame, device, NULL)) return NULL;
  int noted =
      frame->device_type == (int32_t)device.device_type && frame->device_id == device.device_id;
  void* handle = noted ? frame->stream : rt_stream_of(device.device_type, device.device_id);
  PyObject* stream = rt_stream_for_producer(device, handle);
  PyObject* capsule = stream ? export_either(method, stream) : NULL;
  Py_XDECREF(stream);
  return capsule;
}

// Asking a JAX array where it lies costs more than exporting it, and mostly it is on the CPU: take
// what its library gives quickly, unless it lies elsewhere. NULL without an exception: do not.
static PyObject* jax_capsule(PyObject* object) {
  static PyObject* quick;
  if (!quick && !(quick = rt_import("kdsl.runtime.jax", "export"))) return NULL;
  PyObject* capsule = quick == Py_None ? NULL : PyObject_CallFunctionObjArgs(quick, object, NULL);
  PyErr_Clear();  // the long way says what is wrong
  const DLTensor* tensor = capsule ? tensor_in(capsule) : NULL;
  if (capsule && (!tensor || !rt_is_host(tensor->device))) Py_CLEAR(capsule);
  return capsule;
}

static PyObject* dlpack_capsule(Frame* frame, PyObject* object, Family family) {
  PyObject* capsule = family == FAMILY_JAX ? jax_capsule(object) : NULL;
  if (capsule) return capsule;
  PyObject* method = PyObject_GetAttrString(object, "__dlpack__");
  if (method) capsule = export_on(frame, object, method);
  Py_XDECREF(method);
  return capsule;
}

static int put_dlpack_owned(Frame* frame, Py_ssize_t index, PyObject* capsule, int versioned,
                            Family family) {
  const char* name = versioned ? "dltensor_versioned" : "dltensor";
  void* managed = PyCapsule_GetPointer(capsule, name);
  RtTensor* tensor = versioned ? rt_tensor_wrap(&frame->views[index], managed, NULL, NULL)
                               : rt_tensor_wrap(&frame->views[index], NULL, managed, NULL);
  if (tensor && family == FAMILY_JAX) tensor->read_only = 1;
  if (tensor) PyCapsule_SetName(capsule, versioned ? "used_dltensor_versioned" : "used_dltensor");
  return rt_put_owned(frame, index, tensor);
}

static int take_dlpack(Frame* frame, Py_ssize_t index, PyObject* object, const ArrayKind* kind) {
  Family family = kind->family;
  PyObject* capsule = dlpack_capsule(frame, object, family);
  Hold* hold = capsule ? rt_hold(frame, HOLD_OBJECT) : NULL;
  if (!hold) {
    Py_XDECREF(capsule);
    return rt_argument_error(frame, index, "export");
  }
  hold->object = capsule;  // its destructor frees the tensor after the call
  int writable = 1;
  int versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
  if (versioned) {
    DLManagedTensorVersioned* managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (managed->version.major != 1) return rt_argument_error(frame, index, "version");
    writable = !(managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
    frame->views[index] = managed->dl_tensor;
  } else if (PyCapsule_IsValid(capsule, "dltensor")) {
    DLManagedTensor* managed = PyCapsule_GetPointer(capsule, "dltensor");
    frame->views[index] = managed->dl_tensor;
  } else {
    return rt_argument_error(frame, index, "version");
  }
  if (rt_complete_strides(frame, index)) return -1;
  rt_note_kind(frame, kind);
  if (rt_put_view(frame, index, writable || family == FAMILY_JAX)) return -1;
  return frame->owned ? put_dlpack_owned(frame, index, capsule, versioned, family) : 0;
}

int rt_take_dlpack(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  ArrayKind kind = {.family = FAMILY_OTHER, .import = entry->import};
  return take_dlpack(frame, index, object, &kind);
}

// The function by which the module of a class imports others' arrays; a new reference or NULL.
PyObject* rt_import_of(PyTypeObject* type) {
  PyObject* name = PyObject_GetAttrString((PyObject*)type, "__module__");
  const char* text = name && PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  PyObject* found = NULL;
  char module[128];
  size_t size = text ? strlen(text) : 0;
  // "package.part._array", then "package.part", then "package": the first that has it.
  while (!found && size && size < sizeof module) {
    memcpy(module, text, size);
    module[size] = '\0';
    found = rt_loaded(module, "from_dlpack");
    while (size && text[--size] != '.') continue;
  }
  Py_XDECREF(name);
  PyErr_Clear();
  return found;
}

// Whether the memory that JAX shows is the whole array. 0 with or without an exception: it is not.
static int is_whole(PyObject* object) {
  static PyObject *name, *single, *ask;
  if (!ask) {
    name = PyUnicode_InternFromString("sharding");
    single = rt_loaded("jax.sharding", "SingleDeviceSharding");
    ask = rt_import("kdsl.runtime.jax", "is_whole");
    if (!name || !ask) return 0;
  }
  PyObject* sharding = PyObject_GetAttr(object, name);
  int whole = sharding && (PyObject*)Py_TYPE(sharding) == single;
  if (RT_UNLIKELY(!whole) && sharding) {
    PyObject* answer = PyObject_CallFunctionObjArgs(ask, sharding, NULL);
    whole = answer == Py_True;
    Py_XDECREF(answer);
  }
  Py_XDECREF(sharding);
  return whole;
}

static int take_jax(Frame* frame, Py_ssize_t index, PyObject* object) {
  // bf16, fp8 and arrays on other devices have no buffer, but DLPack; a failed attempt is dear, and
  // the next array is mostly as the last one.
  static int tries_buffer = 1;
  ArrayKind kind = {.family = FAMILY_JAX};
  if (RT_UNLIKELY(!is_whole(object))) {
    return rt_argument_error(frame, index, PyErr_Occurred() ? "export" : "sharded");
  }
  int taken = tries_buffer ? take_buffer(frame, index, object, FAMILY_JAX) : 0;
  if (RT_LIKELY(taken)) return taken > 0 ? 0 : -1;
  PyErr_Clear();
  int failed = take_dlpack(frame, index, object, &kind);
  tries_buffer = failed || rt_dtype_format(frame->views[index].dtype) != NULL;
  return failed;
}

int rt_take_jax(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  ParamKind kind = rt_param_kind(frame, index);
  if (RT_UNLIKELY(kind == PARAM_OUT)) return rt_argument_error(frame, index, "jax_out");
  if (take_jax(frame, index, object)) return -1;
  return RT_UNLIKELY(kind == PARAM_INOUT) ? rt_renew(frame, index) : 0;
}
