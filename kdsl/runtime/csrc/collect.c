// collect.c: lists, tuples and dicts as arguments; Python objects as values outside of calls.
#include "core.h"

// ---- objects within an argument ---------------------------------------------------------------

// A frame for objects that are no arguments of a call.
static void start(Frame* frame, const Function* function, const ArrayKind* kind) {
  static int64_t no_strides;  // rank 0 needs a pointer, though never reads it
  frame->function = function;
  frame->objects = NULL;
  frame->count = 0;
  frame->args = NULL;
  frame->views = NULL;
  frame->strides = &no_strides;
  frame->strides_left = 0;
  frame->owned = OWNED_VALUES;
  frame->family = kind->family, frame->api = kind->api, frame->import = kind->import;
  frame->device_type = 0;
  frame->device_id = 0;
  frame->stream = NULL;
  frame->outer = NULL;
  frame->parent = NULL;
  frame->parent_index = 0;
  frame->renewed_count = 0;
  frame->holds = &frame->first_holds;
  frame->first_holds.count = 0;
  frame->first_holds.next = NULL;
}
// ------------------------------------------------------------------

static int take_elements(Frame* inner, PyObject* const* objects, TVMFFIAny* out) {
  int failed = 0;
  Py_ssize_t done = 0;
  for (; !failed && done < inner->count; ++done) {
    const TypeEntry* entry = rt_type_entry(Py_TYPE(objects[done]));
    failed = !entry || entry->take(inner, done, objects[done], entry);
    if (failed) out[done] = (TVMFFIAny){.type_index = kTVMFFINone};
    rt_value_retain(&out[done]);
  }
  while (failed && done) rt_value_release(&out[--done]);
  return failed;
}

// Owned values for the objects of a tuple, which is in argument `index` of `outer`; none when one
// fails. `objects` and `views` have room for them.
static int collect(Frame* outer, Py_ssize_t index, PyObject* tuple, PyObject** objects,
                   DLTensor* views, TVMFFIAny* out) {
  Frame inner;
  ArrayKind kind = rt_frame_kind(outer);
  start(&inner, outer->function, &kind);
  inner.objects = objects;
  inner.count = PyTuple_Size(tuple);
  inner.args = out;
  inner.views = views;
  inner.parent = outer;
  inner.parent_index = index;
  inner.device_type = outer->device_type, inner.device_id = outer->device_id;
  inner.stream = outer->stream;
  for (Py_ssize_t i = 0; i < inner.count; ++i) objects[i] = PyTuple_GetItem(tuple, i);
  int failed = take_elements(&inner, objects, out);
  rt_frame_release(&inner);
  outer->family = inner.family, outer->api = inner.api, outer->import = inner.import;
  outer->device_type = inner.device_type, outer->device_id = inner.device_id;
  outer->stream = inner.stream;
  return failed ? -1 : 0;
}

static int collect_tuple(Frame* outer, Py_ssize_t index, PyObject* tuple, TVMFFIAny* out) {
  PyObject* few_objects[FRAME_ARGS];
  DLTensor few_views[FRAME_ARGS];
  size_t count = (size_t)PyTuple_Size(tuple);
  if (RT_LIKELY(count <= FRAME_ARGS)) {
    return collect(outer, index, tuple, few_objects, few_views, out);
  }
  PyObject** objects = PyMem_Malloc(count * sizeof *objects);
  DLTensor* views = PyMem_Malloc(count * sizeof *views);
  if (!objects || !views) PyErr_NoMemory();
  int failed = !objects || !views || collect(outer, index, tuple, objects, views, out);
  PyMem_Free(objects);
  PyMem_Free(views);
  return failed ? -1 : 0;
}

// ---- sequences --------------------------------------------------------------------------------

TVMFFIObject* rt_collect_sequence(Frame* outer, Py_ssize_t index, PyObject* tuple, int32_t type) {
  TVMFFIObject* sequence = rt_sequence_new(type, PyTuple_Size(tuple));
  if (!sequence) return (TVMFFIObject*)PyErr_NoMemory();
  if (collect_tuple(outer, index, tuple, rt_sequence(sequence)->data)) {
    rt_decref(sequence);
    return NULL;
  }
  return sequence;
}

static int take_sequence(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  if (frame->function->known) return rt_argument_error(frame, index, "unsupported");
  PyObject* tuple = PySequence_Tuple(object);  // a copy: taking may run code that changes a list
  if (!tuple) return rt_argument_error(frame, index, "export");
  TVMFFIObject* array = NULL;
  if (!Py_EnterRecursiveCall(" in a list argument")) {
    array = rt_collect_sequence(frame, index, tuple, kTVMFFIArray);
    Py_LeaveRecursiveCall();
  }
  Py_DECREF(tuple);
  return array ? rt_put_object(frame, index, array) : -1;
}

// ---- mappings ---------------------------------------------------------------------------------

static int fill_map(Frame* outer, Py_ssize_t index, PyObject* flat, TVMFFIAny* values,
                    TVMFFIObject* map) {
  Py_ssize_t count = PyTuple_Size(flat), at = 0;
  int failed = collect_tuple(outer, index, flat, values);
  if (failed) return -1;
  for (; !failed && at < count; at += 2) {
    if (!rt_is_key(&values[at])) {
      PyErr_Format(PyExc_TypeError, "an object of TVM FFI type index %d cannot be a key",
                   values[at].type_index);
      break;
    }
    failed = rt_map_put(map, values[at], values[at + 1]);
    if (failed) PyErr_NoMemory();
  }
  int whole = !failed && at >= count;
  for (; at < count; ++at) rt_value_release(&values[at]);
  return whole ? 0 : -1;
}

TVMFFIObject* rt_collect_map(Frame* outer, Py_ssize_t index, PyObject* flat, int32_t type) {
  Py_ssize_t count = PyTuple_Size(flat);
  TVMFFIObject* map = rt_map_new(type, (size_t)count / 2);
  TVMFFIAny* values = PyMem_Malloc(((size_t)count + 1) * sizeof *values);
  if (!map || !values) PyErr_NoMemory();
  if (map && (!values || fill_map(outer, index, flat, values, map))) {
    rt_decref(map);
    map = NULL;
  }
  PyMem_Free(values);
  return map;
}

// (key, value, key, value ...) of a mapping.
static PyObject* flat_items(PyObject* mapping) {
  PyObject* items = PyMapping_Items(mapping);
  Py_ssize_t count = items ? PyList_Size(items) : 0;
  PyObject* flat = items ? PyTuple_New(2 * count) : NULL;
  for (Py_ssize_t i = 0; flat && i < count; ++i) {
    PyObject *key, *value;
    if (!PyArg_ParseTuple(PyList_GetItem(items, i), "OO", &key, &value)) {
      Py_CLEAR(flat);
      break;
    }
    Py_INCREF(key);
    Py_INCREF(value);
    PyTuple_SetItem(flat, 2 * i, key);
    PyTuple_SetItem(flat, 2 * i + 1, value);
  }
  Py_XDECREF(items);
  return flat;
}

static int take_mapping(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  if (frame->function->known) return rt_argument_error(frame, index, "unsupported");
  PyObject* flat = flat_items(object);
  if (!flat) return rt_argument_error(frame, index, "export");
  TVMFFIObject* map = NULL;
  if (!Py_EnterRecursiveCall(" in a dict argument")) {
    map = rt_collect_map(frame, index, flat, kTVMFFIMap);
    Py_LeaveRecursiveCall();
  }
  Py_DECREF(flat);
  return map ? rt_put_object(frame, index, map) : -1;
}

const TypeEntry* rt_container_entry(PyTypeObject* type) {
  static const TypeEntry of_sequence = {.take = take_sequence}, of_mapping = {.take = take_mapping};
  if (PyType_IsSubtype(type, &PyList_Type) || PyType_IsSubtype(type, &PyTuple_Type)) {
    return &of_sequence;
  }
  if (PyType_IsSubtype(type, &PyDict_Type)) return &of_mapping;
  PyTypeObject* proxy = &PyDictProxy_Type;  // types.MappingProxyType
  return PyType_IsSubtype(type, proxy) ? &of_mapping : NULL;
}

// ---- outside of calls -------------------------------------------------------------------------

// Stands for the function where there is no call.
static const Function* nobody(void) {
  static Function none;
  if (!none.name) {
    none.name = PyUnicode_InternFromString("kdsl.runtime");
    none.text = "kdsl.runtime";
    none.max_args = PY_SSIZE_T_MAX;
  }
  return none.name ? &none : NULL;
}

int rt_frame_outside(Frame* frame, const ArrayKind* kind) {
  const Function* none = nobody();
  if (!none) return -1;
  start(frame, none, kind);
  return 0;
}

int rt_from_python(PyObject* object, TVMFFIAny* out, ArrayKind* kind) {
  Frame outside;
  *out = (TVMFFIAny){.type_index = kTVMFFINone};
  if (rt_frame_outside(&outside, kind)) return -1;
  PyObject* tuple = PyTuple_New(1);
  if (!tuple) return -1;
  Py_INCREF(object);
  PyTuple_SetItem(tuple, 0, object);
  int failed = collect_tuple(&outside, 0, tuple, out);
  Py_DECREF(tuple);
  *kind = rt_frame_kind(&outside);
  return failed;
}
