// results.c: what a function returns, as Python objects of the caller's framework.
#include <string.h>

#include "core.h"

static PyObject* text(const TVMFFIAny* value) {
  if (value->type_index == kTVMFFISmallStr || value->type_index == kTVMFFISmallBytes) {
    return PyUnicode_DecodeUTF8(value->v_bytes, value->small_str_len, "replace");
  }
  const TVMFFIByteArray* bytes = (const TVMFFIByteArray*)(value->v_obj + 1);
  return PyUnicode_DecodeUTF8(bytes->data, (Py_ssize_t)bytes->size, "replace");
}

static PyObject* raw_bytes(const TVMFFIAny* value) {
  if (value->type_index == kTVMFFISmallBytes) {
    return PyBytes_FromStringAndSize(value->v_bytes, value->small_str_len);
  }
  const TVMFFIByteArray* bytes = (const TVMFFIByteArray*)(value->v_obj + 1);
  return PyBytes_FromStringAndSize(bytes->data, (Py_ssize_t)bytes->size);
}

PyObject* rt_text_of(TVMFFIAny* value) {
  PyObject* answer = NULL;
  if (value->type_index == kTVMFFISmallStr || value->type_index == kTVMFFIStr) {
    answer = text(value);
  } else {
    PyErr_SetString(PyExc_TypeError, "expected a string from the module");
  }
  if (value->type_index >= kTVMFFIStaticObjectBegin) rt_decref(value->v_obj);
  return answer;
}

static PyObject* to_exchange(const DLPackExchangeAPI* api, TVMFFIObject* tensor) {
  DLManagedTensorVersioned* managed = rt_tensor_export(tensor);
  if (!managed) return PyErr_NoMemory();
  void* out = NULL;
  if (api->managed_tensor_to_py_object_no_sync(managed, &out) == 0) return out;
  if (!PyErr_Occurred()) PyErr_SetString(PyExc_RuntimeError, "the result could not be imported");
  return NULL;
}

static PyObject* to_jax(TVMFFIObject* tensor) {
  static PyObject* from_capsule;
  if (!from_capsule) from_capsule = rt_import("kdsl.runtime.jax", "from_tensor");
  PyObject* mine = rt_tensor_object(tensor);
  PyObject* answer =
      from_capsule && mine ? PyObject_CallFunctionObjArgs(from_capsule, mine, NULL) : NULL;
  Py_XDECREF(mine);
  return answer;
}

static PyObject* tensor_result(const Frame* frame, TVMFFIObject* tensor) {
  int on_cpu = rt_tensor_of(tensor)->device.device_type == kDLCPU;
  switch (frame->family) {
    case FAMILY_EXCHANGE:
      return to_exchange(frame->api, tensor);
    case FAMILY_NUMPY:
      return on_cpu ? rt_to_numpy(tensor) : rt_tensor_object(tensor);
    case FAMILY_JAX:
      return to_jax(tensor);
    default:
      return rt_tensor_object(tensor);
  }
}

static PyObject* shape_result(const TVMFFIObject* object) {
  const TVMFFIShapeCell* cell = (const TVMFFIShapeCell*)(object + 1);
  PyObject* tuple = PyTuple_New((Py_ssize_t)cell->size);
  for (size_t i = 0; tuple && i < cell->size; ++i) {
    PyTuple_SetItem(tuple, (Py_ssize_t)i, PyLong_FromLongLong(cell->data[i]));
  }
  return tuple;
}

static PyObject* nested_result(Frame* frame, TVMFFIAny* value) {
  if (Py_EnterRecursiveCall(" in a result")) return NULL;
  PyObject* answer = rt_result(frame, value);
  Py_LeaveRecursiveCall();
  return answer;
}

static PyObject* array_result(Frame* frame, TVMFFIObject* object) {
  const TVMFFISeqCell* cell = (const TVMFFISeqCell*)(object + 1);
  const TVMFFIAny* items = cell->data;
  PyObject* tuple = PyTuple_New((Py_ssize_t)cell->size);
  for (Py_ssize_t i = 0; tuple && i < cell->size; ++i) {
    TVMFFIAny item = items[i];
    if (item.type_index >= kTVMFFIStaticObjectBegin) rt_incref(item.v_obj);
    PyObject* value = nested_result(frame, &item);
    if (!value) {
      Py_DECREF(tuple);
      return NULL;
    }
    PyTuple_SetItem(tuple, i, value);
  }
  return tuple;
}

static PyObject* function_result(TVMFFIObject* object) {
  const TVMFFIFunctionCell* cell = (const TVMFFIFunctionCell*)(object + 1);
  PyObject* name = PyUnicode_FromString("<function>");
  PyObject* fn = name ? rt_function_new(cell->safe_call, object, name, Py_None) : NULL;
  Py_XDECREF(name);
  return fn;  // owns the object now
}

PyObject* rt_result(Frame* frame, TVMFFIAny* value) {
  TVMFFIObject* object = value->type_index >= kTVMFFIStaticObjectBegin ? value->v_obj : NULL;
  PyObject* answer = NULL;
  switch (value->type_index) {
    case kTVMFFINone:
      Py_INCREF(Py_None);
      return Py_None;
    case kTVMFFIInt:
      return PyLong_FromLongLong(value->v_int64);
    case kTVMFFIBool:
      return PyBool_FromLong(value->v_int64 != 0);
    case kTVMFFIFloat:
      return PyFloat_FromDouble(value->v_float64);
    case kTVMFFIDataType:
      return PyUnicode_FromString(rt_dtype_name(value->v_dtype));
    case kTVMFFIDevice:
      return Py_BuildValue("(ii)", (int)value->v_device.device_type, value->v_device.device_id);
    case kTVMFFISmallStr:
      return text(value);
    case kTVMFFISmallBytes:
      return raw_bytes(value);
    case kTVMFFITensor:
      return tensor_result(frame, object);
    case kTVMFFIFunction:
      return function_result(object);
    case kTVMFFIStr:
      answer = text(value);
      break;
    case kTVMFFIBytes:
      answer = raw_bytes(value);
      break;
    case kTVMFFIShape:
      answer = shape_result(object);
      break;
    case kTVMFFIArray:
    case kTVMFFIList:
      answer = array_result(frame, object);
      break;
    default:
      PyErr_Format(PyExc_TypeError,
                   "%s: returned a value of TVM FFI type index %d, which kdsl "
                   "cannot turn into a Python object",
                   frame->function->text, value->type_index);
  }
  if (object) rt_decref(object);
  return answer;
}
