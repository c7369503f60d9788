// scalars.c: numbers, strings and bytes as arguments.
#include <stdlib.h>
#include <string.h>

#include "core.h"

// An integer that has no 64 bits: only a float takes it.
RT_COLD static int put_large_int(Frame* frame, Py_ssize_t index, PyObject* object) {
  ParamKind kind = rt_param_kind(frame, index);
  if (kind != PARAM_FLOAT) {
    if (kind == PARAM_UNKNOWN) return rt_argument_error(frame, index, "overflow");
    return rt_argument_error(frame, index, kind == PARAM_SCALAR ? "too_large" : "unsupported");
  }
  double value = PyLong_AsDouble(object);
  if (value == -1.0 && PyErr_Occurred()) {
    PyErr_Clear();
    return rt_argument_error(frame, index, "range");
  }
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIFloat, .v_float64 = value};
  return 0;
}

static inline int put_int(Frame* frame, Py_ssize_t index, PyObject* object) {
  int overflow = 0;
  long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (RT_UNLIKELY(overflow)) return put_large_int(frame, index, object);
  if (RT_UNLIKELY(value == -1) && PyErr_Occurred()) return -1;
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = value};
  return 0;
}

static int take_int(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  return put_int(frame, index, object);
}

static int take_float(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  double value = PyFloat_AsDouble(object);
  if (RT_UNLIKELY(value == -1.0) && PyErr_Occurred()) {
    return rt_argument_error(frame, index, "export");
  }
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIFloat, .v_float64 = value};
  return 0;
}

static int take_none(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)object, (void)entry;
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFINone};
  return 0;
}

static int take_bool(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  int value = object == Py_True ? 1 : object == Py_False ? 0 : PyObject_IsTrue(object);
  if (value < 0) return -1;
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIBool, .v_int64 = value};
  return 0;
}

static int take_index(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  PyObject* number = PyNumber_Index(object);
  if (!number) return rt_argument_error(frame, index, "export");
  int failed = put_int(frame, index, number);
  Py_DECREF(number);
  return failed;
}

static int put_text(Frame* frame, Py_ssize_t index, int32_t type, const char* data, size_t size) {
  if (size > 7) return rt_put_object(frame, index, rt_string_new(type, data, size));
  return rt_string_value(type, data, size, &frame->args[index]);
}

static int take_str(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  Py_ssize_t size;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (!text) return rt_argument_error(frame, index, "export");  // lone surrogates
  if (size <= 7 || frame->owned == OWNED_VALUES || memchr(text, 0, (size_t)size) != NULL) {
    return put_text(frame, index, kTVMFFIStr, text, (size_t)size);
  }
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIRawStr, .v_c_str = text};
  return 0;
}

static int take_bytes(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  char* data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &data, &size)) return -1;
  return put_text(frame, index, kTVMFFIBytes, data, (size_t)size);
}

// What says itself which plain value it is.
static int take_said(Frame* frame, Py_ssize_t index, PyObject* object, const char* method,
                     int (*put)(Frame*, Py_ssize_t, PyObject*, const TypeEntry*)) {
  PyObject* value = PyObject_CallMethod(object, method, NULL);
  if (!value) return rt_argument_error(frame, index, "export");
  int failed = put(frame, index, value, NULL);
  Py_DECREF(value);
  return failed;
}

static int take_said_int(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  return take_said(frame, index, object, "__tvm_ffi_int__", take_index);
}

static int take_said_float(Frame* frame, Py_ssize_t index, PyObject* object,
                           const TypeEntry* entry) {
  (void)entry;
  return take_said(frame, index, object, "__tvm_ffi_float__", take_float);
}

// ---- which types -----------------------------------------------------------------------------

static const TypeEntry of_int = {.take = take_int}, of_float = {.take = take_float},
                       of_none = {.take = take_none}, of_bool = {.take = take_bool},
                       of_index = {.take = take_index}, of_str = {.take = take_str},
                       of_bytes = {.take = take_bytes}, of_said_int = {.take = take_said_int},
                       of_said_float = {.take = take_said_float};

static int is_numpy_bool(PyTypeObject* type) {
  static PyObject* numpy_bool;
  if (!numpy_bool) numpy_bool = rt_loaded("numpy", "bool_");
  return (PyObject*)type == numpy_bool;
}

const TypeEntry* rt_scalar_entry(PyTypeObject* type) {
  if (type == &PyBool_Type || is_numpy_bool(type)) return &of_bool;
  if (type == Py_TYPE(Py_None)) return &of_none;
  if (PyType_IsSubtype(type, &PyLong_Type)) return &of_int;
  if (PyType_IsSubtype(type, &PyFloat_Type)) return &of_float;
  if (PyType_IsSubtype(type, &PyUnicode_Type)) return &of_str;
  return PyType_IsSubtype(type, &PyBytes_Type) ? &of_bytes : NULL;
}

// An array has number slots too: what can be a tensor must not be taken for a number.
static int is_array_type(PyTypeObject* type) {
  PyTypeObject* scalar = (PyTypeObject*)rt_loaded("numpy", "generic");
  int is_scalar = scalar && PyType_IsSubtype(type, scalar);  // has a buffer, but is a number
  Py_XDECREF((PyObject*)scalar);
  if (is_scalar) return 0;
  return rt_has_buffer(type) || PyObject_HasAttrString((PyObject*)type, "__dlpack__") ||
         PyObject_HasAttrString((PyObject*)type, "__dlpack_c_exchange_api__");
}

const TypeEntry* rt_number_entry(PyTypeObject* type) {
  if (PyObject_HasAttrString((PyObject*)type, "__tvm_ffi_int__")) return &of_said_int;
  if (PyObject_HasAttrString((PyObject*)type, "__tvm_ffi_float__")) return &of_said_float;
  if (is_array_type(type)) return NULL;
  if (PyType_GetSlot(type, Py_nb_index)) return &of_index;
  return PyType_GetSlot(type, Py_nb_float) ? &of_float : NULL;
}
