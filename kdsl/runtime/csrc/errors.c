// errors.c: the error slot of this thread, and how it becomes a Python exception.
#define _GNU_SOURCE 1
#include <stdlib.h>
#include <string.h>

#include "core.h"

typedef struct {
  char* kind;
  char* message;
} Slot;

static __thread Slot slot __attribute__((tls_model("initial-exec")));
__thread int rt_error_pending __attribute__((tls_model("initial-exec")));

// What the slot says when there is no memory left to say anything else.
static char no_memory_kind[] = "MemoryError";
static char no_memory_message[] = "out of memory while an error was being raised";

static void drop(Slot* old) {
  if (old->kind != no_memory_kind) {
    free(old->kind);
    free(old->message);
  }
  old->kind = old->message = NULL;
}

void rt_error_set(const char* kind, const char* message) {
  Slot fresh = {strdup(kind ? kind : "RuntimeError"), strdup(message ? message : "")};
  if (!fresh.kind || !fresh.message) {
    free(fresh.kind);
    free(fresh.message);
    fresh = (Slot){no_memory_kind, no_memory_message};
  }
  drop(&slot);
  slot = fresh;
  rt_error_pending = 1;
}

void rt_error_drop(void) {
  drop(&slot);
  rt_error_pending = 0;
}

// A new reference to the builtin exception class of that name, else RuntimeError.
static PyObject* exception_class(const char* kind) {
  PyObject* builtins = PyEval_GetBuiltins();
  PyObject* found = builtins ? PyDict_GetItemString(builtins, kind) : NULL;
  if (!found || !PyType_Check(found) ||
      !PyType_IsSubtype((PyTypeObject*)found, (PyTypeObject*)PyExc_Exception)) {
    found = PyExc_RuntimeError;
  }
  Py_INCREF(found);
  return found;
}

static void raise_text(const char* kind, const char* message, size_t size) {
  PyObject* text = PyUnicode_DecodeUTF8(message, (Py_ssize_t)size, "replace");
  if (!text) return;
  PyObject* type = exception_class(kind);
  // KeyError and UnicodeError need other arguments to look right; one text is fine for all others.
  PyObject* error = PyObject_CallFunctionObjArgs(type, text, NULL);
  if (error)
    PyErr_SetObject(type, error);
  else
    PyErr_SetObject(PyExc_RuntimeError, text);
  Py_XDECREF(error);
  Py_DECREF(type);
  Py_DECREF(text);
}

PyObject* rt_error_raise(const char* name) {
  TVMFFIObject* object = NULL;
  if (rt_provider.error_move_from_raised) rt_provider.error_move_from_raised((void**)&object);
  if (slot.kind) {
    Slot mine = slot;
    slot = (Slot){NULL, NULL};
    rt_error_pending = 0;
    raise_text(mine.kind, mine.message, strlen(mine.message));
    drop(&mine);
  } else if (object && object->type_index == kTVMFFIError) {
    const TVMFFIErrorCell* cell = (const TVMFFIErrorCell*)(object + 1);
    char kind[64] = "RuntimeError";
    if (cell->kind.size < sizeof kind) {
      memcpy(kind, cell->kind.data, cell->kind.size);
      kind[cell->kind.size] = '\0';
    }
    // The kind that says: Python's own error is already set.
    if (strcmp(kind, "EnvErrorAlreadySet") != 0 || !PyErr_Occurred()) {
      raise_text(kind, cell->message.data, cell->message.size);
    }
  } else if (!PyErr_Occurred()) {
    PyErr_Format(PyExc_RuntimeError, "%s: failed without saying why", name);
  }
  if (object) rt_decref(object);
  return NULL;
}
