// tensor.c: kdsl.runtime.Tensor, an array that belongs to no framework and goes to each.
#include <stdlib.h>
#include <string.h>

#include "core.h"

typedef struct {
  PyObject_HEAD TVMFFIObject* object;
} Tensor;

static PyTypeObject* tensor_type;

static const DLTensor* view_of(PyObject* self) { return rt_tensor_of(((Tensor*)self)->object); }

PyObject* rt_tensor_object(TVMFFIObject* object) {
  Tensor* self = PyObject_New(Tensor, tensor_type);
  if (self)
    self->object = object;
  else
    rt_decref(object);
  return (PyObject*)self;
}

static void tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  rt_decref(((Tensor*)self)->object);
  PyObject_Free(self);
  Py_DECREF(type);
}

// ---- attributes ------------------------------------------------------------------------------

static PyObject* tuple_of(const int64_t* values, int count) {
  PyObject* tuple = PyTuple_New(count);
  for (int i = 0; tuple && i < count; ++i) {
    PyTuple_SetItem(tuple, i, PyLong_FromLongLong(values[i]));
  }
  return tuple;
}

static PyObject* get_shape(PyObject* self, void* closure) {
  (void)closure;
  return tuple_of(view_of(self)->shape, view_of(self)->ndim);
}

static PyObject* get_strides(PyObject* self, void* closure) {
  (void)closure;
  return tuple_of(view_of(self)->strides, view_of(self)->ndim);
}

static PyObject* get_dtype(PyObject* self, void* closure) {
  (void)closure;
  return PyUnicode_FromString(rt_dtype_name(view_of(self)->dtype));
}

static PyObject* get_ndim(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromLong(view_of(self)->ndim);
}

static PyObject* tensor_repr(PyObject* self) {
  PyObject* shape = get_shape(self, NULL);
  PyObject* list = shape ? PySequence_List(shape) : NULL;
  PyObject* text = list ? PyUnicode_FromFormat("<kdsl.runtime.Tensor %s%R>",
                                               rt_dtype_name(view_of(self)->dtype), list)
                        : NULL;
  Py_XDECREF(list);
  Py_XDECREF(shape);
  return text;
}

static PyGetSetDef getters[] = {
    {"shape", get_shape, NULL, "Sizes, a tuple of int.", NULL},
    {"strides", get_strides, NULL, "Steps in elements, a tuple of int.", NULL},
    {"dtype", get_dtype, NULL, "Name of the element type, such as 'f32'.", NULL},
    {"ndim", get_ndim, NULL, "Number of axes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

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

static PyObject* to_dlpack(PyObject* self, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"stream", "max_version", "dl_device", "copy", NULL};
  PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &version, &device,
                                   &copy)) {
    return NULL;
  }
  if (copy == Py_True) {
    PyErr_SetString(PyExc_BufferError, "a kdsl Tensor is exported without a copy only");
    return NULL;
  }
  int major = 0, minor = 0;
  if (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor)) return NULL;
  rt_incref(((Tensor*)self)->object);
  return rt_tensor_capsule(((Tensor*)self)->object, major >= 1);
}

static PyObject* dlpack_device(PyObject* self, PyObject* unused) {
  (void)unused;
  DLDevice device = view_of(self)->device;
  return Py_BuildValue("(ii)", (int)device.device_type, device.device_id);
}

static PyObject* to_array(PyObject* self, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"dtype", "copy", NULL};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O", names, &dtype, &copy)) return NULL;
  rt_incref(((Tensor*)self)->object);
  PyObject* array = rt_to_numpy(((Tensor*)self)->object);
  if (!array || dtype == Py_None) return array;
  PyObject* cast = PyObject_CallMethod(array, "astype", "O", dtype);
  Py_DECREF(array);
  return cast;
}

static PyMethodDef methods[] = {
    {"__array__", (PyCFunction)(void (*)(void))to_array, METH_VARARGS | METH_KEYWORDS,
     "__array__(dtype=None, *, copy=None)\n--\n\nA NumPy array over the same memory."},
    {"__dlpack__", (PyCFunction)(void (*)(void))to_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule that shares the memory."},
    {"__dlpack_device__", dlpack_device, METH_NOARGS,
     "__dlpack_device__()\n--\n\n(device type, device id) in DLPack's numbers."},
    {NULL, NULL, 0, NULL},
};

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
  *out = object ? rt_tensor_object(&object->header) : PyErr_NoMemory();
  return *out ? 0 : -1;
}

static int exchange_stream(DLDeviceType type, int32_t id, void** out) {
  (void)type, (void)id;
  *out = NULL;
  return 0;
}

static DLPackExchangeAPI exchange = {
    .header = {.version = {1, 3}, .prev_api = NULL},
    .managed_tensor_allocator = rt_own_allocator,
    .managed_tensor_from_py_object_no_sync = exchange_from,
    .managed_tensor_to_py_object_no_sync = exchange_to,
    .dltensor_from_py_object_no_sync = exchange_view,
    .current_work_stream = exchange_stream,
};

// ---- the buffer protocol ---------------------------------------------------------------------

static int get_buffer(PyObject* self, RtBuffer* out, int flags) {
  const DLTensor* view = view_of(self);
  const char* format = rt_dtype_format(view->dtype);
  out->obj = NULL;
  if (view->device.device_type != kDLCPU || view->dtype.lanes != 1 || view->dtype.bits % 8 ||
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

static void release_buffer(PyObject* self, RtBuffer* view) {
  (void)self;
  PyMem_Free(view->internal);
}

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "A result in CPU memory that belongs to no framework.\n\n"
     "Give it to numpy.asarray, torch.from_dlpack or jax.dlpack.from_dlpack."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {RT_SLOT_GETBUFFER, get_buffer},
    {RT_SLOT_RELEASEBUFFER, release_buffer},
    {0, NULL},
};

static PyType_Spec spec = {"kdsl.runtime.Tensor", sizeof(Tensor), 0,
                           Py_TPFLAGS_DEFAULT | RT_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int rt_tensor_init(PyObject* module) {
  // A second import in one process gets the same types: objects of the first one live on.
  if (!tensor_type) tensor_type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (!tensor_type) return -1;
  PyObject* capsule = PyCapsule_New(&exchange, "dlpack_exchange_api", NULL);
  int failed = !capsule ||
               PyObject_SetAttrString((PyObject*)tensor_type, "__dlpack_c_exchange_api__", capsule);
  Py_XDECREF(capsule);
  if (failed) return -1;
  return PyObject_SetAttrString(module, "Tensor", (PyObject*)tensor_type);
}
