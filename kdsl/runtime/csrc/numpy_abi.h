// numpy_abi.h: the parts of NumPy's ABI that numpy.c and to_numpy.c rely on, without its headers.
//
// Types and numbers are NumPy's own, by other names; tests/runtime/test_layout.py compares them
// with what NumPy installs.
#pragma once
#include <Python.h>
#include <stddef.h>
#include <stdint.h>

/// The first fields of an array.
typedef struct {
  PyObject_HEAD char* data;
  int ndim;
  int64_t* shape;
  int64_t* strides;
  PyObject* base;
  PyObject* dtype;
  int flags;
} NumpyArray;

/// The first fields of a dtype, of NumPy 1 and 2.
typedef struct {
  PyObject_HEAD PyTypeObject* scalar;
  char kind;
  char letter;
  char byteorder;
  char former_flags;
  int number;
} NumpyDtype;

enum { NUMPY_ALIGNED = 0x0100, NUMPY_WRITEABLE = 0x0400 };

/// Places in the table of C functions.
enum { NUMPY_DESCR_FROM_TYPE = 45, NUMPY_NEW_FROM_DESCR = 94, NUMPY_SET_BASE_OBJECT = 282 };

#define NUMPY_FROZEN(S, F, OFFSET) \
  _Static_assert(offsetof(S, F) == (OFFSET), "NumPy's ABI: " #S "." #F " moved")
#define NUMPY_HEAD sizeof(PyObject)
NUMPY_FROZEN(NumpyArray, data, NUMPY_HEAD);
NUMPY_FROZEN(NumpyArray, ndim, NUMPY_HEAD + 8);
NUMPY_FROZEN(NumpyArray, shape, NUMPY_HEAD + 16);
NUMPY_FROZEN(NumpyArray, strides, NUMPY_HEAD + 24);
NUMPY_FROZEN(NumpyArray, base, NUMPY_HEAD + 32);
NUMPY_FROZEN(NumpyArray, dtype, NUMPY_HEAD + 40);
NUMPY_FROZEN(NumpyArray, flags, NUMPY_HEAD + 48);
NUMPY_FROZEN(NumpyDtype, scalar, NUMPY_HEAD);
NUMPY_FROZEN(NumpyDtype, byteorder, NUMPY_HEAD + 10);
NUMPY_FROZEN(NumpyDtype, number, NUMPY_HEAD + 12);
#undef NUMPY_FROZEN
