// callback.c: Python callables as Function objects, called from native code on any thread.
#include <string.h>

#include "core.h"

#if __has_attribute(noplt)  // straight to them: they are the better part of a bare callback
extern __typeof__(PyEval_RestoreThread) PyEval_RestoreThread __attribute__((noplt));
extern __typeof__(PyEval_SaveThread) PyEval_SaveThread __attribute__((noplt));
extern __typeof__(PyErr_Occurred) PyErr_Occurred __attribute__((noplt));
#endif

typedef struct {
  KdslFunctionObject base;
  PyObject* callable;
  RtVectorcall direct;  ///< the way into a plain Python function; NULL: find it at each call
  int keep;
} Callback;

// The last one that was freed: most calls that pass a callable make one and free it.
static Callback* spare;

static void callback_delete(void* self, int flags) {
  Callback* callback = self;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) rt_python_release(callback->callable);
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) {
    Callback* before = __atomic_exchange_n(&spare, callback, __ATOMIC_ACQ_REL);
    if (before) rt_object_free(before);
  }
}

static Callback* take_spare(void) {
  Callback* callback = __atomic_exchange_n(&spare, NULL, __ATOMIC_ACQ_REL);
  if (!callback) return rt_object_new(sizeof *callback, kTVMFFIFunction, callback_delete);
  uint64_t* tied = (uint64_t*)callback - 2;  // by hosts, see object.c
  tied[0] = tied[1] = 0;
  callback->base.head = (TVMFFIObject){KDSL_REF_COUNT_ONE, kTVMFFIFunction, 0, callback_delete};
  callback->base.function.cpp_call = NULL;
  return callback;
}

// ---- arguments -------------------------------------------------------------------------------

#define FEW 8

// What the callable was given, as long as it runs.
typedef struct {
  PyObject* few[FEW + 1];
  PyObject** all;   ///< the first place is the callee's, by the call protocol
  RtTensor** lent;  ///< over memory that is there during the call only; NULL: none such
  int32_t count;
} Given;

// The array that a call further out passed on: in place, and the same object.
static PyObject* array_of(const TVMFFIAny* value) {
  for (const Frame* frame = rt_current; frame; frame = frame->outer) {
    for (Py_ssize_t i = 0; i < frame->count; ++i) {
      const TVMFFIAny* arg = &frame->args[i];
      if (arg->type_index == value->type_index && arg->v_ptr == value->v_ptr) {
        return frame->objects[i];
      }
    }
  }
  return NULL;
}

RT_COLD static PyObject* lend(Given* given, int32_t index, const ArrayKind* kind,
                              const DLTensor* view) {
  if (!given->lent) {
    given->lent = PyMem_Calloc((size_t)given->count, sizeof *given->lent);
    if (!given->lent) return PyErr_NoMemory();
  }
  RtTensor* tensor = rt_tensor_wrap(view, NULL, NULL, NULL);
  if (!tensor) return PyErr_NoMemory();
  given->lent[index] = tensor;
  rt_incref(tensor);
  TVMFFIAny value = {.type_index = kTVMFFITensor, .v_obj = &tensor->header};
  return rt_to_python(kind, &value);
}

static PyObject* argument(Given* given, int32_t index, const ArrayKind* kind,
                          const TVMFFIAny* value) {
  if (value->type_index == kTVMFFINone) {
    Py_INCREF(Py_None);
    return Py_None;
  }
  if (value->type_index == kTVMFFIDLTensorPtr || value->type_index == kTVMFFITensor) {
    PyObject* object = array_of(value);
    if (object) {
      Py_INCREF(object);
      return object;
    }
    if (value->type_index == kTVMFFIDLTensorPtr) return lend(given, index, kind, value->v_ptr);
  }
  if (value->type_index == kTVMFFIObjectRValueRef) {  // the caller gives the object away
    TVMFFIObject** place = value->v_ptr;
    TVMFFIAny moved = {.type_index = kTVMFFINone};
    if (*place) moved = (TVMFFIAny){.type_index = (*place)->type_index, .v_obj = *place};
    *place = NULL;
    return rt_to_python(kind, &moved);
  }
  return rt_copy_to_python(kind, value);
}

static inline int give(Given* given, const TVMFFIAny* args, int32_t count) {
  given->all = given->few;
  given->lent = NULL;
  given->count = count;
  if (count == 0) return 0;
  ArrayKind kind = rt_current_kind();
  if (RT_UNLIKELY(count > FEW)) {
    given->all = PyMem_Calloc((size_t)count + 1, sizeof *given->all);
    if (!given->all) {
      given->count = 0;
      PyErr_NoMemory();
      return -1;
    }
  }
  for (int32_t i = 0; i < count; ++i) {
    given->all[i + 1] = argument(given, i, &kind, &args[i]);
    if (RT_LIKELY(given->all[i + 1] != NULL)) continue;
    given->count = i;
    if (given->lent && given->lent[i]) rt_decref(given->lent[i]);
    return -1;
  }
  return 0;
}

// -1 with an exception when the callable keeps what ends with the call.
RT_COLD static int end_loans(Given* given, PyObject* callable) {
  int kept = -1;
  for (int32_t i = 0; given->lent && i < given->count; ++i) {
    TVMFFIObject* tensor = (TVMFFIObject*)given->lent[i];
    if (!tensor) continue;
    uint64_t references = __atomic_load_n(&tensor->combined_ref_count, __ATOMIC_ACQUIRE);
    if (references != KDSL_REF_COUNT_ONE) kept = i;
    rt_decref(tensor);
  }
  PyMem_Free(given->lent);
  if (RT_LIKELY(kept < 0) || PyErr_Occurred()) return 0;
  PyErr_Format(PyExc_ValueError,
               "%R: argument %d: the memory of this array ends with the call, but the array was "
               "kept; keep a copy",
               callable, kept);
  return -1;
}

static inline int take_back(Given* given, PyObject* callable) {
  for (int32_t i = 0; i < given->count; ++i) Py_DECREF(given->all[i + 1]);
  int failed = RT_UNLIKELY(given->lent != NULL) ? end_loans(given, callable) : 0;
  if (RT_UNLIKELY(given->all != given->few)) PyMem_Free(given->all);
  return failed;
}

// ---- the call --------------------------------------------------------------------------------

RT_COLD static void raise_python(void) {
  PyObject *type = NULL, *exception = NULL, *trace = NULL;
  PyErr_Fetch(&type, &exception, &trace);
  PyErr_NormalizeException(&type, &exception, &trace);
  if (trace) PyException_SetTraceback(exception, trace);
  TVMFFIObject* error = rt_error_of_exception(exception);
  if (!error) PyErr_Clear();
  rt_error_keep(error);
  Py_XDECREF(type);
  Py_XDECREF(exception);
  Py_XDECREF(trace);
}

RT_COLD static int result_error(PyObject* callable) {
  PyObject *type = NULL, *cause = NULL, *trace = NULL;
  PyErr_Fetch(&type, &cause, &trace);
  PyErr_NormalizeException(&type, &cause, &trace);
  PyObject* make = rt_import("kdsl.runtime.messages", "result_error");
  PyObject* error = make ? PyObject_CallFunctionObjArgs(make, callable, cause, NULL) : NULL;
  if (error) PyErr_SetObject((PyObject*)Py_TYPE(error), error);
  Py_XDECREF(error);
  Py_XDECREF(make);
  Py_XDECREF(type);
  Py_XDECREF(cause);
  Py_XDECREF(trace);
  return -1;
}

static int give_result(PyObject* callable, PyObject* answer, TVMFFIAny* result) {
  if (RT_LIKELY(answer == Py_None)) {
    *result = (TVMFFIAny){.type_index = kTVMFFINone};
    return 0;
  }
  ArrayKind kind = rt_current_kind();
  return RT_UNLIKELY(rt_from_python(answer, result, &kind)) ? result_error(callable) : 0;
}

static inline PyObject* vectorcall(PyObject* callable, PyObject* const* args, size_t count) {
  if (RT_LIKELY(PyObject_Vectorcall != NULL)) {
    return PyObject_Vectorcall(callable, args, count | RT_VECTORCALL_OFFSET, NULL);
  }
  return PyObject_VectorcallDict(callable, args, count | RT_VECTORCALL_OFFSET, NULL);
}

// Holds the GIL. 0, or -1 with an exception.
static inline int call(PyObject* callable, const TVMFFIAny* args, int32_t count,
                       TVMFFIAny* result) {
  Given given;
  if (RT_UNLIKELY(give(&given, args, count))) {
    take_back(&given, callable);
    return -1;
  }
  Py_INCREF(callable);  // the callee may drop the last other reference to itself
  PyObject* answer = vectorcall(callable, given.all + 1, (size_t)count);
  int failed = !answer || give_result(callable, answer, result);
  Py_XDECREF(answer);
  if (RT_UNLIKELY(take_back(&given, callable))) {
    if (!failed) rt_value_release(result);
    failed = -1;
  }
  Py_DECREF(callable);
  return failed;
}

// Python's own error indicator may be set by native code that failed and goes on to call us.
RT_COLD static int call_with_pending(PyObject* callable, const TVMFFIAny* args, int32_t count,
                                     TVMFFIAny* result) {
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  int failed = call(callable, args, count, result);
  if (failed) raise_python();
  PyErr_Restore(type, value, trace);
  return failed;
}

// Calls in calls take stack that Python does not see.
#define DEEPEST 1000
static __thread int depth __attribute__((tls_model("initial-exec")));

RT_COLD static int too_deep(void) {
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded in a callback");
  raise_python();
  return -1;
}

static inline int call_with_gil(PyObject* callable, const TVMFFIAny* args, int32_t count,
                                TVMFFIAny* result) {
  if (RT_UNLIKELY(depth >= DEEPEST)) return too_deep();
  if (RT_UNLIKELY(PyErr_Occurred() != NULL)) {
    return call_with_pending(callable, args, count, result);
  }
  ++depth;
  int failed = call(callable, args, count, result);
  if (RT_UNLIKELY(failed)) raise_python();
  --depth;
  return failed;
}

// On a thread that does not run Python: the way in that is there for any.
static int enter_and_call(PyObject* callable, const TVMFFIAny* args, int32_t count,
                          TVMFFIAny* result) {
  PyGILState_STATE gil;
  if (RT_UNLIKELY(!rt_python_enter(&gil))) {
    rt_error_set("RuntimeError", "a Python function was called while Python shuts down");
    return -1;
  }
  int failed = call_with_gil(callable, args, count, result);
  PyGILState_Release(gil);
  return failed;
}

// Within a call of this thread, whose state is at hand.
static int resume_and_call(Frame* frame, PyObject* callable, const TVMFFIAny* args, int32_t count,
                           TVMFFIAny* result) {
  PyThreadState* state = frame->released;
  frame->released = NULL;
  PyEval_RestoreThread(state);
  int failed = call_with_gil(callable, args, count, result);
  frame->released = PyEval_SaveThread();
  return failed;
}

// The same with no arguments and, as a rule, no result: the least that a call can be.
static inline int resume_and_call_bare(Frame* frame, const Callback* callback, TVMFFIAny* result) {
  PyObject* callable = callback->callable;
  PyThreadState* state = frame->released;
  int failed = 0;
  frame->released = NULL;
  PyEval_RestoreThread(state);
  if (RT_UNLIKELY(depth >= DEEPEST || PyErr_Occurred())) {
    failed = call_with_gil(callable, NULL, 0, result);
  } else {
    PyObject* room[1];  // for the callee, by the call protocol
    ++depth;
    Py_INCREF(callable);  // the callee may drop the last other reference to itself
    PyObject* answer = RT_LIKELY(callback->direct != NULL)
                           ? callback->direct(callable, room + 1, RT_VECTORCALL_OFFSET, NULL)
                           : vectorcall(callable, room + 1, 0);
    if (RT_LIKELY(answer == Py_None)) {
      result->type_index = kTVMFFINone;
      result->zero_padding = 0;
      result->v_int64 = 0;
    } else {
      failed = !answer || give_result(callable, answer, result);
    }
    Py_XDECREF(answer);
    Py_DECREF(callable);
    if (RT_UNLIKELY(failed)) raise_python();
    --depth;
  }
  frame->released = PyEval_SaveThread();
  return failed;
}

// Native code may have taken the GIL by itself since the call released it.
static inline int is_at_hand(const Frame* frame) {
  return RT_LIKELY(frame && frame->released && rt_running_state() != frame->released);
}

static __attribute__((noinline)) int entry_with_arguments(const Callback* callback,
                                                          const TVMFFIAny* args, int32_t count,
                                                          TVMFFIAny* result) {
  Frame* frame = rt_current;
  if (is_at_hand(frame)) return resume_and_call(frame, callback->callable, args, count, result);
  return enter_and_call(callback->callable, args, count, result);
}

static int callback_entry(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  const Callback* callback = self;
  if (count) return entry_with_arguments(callback, args, count, result);
  Frame* frame = rt_current;
  if (is_at_hand(frame)) return resume_and_call_bare(frame, callback, result);
  return enter_and_call(callback->callable, NULL, 0, result);
}

// ---- making them -----------------------------------------------------------------------------

TVMFFIObject* rt_callback_new(PyObject* callable, int keep) {
  Callback* callback = take_spare();
  if (!callback) return (TVMFFIObject*)PyErr_NoMemory();
  callback->base.function.safe_call = callback_entry;
  Py_INCREF(callable);
  callback->callable = callable;
  callback->direct = NULL;
  if (PyVectorcall_Function && Py_TYPE(callable) == &PyFunction_Type) {
    callback->direct = PyVectorcall_Function(callable);
  }
  callback->keep = keep;
  return &callback->base.head;
}

PyObject* rt_callback_callable(const TVMFFIObject* object) {
  if (object->type_index != kTVMFFIFunction || object->deleter != callback_delete) return NULL;
  return ((const Callback*)object)->callable;
}

PyObject* rt_function_to_python(TVMFFIObject* object) {
  PyObject* callable = rt_callback_callable(object);
  if (callable && !((const Callback*)object)->keep) {
    Py_INCREF(callable);
    rt_decref(object);
    return callable;
  }
  return rt_function_of(object, NULL);
}

PyObject* rt_convert(PyObject* self, PyObject* callable) {
  (void)self;
  if (Py_TYPE(callable) == rt_function_type) {
    Py_INCREF(callable);
    return callable;
  }
  if (!PyCallable_Check(callable)) {
    return PyErr_Format(PyExc_TypeError, "expected a callable, got %R", callable);
  }
  TVMFFIObject* object = rt_callback_new(callable, 1);
  return object ? rt_function_of(object, NULL) : NULL;
}

int rt_take_callable(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  if (frame->function->known && rt_param_kind(frame, index) != PARAM_UNKNOWN) {
    return rt_argument_error(frame, index, "unsupported");
  }
  TVMFFIObject* function = rt_callback_new(object, 0);
  return function ? rt_put_object(frame, index, function) : -1;
}
