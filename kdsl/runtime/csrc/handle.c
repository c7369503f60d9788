// handle.c: kdsl.runtime.Object, which holds a TVM FFI object, and what of a module object is C.
#include "handle.h"

static PyTypeObject *object_type, *module_type;

// ---- making -----------------------------------------------------------------------------------

PyObject* rt_handle_make(PyTypeObject* type, const ArrayKind* kind, TVMFFIObject* object) {
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Handle* self = object ? (Handle*)allocate(type, 0) : NULL;
  if (self) {
    self->object = object;
    self->kind = *kind;
  } else if (object) {
    rt_decref(object);
  }
  return (PyObject*)self;
}

static PyTypeObject* class_of(int32_t type_index) {
  static PyObject* classes;
  if (type_index < kTVMFFIArray || type_index > kTVMFFIDict) return object_type;
  if (!classes) classes = rt_import("kdsl.runtime.classes", "CLASSES");
  PyObject* number = classes ? PyLong_FromLong(type_index) : NULL;
  PyObject* found = number ? PyDict_GetItemWithError(classes, number) : NULL;
  Py_XDECREF(number);
  if (!found) return PyErr_Occurred() ? NULL : object_type;
  return (PyTypeObject*)found;
}

PyObject* rt_handle_new(const ArrayKind* kind, TVMFFIObject* object) {
  PyTypeObject* type = class_of(object->type_index);
  if (type) return rt_handle_make(type, kind, object);
  rt_decref(object);
  return NULL;
}

TVMFFIObject* rt_handle_object(PyObject* handle) {
  return PyObject_TypeCheck(handle, object_type) ? ((Handle*)handle)->object : NULL;
}

static int take_handle(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  const Handle* self = (Handle*)object;
  if (frame->function->known) return rt_argument_error(frame, index, "unsupported");
  rt_lock(self->object);
  ArrayKind kind = self->kind;
  rt_unlock(self->object);
  if (kind.family != FAMILY_NONE) rt_note_kind(frame, &kind);
  frame->args[index] = (TVMFFIAny){.type_index = self->object->type_index, .v_obj = self->object};
  return 0;
}

const TypeEntry* rt_handle_entry(PyTypeObject* type) {
  static const TypeEntry of_handle = {.take = take_handle};
  return PyType_IsSubtype(type, object_type) ? &of_handle : NULL;
}

static void handle_dealloc(PyObject* self) {
  Handle* handle = (Handle*)self;
  PyTypeObject* type = Py_TYPE(self);
  if (handle->weak_references) PyObject_ClearWeakRefs(self);
  if (handle->object) rt_decref(handle->object);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

// ---- any object -------------------------------------------------------------------------------

static PyObject* handle_repr(PyObject* self) {
  const TVMFFIObject* object = ((Handle*)self)->object;
  return PyUnicode_FromFormat("<kdsl.runtime.Object of type index %d at %p>", object->type_index,
                              (const void*)object);
}

static Py_hash_t handle_hash(PyObject* self) {
  Py_hash_t hash = (Py_hash_t)((uintptr_t)((Handle*)self)->object >> 4);
  return hash == -1 ? -2 : hash;
}

static PyObject* handle_compare(PyObject* self, PyObject* other, int how) {
  TVMFFIObject* theirs = rt_handle_object(other);
  if (!theirs || (how != Py_EQ && how != Py_NE)) {
    Py_INCREF(Py_NotImplemented);
    return Py_NotImplemented;
  }
  return PyBool_FromLong((((Handle*)self)->object == theirs) == (how == Py_EQ));
}

static PyObject* get_type_index(PyObject* self, void* closure) {
  (void)closure;
  return PyLong_FromLong(((Handle*)self)->object->type_index);
}

static PyObject* refuse_pickle(PyObject* self, PyObject* unused) {
  (void)unused;
  PyObject* name = PyObject_GetAttrString((PyObject*)Py_TYPE(self), "__name__");
  if (name) {
    PyErr_Format(PyExc_TypeError,
                 "cannot pickle kdsl.runtime.%U: it refers to memory of this process; pickle "
                 "what is in it",
                 name);
  }
  Py_XDECREF(name);
  return NULL;
}

static PyObject* as_peer(PyObject* self, PyObject* unused) {
  (void)unused;
  return rt_peer_object(((Handle*)self)->object);
}

// ---- modules ----------------------------------------------------------------------------------

// Where every release has them; what is in front of a Module object is its library's affair.
#define MODULE_IMPORTS(object) (*(TVMFFIObject**)((object) + 1))

static PyObject* module_imports(PyObject* self, PyObject* unused) {
  (void)unused;
  Handle* handle = (Handle*)self;
  TVMFFIAny imports = {.type_index = kTVMFFIArray, .v_obj = MODULE_IMPORTS(handle->object)};
  if (!imports.v_obj) return PyTuple_New(0);
  return rt_copy_to_python(&handle->kind, &imports);
}

static PyObject* module_keep(PyObject* self, PyObject* unused) {
  (void)unused;
  rt_incref(((Handle*)self)->object);
  Py_RETURN_NONE;
}

// ---- types ------------------------------------------------------------------------------------

static PyMethodDef object_methods[] = {
    {"__reduce__", refuse_pickle, METH_NOARGS, NULL},
    {"__tvm_ffi_object__", as_peer, METH_NOARGS,
     "__tvm_ffi_object__()\n--\n\nThis object as apache-tvm-ffi's Python package shows it."},
    {NULL, NULL, 0, NULL}};

static PyGetSetDef object_getters[] = {
    {"type_index", get_type_index, NULL, "TVM FFI's number of the object's type.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

static PyMemberDef object_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Handle, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};

// A function of the module, under its name; it keeps the module and takes its metadata from there.
static PyObject* module_function(PyObject* self, PyObject* arguments) {
  PyObject *function, *name;
  if (!PyArg_ParseTuple(arguments, "O!U", rt_function_type, &function, &name)) return NULL;
  TVMFFIObject* object = rt_function_object(function);
  if (!object) return NULL;
  const TVMFFIFunctionCell* cell = (const TVMFFIFunctionCell*)(object + 1);
  return rt_function_new(cell->safe_call, object, name, self);
}

static PyMethodDef module_methods[] = {{"_imports", module_imports, METH_NOARGS, NULL},
                                       {"_function", module_function, METH_VARARGS, NULL},
                                       {"_keep", module_keep, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};

static PyType_Slot object_slots[] = {
    {Py_tp_doc, "Something that a module made and Python has no type for; it can be passed back."},
    {Py_tp_dealloc, handle_dealloc},
    {Py_tp_repr, handle_repr},
    {Py_tp_hash, handle_hash},
    {Py_tp_richcompare, handle_compare},
    {Py_tp_methods, object_methods},
    {Py_tp_getset, object_getters},
    {Py_tp_members, object_members},
    {0, NULL}};

static PyType_Slot module_slots[] = {{Py_tp_methods, module_methods}, {0, NULL}};

static PyType_Spec object_spec = {
    "kdsl.runtime.Object", sizeof(Handle), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | RT_TPFLAGS_DISALLOW_INSTANTIATION, object_slots};
static PyType_Spec module_spec = {
    "kdsl.runtime._core.ModuleHandle", sizeof(Handle), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | RT_TPFLAGS_DISALLOW_INSTANTIATION, module_slots};

int rt_handle_type(PyObject* module, PyTypeObject** type, PyType_Spec* spec, const char* name) {
  // A second import in one process gets the same types: objects of the first one live on.
  if (!*type && spec == &object_spec) *type = (PyTypeObject*)PyType_FromSpec(spec);
  if (!*type) *type = (PyTypeObject*)PyType_FromSpecWithBases(spec, (PyObject*)object_type);
  return *type ? PyObject_SetAttrString(module, name, (PyObject*)*type) : -1;
}

int rt_handle_init(PyObject* module) {
  if (rt_handle_type(module, &object_type, &object_spec, "Object")) return -1;
  if (rt_containers_init(module)) return -1;
  return rt_handle_type(module, &module_type, &module_spec, "ModuleHandle");
}
