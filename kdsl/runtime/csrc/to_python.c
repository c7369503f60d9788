// to_python.c: the table by which values become Python objects; tensors become arrays of the
// caller's framework, in containers too. What cannot change comes back as Python's own value.
#include <string.h>

#include "core.h"

typedef PyObject* (*Converter)(const ArrayKind* kind, TVMFFIAny* value);

// ---- plain values -----------------------------------------------------------------------------

static PyObject* none(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind, (void)value;
  Py_RETURN_NONE;
}

static PyObject* integer(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  return PyLong_FromLongLong(value->v_int64);
}

static PyObject* boolean(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  return PyBool_FromLong(value->v_int64 != 0);
}

static PyObject* number(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  return PyFloat_FromDouble(value->v_float64);
}

static PyObject* pointer(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  return rt_pointer_to_python(value->v_ptr);
}

static PyObject* data_type(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  return rt_dtype_to_python(value->v_dtype);
}

static PyObject* device(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  return rt_device_to_python(value->v_device);
}

static PyObject* text(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  TVMFFIByteArray bytes = rt_bytes_of(value);
  PyObject* answer = PyUnicode_DecodeUTF8(bytes.data, (Py_ssize_t)bytes.size, "replace");
  rt_value_release(value);
  return answer;
}

static PyObject* raw_bytes(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  TVMFFIByteArray bytes = rt_bytes_of(value);
  PyObject* answer = PyBytes_FromStringAndSize(bytes.data, (Py_ssize_t)bytes.size);
  rt_value_release(value);
  return answer;
}

static PyObject* shape(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  const TVMFFIShapeCell* cell = (const TVMFFIShapeCell*)(value->v_obj + 1);
  PyObject* answer = rt_shape_to_python(cell->data, (Py_ssize_t)cell->size);
  rt_value_release(value);
  return answer;
}

// Words of 64 bits, the lowest first, in two's complement.
static PyObject* large_integer(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  const size_t* words = (const size_t*)(value->v_obj + 1);
  PyObject* make = PyObject_GetAttrString((PyObject*)&PyLong_Type, "from_bytes");
  PyObject* args = Py_BuildValue("(y#s)", (const char*)(words + 1),
                                 (Py_ssize_t)(words[0] * sizeof(int64_t)), "little");
  PyObject* keywords = Py_BuildValue("{s:O}", "signed", Py_True);
  PyObject* answer = make && args && keywords ? PyObject_Call(make, args, keywords) : NULL;
  Py_XDECREF(keywords);
  Py_XDECREF(args);
  Py_XDECREF(make);
  rt_value_release(value);
  return answer;
}

// ---- tensors ----------------------------------------------------------------------------------

static PyObject* to_exchange(const DLPackExchangeAPI* api, TVMFFIObject* tensor) {
  DLManagedTensorVersioned* managed = rt_tensor_export(tensor);
  if (!managed) return PyErr_NoMemory();
  void* out = NULL;
  if (api->managed_tensor_to_py_object_no_sync(managed, &out) == 0) return out;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the result could not be imported");
  return NULL;
}

static PyObject* by_import(PyObject* import, TVMFFIObject* tensor, void* stream) {
  PyObject* mine = rt_tensor_object(tensor, stream);
  PyObject* answer = mine && import ? PyObject_CallFunctionObjArgs(import, mine, NULL) : NULL;
  Py_XDECREF(mine);
  return answer;
}

static PyObject* to_jax(TVMFFIObject* tensor, void* stream) {
  static PyObject* import;
  if (!import) import = rt_import("kdsl.runtime.jax", "from_tensor");
  return by_import(import, tensor, stream);
}

static PyObject* tensor(const ArrayKind* kind, TVMFFIAny* value) {
  TVMFFIObject* object = value->v_obj;
  if (kind->family == FAMILY_EXCHANGE) return to_exchange(kind->api, object);
  if (kind->family == FAMILY_JAX) return to_jax(object, kind->stream);
  if (kind->import) return by_import(kind->import, object, kind->stream);
  if (kind->family == FAMILY_NUMPY && rt_is_host(rt_tensor_of(object)->device)) {
    return rt_to_numpy(object);
  }
  return rt_tensor_object(object, kind->stream);
}

// Lent for a call only: whatever Python keeps must be a copy.
static PyObject* lent_tensor(const ArrayKind* kind, TVMFFIAny* value) {
  RtTensor* copy = rt_tensor_copy(value->v_ptr);
  if (!copy) return rt_error_raise("a tensor that was lent");
  TVMFFIAny owned = {.type_index = kTVMFFITensor, .v_obj = &copy->header};
  return tensor(kind, &owned);
}

// ---- containers -------------------------------------------------------------------------------

static PyObject* array(const ArrayKind* kind, TVMFFIAny* value) {
  const TVMFFISeqCell* cell = rt_sequence(value->v_obj);
  const TVMFFIAny* items = cell->data;
  PyObject* tuple = PyTuple_New((Py_ssize_t)cell->size);
  for (Py_ssize_t i = 0; tuple && i < cell->size; ++i) {
    PyObject* item = rt_copy_to_python(kind, &items[i]);
    if (item)
      PyTuple_SetItem(tuple, i, item);
    else
      Py_CLEAR(tuple);
  }
  rt_value_release(value);
  return tuple;
}

// A dict; NULL without an exception where one cannot tell the keys apart, or not hash them.
static PyObject* as_dict(const ArrayKind* kind, const TVMFFIObject* map) {
  RtMapCursor cursor = {0};
  PyObject* dict = PyDict_New();
  Py_ssize_t count = 0;
  for (; dict && rt_map_next(map, &cursor); ++count) {
    PyObject* key = rt_copy_to_python(kind, cursor.key);
    PyObject* item = key ? rt_copy_to_python(kind, cursor.value) : NULL;
    int failed = !item;
    if (item && PyDict_SetItem(dict, key, item)) {
      failed = 1;
      if (PyErr_ExceptionMatches(PyExc_TypeError)) PyErr_Clear();  // not hashable
    }
    Py_XDECREF(item);
    Py_XDECREF(key);
    if (failed) Py_CLEAR(dict);
  }
  if (dict && PyDict_Size(dict) != count) Py_CLEAR(dict);  // 1, True and 1.0 are three keys
  return dict;
}

static PyObject* map(const ArrayKind* kind, TVMFFIAny* value) {
  PyObject* dict = as_dict(kind, value->v_obj);
  if (!dict && !PyErr_Occurred()) return rt_handle_new(kind, value->v_obj);
  rt_value_release(value);
  return dict;
}

static PyObject* handle(const ArrayKind* kind, TVMFFIAny* value) {
  return rt_handle_new(kind, value->v_obj);
}

// ---- other objects ----------------------------------------------------------------------------

static PyObject* function(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  return rt_function_to_python(value->v_obj);
}

static PyObject* error(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  PyObject* exception = rt_error_to_exception(value->v_obj);
  rt_value_release(value);
  return exception;
}

static PyObject* opaque(const ArrayKind* kind, TVMFFIAny* value) {
  (void)kind;
  PyObject* object = rt_opaque_to_python(value->v_obj);
  rt_value_release(value);
  return object;
}

static PyObject* moved(const ArrayKind* kind, TVMFFIAny* value) {
  TVMFFIObject* object = *(TVMFFIObject**)value->v_ptr;
  TVMFFIAny inner = {.type_index = object ? object->type_index : kTVMFFINone, .v_obj = object};
  return rt_copy_to_python(kind, &inner);
}

// ---- the table --------------------------------------------------------------------------------

static const Converter converters[kTVMFFIStaticObjectEnd] = {
    [kTVMFFINone] = none,
    [kTVMFFIInt] = integer,
    [kTVMFFIBool] = boolean,
    [kTVMFFIFloat] = number,
    [kTVMFFIOpaquePtr] = pointer,
    [kTVMFFIDataType] = data_type,
    [kTVMFFIDevice] = device,
    [kTVMFFIDLTensorPtr] = lent_tensor,
    [kTVMFFIRawStr] = text,
    [kTVMFFIByteArrayPtr] = raw_bytes,
    [kTVMFFIObjectRValueRef] = moved,
    [kTVMFFISmallStr] = text,
    [kTVMFFISmallBytes] = raw_bytes,
    [kTVMFFIStr] = text,
    [kTVMFFIBytes] = raw_bytes,
    [kTVMFFIError] = error,
    [kTVMFFIFunction] = function,
    [kTVMFFIShape] = shape,
    [kTVMFFITensor] = tensor,
    [kTVMFFIArray] = array,
    [kTVMFFIMap] = map,
    [kTVMFFIOpaquePyObject] = opaque,
    [kTVMFFIBigInt] = large_integer,
};

PyObject* rt_to_python(const ArrayKind* kind, TVMFFIAny* value) {
  int32_t index = value->type_index;
  Converter convert = 0 <= index && index < kTVMFFIStaticObjectEnd ? converters[index] : NULL;
  if (!convert && index >= kTVMFFIStaticObjectBegin) convert = handle;
  if (!convert) {
    return PyErr_Format(PyExc_TypeError, "a value of TVM FFI type index %d has no form in Python",
                        index);
  }
  if (index < kTVMFFIArray) return convert(kind, value);
  if (Py_EnterRecursiveCall(" in a container of TVM FFI")) {
    rt_value_release(value);
    return NULL;
  }
  PyObject* answer = convert(kind, value);
  Py_LeaveRecursiveCall();
  return answer;
}

PyObject* rt_copy_to_python(const ArrayKind* kind, const TVMFFIAny* value) {
  TVMFFIAny copy = *value;
  rt_value_retain(&copy);
  return rt_to_python(kind, &copy);
}

ArrayKind rt_frame_kind(const Frame* frame) {
  return (ArrayKind){frame->family, frame->api, frame->import, frame->stream};
}

ArrayKind rt_current_kind(void) {
  return rt_current ? rt_frame_kind(rt_current) : (ArrayKind){FAMILY_NONE, NULL, NULL, NULL};
}

PyObject* rt_result(Frame* frame, TVMFFIAny* value) {
  ArrayKind kind = rt_frame_kind(frame);
  return rt_to_python(&kind, value);
}
