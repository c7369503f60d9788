// call.c: the call path. Arguments become a list of values on the stack, the function runs
// without the GIL, its result becomes a Python object.
#include <string.h>

#include "core.h"

static PyObject* call_error(const Function* fn, const char* maker, Py_ssize_t count,
                            PyObject* keywords) {
  PyObject* make = rt_import("kdsl.runtime.messages", maker);
  PyObject* error =
      make ? PyObject_CallFunction(make, "OOnO", fn->name, fn->schema ? fn->schema : Py_None, count,
                                   keywords ? keywords : Py_None)
           : NULL;
  if (error) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_XDECREF(make);
  return NULL;
}

// A foreign module asks libtvm_ffi for memory and streams: lend it the caller's for this call.
typedef struct {
  DLPackManagedTensorAllocator allocator;
  void* stream;
} Lent;

static void lend(const Frame* frame, Lent* before) {
  DLPackManagedTensorAllocator mine = rt_own_allocator;
  if (frame->family == FAMILY_EXCHANGE) mine = frame->api->managed_tensor_allocator;
  if (rt_provider.set_allocator) rt_provider.set_allocator(mine, 0, &before->allocator);
  if (rt_provider.set_stream && frame->device_type) {
    rt_provider.set_stream(frame->device_type, frame->device_id, frame->stream, &before->stream);
  }
}

static void take_back(const Frame* frame, const Lent* before) {
  if (rt_provider.set_allocator) rt_provider.set_allocator(before->allocator, 0, NULL);
  if (rt_provider.set_stream && frame->device_type) {
    rt_provider.set_stream(frame->device_type, frame->device_id, before->stream, NULL);
  }
}

static inline int enter(Frame* frame, TVMFFIAny* result) {
  const Function* fn = frame->function;
  Lent before = {NULL, NULL};
  int rc;
  frame->outer = rt_current;
  rt_current = frame;
  rt_error_clear();  // a module may have raised here while it was called through another runtime
  if (RT_UNLIKELY(!fn->known)) lend(frame, &before);
  if (RT_LIKELY(fn->release_gil)) {
    frame->released = PyEval_SaveThread();
    rc = fn->entry(fn->handle, frame->args, (int32_t)frame->count, result);
    PyEval_RestoreThread(frame->released);
  } else {
    frame->released = NULL;
    rc = fn->entry(fn->handle, frame->args, (int32_t)frame->count, result);
  }
  if (RT_UNLIKELY(!fn->known)) take_back(frame, &before);
  rt_current = frame->outer;
  return rc;
}

static inline int take(Frame* frame, Py_ssize_t index) {
  PyObject* object = frame->objects[index];
  const TypeEntry* entry = rt_type_entry(Py_TYPE(object));
  return RT_UNLIKELY(!entry) ? -1 : entry->take(frame, index, object, entry);
}

// Of a call that no function of a table is for: errors are found by whoever calls without one.
RT_COLD static PyObject* miss(void) {
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
  return NULL;
}

static inline PyObject* run(Frame* frame, const Function* fn, const RtTable* table,
                            PyObject* const* objects, Py_ssize_t count) {
  frame->function = fn;
  frame->objects = objects;
  frame->count = count;
  frame->owned = fn->owned;
  frame->family = FAMILY_NONE;
  frame->api = NULL;
  frame->import = NULL;
  frame->parent = NULL;
  frame->device_type = 0;
  frame->device_id = 0;
  frame->stream = NULL;
  frame->released = NULL;
  frame->renewed_count = 0;
  frame->holds = &frame->first_holds;
  frame->first_holds.count = 0;
  frame->first_holds.next = NULL;
  PyObject* answer = NULL;
  int failed = 0;
  for (Py_ssize_t i = 0; !failed && i < count; ++i) failed = take(frame, i);
  if (table) {
    if (RT_LIKELY(!failed)) frame->function = rt_table_find(table, frame);
    failed |= !frame->function;
    if (RT_UNLIKELY(failed)) miss();
  }
  if (RT_LIKELY(!failed)) {
    TVMFFIAny result = {.type_index = kTVMFFINone};
    int rc = enter(frame, &result);
    if (RT_UNLIKELY(rc != 0)) {
      rt_error_raise(frame->function->text);
    } else if (RT_LIKELY(result.type_index == kTVMFFINone)) {
      answer = Py_None;
      Py_INCREF(answer);
    } else {
      answer = rt_result(frame, &result);
    }
    if (RT_UNLIKELY(frame->renewed_count) && answer) answer = rt_with_renewed(frame, answer);
  }
  if (frame->holds->count || frame->holds->next) rt_frame_release(frame);
  return answer;
}

static PyObject* call_small(const Function* fn, const RtTable* table, PyObject* const* objects,
                            Py_ssize_t count) {
  TVMFFIAny args[FRAME_ARGS];
  DLTensor views[FRAME_ARGS];
  int64_t strides[FRAME_STRIDES];
  Frame frame;
  frame.args = args;
  frame.views = views;
  frame.strides = strides;
  frame.strides_left = FRAME_STRIDES;
  return run(&frame, fn, table, objects, count);
}

RT_COLD static PyObject* call_large(const Function* fn, const RtTable* table,
                                    PyObject* const* objects, Py_ssize_t count) {
  Frame frame;
  int64_t strides[FRAME_STRIDES];
  frame.args = PyMem_Calloc((size_t)count, sizeof *frame.args);
  frame.views = PyMem_Calloc((size_t)count, sizeof *frame.views);
  frame.strides = strides;
  frame.strides_left = FRAME_STRIDES;
  TVMFFIAny* args = frame.args;
  DLTensor* views = frame.views;
  int fits = args && views && count <= INT32_MAX;
  PyObject* answer = fits ? run(&frame, fn, table, objects, count) : PyErr_NoMemory();
  PyMem_Free(args);
  PyMem_Free(views);
  return answer;
}

static PyObject* call_plain(const Function* fn, const RtTable* table, PyObject* const* objects,
                            Py_ssize_t count) {
  if (RT_LIKELY(count <= FRAME_ARGS)) return call_small(fn, table, objects, count);
  return call_large(fn, table, objects, count);
}

static Py_ssize_t parameter(const Function* fn, PyObject* name) {
  for (Py_ssize_t i = 0; i < fn->max_args; ++i) {
    if (PyTuple_GetItem(fn->names, i) == name) return i;
  }
  for (Py_ssize_t i = 0; i < fn->max_args; ++i) {  // a name that was not interned
    if (PyUnicode_Compare(PyTuple_GetItem(fn->names, i), name) == 0) return i;
  }
  return -1;
}

// A Python callable knows its parameters: let it put the arguments in order.
RT_COLD static PyObject* call_bound(const Function* fn, PyObject* callable,
                                    PyObject* const* objects, Py_ssize_t count,
                                    PyObject* keywords) {
  PyObject* bind = rt_import("kdsl.runtime.functions", "bind");
  PyObject* args = bind ? PyTuple_New(count) : NULL;
  PyObject* kwargs = args ? PyDict_New() : NULL;
  int good = kwargs != NULL;
  for (Py_ssize_t i = 0; good && i < count; ++i) {
    Py_INCREF(objects[i]);
    PyTuple_SetItem(args, i, objects[i]);
  }
  for (Py_ssize_t k = 0; good && k < PyTuple_Size(keywords); ++k) {
    good = !PyDict_SetItem(kwargs, PyTuple_GetItem(keywords, k), objects[count + k]);
  }
  PyObject* bound = good ? PyObject_CallFunctionObjArgs(bind, callable, args, kwargs, NULL) : NULL;
  PyObject* answer = NULL;
  Py_ssize_t all = bound ? PyTuple_Size(bound) : -1;
  PyObject** ordered = all >= 0 ? PyMem_Malloc(((size_t)all + 1) * sizeof *ordered) : NULL;
  if (all >= 0 && !ordered) PyErr_NoMemory();
  if (ordered) {
    for (Py_ssize_t i = 0; i < all; ++i) ordered[i] = PyTuple_GetItem(bound, i);
    answer = call_plain(fn, NULL, ordered, all);
  }
  PyMem_Free(ordered);
  Py_XDECREF(bound);
  Py_XDECREF(kwargs);
  Py_XDECREF(args);
  Py_XDECREF(bind);
  return answer;
}

// Put keywords in their places; what is missing between them is None, which means default.
static PyObject* call_keywords(const Function* fn, const RtTable* table, PyObject* const* objects,
                               Py_ssize_t count, PyObject* keywords) {
  PyObject* callable = fn->handle ? rt_callback_callable(fn->handle) : NULL;
  if (callable) return call_bound(fn, callable, objects, count, keywords);
  if (!fn->names) return table ? miss() : call_error(fn, "keyword_error", count, keywords);
  PyObject* few[FRAME_ARGS];
  PyObject** all =
      fn->max_args <= FRAME_ARGS ? few : PyMem_Malloc((size_t)fn->max_args * sizeof(PyObject*));
  if (!all) return PyErr_NoMemory();
  Py_ssize_t used = count, given = PyTuple_Size(keywords);
  int good = 1;
  for (Py_ssize_t i = 0; i < fn->max_args; ++i) all[i] = i < count ? objects[i] : NULL;
  for (Py_ssize_t k = 0; good && k < given; ++k) {
    Py_ssize_t at = parameter(fn, PyTuple_GetItem(keywords, k));
    good = at >= 0 && !all[at];
    if (!good) break;
    all[at] = objects[count + k];
    if (at >= used) used = at + 1;
  }
  for (Py_ssize_t i = 0; good && i < used; ++i) {
    if (all[i]) continue;
    good = !fn->required[i];
    all[i] = Py_None;
  }
  PyObject* answer;
  if (RT_LIKELY(good))
    answer = call_plain(fn, table, all, used);
  else
    answer = table ? miss() : call_error(fn, "keyword_error", count, keywords);
  if (all != few) PyMem_Free(all);
  return answer;
}

PyObject* rt_call(PyObject* self, PyObject* const* objects, size_t nargsf, PyObject* keywords) {
  Function* fn = (Function*)self;
  Py_ssize_t count = (Py_ssize_t)(nargsf & ~RT_VECTORCALL_OFFSET);
  if (RT_UNLIKELY(count > fn->max_args)) return call_error(fn, "count_error", count, keywords);
  if (RT_UNLIKELY(keywords != NULL) && PyTuple_Size(keywords)) {
    return call_keywords(fn, NULL, objects, count, keywords);
  }
  return call_plain(fn, NULL, objects, count);
}

PyObject* rt_call_from(const RtTable* table, const Function* any, PyObject* const* objects,
                       size_t nargsf, PyObject* keywords) {
  Py_ssize_t count = (Py_ssize_t)(nargsf & ~RT_VECTORCALL_OFFSET);
  if (RT_UNLIKELY(count > any->max_args)) return miss();
  if (RT_UNLIKELY(keywords != NULL) && PyTuple_Size(keywords)) {
    return call_keywords(any, table, objects, count, keywords);
  }
  return call_plain(any, table, objects, count);
}
