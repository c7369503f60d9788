// plain.c: dtypes, devices and shapes, for which kdsl.runtime.values has classes; exceptions.
#include <string.h>

#include "core.h"

static PyObject* values_function(const char* name) {
  return rt_import("kdsl.runtime.values", name);
}

// ---- in ---------------------------------------------------------------------------------------

// What `function` of kdsl.runtime.values says of an object: a tuple of ints.
static PyObject* facts_of(const char* function, PyObject* object) {
  PyObject* ask = values_function(function);
  PyObject* facts = ask ? PyObject_CallFunctionObjArgs(ask, object, NULL) : NULL;
  Py_XDECREF(ask);
  return facts;
}

// DLPack's numbers of the dtypes seen so far, as one int each; those of frameworks are few.
#define MOST_DTYPES 256

static int dtype_of(PyObject* object, DLDataType* dtype) {
  static PyObject* seen;
  if (!seen && !(seen = PyDict_New())) return -1;
  PyObject* packed = PyDict_GetItemWithError(seen, object);
  long numbers = packed ? PyLong_AsLong(packed) : 0;
  if (!packed) {
    unsigned char code, bits;
    unsigned short lanes;
    PyErr_Clear();  // not hashable
    PyObject* three = facts_of("dtype_code", object);
    int good = three && PyArg_ParseTuple(three, "bbH", &code, &bits, &lanes);
    Py_XDECREF(three);
    if (!good) return -1;
    numbers = (long)lanes << 16 | (long)bits << 8 | code;
    packed = PyDict_Size(seen) < MOST_DTYPES ? PyLong_FromLong(numbers) : NULL;
    if (packed) PyDict_SetItem(seen, object, packed);
    Py_XDECREF(packed);
    PyErr_Clear();
  }
  *dtype = (DLDataType){(uint8_t)numbers, (uint8_t)(numbers >> 8), (uint16_t)(numbers >> 16)};
  return 0;
}

static int take_dtype(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  DLDataType dtype;
  if (dtype_of(object, &dtype)) return rt_argument_error(frame, index, "export");
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIDataType, .v_dtype = dtype};
  return 0;
}

static int take_device(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  int type, id;
  PyObject* pair = facts_of("device_code", object);
  int good = pair && PyArg_ParseTuple(pair, "ii", &type, &id);
  Py_XDECREF(pair);
  if (!good) return rt_argument_error(frame, index, "export");
  frame->args[index] =
      (TVMFFIAny){.type_index = kTVMFFIDevice, .v_device = {(DLDeviceType)type, id}};
  return 0;
}

static void shape_delete(void* self, int flags) {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) rt_object_free(self);
}

static int take_shape(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  Py_ssize_t count = PyTuple_Size(object);
  size_t bytes = (size_t)count * sizeof(int64_t);
  KdslShapeObject* shape = rt_object_new(sizeof *shape + bytes, kTVMFFIShape, shape_delete);
  if (!shape) return rt_put_object(frame, index, NULL);
  int64_t* sizes = (int64_t*)(shape + 1);
  shape->shape = (TVMFFIShapeCell){sizes, (size_t)count};
  for (Py_ssize_t i = 0; i < count; ++i) sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(object, i));
  if (PyErr_Occurred()) {  // a subclass that lets anything in
    rt_decref(shape);
    return rt_argument_error(frame, index, "export");
  }
  return rt_put_object(frame, index, &shape->head);
}

int rt_take_exception(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  if (frame->function->known) return rt_argument_error(frame, index, "unsupported");
  TVMFFIObject* error = rt_error_of_exception(object);
  return error ? rt_put_object(frame, index, error) : -1;
}

// ---- out --------------------------------------------------------------------------------------

PyObject* rt_dtype_to_python(DLDataType dtype) {
  static PyObject* make;
  if (!make && !(make = values_function("dtype_of"))) return NULL;
  return PyObject_CallFunction(make, "iii", dtype.code, dtype.bits, dtype.lanes);
}

PyObject* rt_device_to_python(DLDevice device) {
  static PyObject* make;
  if (!make && !(make = values_function("device_of"))) return NULL;
  return PyObject_CallFunction(make, "ii", (int)device.device_type, (int)device.device_id);
}

PyObject* rt_tuple_of(const int64_t* values, Py_ssize_t count) {
  PyObject* tuple = PyTuple_New(count);
  for (Py_ssize_t i = 0; tuple && i < count; ++i) {
    PyObject* value = PyLong_FromLongLong(values[i]);
    if (value)
      PyTuple_SetItem(tuple, i, value);
    else
      Py_CLEAR(tuple);
  }
  return tuple;
}

PyObject* rt_shape_to_python(const int64_t* sizes, Py_ssize_t count) {
  PyObject* make = values_function("Shape");
  PyObject* tuple = make ? rt_tuple_of(sizes, count) : NULL;
  PyObject* shape = tuple ? PyObject_CallFunctionObjArgs(make, tuple, NULL) : NULL;
  Py_XDECREF(tuple);
  Py_XDECREF(make);
  return shape;
}

// ---- which types ------------------------------------------------------------------------------

static int has(PyTypeObject* type, const char* attribute) {
  return PyObject_HasAttrString((PyObject*)type, attribute);
}

static int is_subtype(PyTypeObject* type, const char* module, const char* name) {
  PyObject* other = rt_loaded(module, name);
  int is = other && PyType_Check(other) && PyType_IsSubtype(type, (PyTypeObject*)other);
  Py_XDECREF(other);
  return is;
}

static int is_dtype(PyTypeObject* type) {
  return has(type, "__dlpack_data_type__") || is_subtype(type, "torch", "dtype") ||
         is_subtype(type, "numpy", "dtype") || is_subtype(type, "tvm_ffi", "dtype");
}

// An array says where it lies as well, but it can be exported.
static int is_device(PyTypeObject* type) {
  if (has(type, "__dlpack_device__")) return !has(type, "__dlpack__");
  return is_subtype(type, "torch", "device") || is_subtype(type, "jax", "Device") ||
         is_subtype(type, "cupy.cuda", "Device") || is_subtype(type, "tvm_ffi", "Device");
}

const TypeEntry* rt_plain_entry(PyTypeObject* type) {
  static const TypeEntry of_dtype = {.take = take_dtype}, of_device = {.take = take_device},
                         of_shape = {.take = take_shape};
  if (is_subtype(type, "kdsl.runtime.values", "Shape")) return &of_shape;
  if (is_subtype(type, "tvm_ffi", "Shape")) return &of_shape;  // a tuple as well
  if (is_dtype(type)) return &of_dtype;
  return is_device(type) ? &of_device : NULL;
}
