// numpy.c: NumPy arrays in and out, without NumPy's headers.
//
// The first fields of an array and of a dtype are part of NumPy's ABI. They are mirrored here and
// compared with what Python sees of a few odd arrays before they are trusted; where they differ,
// arrays go through the buffer protocol.
#include <string.h>

#include "core.h"
#include "numpy_abi.h"

// By type number; long is 64 bits wide wherever this runtime is built.
#define BUILTIN_DTYPES 24
static const DLDataType builtin[BUILTIN_DTYPES] = {
    [0] = {kDLBool, 8, 1},    [1] = {kDLInt, 8, 1},       [2] = {kDLUInt, 8, 1},
    [3] = {kDLInt, 16, 1},    [4] = {kDLUInt, 16, 1},     [5] = {kDLInt, 32, 1},
    [6] = {kDLUInt, 32, 1},   [7] = {kDLInt, 64, 1},      [8] = {kDLUInt, 64, 1},
    [9] = {kDLInt, 64, 1},    [10] = {kDLUInt, 64, 1},    [11] = {kDLFloat, 32, 1},
    [12] = {kDLFloat, 64, 1}, [14] = {kDLComplex, 64, 1}, [15] = {kDLComplex, 128, 1},
    [23] = {kDLFloat, 16, 1},
};

// The dtypes that ml_dtypes registers; their numbers are given out at run time.
static const struct {
  const char* name;
  DLDataType dtype;
} extended[] = {
    {"bfloat16", {kDLBfloat, 16, 1}},
    {"float8_e4m3fn", {kDLFloat8_e4m3fn, 8, 1}},
    {"float8_e5m2", {kDLFloat8_e5m2, 8, 1}},
    {"float8_e3m4", {kDLFloat8_e3m4, 8, 1}},
    {"float8_e4m3", {kDLFloat8_e4m3, 8, 1}},
    {"float8_e4m3b11fnuz", {kDLFloat8_e4m3b11fnuz, 8, 1}},
    {"float8_e4m3fnuz", {kDLFloat8_e4m3fnuz, 8, 1}},
    {"float8_e5m2fnuz", {kDLFloat8_e5m2fnuz, 8, 1}},
    {"float8_e8m0fnu", {kDLFloat8_e8m0fnu, 8, 1}},
};
#define EXTENDED_COUNT (sizeof extended / sizeof *extended)

// Type number of extended[i] once an array of it was seen.
static int extended_number[EXTENDED_COUNT];

static PyTypeObject* ndarray;
static int trusted;  // the mirrored structs passed their test

// ---- in --------------------------------------------------------------------------------------

RT_COLD static const DLDataType* learn_extended(const NumpyDtype* dtype) {
  PyObject* name = PyObject_GetAttrString((PyObject*)dtype, "name");
  PyObject* module = PyObject_GetAttrString((PyObject*)dtype->scalar, "__module__");
  const DLDataType* found = NULL;
  if (name && module && PyUnicode_CompareWithASCIIString(module, "ml_dtypes") == 0) {
    for (size_t i = 0; i < EXTENDED_COUNT && !found; ++i) {
      if (PyUnicode_CompareWithASCIIString(name, extended[i].name)) continue;
      extended_number[i] = dtype->number;
      found = &extended[i].dtype;
    }
  }
  PyErr_Clear();
  Py_XDECREF(name);
  Py_XDECREF(module);
  return found;
}

static const DLDataType* extended_dtype(const NumpyDtype* dtype) {
  for (size_t i = 0; i < EXTENDED_COUNT; ++i) {
    if (extended_number[i] == dtype->number) return &extended[i].dtype;
  }
  return learn_extended(dtype);
}

int rt_take_numpy(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  const NumpyArray* array = (const NumpyArray*)object;
  const NumpyDtype* dtype = (const NumpyDtype*)array->dtype;
  const DLDataType* type;
  if (RT_LIKELY((unsigned)dtype->number < BUILTIN_DTYPES)) {
    type = &builtin[dtype->number];
    if (RT_UNLIKELY(type->bits == 0)) return rt_argument_error(frame, index, "dtype");
  } else {
    type = extended_dtype(dtype);
    if (!type) return rt_argument_error(frame, index, "dtype");
  }
  if (RT_UNLIKELY(dtype->byteorder == '>')) return rt_argument_error(frame, index, "byteorder");
  int64_t* strides = rt_strides(frame, array->ndim);
  if (RT_UNLIKELY(!strides)) return -1;
  int shift = __builtin_ctz((unsigned)type->bits >> 3);
  int64_t seen = 0;
  for (int i = 0; i < array->ndim; ++i) {
    seen |= array->strides[i];
    strides[i] = array->strides[i] >> shift;
  }
  int fraction = (seen & ((1 << shift) - 1)) != 0;
  if (RT_UNLIKELY(fraction || !(array->flags & NUMPY_ALIGNED))) {
    return rt_argument_error(frame, index, "unaligned");
  }
  frame->views[index] = (DLTensor){.data = array->data,
                                   .device = {kDLCPU, 0},
                                   .ndim = array->ndim,
                                   .dtype = *type,
                                   .shape = array->shape,
                                   .strides = strides};
  rt_note_family(frame, FAMILY_NUMPY, NULL);
  if (RT_UNLIKELY(frame->owned)) {
    int read_only = !(array->flags & NUMPY_WRITEABLE);
    return rt_put_owned(frame, index, rt_tensor_of_python(&frame->views[index], object, read_only));
  }
  return rt_put_view(frame, index, array->flags & NUMPY_WRITEABLE);
}

// ---- the test of the mirrored structs --------------------------------------------------------

static int64_t number_at(PyObject* object, const char* path) {
  PyObject* at = object;
  Py_INCREF(at);
  for (const char* part = path; at && *part;) {
    char name[32];
    size_t size = strcspn(part, ".");
    memcpy(name, part, size);
    name[size] = '\0';
    PyObject* inner = PyObject_GetAttrString(at, name);
    Py_DECREF(at);
    at = inner;
    part += size + (part[size] == '.');
  }
  int64_t value = at ? PyLong_AsLongLong(at) : -1;
  Py_XDECREF(at);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return INT64_MIN;
  }
  return value;
}

static int same_numbers(PyObject* object, const char* name, const int64_t* mirror, int count) {
  PyObject* tuple = PyObject_GetAttrString(object, name);
  int same = tuple && PyTuple_Size(tuple) == count;
  for (int i = 0; same && i < count; ++i) {
    same = PyLong_AsLongLong(PyTuple_GetItem(tuple, i)) == mirror[i];
  }
  Py_XDECREF(tuple);
  PyErr_Clear();
  return same;
}

static int mirrors(PyObject* object) {
  const NumpyArray* array = (const NumpyArray*)object;
  int flags = array->flags;
  if (array->ndim != number_at(object, "ndim") ||
      (int64_t)(intptr_t)array->data != number_at(object, "ctypes.data") ||
      !(flags & NUMPY_WRITEABLE) != !number_at(object, "flags.writeable") ||
      !(flags & NUMPY_ALIGNED) != !number_at(object, "flags.aligned") ||
      !same_numbers(object, "shape", array->shape, array->ndim) ||
      !same_numbers(object, "strides", array->strides, array->ndim)) {
    return 0;
  }
  PyObject* dtype = PyObject_GetAttrString(object, "dtype");
  int same = dtype && dtype == array->dtype &&
             ((const NumpyDtype*)dtype)->number == number_at(dtype, "num");
  Py_XDECREF(dtype);
  PyErr_Clear();
  return same;
}

static int test_mirrors(void) {
  PyObject* samples = rt_import("kdsl.runtime.frameworks", "numpy_samples");
  PyObject* list = samples ? PyObject_CallObject(samples, NULL) : NULL;
  Py_XDECREF(samples);
  int good = list && number_at((PyObject*)ndarray, "__basicsize__") >= (int64_t)sizeof(NumpyArray);
  for (Py_ssize_t i = 0; good && i < PyList_Size(list); ++i) {
    good = mirrors(PyList_GetItem(list, i));
  }
  Py_XDECREF(list);
  PyErr_Clear();
  return good;
}

static int take_masked(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)object, (void)entry;
  return rt_argument_error(frame, index, "masked");
}

int rt_numpy_is_mirrored(void) { return ndarray ? trusted : -1; }

int rt_numpy_learn(PyTypeObject* type, TypeEntry* entry) {
  if (!ndarray) {
    ndarray = (PyTypeObject*)rt_loaded("numpy", "ndarray");
    if (!ndarray) return 0;
    trusted = rt_mirrors_allowed && test_mirrors();
  }
  if (!PyType_IsSubtype(type, ndarray)) return 0;
  PyObject* masked = rt_loaded("numpy.ma", "MaskedArray");
  int hides = masked && PyType_IsSubtype(type, (PyTypeObject*)masked);
  Py_XDECREF(masked);
  entry->take = hides ? take_masked : trusted ? rt_take_numpy : rt_take_numpy_buffer;
  return 1;
}
