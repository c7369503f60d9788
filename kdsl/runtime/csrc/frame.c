// frame.c: what one call holds on to until it returns, and errors about its arguments.
#include <stdlib.h>

#include "core.h"

__thread Frame* rt_current __attribute__((tls_model("initial-exec")));

Hold* rt_hold(Frame* frame, HoldKind kind) {
  HoldChunk* chunk = frame->holds;
  if (chunk->count == HOLDS_PER_CHUNK) {
    chunk = malloc(sizeof *chunk);
    if (!chunk) {
      PyErr_NoMemory();
      return NULL;
    }
    chunk->count = 0;
    chunk->next = frame->holds;
    frame->holds = chunk;
  }
  Hold* hold = &chunk->items[chunk->count++];
  hold->kind = kind;
  hold->pointer = NULL;
  if (kind == HOLD_BUFFER) hold->buffer.obj = NULL;
  return hold;
}

static void release(Hold* hold) {
  switch (hold->kind) {
    case HOLD_OBJECT:
      Py_XDECREF(hold->object);
      break;
    case HOLD_BUFFER:
      if (hold->buffer.obj) PyBuffer_Release(&hold->buffer);
      break;
    case HOLD_FFI:
      if (hold->pointer) rt_decref(hold->pointer);
      break;
    case HOLD_BLOCK:
      free(hold->pointer);
      break;
  }
}

void rt_frame_release(Frame* frame) {
  // What is let go may run Python code, which must not see the error of the call.
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  for (HoldChunk* chunk = frame->holds; chunk;) {
    HoldChunk* next = chunk->next;
    while (chunk->count) release(&chunk->items[--chunk->count]);
    if (chunk != &frame->first_holds) free(chunk);
    chunk = next;
  }
  PyErr_Restore(type, value, trace);
}

int64_t* rt_strides(Frame* frame, int ndim) {
  if (RT_LIKELY(ndim <= frame->strides_left)) {
    int64_t* strides = frame->strides;
    frame->strides += ndim;
    frame->strides_left -= ndim;
    return strides;
  }
  Hold* hold = rt_hold(frame, HOLD_BLOCK);
  if (!hold) return NULL;
  hold->pointer = malloc((size_t)ndim * sizeof(int64_t));
  if (!hold->pointer) PyErr_NoMemory();
  return hold->pointer;
}

int rt_complete_strides(Frame* frame, Py_ssize_t index) {
  DLTensor* view = &frame->views[index];
  if (view->strides || view->ndim == 0) return 0;
  int64_t* strides = rt_strides(frame, view->ndim);
  if (!strides) return -1;
  int64_t step = 1;
  for (int i = view->ndim - 1; i >= 0; --i) {
    strides[i] = step;
    step *= view->shape[i];
  }
  view->strides = strides;
  return 0;
}

int rt_put_view(Frame* frame, Py_ssize_t index, int writable) {
  DLTensor* view = &frame->views[index];
  if (RT_UNLIKELY(view->data == NULL) && rt_numel(view) != 0) {
    return rt_argument_error(frame, index, "null");
  }
  uintptr_t address = (uintptr_t)view->data + view->byte_offset;
  uintptr_t size = view->dtype.bits <= 64 ? view->dtype.bits / 8 : 8;
  if (RT_UNLIKELY(size && address & (size - 1))) {
    return rt_argument_error(frame, index, "unaligned");
  }
  if (RT_UNLIKELY(!writable)) {
    ParamKind kind = rt_param_kind(frame, index);
    if (kind == PARAM_OUT || kind == PARAM_INOUT) {
      return rt_argument_error(frame, index, "readonly");
    }
  }
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIDLTensorPtr, .v_ptr = view};
  return 0;
}

int rt_put_object(Frame* frame, Py_ssize_t index, TVMFFIObject* object) {
  Hold* hold = object ? rt_hold(frame, HOLD_FFI) : NULL;
  if (!hold) {
    if (object) rt_decref(object);
    PyErr_NoMemory();
    return -1;
  }
  hold->pointer = object;
  frame->args[index] = (TVMFFIAny){.type_index = object->type_index, .v_obj = object};
  return 0;
}

int rt_put_owned(Frame* frame, Py_ssize_t index, RtTensor* tensor) {
  return rt_put_object(frame, index, tensor ? &tensor->header : NULL);
}

PyObject* rt_import(const char* module, const char* attribute) {
  PyObject* loaded = PyImport_ImportModule(module);
  PyObject* found = loaded ? PyObject_GetAttrString(loaded, attribute) : NULL;
  Py_XDECREF(loaded);
  return found;
}

// "argument 2, item 0": where an object stands, from the outermost container on.
static PyObject* place_of(const Frame* frame, Py_ssize_t index) {
  if (!frame->parent) return PyUnicode_FromFormat("argument %zd", index);
  const Frame* outer = frame->parent;
  if (!outer->parent && outer->count == 0) {  // no call, but something made of Python objects
    if (frame->count == 1) return PyUnicode_FromString("value");
    return PyUnicode_FromFormat("item %zd", index);
  }
  PyObject* outside = place_of(outer, frame->parent_index);
  PyObject* place = outside ? PyUnicode_FromFormat("%U, item %zd", outside, index) : NULL;
  Py_XDECREF(outside);
  return place;
}

RT_COLD int rt_argument_error(Frame* frame, Py_ssize_t index, const char* problem) {
  PyObject *type = NULL, *cause = NULL, *trace = NULL, *error = NULL;
  PyErr_Fetch(&type, &cause, &trace);
  if (type) PyErr_NormalizeException(&type, &cause, &trace);
  const Function* fn = frame->function;
  PyObject* place = place_of(frame, index);
  PyObject* make = place ? rt_import("kdsl.runtime.messages", "argument_error") : NULL;
  PyObject* args = make ? PyTuple_New(frame->count) : NULL;
  for (Py_ssize_t i = 0; args && i < frame->count; ++i) {
    Py_INCREF(frame->objects[i]);
    PyTuple_SetItem(args, i, frame->objects[i]);
  }
  if (args) {
    error = PyObject_CallFunction(make, "OOOnsOO", fn->name, fn->schema ? fn->schema : Py_None,
                                  args, index, problem, cause ? cause : Py_None, place);
  }
  if (error) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_XDECREF(args);
  Py_XDECREF(make);
  Py_XDECREF(place);
  Py_XDECREF(type);
  Py_XDECREF(cause);
  Py_XDECREF(trace);
  return -1;
}
