// exceptions.c: Error objects become Python exceptions, and Python exceptions Error objects.
//
// An exception that went into native code comes out as the same object. An error that began in
// native code becomes the class that its kind names, with a note of where it was raised.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

#define MOST_FRAMES 32  // of a traceback, in an Error's text
#define MOST_CAUSES 32  // of a chain that may go in circles

static PyObject* classes;  // kind: class, what register_error was told
static PyObject* kinds;    // class: kind

// ---- Python -> native ------------------------------------------------------------------------

static PyObject* kind_of(PyObject* exception) {
  PyObject* type = (PyObject*)Py_TYPE(exception);
  PyObject* known = PyDict_GetItemWithError(kinds, type);
  if (!known) return PyObject_GetAttrString(type, "__name__");
  Py_INCREF(known);
  return known;
}

static PyObject* message_of(PyObject* exception) {
  PyObject* text = PyObject_Str(exception);
  if (text) return text;
  PyErr_Clear();  // its __str__ fails; the exception itself goes on
  return PyUnicode_FromString("");
}

// One line of a traceback, of the innermost frame first, as Error objects have them.
static PyObject* frame_line(PyObject* entry) {
  PyObject* frame = PyObject_GetAttrString(entry, "tb_frame");
  PyObject* code = frame ? PyObject_GetAttrString(frame, "f_code") : NULL;
  PyObject* file = code ? PyObject_GetAttrString(code, "co_filename") : NULL;
  PyObject* name = file ? PyObject_GetAttrString(code, "co_name") : NULL;
  PyObject* number = name ? PyObject_GetAttrString(entry, "tb_lineno") : NULL;
  PyObject* line =
      number ? PyUnicode_FromFormat("  File \"%U\", line %S, in %U\n", file, number, name) : NULL;
  Py_XDECREF(number);
  Py_XDECREF(name);
  Py_XDECREF(file);
  Py_XDECREF(code);
  Py_XDECREF(frame);
  return line;
}

static PyObject* backtrace_of(PyObject* exception) {
  PyObject* text = PyUnicode_FromString("");
  PyObject* at = PyException_GetTraceback(exception);
  for (int i = 0; text && at && at != Py_None && i < MOST_FRAMES; ++i) {
    PyObject* line = frame_line(at);
    PyObject* longer = line ? PyUnicode_Concat(line, text) : NULL;
    PyObject* next = PyObject_GetAttrString(at, "tb_next");
    Py_XDECREF(line);
    if (longer) {
      Py_DECREF(text);
      text = longer;
    }
    Py_DECREF(at);
    at = next;
  }
  Py_XDECREF(at);
  PyErr_Clear();
  return text;
}

// UTF-8 of a str, "?" where it has none (lone surrogates).
static TVMFFIByteArray utf8(PyObject* text) {
  Py_ssize_t size = 0;
  const char* data = text ? PyUnicode_AsUTF8AndSize(text, &size) : NULL;
  if (data) return (TVMFFIByteArray){data, (size_t)size};
  PyErr_Clear();
  return (TVMFFIByteArray){"?", 1};
}

static TVMFFIObject* error_of(PyObject* exception, int depth) {
  PyObject* kind = kind_of(exception);
  PyObject* message = kind ? message_of(exception) : NULL;
  PyObject* backtrace = message ? backtrace_of(exception) : NULL;
  TVMFFIObject* object = NULL;
  if (backtrace) {
    TVMFFIByteArray first = utf8(kind), second = utf8(message), third = utf8(backtrace);
    object = rt_error_new(first.data, first.size, second.data, second.size);
    if (object && third.size) {
      RtError* error = (RtError*)object;
      error->base.error.update_backtrace(error, &third, 0);
    }
    if (!object) PyErr_NoMemory();
  }
  Py_XDECREF(backtrace);
  Py_XDECREF(message);
  Py_XDECREF(kind);
  if (!object) return NULL;
  RtError* error = (RtError*)object;
  Py_INCREF(exception);
  error->exception = exception;
  PyObject* cause = depth < MOST_CAUSES ? PyException_GetCause(exception) : NULL;
  if (cause) error->base.error.cause_chain = error_of(cause, depth + 1);
  Py_XDECREF(cause);
  PyErr_Clear();
  return object;
}

TVMFFIObject* rt_error_of_exception(PyObject* exception) { return error_of(exception, 0); }

// ---- native -> Python ------------------------------------------------------------------------

// A new reference to the class for a kind; NULL without an exception: nobody knows it.
static PyObject* class_of(PyObject* kind) {
  PyObject* found = PyDict_GetItemWithError(classes, kind);
  if (!found) {
    PyObject* builtins = PyEval_GetBuiltins();
    found = builtins ? PyDict_GetItemWithError(builtins, kind) : NULL;
    int fits = found && PyType_Check(found) &&
               (PyType_IsSubtype((PyTypeObject*)found, (PyTypeObject*)PyExc_Exception) ||
                found == PyExc_KeyboardInterrupt);
    if (!fits) found = NULL;
  }
  Py_XINCREF(found);
  return found;
}

// The exceptions of notes are nobody's business: the error that they are about matters more.
static void add_note(PyObject* exception, PyObject* note) {
  PyObject* done = note ? PyObject_CallMethod(exception, "add_note", "O", note) : NULL;
  if (!done) PyErr_Clear();
  Py_XDECREF(done);
  Py_XDECREF(note);
}

// Whether a line of a backtrace has left the module that raised: this core, or Python below it.
static int is_outside(const char* file) {
  static const char* const starts[] = {"Python/", "Objects/", "Modules/", "Include/", "./Include/"};
  int is = strstr(file, "/runtime/csrc/") != NULL;
  for (size_t i = 0; i < sizeof starts / sizeof *starts; ++i) {
    is |= strncmp(file, starts[i], strlen(starts[i])) == 0;
  }
  return is;
}

// Where in the source an error was raised: the first line of the backtrace that knows.
static PyObject* place_note(const TVMFFIByteArray* backtrace) {
  const char *at = backtrace->data, *end = at + backtrace->size;
  while (at && at < end) {
    const char* newline = memchr(at, '\n', (size_t)(end - at));
    const char* stop = newline ? newline : end;
    char line[512], file[400];
    unsigned number;
    int after = 0;
    size_t size = (size_t)(stop - at) < sizeof line - 1 ? (size_t)(stop - at) : sizeof line - 1;
    memcpy(line, at, size);
    line[size] = '\0';
    if (sscanf(line, " File \"%399[^\"]\", line %u%n", file, &number, &after) == 2 && number &&
        file[0] != '<') {
      if (is_outside(file)) return NULL;
      const char* name = strncmp(line + after, ", in ", 5) == 0 ? line + after + 5 : "";
      return PyUnicode_FromFormat("raised at %s:%u%s%s", file, number, *name ? " in " : "", name);
    }
    at = newline ? newline + 1 : end;
  }
  return NULL;
}

static PyObject* fresh_exception(const TVMFFIErrorCell* cell) {
  PyObject* text =
      PyUnicode_DecodeUTF8(cell->message.data, (Py_ssize_t)cell->message.size, "replace");
  PyObject* kind =
      text ? PyUnicode_DecodeUTF8(cell->kind.data, (Py_ssize_t)cell->kind.size, "replace") : NULL;
  PyObject* type = kind ? class_of(kind) : NULL;
  PyObject* exception = type ? PyObject_CallFunctionObjArgs(type, text, NULL) : NULL;
  if (exception && !PyExceptionInstance_Check(exception)) Py_CLEAR(exception);
  if (!exception && kind) {  // unknown, or a class that one text does not make
    PyErr_Clear();
    exception = PyObject_CallFunctionObjArgs(PyExc_RuntimeError, text, NULL);
    if (exception && PyUnicode_GetLength(kind)) {
      add_note(exception, PyUnicode_FromFormat("its kind is `%U`", kind));
    }
  }
  Py_XDECREF(type);
  Py_XDECREF(kind);
  Py_XDECREF(text);
  return exception;
}

static PyObject* exception_of(const TVMFFIObject* object, int depth) {
  const TVMFFIErrorCell* cell = (const TVMFFIErrorCell*)(object + 1);
  RtError* own = rt_error_own(object);
  if (own && own->exception) {
    Py_INCREF(own->exception);
    return own->exception;
  }
  PyObject* exception = fresh_exception(cell);
  if (!exception) return NULL;
  if (cell->backtrace.size) {
    PyObject* note = place_note(&cell->backtrace);
    if (note) add_note(exception, note);
  }
  if (RT_UNLIKELY(cell->cause_chain != NULL) && depth < MOST_CAUSES) {
    PyObject* cause = exception_of(cell->cause_chain, depth + 1);
    if (!cause) PyErr_Clear();
    PyException_SetCause(exception, cause);  // steals
  }
  return exception;
}

PyObject* rt_error_to_exception(const TVMFFIObject* error) { return exception_of(error, 0); }

// Raise `exception`, which is consumed. One that was raised before keeps its context.
static void put(PyObject* exception, int again) {
  PyObject* type = (PyObject*)Py_TYPE(exception);
  if (again) {
    Py_INCREF(type);
    PyErr_Restore(type, exception, PyException_GetTraceback(exception));
  } else {
    PyErr_SetObject(type, exception);
    Py_DECREF(exception);
  }
}

static int says_already_set(const TVMFFIErrorCell* cell) {
  static const char kind[] = "EnvErrorAlreadySet";
  return cell->kind.size == sizeof kind - 1 && memcmp(cell->kind.data, kind, cell->kind.size) == 0;
}

PyObject* rt_error_raise(const char* name) {
  TVMFFIObject* object = rt_error_take();
  int pending = PyErr_Occurred() != NULL;
  if (!object || object->type_index != kTVMFFIError) {
    if (!pending) PyErr_Format(PyExc_RuntimeError, "%s: failed without saying why", name);
  } else if (!pending || !says_already_set((const TVMFFIErrorCell*)(object + 1))) {
    PyErr_Clear();
    PyObject* exception = rt_error_to_exception(object);
    RtError* own = rt_error_own(object);
    if (exception) put(exception, own && own->exception);
  }
  if (object) rt_decref(object);
  return NULL;
}

// ---- register_error --------------------------------------------------------------------------

// Two dicts that Python fills: kdsl.runtime.functions.register_error.
int rt_errors_init(PyObject* module) {
  if (!classes) classes = PyDict_New();
  if (!kinds) kinds = PyDict_New();
  if (!classes || !kinds) return -1;
  if (PyObject_SetAttrString(module, "error_classes", classes)) return -1;
  return PyObject_SetAttrString(module, "error_kinds", kinds);
}
