// opaque.c: values that nobody looks into: pointers, streams and Python objects.
#include "core.h"

typedef struct {
  TVMFFIObject head;
  TVMFFIOpaqueObjectCell cell;
} Opaque;

static void opaque_delete(void* self, int flags) {
  Opaque* opaque = self;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    PyObject* object = opaque->cell.handle;
    opaque->cell.handle = NULL;
    rt_python_release(object);
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) rt_object_free(opaque);
}

TVMFFIObject* rt_opaque_new(PyObject* object) {
  Opaque* opaque = rt_object_new(sizeof *opaque, kTVMFFIOpaquePyObject, opaque_delete);
  if (!opaque) return NULL;
  Py_INCREF(object);
  opaque->cell.handle = object;
  return &opaque->head;
}

PyObject* rt_opaque_to_python(const TVMFFIObject* object) {
  PyObject* inner = ((const Opaque*)object)->cell.handle;
  Py_INCREF(inner);
  return inner;
}

int rt_take_opaque(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  if (frame->function->known) return rt_argument_error(frame, index, "unsupported");
  return rt_put_object(frame, index, rt_opaque_new(object));
}

// ---- pointers ---------------------------------------------------------------------------------

PyObject* rt_pointer_to_python(void* pointer) {
  PyObject* make = rt_import("ctypes", "c_void_p");
  PyObject* address = make ? PyLong_FromVoidPtr(pointer) : NULL;
  PyObject* answer = address ? PyObject_CallFunctionObjArgs(make, address, NULL) : NULL;
  Py_XDECREF(address);
  Py_XDECREF(make);
  return answer;
}

// Where an object says its address; each function steals nothing and gives an int or NULL.
static PyObject* value_attribute(PyObject* object) {
  PyObject* value = PyObject_GetAttrString(object, "value");
  if (value != Py_None) return value;
  Py_DECREF(value);  // ctypes spells the null pointer None
  return PyLong_FromLong(0);
}

static PyObject* opaque_method(PyObject* object) {
  return PyObject_CallMethod(object, "__tvm_ffi_opaque_ptr__", NULL);
}

static int put_pointer(Frame* frame, Py_ssize_t index, PyObject* address) {
  void* pointer = address ? PyLong_AsVoidPtr(address) : NULL;
  Py_XDECREF(address);
  if (!pointer && PyErr_Occurred()) return rt_argument_error(frame, index, "export");
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIOpaquePtr, .v_ptr = pointer};
  return 0;
}

static int take_void_p(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  return put_pointer(frame, index, value_attribute(object));
}

static int take_method(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  return put_pointer(frame, index, opaque_method(object));
}

static int take_stream(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  return put_pointer(frame, index, rt_stream_address(object));
}

const TypeEntry* rt_pointer_entry(PyTypeObject* type) {
  static const TypeEntry of_void_p = {.take = take_void_p}, of_method = {.take = take_method},
                         of_stream = {.take = take_stream};
  PyTypeObject* void_p = (PyTypeObject*)rt_loaded("ctypes", "c_void_p");
  int is = void_p && PyType_IsSubtype(type, void_p);
  Py_XDECREF((PyObject*)void_p);
  if (is) return &of_void_p;
  if (PyObject_HasAttrString((PyObject*)type, "__tvm_ffi_opaque_ptr__")) return &of_method;
  return rt_is_stream(type) ? &of_stream : NULL;
}
