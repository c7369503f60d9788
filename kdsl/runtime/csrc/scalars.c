// scalars.c: numbers, strings, bytes and lists as arguments.
#include <stdlib.h>
#include <string.h>

#include "core.h"

// An integer that has no 64 bits: only a float takes it.
RT_COLD static int put_large_int(Frame* frame, Py_ssize_t index, PyObject* object) {
  ParamKind kind = rt_param_kind(frame, index);
  if (kind != PARAM_FLOAT) {
    int number = kind == PARAM_SCALAR || kind == PARAM_UNKNOWN;
    return rt_argument_error(frame, index, number ? "overflow" : "unsupported");
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

static int put_object(Frame* frame, Py_ssize_t index, TVMFFIObject* object) {
  Hold* hold = object ? rt_hold(frame, HOLD_FFI) : NULL;
  if (!hold) {
    if (object) rt_decref(object);
    PyErr_NoMemory();
    return -1;
  }
  hold->pointer = object;
  frame->args[index] = (TVMFFIAny){.type_index = object->type_index, .v_obj = object};
  return 0;
}

static int take_str(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  Py_ssize_t size;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (!text) return rt_argument_error(frame, index, "export");  // lone surrogates
  TVMFFIAny* arg = &frame->args[index];
  if (size <= 7) {
    *arg = (TVMFFIAny){.type_index = kTVMFFISmallStr, .small_str_len = (uint32_t)size};
    memcpy(arg->v_bytes, text, (size_t)size);
  } else if (frame->owned != OWNED_VALUES && memchr(text, 0, (size_t)size) == NULL) {
    *arg = (TVMFFIAny){.type_index = kTVMFFIRawStr, .v_c_str = text};
  } else {
    return put_object(frame, index, rt_string_new(kTVMFFIStr, text, (size_t)size));
  }
  return 0;
}

static int take_bytes(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  char* data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &data, &size)) return -1;
  return put_object(frame, index, rt_string_new(kTVMFFIBytes, data, (size_t)size));
}

// ---- dtypes ----------------------------------------------------------------------------------

static int take_dtype(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  int code, bits, lanes;
  PyObject* make = rt_import("kdsl.runtime.frameworks", "dtype_code");
  PyObject* three = make ? PyObject_CallFunctionObjArgs(make, object, NULL) : NULL;
  Py_XDECREF(make);
  int good = three && PyArg_ParseTuple(three, "iii", &code, &bits, &lanes);
  Py_XDECREF(three);
  if (!good) return rt_argument_error(frame, index, "export");
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIDataType};
  frame->args[index].v_dtype = (DLDataType){(uint8_t)code, (uint8_t)bits, (uint16_t)lanes};
  return 0;
}

static int is_dtype(PyTypeObject* type) {
  if (PyObject_HasAttrString((PyObject*)type, "__dlpack_data_type__")) return 1;
  PyObject* torch = rt_loaded("torch", "dtype");
  PyObject* numpy = rt_loaded("numpy", "dtype");
  int is = (PyObject*)type == torch || (numpy && PyType_IsSubtype(type, (PyTypeObject*)numpy));
  Py_XDECREF(torch);
  Py_XDECREF(numpy);
  return is;
}

// ---- lists and tuples, for functions that take Arrays ----------------------------------------

static int fill_array(const Frame* outer, PyObject* items, TVMFFIAny* out) {
  Py_ssize_t size = PyTuple_Size(items);
  PyObject** objects = PyMem_Calloc((size_t)size + 1, sizeof *objects);
  DLTensor* views = PyMem_Calloc((size_t)size + 1, sizeof *views);
  int failed = !objects || !views;
  if (failed) PyErr_NoMemory();
  Frame inner = {.function = outer->function,
                 .count = size,
                 .objects = objects,
                 .args = out,
                 .views = views,
                 .owned = OWNED_VALUES};
  int64_t no_strides;  // rank 0 needs a pointer, though never reads it
  inner.strides = &no_strides;
  inner.holds = &inner.first_holds;
  for (Py_ssize_t i = 0; !failed && i < size; ++i) objects[i] = PyTuple_GetItem(items, i);
  for (Py_ssize_t i = 0; !failed && i < size; ++i) {
    const TypeEntry* entry = rt_type_entry(Py_TYPE(objects[i]));
    failed = !entry || entry->take(&inner, i, objects[i], entry);
    if (failed)
      out[i] = (TVMFFIAny){.type_index = kTVMFFINone};
    else if (out[i].type_index >= kTVMFFIStaticObjectBegin)
      rt_incref(out[i].v_obj);
  }
  rt_frame_release(&inner);
  PyMem_Free(objects);
  PyMem_Free(views);
  return failed ? -1 : 0;
}

int rt_take_list(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  if (frame->function->known) return rt_argument_error(frame, index, "unsupported");
  PyObject* items = PySequence_Tuple(object);
  if (!items) return -1;
  TVMFFIObject* array = NULL;
  int failed = Py_EnterRecursiveCall(" in a list argument");
  if (!failed) {
    array = rt_array_new(PyTuple_Size(items));
    if (!array) PyErr_NoMemory();
    failed = !array || fill_array(frame, items, ((TVMFFISeqCell*)(array + 1))->data);
    Py_LeaveRecursiveCall();
  }
  Py_DECREF(items);
  if (failed) {
    if (array) rt_decref(array);
    return -1;
  }
  return put_object(frame, index, array);
}

// ---- which types -----------------------------------------------------------------------------

static const TypeEntry of_int = {.take = take_int}, of_float = {.take = take_float},
                       of_none = {.take = take_none}, of_bool = {.take = take_bool},
                       of_index = {.take = take_index}, of_str = {.take = take_str},
                       of_dtype = {.take = take_dtype}, of_bytes = {.take = take_bytes},
                       of_list = {.take = rt_take_list};

static int is_numpy_bool(PyTypeObject* type) {
  static PyObject* numpy_bool;
  if (!numpy_bool) numpy_bool = rt_loaded("numpy", "bool_");
  return (PyObject*)type == numpy_bool;
}

// An array has number slots too: what can be a tensor must not be taken for a scalar.
static int is_array_type(PyTypeObject* type) {
  PyTypeObject* scalar = (PyTypeObject*)rt_loaded("numpy", "generic");
  int is_scalar = scalar && PyType_IsSubtype(type, scalar);  // has a buffer, but is a number
  Py_XDECREF((PyObject*)scalar);
  if (is_scalar) return 0;
  return rt_has_buffer(type) || PyObject_HasAttrString((PyObject*)type, "__dlpack__") ||
         PyObject_HasAttrString((PyObject*)type, "__dlpack_c_exchange_api__");
}

const TypeEntry* rt_scalar_entry(PyTypeObject* type) {
  if (type == &PyBool_Type || is_numpy_bool(type)) return &of_bool;
  if (type == Py_TYPE(Py_None)) return &of_none;
  if (PyType_IsSubtype(type, &PyLong_Type)) return &of_int;
  if (PyType_IsSubtype(type, &PyFloat_Type)) return &of_float;
  if (PyType_IsSubtype(type, &PyUnicode_Type)) return &of_str;
  if (PyType_IsSubtype(type, &PyBytes_Type)) return &of_bytes;
  if (PyType_IsSubtype(type, &PyList_Type) || PyType_IsSubtype(type, &PyTuple_Type)) {
    return &of_list;
  }
  if (is_dtype(type)) return &of_dtype;
  if (is_array_type(type)) return NULL;
  if (PyType_GetSlot(type, Py_nb_index)) return &of_index;
  if (PyType_GetSlot(type, Py_nb_float)) return &of_float;
  return NULL;
}
