// pyapi.h: Python's limited API 3.10, and the few stable things its headers leave out.
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <structmember.h>

// The call protocol of PEP 590. The limited API has it since 3.12, the interpreters since 3.8.
typedef PyObject* (*RtVectorcall)(PyObject* callable, PyObject* const* args, size_t nargsf,
                                  PyObject* kwnames);
#define RT_TPFLAGS_HAVE_VECTORCALL (1ul << 11)
#define RT_TPFLAGS_IMMUTABLETYPE (1ul << 8)
#define RT_TPFLAGS_DISALLOW_INSTANTIATION (1ul << 7)
#define RT_VECTORCALL_OFFSET ((size_t)1 << (8 * sizeof(size_t) - 1))
PyObject* PyVectorcall_Call(PyObject* callable, PyObject* args, PyObject* kwargs);
PyObject* PyObject_VectorcallDict(PyObject* callable, PyObject* const* args, size_t nargsf,
                                  PyObject* kwargs);
/// A function since 3.11.
PyObject* __attribute__((weak)) PyObject_Vectorcall(PyObject* callable, PyObject* const* args,
                                                    size_t nargsf, PyObject* kwnames);
/// A function since 3.11.
RtVectorcall __attribute__((weak)) PyVectorcall_Function(PyObject* callable);
#ifdef Py_LIMITED_API
extern PyTypeObject PyFunction_Type;
#endif
/// The state that has the GIL, or, since 3.12, this thread's if it has it; NULL: none. Two names.
PyThreadState* __attribute__((weak)) PyThreadState_GetUnchecked(void);
PyThreadState* __attribute__((weak)) _PyThreadState_UncheckedGet(void);

// The buffer protocol of PEP 3118. The limited API has it since 3.11; the layout never changed.
// A free-threaded Python has no limited API before 3.15.
#ifndef Py_LIMITED_API
typedef Py_buffer RtBuffer;
#else
typedef struct {
  void* buf;
  PyObject* obj;
  Py_ssize_t len;
  Py_ssize_t itemsize;
  int readonly;
  int ndim;
  char* format;
  Py_ssize_t* shape;
  Py_ssize_t* strides;
  Py_ssize_t* suboffsets;
  void* internal;
} RtBuffer;
int PyObject_CheckBuffer(PyObject* object);
int PyObject_GetBuffer(PyObject* object, RtBuffer* view, int flags);
void PyBuffer_Release(RtBuffer* view);
#endif
#define RT_BUF_WRITABLE 0x0001
#define RT_BUF_FORMAT 0x0004
#define RT_BUF_ND 0x0008
#define RT_BUF_STRIDES (0x0010 | RT_BUF_ND)
#define RT_SLOT_GETBUFFER 1
#define RT_SLOT_RELEASEBUFFER 2
