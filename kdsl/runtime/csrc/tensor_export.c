// tensor_export.c: a Tensor's memory for others: by DLPack, by its exchange table, as a buffer.
#include <stdlib.h>
#include <string.h>

#include "tensor.h"

static const DLTensor* view_of(PyObject* self) { return rt_tensor_of(((Tensor*)self)->object); }

// ---- DLPack ----------------------------------------------------------------------------------

static void drop_versioned(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor_versioned")) return;  // someone took it
  DLManagedTensorVersioned* m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
  if (m->deleter) m->deleter(m);
}

static void drop_legacy(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, "dltensor")) return;
  DLManagedTensor* m = PyCapsule_GetPointer(capsule, "dltensor");
  if (m->deleter) m->deleter(m);
}

static void delete_legacy(DLManagedTensor* self) {
  rt_decref(self->manager_ctx);
  free(self);
}

PyObject* rt_tensor_capsule(TVMFFIObject* object, int versioned) {
  PyObject* capsule;
  if (versioned) {
    DLManagedTensorVersioned* m = rt_tensor_export(object);
    if (!m) return PyErr_NoMemory();
    capsule = PyCapsule_New(m, "dltensor_versioned", drop_versioned);
    if (!capsule && m->deleter) m->deleter(m);
    return capsule;
  }
  DLManagedTensor* m = malloc(sizeof *m);
  if (!m) {
    rt_decref(object);
    return PyErr_NoMemory();
  }
  *m = (DLManagedTensor){*rt_tensor_of(object), object, delete_legacy};
  capsule = PyCapsule_New(m, "dltensor", drop_legacy);
  if (!capsule) delete_legacy(m);
  return capsule;
}

static int is_own_device(PyObject* asked, DLDevice device) {
  int type, id;
  if (asked == Py_None) return 1;
  if (!PyArg_ParseTuple(asked, "ii", &type, &id)) return -1;
  if (type == (int)device.device_type && id == device.device_id) return 1;
  PyErr_Format(PyExc_BufferError, "a Tensor is exported where it lies: on device (%d, %d)",
               (int)device.device_type, device.device_id);
  return 0;
}

// The Tensor's own object, or that of a copy; a new reference.
static TVMFFIObject* exported(PyObject* self, int copy) {
  TVMFFIObject* object = ((Tensor*)self)->object;
  if (!copy) {
    rt_incref(object);
    return object;
  }
  RtTensor* fresh = rt_tensor_copy(view_of(self));
  if (fresh) return &fresh->header;
  rt_error_raise("__dlpack__");
  return NULL;
}

PyObject* rt_tensor_dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &version, &device,
                                   &copy)) {
    return NULL;
  }
  int major = 0, minor = 0, waits;
  void* after;
  if (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor)) return NULL;
  DLDevice mine = view_of(self)->device;
  if (is_own_device(device, mine) <= 0) return NULL;
  if (rt_consumer_stream(mine, stream, &after, &waits)) return NULL;
  if (waits && rt_stream_wait(mine, ((Tensor*)self)->stream, after)) return NULL;
  int copies = PyObject_IsTrue(copy);
  TVMFFIObject* object = copies < 0 ? NULL : exported(self, copies);
  if (!object) return NULL;
  PyObject* capsule = rt_tensor_capsule(object, major >= 1);
  if (capsule && copies && major >= 1) {
    DLManagedTensorVersioned* m = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    m->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  }
  return capsule;
}

PyObject* rt_tensor_dlpack_device(PyObject* self, PyObject* unused) {
  (void)unused;
  DLDevice device = view_of(self)->device;
  return Py_BuildValue("(ii)", (int)device.device_type, device.device_id);
}

// ---- the C exchange protocol, for Torch and apache-tvm-ffi -----------------------------------

static int exchange_from(void* self, DLManagedTensorVersioned** out) {
  rt_incref(((Tensor*)self)->object);
  *out = rt_tensor_export(((Tensor*)self)->object);
  if (!*out) PyErr_NoMemory();
  return *out ? 0 : -1;
}

static int exchange_view(void* self, DLTensor* out) {
  *out = *view_of(self);
  return 0;
}

static int exchange_to(DLManagedTensorVersioned* managed, void** out) {
  RtTensor* object = rt_tensor_wrap(&managed->dl_tensor, managed, NULL, NULL);
  *out = object ? rt_tensor_object(&object->header, NULL) : PyErr_NoMemory();
  return *out ? 0 : -1;
}

static int exchange_stream(DLDeviceType type, int32_t id, void** out) {
  *out = rt_stream_of(type, id);
  return 0;
}

DLPackExchangeAPI rt_tensor_exchange = {
    .header = {.version = {1, 3}, .prev_api = NULL},
    .managed_tensor_allocator = rt_own_allocator,
    .managed_tensor_from_py_object_no_sync = exchange_from,
    .managed_tensor_to_py_object_no_sync = exchange_to,
    .dltensor_from_py_object_no_sync = exchange_view,
    .current_work_stream = exchange_stream,
};

// ---- the buffer protocol ---------------------------------------------------------------------

int rt_tensor_get_buffer(PyObject* self, RtBuffer* out, int flags) {
  const DLTensor* view = view_of(self);
  const char* format = rt_dtype_format(view->dtype);
  out->obj = NULL;
  if (!rt_is_host(view->device) || view->dtype.lanes != 1 || view->dtype.bits % 8 ||
      (!format && flags & RT_BUF_FORMAT) ||
      (flags & RT_BUF_WRITABLE && rt_tensor_is_read_only(((Tensor*)self)->object))) {
    PyErr_SetString(PyExc_BufferError, "this Tensor has no form in the buffer protocol");
    return -1;
  }
  // Shape and strides in bytes live as long as the buffer does.
  int64_t* axes = PyMem_Malloc(((size_t)view->ndim * 2 + 1) * sizeof *axes);
  if (!axes) {
    PyErr_NoMemory();
    return -1;
  }
  int64_t itemsize = view->dtype.bits / 8, expected = itemsize, compact = 1;
  for (int i = view->ndim - 1; i >= 0; --i) {
    axes[i] = view->shape[i];
    axes[view->ndim + i] = view->strides[i] * itemsize;
    if (view->shape[i] != 1 && axes[view->ndim + i] != expected) compact = 0;
    expected *= view->shape[i];
  }
  if (!compact && (flags & RT_BUF_STRIDES) != RT_BUF_STRIDES) {
    PyMem_Free(axes);
    PyErr_SetString(PyExc_BufferError, "this Tensor is not contiguous");
    return -1;
  }
  *out = (RtBuffer){
      .buf = (char*)view->data + view->byte_offset,
      .obj = self,
      .len = (Py_ssize_t)expected,
      .itemsize = (Py_ssize_t)itemsize,
      .readonly = rt_tensor_is_read_only(((Tensor*)self)->object),
      .ndim = view->ndim,
      .format = flags & RT_BUF_FORMAT ? (char*)format : NULL,
      .shape = flags & RT_BUF_ND ? (Py_ssize_t*)axes : NULL,
      .strides = (flags & RT_BUF_STRIDES) == RT_BUF_STRIDES ? (Py_ssize_t*)axes + view->ndim : NULL,
      .internal = axes};
  Py_INCREF(self);
  return 0;
}

void rt_tensor_release_buffer(PyObject* self, RtBuffer* view) {
  (void)self;
  PyMem_Free(view->internal);
}
