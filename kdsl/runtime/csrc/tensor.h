// tensor.h: kdsl.runtime.Tensor, for tensor.c and tensor_export.c.
#pragma once
#include "core.h"

typedef struct {
  PyObject_HEAD TVMFFIObject* object;
  void* stream;  ///< on which the memory is being written; NULL: the default stream
} Tensor;

extern PyTypeObject* rt_tensor_type;

// tensor_export.c
PyObject* rt_tensor_dlpack(PyObject* self, PyObject* args, PyObject* kwargs);
PyObject* rt_tensor_dlpack_device(PyObject* self, PyObject* unused);
extern DLPackExchangeAPI rt_tensor_exchange;
int rt_tensor_get_buffer(PyObject* self, RtBuffer* out, int flags);
void rt_tensor_release_buffer(PyObject* self, RtBuffer* view);
