// containers.c: the few methods that containers.py builds the manners of containers on.
//
// A container knows which framework's arrays its tensors become. Each method looks at a List or
// Dict, or changes it, in one step: between two steps other threads may do the same.
#include <stdlib.h>
#include <string.h>

#include "handle.h"

static PyTypeObject *sequence_type, *mapping_type;

static TVMFFISeqCell* cell_of(const Handle* self) { return rt_sequence(self->object); }

static ArrayKind kind_of(const Handle* self) {
  rt_lock(self->object);
  ArrayKind kind = self->kind;
  rt_unlock(self->object);
  return kind;
}

static PyObject* to_python(const Handle* self, TVMFFIAny* value) {
  ArrayKind kind = kind_of(self);
  return rt_to_python(&kind, value);
}

// An owned value; the first array decides what tensors of the container become.
static int from_python(Handle* self, PyObject* object, TVMFFIAny* value) {
  ArrayKind kind = kind_of(self);
  if (rt_from_python(object, value, &kind)) return -1;
  rt_lock(self->object);
  if (self->kind.family == FAMILY_NONE) self->kind = kind;
  rt_unlock(self->object);
  return 0;
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
  return rt_handle_make(type, &kind, object);
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

// ---- sequences --------------------------------------------------------------------------------

static Py_ssize_t size_of(const Handle* self) {
  rt_lock(self->object);
  int64_t size = cell_of(self)->size;
  rt_unlock(self->object);
  return (Py_ssize_t)size;
}

static PyObject* sequence_size(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyLong_FromSsize_t(size_of((Handle*)self));
}

static PyObject* out_of_range(const Handle* self, Py_ssize_t at) {
  return PyErr_Format(PyExc_IndexError, "index %zd is out of range: there are %zd elements", at,
                      size_of(self));
}

static int is_list(const Handle* self) {
  if (self->object->type_index == kTVMFFIList) return 1;
  PyErr_SetString(PyExc_TypeError, "an Array cannot change; make a List of it");
  return 0;
}

static PyObject* sequence_at(PyObject* self, PyObject* index) {
  const Handle* handle = (Handle*)self;
  Py_ssize_t at = PyNumber_AsSsize_t(index, PyExc_IndexError);
  if (at == -1 && PyErr_Occurred()) return NULL;
  TVMFFIAny value;
  rt_lock(handle->object);
  int found = 0 <= at && at < cell_of(handle)->size;
  if (found) {
    value = ((TVMFFIAny*)cell_of(handle)->data)[at];
    rt_value_retain(&value);
  }
  rt_unlock(handle->object);
  return found ? to_python(handle, &value) : out_of_range(handle, at);
}

// Elements from `begin` to `end`, as far as there are any, in an Array that nobody else has: making
// Python objects of them may run code that changes the list.
static PyObject* sequence_items(PyObject* self, PyObject* arguments) {
  const Handle* handle = (Handle*)self;
  Py_ssize_t begin, end;
  if (!PyArg_ParseTuple(arguments, "nn", &begin, &end)) return NULL;
  rt_lock(handle->object);
  const TVMFFISeqCell* cell = cell_of(handle);
  if (end > cell->size) end = (Py_ssize_t)cell->size;
  Py_ssize_t count = 0 <= begin && begin < end ? end - begin : 0;
  TVMFFIObject* array = rt_sequence_new(kTVMFFIArray, count);
  TVMFFIAny* items = array ? rt_sequence(array)->data : NULL;
  for (Py_ssize_t i = 0; array && i < count; ++i) {
    items[i] = ((TVMFFIAny*)cell->data)[begin + i];
    rt_value_retain(&items[i]);
  }
  rt_unlock(handle->object);
  if (!array) return PyErr_NoMemory();
  TVMFFIAny value = {.type_index = kTVMFFIArray, .v_obj = array};
  return to_python(handle, &value);
}

// Before `at`, which counts from the end where it is negative; or at an end.
static PyObject* sequence_insert(PyObject* self, PyObject* arguments) {
  Handle* handle = (Handle*)self;
  Py_ssize_t at;
  PyObject* object;
  TVMFFIAny value;
  if (!PyArg_ParseTuple(arguments, "nO", &at, &object) || !is_list(handle)) return NULL;
  if (from_python(handle, object, &value)) return NULL;
  rt_lock(handle->object);
  Py_ssize_t size = (Py_ssize_t)cell_of(handle)->size;
  if (at < 0) at = at + size < 0 ? 0 : at + size;
  int failed = rt_list_put(handle->object, at < size ? at : size, value);
  rt_unlock(handle->object);
  if (!failed) Py_RETURN_NONE;
  rt_value_release(&value);
  return PyErr_NoMemory();
}

static PyObject* sequence_replace(PyObject* self, PyObject* arguments) {
  Handle* handle = (Handle*)self;
  Py_ssize_t at;
  PyObject* object;
  TVMFFIAny value;
  if (!PyArg_ParseTuple(arguments, "nO", &at, &object) || !is_list(handle)) return NULL;
  if (from_python(handle, object, &value)) return NULL;
  rt_lock(handle->object);
  int found = 0 <= at && at < cell_of(handle)->size;
  if (found) value = rt_list_swap(handle->object, at, value);
  rt_unlock(handle->object);
  rt_value_release(&value);
  if (!found) return out_of_range(handle, at);
  Py_RETURN_NONE;
}

static PyObject* sequence_pop(PyObject* self, PyObject* index) {
  Handle* handle = (Handle*)self;
  Py_ssize_t at = PyNumber_AsSsize_t(index, PyExc_IndexError);
  if ((at == -1 && PyErr_Occurred()) || !is_list(handle)) return NULL;
  TVMFFIAny value;
  rt_lock(handle->object);
  int64_t size = cell_of(handle)->size;
  int found = -size <= at && at < size;
  if (found) rt_list_take(handle->object, at < 0 ? at + size : at, 1, &value);
  rt_unlock(handle->object);
  return found ? to_python(handle, &value) : out_of_range(handle, at);
}

// Elements from `begin` to `end`, as far as there are any.
static PyObject* sequence_erase(PyObject* self, PyObject* arguments) {
  Handle* handle = (Handle*)self;
  Py_ssize_t begin, end;
  if (!PyArg_ParseTuple(arguments, "nn", &begin, &end) || !is_list(handle)) return NULL;
  rt_lock(handle->object);
  Py_ssize_t size = (Py_ssize_t)cell_of(handle)->size;
  if (end > size) end = size;
  Py_ssize_t count = 0 <= begin && begin < end ? end - begin : 0;
  TVMFFIAny* removed = malloc(((size_t)count + 1) * sizeof *removed);
  if (removed) rt_list_take(handle->object, begin, count, removed);
  rt_unlock(handle->object);
  if (!removed) return PyErr_NoMemory();
  for (Py_ssize_t i = 0; i < count; ++i) rt_value_release(&removed[i]);  // may run any code
  free(removed);
  Py_RETURN_NONE;
}

// Whether all elements are the same values, without a look into them.
static PyObject* sequence_same(PyObject* self, PyObject* other) {
  if (!PyObject_TypeCheck(other, sequence_type)) Py_RETURN_FALSE;
  const TVMFFIObject *a = ((Handle*)self)->object, *b = ((Handle*)other)->object;
  rt_lock_both(a, b);
  const TVMFFISeqCell *mine = rt_sequence(a), *theirs = rt_sequence(b);
  int same = mine->size == theirs->size;
  for (int64_t i = 0; same && i < mine->size; ++i) {
    same = rt_same_key((TVMFFIAny*)mine->data + i, (TVMFFIAny*)theirs->data + i);
  }
  rt_unlock_both(a, b);
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
  const RtMapObject* map = (RtMapObject*)((Handle*)self)->object;
  rt_lock(&map->head);
  uint64_t size = map->map.size;
  rt_unlock(&map->head);
  return PyLong_FromUnsignedLongLong(size);
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
  const Handle* handle = (Handle*)self;
  TVMFFIAny key, value;
  if (key_of(object, &key)) return NULL;
  rt_lock(handle->object);
  const TVMFFIAny* found = rt_map_find(handle->object, &key);
  if (found) {
    value = *found;
    rt_value_retain(&value);
  }
  rt_unlock(handle->object);
  rt_value_release(&key);
  if (found) return to_python(handle, &value);
  PyErr_SetObject(PyExc_KeyError, object);
  return NULL;
}

static PyObject* mapping_has(PyObject* self, PyObject* object) {
  const TVMFFIObject* map = ((Handle*)self)->object;
  TVMFFIAny key;
  if (key_of(object, &key)) return NULL;
  rt_lock(map);
  int has = rt_map_find(map, &key) != NULL;
  rt_unlock(map);
  rt_value_release(&key);
  return PyBool_FromLong(has);
}

static PyObject* mapping_put(PyObject* self, PyObject* arguments) {
  Handle* handle = (Handle*)self;
  PyObject *key_object, *value_object;
  TVMFFIAny pair[2];
  if (!PyArg_ParseTuple(arguments, "OO", &key_object, &value_object)) return NULL;
  if (!is_dict(handle) || key_of(key_object, &pair[0])) return NULL;
  if (from_python(handle, value_object, &pair[1])) {
    rt_value_release(&pair[0]);
    return NULL;
  }
  rt_lock(handle->object);
  int failed = rt_map_swap(handle->object, pair);
  rt_unlock(handle->object);
  rt_value_release(&pair[0]);
  rt_value_release(&pair[1]);  // last: it may run code that looks at the map
  if (failed) return PyErr_NoMemory();
  Py_RETURN_NONE;
}

// Take out the pair of a key, which is the caller's; -1 with an exception.
static int take_pair(const Handle* self, PyObject* object, TVMFFIAny taken[2]) {
  TVMFFIAny key;
  if (!is_dict(self) || key_of(object, &key)) return -1;
  rt_lock(self->object);
  int found = rt_map_take(self->object, &key, taken);
  rt_unlock(self->object);
  rt_value_release(&key);
  if (found) return 0;
  PyErr_Format(PyExc_KeyError, "%R", object);
  return -1;
}

static PyObject* mapping_pop(PyObject* self, PyObject* object) {
  TVMFFIAny taken[2];
  if (take_pair((Handle*)self, object, taken)) return NULL;
  rt_value_release(&taken[0]);
  return to_python((Handle*)self, &taken[1]);
}

static PyObject* mapping_erase(PyObject* self, PyObject* object) {
  TVMFFIAny taken[2];
  if (take_pair((Handle*)self, object, taken)) return NULL;
  rt_value_release(&taken[0]);
  rt_value_release(&taken[1]);
  Py_RETURN_NONE;
}

static PyObject* mapping_clear(PyObject* self, PyObject* unused) {
  (void)unused;
  TVMFFIObject* map = ((Handle*)self)->object;
  if (!is_dict((Handle*)self)) return NULL;
  RtMapContent content;
  rt_lock(map);
  rt_map_take_all(map, &content);
  rt_unlock(map);
  rt_map_drop(&content);
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
  const Handle* handle = (Handle*)self;
  rt_lock(handle->object);
  TVMFFIObject* array = snapshot(handle->object);
  rt_unlock(handle->object);
  if (!array) return PyErr_NoMemory();
  TVMFFIAny value = {.type_index = kTVMFFIArray, .v_obj = array};
  return to_python(handle, &value);
}

// ---- types ------------------------------------------------------------------------------------

static PyMethodDef sequence_methods[] = {{"_size", sequence_size, METH_NOARGS, NULL},
                                         {"_at", sequence_at, METH_O, NULL},
                                         {"_items", sequence_items, METH_VARARGS, NULL},
                                         {"_insert", sequence_insert, METH_VARARGS, NULL},
                                         {"_replace", sequence_replace, METH_VARARGS, NULL},
                                         {"_pop", sequence_pop, METH_O, NULL},
                                         {"_erase", sequence_erase, METH_VARARGS, NULL},
                                         {"_same", sequence_same, METH_O, NULL},
                                         {NULL, NULL, 0, NULL}};

static PyMethodDef mapping_methods[] = {{"_size", mapping_size, METH_NOARGS, NULL},
                                        {"_find", mapping_find, METH_O, NULL},
                                        {"_has", mapping_has, METH_O, NULL},
                                        {"_put", mapping_put, METH_VARARGS, NULL},
                                        {"_pop", mapping_pop, METH_O, NULL},
                                        {"_erase", mapping_erase, METH_O, NULL},
                                        {"_clear", mapping_clear, METH_NOARGS, NULL},
                                        {"_items", mapping_items, METH_NOARGS, NULL},
                                        {NULL, NULL, 0, NULL}};

static PyType_Slot sequence_slots[] = {
    {Py_tp_new, sequence_new}, {Py_tp_methods, sequence_methods}, {0, NULL}};

static PyType_Slot mapping_slots[] = {
    {Py_tp_new, mapping_new}, {Py_tp_methods, mapping_methods}, {0, NULL}};

static PyType_Spec sequence_spec = {"kdsl.runtime._core.Sequence", sizeof(Handle), 0,
                                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, sequence_slots};
static PyType_Spec mapping_spec = {"kdsl.runtime._core.Mapping", sizeof(Handle), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, mapping_slots};

int rt_containers_init(PyObject* module) {
  if (rt_locks_init()) return -1;
  if (rt_handle_type(module, &sequence_type, &sequence_spec, "Sequence")) return -1;
  return rt_handle_type(module, &mapping_type, &mapping_spec, "Mapping");
}
