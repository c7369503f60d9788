// to_numpy.c: NumPy arrays over Tensor objects, zero copy.
//
// NumPy publishes its C functions as a table in a capsule; the positions used here have not
// changed since NumPy 1.7. A table that does not answer as it should is not used.
#include <string.h>

#include "core.h"
#include "numpy_abi.h"

typedef PyObject* (*DescrFromType)(int number);
typedef PyObject* (*NewFromDescr)(PyTypeObject* type, PyObject* descr, int ndim,
                                  const int64_t* shape, const int64_t* strides, void* data,
                                  int flags, PyObject* object);
typedef int (*SetBaseObject)(PyObject* array, PyObject* base);

static struct {
  int looked;
  PyTypeObject* ndarray;
  DescrFromType descr_from_type;
  NewFromDescr new_from_descr;
  SetBaseObject set_base_object;
} numpy;

static PyObject* find_table(void) {
  PyObject* capsule = rt_loaded("numpy._core._multiarray_umath", "_ARRAY_API");
  return capsule ? capsule : rt_loaded("numpy.core._multiarray_umath", "_ARRAY_API");
}

static int table_answers(void) {
  PyObject* descr = numpy.descr_from_type(11);
  PyObject* name = descr ? PyObject_GetAttrString(descr, "name") : NULL;
  int good = name && PyUnicode_CompareWithASCIIString(name, "float32") == 0;
  Py_XDECREF(name);
  Py_XDECREF(descr);
  PyErr_Clear();
  return good;
}

static void look(void) {
  numpy.looked = 1;
  numpy.ndarray = (PyTypeObject*)rt_loaded("numpy", "ndarray");
  PyObject* capsule = find_table();
  void** table = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
  PyErr_Clear();
  if (!table || !numpy.ndarray || !rt_mirrors_allowed) return;
  *(void**)&numpy.descr_from_type = table[NUMPY_DESCR_FROM_TYPE];
  *(void**)&numpy.new_from_descr = table[NUMPY_NEW_FROM_DESCR];
  *(void**)&numpy.set_base_object = table[NUMPY_SET_BASE_OBJECT];
  if (!table_answers()) numpy.new_from_descr = NULL;
}

// NumPy's number of a dtype, -1 when it has none.
static int builtin_number(DLDataType dtype) {
  static const signed char ints[] = {1, 3, 5, 7}, uints[] = {2, 4, 6, 8};
  if (dtype.lanes != 1) return -1;
  int log = dtype.bits == 8    ? 0
            : dtype.bits == 16 ? 1
            : dtype.bits == 32 ? 2
            : dtype.bits == 64 ? 3
                               : -1;
  switch (dtype.code) {
    case kDLBool:
      return log == 0 ? 0 : -1;
    case kDLInt:
      return log < 0 ? -1 : ints[log];
    case kDLUInt:
      return log < 0 ? -1 : uints[log];
    case kDLFloat:
      return log == 1 ? 23 : log == 2 ? 11 : log == 3 ? 12 : -1;
    case kDLComplex:
      return dtype.bits == 64 ? 14 : dtype.bits == 128 ? 15 : -1;
    default:
      return -1;
  }
}

static PyObject* descr_of(DLDataType dtype) {
  int number = builtin_number(dtype);
  if (number >= 0) return numpy.descr_from_type(number);
  PyObject* ours = rt_dtype_to_python(dtype);
  PyObject* descr = ours ? PyObject_CallMethod(ours, "numpy", NULL) : NULL;
  Py_XDECREF(ours);
  return descr;
}

static void drop_tensor(PyObject* capsule) { rt_decref(PyCapsule_GetPointer(capsule, NULL)); }

static PyObject* make_array(TVMFFIObject* tensor, PyObject* descr) {
  const DLTensor* view = rt_tensor_of(tensor);
  if (view->ndim > 32) {
    Py_DECREF(descr);
    PyErr_SetString(PyExc_ValueError, "a result of more than 32 dimensions");
    return NULL;
  }
  int64_t strides[32];
  int flags = NUMPY_ALIGNED | (rt_tensor_is_read_only(tensor) ? 0 : NUMPY_WRITEABLE);
  for (int i = 0; i < view->ndim; ++i) strides[i] = view->strides[i] * (view->dtype.bits / 8);
  return numpy.new_from_descr(numpy.ndarray, descr, view->ndim, view->shape, strides,
                              (char*)view->data + view->byte_offset, flags, NULL);
}

// Without NumPy's table: our Tensor offers a buffer, and NumPy knows how to read one.
static PyObject* by_buffer(TVMFFIObject* tensor) {
  PyObject* mine = rt_tensor_object(tensor, NULL);
  PyObject* make = mine ? rt_import("kdsl.runtime.frameworks", "array_of") : NULL;
  PyObject* array = make ? PyObject_CallFunctionObjArgs(make, mine, NULL) : NULL;
  Py_XDECREF(make);
  Py_XDECREF(mine);
  return array;
}

PyObject* rt_to_numpy(TVMFFIObject* tensor) {
  if (!numpy.looked) look();
  if (!numpy.new_from_descr) return by_buffer(tensor);
  PyObject* descr = descr_of(rt_tensor_of(tensor)->dtype);
  PyObject* array = descr ? make_array(tensor, descr) : NULL;  // steals descr
  PyObject* base = array ? PyCapsule_New(tensor, NULL, drop_tensor) : NULL;
  if (!base) {
    Py_XDECREF(array);
    rt_decref(tensor);
    return NULL;
  }
  if (numpy.set_base_object(array, base)) {  // steals base, also when it fails
    Py_DECREF(array);
    return NULL;
  }
  return array;
}
