// tensor.c: kdsl.runtime.Tensor, an array that belongs to no framework and goes to each.
#include "tensor.h"

#include <string.h>

PyTypeObject* rt_tensor_type;

static const DLTensor* view_of(PyObject* self) { return rt_tensor_of(((Tensor*)self)->object); }

PyObject* rt_tensor_object(TVMFFIObject* object, void* stream) {
  Tensor* self = PyObject_New(Tensor, rt_tensor_type);
  if (self) {
    self->object = object;
    self->stream = stream;
  } else {
    rt_decref(object);
  }
  return (PyObject*)self;
}

static void tensor_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  rt_decref(((Tensor*)self)->object);
  PyObject_Free(self);
  Py_DECREF(type);
}

static int take_tensor(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  const Tensor* self = (const Tensor*)object;
  const DLTensor* view = view_of(object);
  frame->views[index] = *view;
  rt_note_family(frame, FAMILY_OTHER, NULL);  // results are Tensors too
  if (RT_UNLIKELY(view->device.device_type != kDLCPU) && !frame->device_type) {
    rt_note_device(frame, view->device, NULL);
    if (!frame->stream) frame->stream = self->stream;
  }
  if (rt_put_view(frame, index, !rt_tensor_is_read_only(self->object))) return -1;
  if (frame->owned) {
    frame->args[index] = (TVMFFIAny){.type_index = kTVMFFITensor, .v_obj = self->object};
  }
  return 0;
}

const TypeEntry* rt_tensor_entry(PyTypeObject* type) {
  static const TypeEntry of_tensor = {.take = take_tensor};
  return type == rt_tensor_type ? &of_tensor : NULL;
}

// Python: from_dlpack(array) -> Tensor, whose memory the array keeps.
PyObject* rt_from_dlpack(PyObject* self, PyObject* array) {
  (void)self;
  TVMFFIAny value;
  ArrayKind kind = {FAMILY_NONE, NULL, NULL, NULL};
  if (rt_from_python(array, &value, &kind)) return NULL;
  if (value.type_index == kTVMFFITensor) return rt_tensor_object(value.v_obj, kind.stream);
  rt_value_release(&value);
  PyObject* name = PyObject_GetAttrString((PyObject*)Py_TYPE(array), "__name__");
  if (name) PyErr_Format(PyExc_TypeError, "from_dlpack: expected an array, got %U", name);
  Py_XDECREF(name);
  return NULL;
}

// ---- attributes ------------------------------------------------------------------------------

static PyObject* get_shape(PyObject* self, void* closure) {
  (void)closure;
  return rt_shape_to_python(view_of(self)->shape, view_of(self)->ndim);
}

static PyObject* get_strides(PyObject* self, void* closure) {
  (void)closure;
  return rt_tuple_of(view_of(self)->strides, view_of(self)->ndim);
}

static PyObject* get_dtype(PyObject* self, void* closure) {
  (void)closure;
  return rt_dtype_to_python(view_of(self)->dtype);
}

static PyObject* get_device(PyObject* self, void* closure) {
  (void)closure;
  return rt_device_to_python(view_of(self)->device);
}

static PyObject* get_ndim(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromLong(view_of(self)->ndim);
}

static PyObject* get_size(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromLongLong(rt_numel(view_of(self)));
}

static PyObject* get_byte_offset(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromUnsignedLongLong(view_of(self)->byte_offset);
}

static PyObject* get_data_ptr(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromVoidPtr((char*)view_of(self)->data + view_of(self)->byte_offset);
}

static PyObject* get_read_only(PyObject* self, void* closure) {
  (void)closure;
  return PyBool_FromLong(rt_tensor_is_read_only(((Tensor*)self)->object));
}

static PyObject* is_contiguous(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(rt_is_compact(view_of(self)));
}

static PyObject* tensor_repr(PyObject* self) {
  PyObject* dtype = get_dtype(self, NULL);
  PyObject* shape = dtype ? get_shape(self, NULL) : NULL;
  PyObject* list = shape ? PySequence_List(shape) : NULL;
  int on_cpu = view_of(self)->device.device_type == kDLCPU;
  PyObject* device = list && !on_cpu ? get_device(self, NULL) : NULL;
  PyObject* text = NULL;
  if (device)
    text = PyUnicode_FromFormat("<kdsl.runtime.Tensor %U%R on %S>", dtype, list, device);
  else if (list && on_cpu)
    text = PyUnicode_FromFormat("<kdsl.runtime.Tensor %U%R>", dtype, list);
  Py_XDECREF(device);
  Py_XDECREF(list);
  Py_XDECREF(shape);
  Py_XDECREF(dtype);
  return text;
}

// Two Python objects over one Tensor object are equal; what is in them is not compared.
static PyObject* tensor_compare(PyObject* self, PyObject* other, int how) {
  if (Py_TYPE(other) != rt_tensor_type || (how != Py_EQ && how != Py_NE)) {
    Py_INCREF(Py_NotImplemented);
    return Py_NotImplemented;
  }
  int same = ((Tensor*)self)->object == ((Tensor*)other)->object;
  return PyBool_FromLong(same == (how == Py_EQ));
}

static Py_hash_t tensor_hash(PyObject* self) {
  return (Py_hash_t)((uintptr_t)((Tensor*)self)->object >> 4);
}

static PyGetSetDef getters[] = {
    {"shape", get_shape, NULL, "Sizes, a Shape.", NULL},
    {"strides", get_strides, NULL, "Steps in elements, a tuple of int.", NULL},
    {"dtype", get_dtype, NULL, "The element type, a DType: equal to its name, such as 'f32'.",
     NULL},
    {"device", get_device, NULL, "Where the memory is, a Device.", NULL},
    {"ndim", get_ndim, NULL, "Number of axes.", NULL},
    {"size", get_size, NULL, "Number of elements.", NULL},
    {"byte_offset", get_byte_offset, NULL, "Bytes from its memory's start to element 0.", NULL},
    {"data_ptr", get_data_ptr, NULL, "The address of element 0.", NULL},
    {"read_only", get_read_only, NULL, "Whether the memory must not be written.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

// ---- NumPy -----------------------------------------------------------------------------------

static PyObject* to_numpy(PyObject* self, PyObject* unused) {
  (void)unused;
  if (!rt_is_host(view_of(self)->device)) {
    PyObject* device = get_device(self, NULL);
    if (device) {
      PyErr_Format(
          PyExc_ValueError,
          "numpy(): expected a Tensor in host memory, got one on %S; copy it with "
          "torch.from_dlpack(tensor).cpu(), or kdsl.sim.numpy(tensor) on the simulated GPU",
          device);
    }
    Py_XDECREF(device);
    return NULL;
  }
  PyObject* numpy = PyImport_ImportModule("numpy");
  if (!numpy) return NULL;
  Py_DECREF(numpy);
  rt_incref(((Tensor*)self)->object);
  return rt_to_numpy(((Tensor*)self)->object);
}

static PyObject* to_array(PyObject* self, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"dtype", "copy", NULL};
  PyObject *dtype = Py_None, *copy = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O$O", names, &dtype, &copy)) return NULL;
  PyObject* array = to_numpy(self, NULL);
  if (!array || (dtype == Py_None && copy != Py_True)) return array;
  PyObject* cast = dtype == Py_None ? PyObject_CallMethod(array, "copy", NULL)
                                    : PyObject_CallMethod(array, "astype", "O", dtype);
  Py_DECREF(array);
  return cast;
}

static PyObject* refuse_pickle(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  PyErr_SetString(PyExc_TypeError,
                  "cannot pickle kdsl.runtime.Tensor: it refers to memory of this process; "
                  "pickle .numpy() of it");
  return NULL;
}

static PyMethodDef methods[] = {
    {"numpy", to_numpy, METH_NOARGS,
     "numpy()\n--\n\nA NumPy array over the same memory.\n\n"
     "Raises:\n    ValueError: the memory is on a device. TypeError: NumPy has no such dtype."},
    {"is_contiguous", is_contiguous, METH_NOARGS,
     "is_contiguous()\n--\n\nWhether the elements lie row after row without gaps."},
    {"__array__", (PyCFunction)(void (*)(void))to_array, METH_VARARGS | METH_KEYWORDS,
     "__array__(dtype=None, *, copy=None)\n--\n\nA NumPy array over the same memory."},
    {"__dlpack__", (PyCFunction)(void (*)(void))rt_tensor_dlpack, METH_VARARGS | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
     "A DLPack capsule that shares the memory, or has a copy."},
    {"__dlpack_device__", rt_tensor_dlpack_device, METH_NOARGS,
     "__dlpack_device__()\n--\n\n(device type, device id) in DLPack's numbers."},
    {"__reduce__", refuse_pickle, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc,
     "An array that belongs to no framework.\n\n"
     "Give it to numpy.asarray, torch.from_dlpack or jax.dlpack.from_dlpack; kdsl.runtime."
     "from_dlpack makes one."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_repr, tensor_repr},
    {Py_tp_hash, tensor_hash},
    {Py_tp_richcompare, tensor_compare},
    {Py_tp_getset, getters},
    {Py_tp_methods, methods},
    {RT_SLOT_GETBUFFER, rt_tensor_get_buffer},
    {RT_SLOT_RELEASEBUFFER, rt_tensor_release_buffer},
    {0, NULL},
};

static PyType_Spec spec = {"kdsl.runtime.Tensor", sizeof(Tensor), 0,
                           Py_TPFLAGS_DEFAULT | RT_TPFLAGS_DISALLOW_INSTANTIATION, slots};

int rt_tensor_init(PyObject* module) {
  // A second import in one process gets the same types: objects of the first one live on.
  if (!rt_tensor_type) rt_tensor_type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (!rt_tensor_type) return -1;
  PyObject* capsule = PyCapsule_New(&rt_tensor_exchange, "dlpack_exchange_api", NULL);
  int failed = !capsule || PyObject_SetAttrString((PyObject*)rt_tensor_type,
                                                  "__dlpack_c_exchange_api__", capsule);
  Py_XDECREF(capsule);
  if (failed) return -1;
  return PyObject_SetAttrString(module, "Tensor", (PyObject*)rt_tensor_type);
}
