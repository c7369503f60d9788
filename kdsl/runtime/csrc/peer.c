// peer.c: objects of apache-tvm-ffi's Python package as arguments, and ours as its own.
#include <string.h>

#include "core.h"

// ---- in
// ------------------------------------------------------------------------------------------

static int take_peer(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  if (frame->function->known) return rt_argument_error(frame, index, "unsupported");
  PyObject* address = PyObject_CallMethod(object, "__chandle__", NULL);
  TVMFFIObject* held = address ? PyLong_AsVoidPtr(address) : NULL;
  Py_XDECREF(address);
  if (!held) return rt_argument_error(frame, index, "export");
  frame->args[index] = (TVMFFIAny){.type_index = held->type_index, .v_obj = held};
  return 0;
}

const TypeEntry* rt_peer_entry(PyTypeObject* type) {
  static const TypeEntry of_peer = {.take = take_peer};
  PyTypeObject* base = (PyTypeObject*)rt_loaded("tvm_ffi.core", "CObject");
  int is = base && PyType_IsSubtype(type, base);
  Py_XDECREF((PyObject*)base);
  // A tensor of theirs is an array like any other.
  if (!is || PyObject_HasAttrString((PyObject*)type, "__dlpack_c_exchange_api__")) return NULL;
  return PyObject_HasAttrString((PyObject*)type, "__chandle__") ? &of_peer : NULL;
}

// ---- out
// -----------------------------------------------------------------------------------------

// The packed function by which an address becomes an object of whoever calls it.
static int give(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)self;
  if (count != 1 || args[0].type_index != kTVMFFIInt) return -1;
  TVMFFIObject* object = (TVMFFIObject*)(intptr_t)args[0].v_int64;
  rt_incref(object);
  *result = (TVMFFIAny){.type_index = object->type_index, .v_obj = object};
  return 0;
}

PyObject* rt_peer_object(TVMFFIObject* object) {
  PyObject* make = rt_import("kdsl.runtime.peer", "object_at");
  TVMFFISafeCallType function = give;
  void* pointer;
  memcpy(&pointer, &function, sizeof pointer);
  PyObject* answer = make ? PyObject_CallFunction(make, "NN", PyLong_FromVoidPtr(pointer),
                                                  PyLong_FromVoidPtr(object))
                          : NULL;
  Py_XDECREF(make);
  return answer;
}
