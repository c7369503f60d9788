// handle.c: kdsl.runtime.Object, which holds a TVM FFI object, and the containers made of it.
//
// The methods here are the few that containers.py builds Python's manners on. A container knows
// which framework's arrays its tensors become.
#include <string.h>

#include "core.h"

typedef struct {
  PyObject_HEAD TVMFFIObject* object;
  ArrayKind kind;
  PyObject* weak_references;
} Handle;

static PyTypeObject *object_type, *sequence_type, *mapping_type, *module_type;

// ---- making -----------------------------------------------------------------------------------

static PyObject* make(PyTypeObject* type, const ArrayKind* kind, TVMFFIObject* object) {
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
  if (type) return make(type, kind, object);
  rt_decref(object);
  return NULL;
}

TVMFFIObject* rt_handle_object(PyObject* handle) {
  return PyObject_TypeCheck(handle, object_type) ? ((Handle*)handle)->object : NULL;
}

static int take_handle(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  Handle* self = (Handle*)object;
  if (frame->function->known) return rt_argument_error(frame, index, "unsupported");
  if (self->kind.family != FAMILY_NONE) rt_note_kind(frame, &self->kind);
  frame->args[index] = (TVMFFIAny){.type_index = self->object->type_index, .v_obj = self->object};
  return 0;
}

const TypeEntry* rt_handle_entry(PyTypeObject* type) {
  static const TypeEntry of_handle = {.take = take_handle};
  return PyType_IsSubtype(type, object_type) ? &of_handle : NULL;
}

// `arguments`: (type index, tuple of elements), or of keys and values in turn.
static PyObject* container_new(PyTypeObject* type, PyObject* arguments,
                               TVMFFIObject* (*collect)(Frame*, Py_ssize_t, PyObject*, int32_t)) {
  int index;
  PyObject* content;
  ArrayKind kind = {FAMILY_NONE, NULL, NULL, NULL};
  Frame outside;
  if (!PyArg_ParseTuple(arguments, "iO!", &index, &PyTuple_Type, &content)) return NULL;
  if (rt_frame_outside(&outside, &kind)) return NULL;
  TVMFFIObject* object = collect(&outside, 0, content, index);
  kind = rt_frame_kind(&outside);
  return make(type, &kind, object);
}

static int is_one_of(PyObject* arguments, int32_t first, int32_t second) {
  PyObject* number = PyTuple_Size(arguments) ? PyTuple_GetItem(arguments, 0) : NULL;
  long index = number && PyLong_Check(number) ? PyLong_AsLong(number) : -1;
  if (index == first || index == second) return 1;
  PyErr_SetString(PyExc_TypeError, "make containers with kdsl.runtime.Array, List, Map or Dict");
  return 0;
}

static PyObject* sequence_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  if (!is_one_of(arguments, kTVMFFIArray, kTVMFFIList)) return NULL;
  return container_new(type, arguments, rt_collect_sequence);
}

static PyObject* mapping_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  (void)keywords;
  if (!is_one_of(arguments, kTVMFFIMap, kTVMFFIDict)) return NULL;
  return container_new(type, arguments, rt_collect_map);
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

// ---- sequences --------------------------------------------------------------------------------

static PyObject* sequence_size(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromLongLong(rt_sequence(((Handle*)self)->object)->size);
}

static int in_bounds(const Handle* self, Py_ssize_t at, int beyond) {
  if (0 <= at && at < rt_sequence(self->object)->size + beyond) return 1;
  PyErr_Format(PyExc_IndexError, "index %zd is out of range: there are %zd elements", at,
               (Py_ssize_t)rt_sequence(self->object)->size);
  return 0;
}

static int is_list(const Handle* self) {
  if (self->object->type_index == kTVMFFIList) return 1;
  PyErr_SetString(PyExc_TypeError, "an Array cannot change; make a List of it");
  return 0;
}

static PyObject* sequence_at(PyObject* self, PyObject* index) {
  Handle* handle = (Handle*)self;
  Py_ssize_t at = PyNumber_AsSsize_t(index, PyExc_IndexError);
  if ((at == -1 && PyErr_Occurred()) || !in_bounds(handle, at, 0)) return NULL;
  const TVMFFIAny* items = rt_sequence(handle->object)->data;
  return rt_copy_to_python(&handle->kind, &items[at]);
}

static PyObject* sequence_insert(PyObject* self, PyObject* arguments) {
  Handle* handle = (Handle*)self;
  Py_ssize_t at;
  PyObject* object;
  TVMFFIAny value;
  if (!PyArg_ParseTuple(arguments, "nO", &at, &object) || !is_list(handle)) return NULL;
  if (rt_from_python(object, &value, &handle->kind)) return NULL;
  if (!in_bounds(handle, at, 1)) {  // now: taking the object may have changed the list
    rt_value_release(&value);
    return NULL;
  }
  if (rt_list_insert(handle->object, at, value)) return PyErr_NoMemory();
  Py_RETURN_NONE;
}

static PyObject* sequence_replace(PyObject* self, PyObject* arguments) {
  Handle* handle = (Handle*)self;
  Py_ssize_t at;
  PyObject* object;
  TVMFFIAny value;
  if (!PyArg_ParseTuple(arguments, "nO", &at, &object) || !is_list(handle)) return NULL;
  if (rt_from_python(object, &value, &handle->kind)) return NULL;
  if (!in_bounds(handle, at, 0)) {
    rt_value_release(&value);
    return NULL;
  }
  rt_list_replace(handle->object, at, value);
  Py_RETURN_NONE;
}

static PyObject* sequence_erase(PyObject* self, PyObject* arguments) {
  Handle* handle = (Handle*)self;
  Py_ssize_t begin, end;
  if (!PyArg_ParseTuple(arguments, "nn", &begin, &end) || !is_list(handle)) return NULL;
  if (!in_bounds(handle, begin, 1) || !in_bounds(handle, end, 1)) return NULL;
  if (rt_list_erase(handle->object, begin, end)) return PyErr_NoMemory();
  Py_RETURN_NONE;
}

// Whether all elements are the same values, without a look into them.
static PyObject* sequence_same(PyObject* self, PyObject* other) {
  if (!PyObject_TypeCheck(other, sequence_type)) Py_RETURN_FALSE;
  const TVMFFISeqCell* mine = rt_sequence(((Handle*)self)->object);
  const TVMFFISeqCell* theirs = rt_sequence(((Handle*)other)->object);
  int same = mine->size == theirs->size;
  for (int64_t i = 0; same && i < mine->size; ++i) {
    same = rt_same_key((TVMFFIAny*)mine->data + i, (TVMFFIAny*)theirs->data + i);
  }
  return PyBool_FromLong(same);
}

// ---- mappings ---------------------------------------------------------------------------------

static int is_dict(const Handle* self) {
  if (self->object->type_index == kTVMFFIDict) return 1;
  PyErr_SetString(PyExc_TypeError, "a Map cannot change; make a Dict of it");
  return 0;
}

static PyObject* mapping_size(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromUnsignedLongLong(((RtMapObject*)((Handle*)self)->object)->map.size);
}

// A value for a key; whatever cannot be one is in no Map. 0: it can be, and `key` is owned.
static int key_of(PyObject* object, TVMFFIAny* key) {
  ArrayKind kind = {FAMILY_NONE, NULL, NULL, NULL};
  if (rt_from_python(object, key, &kind)) return -1;
  if (rt_is_key(key)) return 0;
  PyErr_Format(PyExc_TypeError, "an object of TVM FFI type index %d cannot be a key",
               key->type_index);
  rt_value_release(key);
  return -1;
}

static PyObject* mapping_find(PyObject* self, PyObject* object) {
  Handle* handle = (Handle*)self;
  TVMFFIAny key;
  if (key_of(object, &key)) return NULL;
  const TVMFFIAny* value = rt_map_find(handle->object, &key);
  PyObject* answer = value ? rt_copy_to_python(&handle->kind, value) : NULL;
  if (!value) PyErr_SetObject(PyExc_KeyError, object);
  rt_value_release(&key);
  return answer;
}

static PyObject* mapping_has(PyObject* self, PyObject* object) {
  TVMFFIAny key;
  if (key_of(object, &key)) return NULL;
  int has = rt_map_find(((Handle*)self)->object, &key) != NULL;
  rt_value_release(&key);
  return PyBool_FromLong(has);
}

static PyObject* mapping_put(PyObject* self, PyObject* arguments) {
  Handle* handle = (Handle*)self;
  PyObject *key_object, *value_object;
  TVMFFIAny key, value;
  if (!PyArg_ParseTuple(arguments, "OO", &key_object, &value_object)) return NULL;
  if (!is_dict(handle) || key_of(key_object, &key)) return NULL;
  if (rt_from_python(value_object, &value, &handle->kind)) {
    rt_value_release(&key);
    return NULL;
  }
  if (rt_map_put(handle->object, key, value)) return PyErr_NoMemory();
  Py_RETURN_NONE;
}

static PyObject* mapping_erase(PyObject* self, PyObject* object) {
  Handle* handle = (Handle*)self;
  TVMFFIAny key, value = {.type_index = kTVMFFINone};
  if (!is_dict(handle) || key_of(object, &key)) return NULL;
  int found = rt_map_take(handle->object, &key, &value);
  rt_value_release(&key);
  rt_value_release(&value);
  if (!found) return PyErr_Format(PyExc_KeyError, "%R", object);
  Py_RETURN_NONE;
}

static PyObject* mapping_clear(PyObject* self, PyObject* unused) {
  (void)unused;
  if (!is_dict((Handle*)self)) return NULL;
  rt_map_clear(((Handle*)self)->object);
  Py_RETURN_NONE;
}

// All pairs as they are now, in a value that nobody else has: making Python objects of them may
// run code that changes the map.
static TVMFFIObject* snapshot(const TVMFFIObject* map) {
  uint64_t size = ((const RtMapObject*)map)->map.size;
  TVMFFIObject* array = rt_sequence_new(kTVMFFIArray, (Py_ssize_t)(2 * size));
  TVMFFIAny* items = array ? rt_sequence(array)->data : NULL;
  RtMapCursor cursor = {0};
  while (items && rt_map_next(map, &cursor)) {
    *items++ = *cursor.key;
    *items++ = *cursor.value;
    rt_value_retain(cursor.key);
    rt_value_retain(cursor.value);
  }
  return array;
}

static PyObject* mapping_items(PyObject* self, PyObject* unused) {
  (void)unused;
  Handle* handle = (Handle*)self;
  TVMFFIObject* array = snapshot(handle->object);
  if (!array) return PyErr_NoMemory();
  TVMFFIAny value = {.type_index = kTVMFFIArray, .v_obj = array};
  return rt_to_python(&handle->kind, &value);
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

static PyMethodDef sequence_methods[] = {{"_size", sequence_size, METH_NOARGS, NULL},
                                         {"_at", sequence_at, METH_O, NULL},
                                         {"_insert", sequence_insert, METH_VARARGS, NULL},
                                         {"_replace", sequence_replace, METH_VARARGS, NULL},
                                         {"_erase", sequence_erase, METH_VARARGS, NULL},
                                         {"_same", sequence_same, METH_O, NULL},
                                         {NULL, NULL, 0, NULL}};

static PyMethodDef mapping_methods[] = {
    {"_size", mapping_size, METH_NOARGS, NULL},   {"_find", mapping_find, METH_O, NULL},
    {"_has", mapping_has, METH_O, NULL},          {"_put", mapping_put, METH_VARARGS, NULL},
    {"_erase", mapping_erase, METH_O, NULL},      {"_clear", mapping_clear, METH_NOARGS, NULL},
    {"_items", mapping_items, METH_NOARGS, NULL}, {NULL, NULL, 0, NULL}};

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

static PyType_Slot sequence_slots[] = {
    {Py_tp_new, sequence_new}, {Py_tp_methods, sequence_methods}, {0, NULL}};

static PyType_Slot mapping_slots[] = {
    {Py_tp_new, mapping_new}, {Py_tp_methods, mapping_methods}, {0, NULL}};

static PyType_Slot module_slots[] = {{Py_tp_methods, module_methods}, {0, NULL}};

static PyType_Spec object_spec = {
    "kdsl.runtime.Object", sizeof(Handle), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | RT_TPFLAGS_DISALLOW_INSTANTIATION, object_slots};
static PyType_Spec sequence_spec = {"kdsl.runtime._core.Sequence", sizeof(Handle), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, sequence_slots};
static PyType_Spec mapping_spec = {"kdsl.runtime._core.Mapping", sizeof(Handle), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, mapping_slots};
static PyType_Spec module_spec = {
    "kdsl.runtime._core.ModuleHandle", sizeof(Handle), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | RT_TPFLAGS_DISALLOW_INSTANTIATION, module_slots};

static int add_type(PyObject* module, PyTypeObject** type, PyType_Spec* spec, const char* name) {
  if (!*type && spec == &object_spec) *type = (PyTypeObject*)PyType_FromSpec(spec);
  if (!*type) *type = (PyTypeObject*)PyType_FromSpecWithBases(spec, (PyObject*)object_type);
  return *type ? PyObject_SetAttrString(module, name, (PyObject*)*type) : -1;
}

int rt_handle_init(PyObject* module) {
  // A second import in one process gets the same types: objects of the first one live on.
  if (add_type(module, &object_type, &object_spec, "Object")) return -1;
  if (add_type(module, &sequence_type, &sequence_spec, "Sequence")) return -1;
  if (add_type(module, &mapping_type, &mapping_spec, "Mapping")) return -1;
  return add_type(module, &module_type, &module_spec, "ModuleHandle");
}
