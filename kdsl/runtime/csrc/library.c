// library.c: a loaded .so. It stays loaded: functions, results and threads may outlive any handle.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "errors.h"

typedef struct {
  PyObject_HEAD void* handle;
  PyObject* path;
} Library;

static PyTypeObject* library_type;

// What a module of the headers for hand-written kernels registered while it was loaded, and had no
// table of ours yet: KdslGlobal of kdsl/native/registry.h.
typedef struct Registered {
  struct Registered* next;
  TVMFFIByteArray name;
  TVMFFIObject* function;
  int taken;
} Registered;

static int take_globals(void* handle) {
  int (*set)(const TVMFFIByteArray* name, TVMFFIObjectHandle function, int override_it);
  Registered** first = dlsym(handle, "__kdsl_globals");
  *(void**)&set = rt_symbol("TVMFFIFunctionSetGlobal");
  for (Registered* r = first ? *first : NULL; r && set; r = r->next) {
    if (r->taken) continue;
    if (set(&r->name, r->function, 0)) return -1;
    r->taken = 1;
  }
  return 0;
}

static PyObject* library_open(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  static char* names[] = {"path", NULL};
  PyObject* path;
  if (!PyArg_ParseTupleAndKeywords(args, kwargs, "U", names, &path)) return NULL;
  PyObject* encoded = PyUnicode_EncodeFSDefault(path);
  if (!encoded) return NULL;
  const char* file = PyBytes_AsString(encoded);
  // All symbols now: a missing one is an error here, and would end the process at its first call.
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle) PyErr_Format(PyExc_OSError, "cannot load %U: %s", path, dlerror());
  Py_DECREF(encoded);
  if (!handle) return NULL;
  const KdslRuntime** table = dlsym(handle, "__kdsl_rt");
  if (table) *table = &rt_table;
  if (table && take_globals(handle)) {
    rt_error_raise("a global function");
    return NULL;
  }
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  Library* self = (Library*)allocate(type, 0);
  if (!self) return NULL;
  self->handle = handle;
  Py_INCREF(path);
  self->path = path;
  return (PyObject*)self;
}

static void library_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(((Library*)self)->path);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

TVMFFISafeCallType rt_library_entry(PyObject* library, const char* prefix, const char* name) {
  if (!PyObject_TypeCheck(library, library_type)) return NULL;
  size_t size = strlen(prefix) + strlen(name) + 1;
  char* symbol = malloc(size);
  TVMFFISafeCallType entry = NULL;
  if (!symbol) return NULL;
  snprintf(symbol, size, "%s%s", prefix, name);
  *(void**)&entry = dlsym(((Library*)library)->handle, symbol);
  free(symbol);
  return entry;
}

static PyObject* library_function(PyObject* self, PyObject* name) {
  const char* text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
  if (!text) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a function name is a str");
    return NULL;
  }
  TVMFFISafeCallType entry = rt_library_entry(self, "__tvm_ffi_", text);
  if (!entry) Py_RETURN_NONE;
  return rt_function_new(entry, NULL, name, self);
}

static PyObject* library_text(PyObject* self, PyObject* name) {
  const char* symbol = PyUnicode_AsUTF8AndSize(name, NULL);
  if (!symbol) return NULL;
  const char* found = dlsym(((Library*)self)->handle, symbol);
  if (!found) Py_RETURN_NONE;
  return PyUnicode_DecodeUTF8(found, (Py_ssize_t)strlen(found), "replace");
}

static PyObject* get_path(PyObject* self, void* closure) {
  (void)closure;
  PyObject* path = ((Library*)self)->path;
  Py_INCREF(path);
  return path;
}

static PyMethodDef methods[] = {
    {"function", library_function, METH_O,
     "function(name)\n--\n\nThe packed function of that name, or None."},
    {"text", library_text, METH_O,
     "text(symbol)\n--\n\nThe text a char array symbol holds, or None."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef getters[] = {{"path", get_path, NULL, "The file, a str.", NULL},
                                {NULL, NULL, NULL, NULL, NULL}};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Library(path)\n--\n\nA shared library of packed functions, loaded for good."},
    {Py_tp_new, library_open},
    {Py_tp_dealloc, library_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {0, NULL},
};

static PyType_Spec spec = {"kdsl.runtime._core.Library", sizeof(Library), 0, Py_TPFLAGS_DEFAULT,
                           slots};

int rt_library_init(PyObject* module) {
  // A second import in one process gets the same types: objects of the first one live on.
  if (!library_type) library_type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (!library_type) return -1;
  return PyObject_SetAttrString(module, "Library", (PyObject*)library_type);
}
