// function.c: kdsl.runtime.Function, a packed function that knows its signature.
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

PyTypeObject* rt_function_type;

// The first call reads the metadata, all later ones go straight to rt_call.
static PyObject* first_call(PyObject* self, PyObject* const* objects, size_t nargsf,
                            PyObject* keywords) {
  if (rt_function_describe((Function*)self)) return NULL;
  return rt_call(self, objects, nargsf, keywords);
}

PyObject* rt_function_new(TVMFFISafeCallType entry, void* handle, PyObject* name,
                          PyObject* library) {
  const char* text = PyUnicode_AsUTF8AndSize(name, NULL);
  allocfunc allocate = (allocfunc)PyType_GetSlot(rt_function_type, Py_tp_alloc);
  Function* fn = text ? (Function*)allocate(rt_function_type, 0) : NULL;
  if (!fn) {
    if (handle) rt_decref(handle);
    return NULL;
  }
  Py_INCREF(name);
  Py_INCREF(library);
  fn->vectorcall = first_call;
  fn->entry = entry;
  fn->handle = handle;
  fn->name = name;
  fn->text = text;
  fn->library = library;
  fn->release_gil = 1;
  fn->owned = OWNED_TENSORS;
  fn->max_args = INTPTR_MAX;
  return (PyObject*)fn;
}

// ---- as an object ----------------------------------------------------------------------------

// What stands for a function of a library in native code.
typedef struct {
  KdslFunctionObject base;
  PyObject* name;
  PyObject* library;
} Plain;

static void plain_delete(void* self, int flags) {
  Plain* plain = self;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    rt_python_release(plain->name);
    rt_python_release(plain->library);
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) rt_object_free(plain);
}

TVMFFIObject* rt_function_object(PyObject* function) {
  Function* fn = (Function*)function;
  TVMFFIObject* object = __atomic_load_n((TVMFFIObject**)&fn->handle, __ATOMIC_ACQUIRE);
  if (!object) {
    Plain* plain = rt_object_new(sizeof *plain, kTVMFFIFunction, plain_delete);
    if (!plain) return (TVMFFIObject*)PyErr_NoMemory();
    plain->base.function.safe_call = fn->entry;
    Py_INCREF(fn->name);
    Py_INCREF(fn->library);
    plain->name = fn->name;
    plain->library = fn->library;
    void* before = NULL;
    if (__atomic_compare_exchange_n(&fn->handle, &before, (void*)plain, 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
      object = &plain->base.head;
    } else {
      rt_decref(plain);  // another thread was first
      object = before;
    }
  }
  rt_incref(object);
  return object;
}

PyObject* rt_function_of(TVMFFIObject* object, PyObject* name) {
  const TVMFFIFunctionCell* cell = (const TVMFFIFunctionCell*)(object + 1);
  if (object->deleter == plain_delete) {
    const Plain* plain = (const Plain*)object;
    return rt_function_new(cell->safe_call, object, plain->name, plain->library);
  }
  PyObject* callable = rt_callback_callable(object);
  PyObject* given = NULL;
  if (!name && callable) {
    given = PyObject_GetAttrString(callable, "__qualname__");
    if (!given) PyErr_Clear();
    if (given && !PyUnicode_Check(given)) Py_CLEAR(given);
    if (!given) given = PyObject_GetAttrString((PyObject*)Py_TYPE(callable), "__name__");
  } else {
    given = name;
    Py_XINCREF(given);
    if (!given) given = PyUnicode_FromString("<function>");
  }
  if (!given) {
    rt_decref(object);
    return NULL;
  }
  PyObject* fn = rt_function_new(cell->safe_call, object, given, Py_None);
  Py_DECREF(given);
  return fn;  // owns the object now
}

int rt_take_function(Frame* frame, Py_ssize_t index, PyObject* object, const TypeEntry* entry) {
  (void)entry;
  if (frame->function->known && rt_param_kind(frame, index) != PARAM_UNKNOWN) {
    return rt_argument_error(frame, index, "unsupported");
  }
  TVMFFIObject* function = rt_function_object(object);
  return function ? rt_put_object(frame, index, function) : -1;
}

// Two Functions are equal when they call the same.
static const void* identity(PyObject* self) {
  const Function* fn = (const Function*)self;
  const TVMFFIObject* object = fn->handle;
  if (!object || object->deleter == plain_delete) return *(void* const*)&fn->entry;
  const void* callable = rt_callback_callable(object);
  return callable ? callable : object;
}

static Py_hash_t function_hash(PyObject* self) {
  uintptr_t bits = (uintptr_t)identity(self);
  Py_hash_t hash = (Py_hash_t)(bits >> 4 | bits << (8 * sizeof bits - 4));
  return hash == -1 ? -2 : hash;
}

static PyObject* function_compare(PyObject* self, PyObject* other, int op) {
  if ((op != Py_EQ && op != Py_NE) || Py_TYPE(other) != rt_function_type) {
    Py_INCREF(Py_NotImplemented);
    return Py_NotImplemented;
  }
  int same = identity(self) == identity(other);
  return PyBool_FromLong(same == (op == Py_EQ));
}

static void function_dealloc(PyObject* self) {
  Function* fn = (Function*)self;
  PyTypeObject* type = Py_TYPE(self);
  if (fn->weak_references) PyObject_ClearWeakRefs(self);
  Py_XDECREF(fn->name);
  Py_XDECREF(fn->library);
  Py_XDECREF(fn->schema);
  Py_XDECREF(fn->names);
  PyMem_Free(fn->kinds);
  if (fn->handle) rt_decref(fn->handle);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(self);
  Py_DECREF(type);
}

// ---- metadata --------------------------------------------------------------------------------

// The text that a module returns for `prefix` + name; None when it has none.
static PyObject* module_text(const Function* fn, const char* prefix) {
  TVMFFISafeCallType entry = rt_library_entry(fn->library, prefix, fn->text);
  TVMFFIAny result = {.type_index = kTVMFFINone};
  if (!entry) Py_RETURN_NONE;
  if (entry(NULL, NULL, 0, &result)) return rt_error_raise(fn->text);
  return rt_text_of(&result);
}

static int copy_parameters(Function* fn, PyObject* kinds) {
  char* data;
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(kinds, &data, &size)) return -1;
  Py_ssize_t count = PyTuple_Size(fn->names);
  if (count < 0) return -1;
  if (size != 2 * count) {
    PyErr_Format(PyExc_ValueError, "%U: %zd names but %zd kinds", fn->name, count, size);
    return -1;
  }
  fn->kinds = PyMem_Malloc((size_t)size + 1);
  if (!fn->kinds) {
    PyErr_NoMemory();
    return -1;
  }
  memcpy(fn->kinds, data, (size_t)size);
  fn->required = fn->kinds + count;
  fn->max_args = count;
  // Hand-written C++ may tell the names of its parameters and not what they are for.
  for (Py_ssize_t i = 0; i < count; ++i) fn->known |= fn->kinds[i] != PARAM_UNKNOWN;
  fn->known |= count == 0;
  return 0;
}

static int take_schema(Function* fn, PyObject* schema) {
  PyObject* names = PyObject_GetAttrString(schema, "names");
  PyObject* kinds = names ? PyObject_GetAttrString(schema, "kinds") : NULL;
  PyObject* views = kinds ? PyObject_GetAttrString(schema, "views") : NULL;
  PyObject* differentiable = views ? PyObject_GetAttrString(schema, "differentiable") : NULL;
  int failed = !differentiable;
  if (views == Py_True) fn->owned = 0;
  if (differentiable == Py_False) fn->constant = 1;
  Py_XDECREF(differentiable);
  Py_XDECREF(views);
  if (!failed && names != Py_None) {
    Py_INCREF(names);
    fn->names = names;
    failed = copy_parameters(fn, kinds);
  }
  Py_XDECREF(names);
  Py_XDECREF(kinds);
  if (failed) {
    Py_XDECREF(fn->names);
    fn->names = NULL;
    return -1;
  }
  Py_INCREF(schema);
  __atomic_store_n(&fn->schema, schema, __ATOMIC_RELEASE);
  return 0;
}

// The same of a module object, which is asked by method.
static PyObject* object_text(const Function* fn, const char* method) {
  return PyObject_CallMethod(fn->library, method, "OO", fn->name, Py_True);
}

static PyObject* module_schema(const Function* fn) {
  int of_object = rt_handle_object(fn->library) != NULL;
  PyObject* metadata = of_object ? object_text(fn, "get_function_metadata")
                                 : module_text(fn, "__tvm_ffi__metadata_");
  PyObject* doc = NULL;
  if (metadata)
    doc = of_object ? object_text(fn, "get_function_doc") : module_text(fn, "__tvm_ffi__doc_");
  PyObject* parse = doc ? rt_import("kdsl.runtime.schema", "parse") : NULL;
  PyObject* schema =
      parse ? PyObject_CallFunctionObjArgs(parse, fn->name, metadata, doc, NULL) : NULL;
  Py_XDECREF(parse);
  Py_XDECREF(doc);
  Py_XDECREF(metadata);
  return schema;
}

static PyObject* callable_of(const Function* fn) {
  return fn->handle ? rt_callback_callable(fn->handle) : NULL;
}

static PyObject* callable_schema(const Function* fn) {
  PyObject* make = rt_import("kdsl.runtime.schema", "CallableSchema");
  PyObject* schema =
      make ? PyObject_CallFunctionObjArgs(make, fn->name, callable_of(fn), NULL) : NULL;
  Py_XDECREF(make);
  return schema;
}

// Whoever holds it reads attributes of Python, so that fork cannot wait for it: a child begins with
// a new one, and describes anew what the holder had begun.
static pthread_mutex_t describing = PTHREAD_MUTEX_INITIALIZER;
static void begin_anew(void) { describing = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }
__attribute__((constructor)) static void make_fork_safe(void) {
  pthread_atfork(NULL, NULL, begin_anew);
}

RT_COLD int rt_function_describe(Function* fn) {
  if (__atomic_load_n(&fn->schema, __ATOMIC_ACQUIRE)) return 0;
  PyObject* schema = callable_of(fn) ? callable_schema(fn) : module_schema(fn);
  if (!schema) return -1;
  // Threads that come here at once all have a schema; the first one's is taken.
  pthread_mutex_lock(&describing);
  int failed = !fn->schema && take_schema(fn, schema);
  if (!failed) __atomic_store_n(&fn->vectorcall, rt_call, __ATOMIC_RELEASE);
  pthread_mutex_unlock(&describing);
  Py_DECREF(schema);
  return failed ? -1 : 0;
}

// ---- attributes ------------------------------------------------------------------------------

static PyObject* schema_attribute(PyObject* self, void* name) {
  Function* fn = (Function*)self;
  if (rt_function_describe(fn)) return NULL;
  return PyObject_GetAttrString(fn->schema, name);
}

static PyObject* get_name(PyObject* self, void* closure) {
  (void)closure;
  PyObject* name = ((Function*)self)->name;
  Py_INCREF(name);
  return name;
}

static PyObject* get_library(PyObject* self, void* closure) {
  (void)closure;
  PyObject* library = ((Function*)self)->library;
  Py_INCREF(library);
  return library;
}

static PyObject* get_release_gil(PyObject* self, void* closure) {
  (void)closure;
  return PyBool_FromLong(((Function*)self)->release_gil);
}

static int set_release_gil(PyObject* self, PyObject* value, void* closure) {
  (void)closure;
  int on = value ? PyObject_IsTrue(value) : 1;
  if (on < 0) return -1;
  ((Function*)self)->release_gil = (char)on;
  return 0;
}

static PyObject* function_repr(PyObject* self) {
  Function* fn = (Function*)self;
  if (rt_function_describe(fn)) return NULL;
  PyObject* text = PyObject_GetAttrString(fn->schema, "text");
  PyObject* repr = text ? PyUnicode_FromFormat("<kdsl function %U>", text) : NULL;
  Py_XDECREF(text);
  return repr;
}

static PyObject* function_reduce(PyObject* self, PyObject* unused) {
  (void)unused;
  Function* fn = (Function*)self;
  if (fn->library == Py_None || rt_handle_object(fn->library)) {
    return PyErr_Format(PyExc_TypeError, "cannot pickle %U: it belongs to no file", fn->name);
  }
  PyObject* restore = rt_import("kdsl.runtime.module", "load_function");
  PyObject* path = restore ? PyObject_GetAttrString(fn->library, "path") : NULL;
  PyObject* reduced = path ? Py_BuildValue("O(OO)", restore, path, fn->name) : NULL;
  Py_XDECREF(path);
  Py_XDECREF(restore);
  return reduced;
}

static PyMethodDef methods[] = {{"__reduce__", function_reduce, METH_NOARGS, NULL},
                                {NULL, NULL, 0, NULL}};

static PyGetSetDef getters[] = {
    {"__name__", get_name, NULL, NULL, NULL},
    {"__qualname__", get_name, NULL, NULL, NULL},
    {"__doc__", schema_attribute, NULL, NULL, "doc"},
    {"__signature__", schema_attribute, NULL, NULL, "signature"},
    {"__text_signature__", schema_attribute, NULL, NULL, "text_signature"},
    {"metadata", schema_attribute, NULL, "The module's JSON metadata, a dict.", "metadata"},
    {"library", get_library, NULL, "The Library or ModuleObject it came from, or None.", NULL},
    {"release_gil", get_release_gil, set_release_gil,
     "Whether other Python threads may run during a call.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Function, vectorcall), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Function, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, function_dealloc},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_repr, function_repr},
    {Py_tp_hash, function_hash},
    {Py_tp_richcompare, function_compare},
    {Py_tp_methods, methods},
    {Py_tp_getset, getters},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec spec = {"kdsl.runtime.Function", sizeof(Function), 0,
                           Py_TPFLAGS_DEFAULT | RT_TPFLAGS_HAVE_VECTORCALL |
                               RT_TPFLAGS_IMMUTABLETYPE | RT_TPFLAGS_DISALLOW_INSTANTIATION,
                           slots};

int rt_function_init(PyObject* module) {
  // A second import in one process gets the same types: objects of the first one live on.
  if (!rt_function_type) rt_function_type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (!rt_function_type) return -1;
  return PyObject_SetAttrString(module, "Function", (PyObject*)rt_function_type);
}
