// renew.c: an InOut argument that must not be written (JAX) is copied; the copy comes back.
#include "core.h"

int rt_renew(Frame* frame, Py_ssize_t index) {
  const DLTensor* view = &frame->views[index];
  int possible = frame->renewed_count < FRAME_RENEWED && rt_is_host(view->device);
  if (!possible || !rt_is_compact(view)) return rt_argument_error(frame, index, "jax_inout");
  RtTensor* copy = rt_tensor_copy(view);
  Hold* hold = copy ? rt_hold(frame, HOLD_FFI) : NULL;
  if (!hold) {
    if (copy) rt_decref(copy);
    rt_error_clear();
    PyErr_NoMemory();
    return -1;
  }
  hold->pointer = copy;
  frame->args[index] = (TVMFFIAny){.type_index = kTVMFFIDLTensorPtr, .v_ptr = &copy->tensor};
  frame->renewed[frame->renewed_count].index = index;
  frame->renewed[frame->renewed_count++].tensor = copy;
  return 0;
}

// The next value for parameter `index`: a copy, or the next of the results; NULL: neither.
static PyObject* next_value(Frame* frame, Py_ssize_t index, PyObject* results, Py_ssize_t* taken) {
  for (int k = 0; k < frame->renewed_count; ++k) {
    if (frame->renewed[k].index != index) continue;
    TVMFFIAny value = {.type_index = kTVMFFITensor, .v_obj = &frame->renewed[k].tensor->header};
    rt_incref(value.v_obj);
    return rt_result(frame, &value);
  }
  if (rt_param_kind(frame, index) != PARAM_OUT || *taken >= PyList_Size(results)) return NULL;
  PyObject* value = PyList_GetItem(results, (*taken)++);
  Py_INCREF(value);
  return value;
}

static PyObject* as_list(PyObject* answer) {
  if (answer == Py_None) return PyList_New(0);
  if (PyTuple_Check(answer)) return PySequence_List(answer);
  PyObject* list = PyList_New(1);
  Py_INCREF(answer);
  if (list)
    PyList_SetItem(list, 0, answer);
  else
    Py_DECREF(answer);
  return list;
}

PyObject* rt_with_renewed(Frame* frame, PyObject* answer) {
  PyObject* results = as_list(answer);
  Py_DECREF(answer);
  PyObject* all = results ? PyList_New(0) : NULL;
  Py_ssize_t taken = 0;
  int failed = !all;
  for (Py_ssize_t i = 0; !failed && i < frame->function->max_args; ++i) {
    PyObject* value = next_value(frame, i, results, &taken);
    if (value)
      failed = PyList_Append(all, value);
    else
      failed = PyErr_Occurred() != NULL;
    Py_XDECREF(value);
  }
  Py_XDECREF(results);
  PyObject* given = NULL;
  if (!failed && PyList_Size(all) == 1) {
    given = PyList_GetItem(all, 0);
    Py_INCREF(given);
  } else if (!failed) {
    given = PyList_AsTuple(all);
  }
  Py_XDECREF(all);
  return given;
}
