// dispatcher.c: kdsl.runtime.Dispatcher, a callable that finds the function for its arguments.
//
// What it knows is a table. A call looks at the table's places, takes the arguments and runs the
// first function that fits. Whatever else a call may be goes to a Python callable, which finds or
// makes a function and writes a new table.
#include "table.h"

typedef struct {
  PyObject_HEAD RtVectorcall vectorcall;
  PyObject* otherwise;
  RtTable* table;
} Dispatcher;

static PyTypeObject* dispatcher_type;

// The GIL sees to it that a table is there while it is taken; without one, this does.
#ifdef Py_GIL_DISABLED
#include <pthread.h>
static pthread_mutex_t tables = PTHREAD_MUTEX_INITIALIZER;
static inline void lock_tables(void) { pthread_mutex_lock(&tables); }
static inline void unlock_tables(void) { pthread_mutex_unlock(&tables); }
__attribute__((constructor)) static void make_fork_safe(void) {
  pthread_atfork(lock_tables, unlock_tables, unlock_tables);
}
#else
static inline void lock_tables(void) {}
static inline void unlock_tables(void) {}
#endif

static PyObject* call_otherwise(const Dispatcher* self, PyObject* const* objects, size_t nargsf,
                                PyObject* keywords) {
  if (!self->otherwise) return PyErr_Format(PyExc_TypeError, "this dispatcher was not set up");
  Py_ssize_t count = (Py_ssize_t)(nargsf & ~RT_VECTORCALL_OFFSET);
  Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
  PyObject* otherwise = self->otherwise;
  PyObject* answer = NULL;
  PyObject* args = PyTuple_New(count);
  PyObject* kwargs = args ? PyDict_New() : NULL;
  int good = kwargs != NULL;
  for (Py_ssize_t i = 0; good && i < count; ++i) {
    Py_INCREF(objects[i]);
    PyTuple_SetItem(args, i, objects[i]);
  }
  for (Py_ssize_t i = 0; good && i < named; ++i) {
    good = PyDict_SetItem(kwargs, PyTuple_GetItem(keywords, i), objects[count + i]) == 0;
  }
  Py_INCREF(otherwise);
  if (good) answer = PyObject_CallFunctionObjArgs(otherwise, args, kwargs, NULL);
  Py_DECREF(otherwise);
  Py_XDECREF(kwargs);
  Py_XDECREF(args);
  return answer;
}

// Looking and taking may run Python code, which may write another table: keep this one.
static inline RtTable* hold_table(const Dispatcher* self) {
  lock_tables();
  RtTable* table = self->table;
  if (RT_LIKELY(table != NULL)) rt_table_count(table, 1);
  unlock_tables();
  return table;
}

static PyObject* dispatcher_call(PyObject* object, PyObject* const* objects, size_t nargsf,
                                 PyObject* keywords) {
  const Dispatcher* self = (const Dispatcher*)object;
  RtTable* table = hold_table(self);
  if (RT_LIKELY(table != NULL)) {
    PyObject* answer = NULL;
    if (RT_LIKELY(rt_table_is_valid(table))) {
      answer = rt_call_from(table, table->rows[0].function, objects, nargsf, keywords);
    }
    rt_table_release(table);
    if (RT_LIKELY(answer != NULL) || PyErr_Occurred()) return answer;
  }
  return call_otherwise(self, objects, nargsf, keywords);
}

// ---- the type --------------------------------------------------------------------------------

static PyObject* dispatcher_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  (void)args, (void)kwargs;
  allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
  PyObject* self = allocate(type, 0);
  if (self) ((Dispatcher*)self)->vectorcall = dispatcher_call;
  return self;
}

static int dispatcher_traverse(PyObject* object, visitproc visit, void* arg) {
  const Dispatcher* self = (const Dispatcher*)object;
  Py_VISIT((PyObject*)Py_TYPE(object));
  Py_VISIT(self->otherwise);
  return self->table ? rt_table_visit(self->table, visit, arg) : 0;
}

static void put_table(Dispatcher* self, RtTable* table) {
  lock_tables();
  RtTable* before = self->table;
  self->table = table;
  unlock_tables();
  rt_table_release(before);
}

static int dispatcher_clear(PyObject* object) {
  Dispatcher* self = (Dispatcher*)object;
  put_table(self, NULL);
  Py_CLEAR(self->otherwise);
  return 0;
}

static void dispatcher_dealloc(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject_GC_UnTrack(object);
  dispatcher_clear(object);
  freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
  release(object);
  Py_DECREF(type);
}

static PyObject* set_otherwise(PyObject* object, PyObject* callable) {
  Dispatcher* self = (Dispatcher*)object;
  PyObject* before = self->otherwise;
  Py_INCREF(callable);
  self->otherwise = callable;
  Py_XDECREF(before);
  Py_RETURN_NONE;
}

static PyObject* set_table(PyObject* object, PyObject* args) {
  PyObject *places, *rows;
  if (!PyArg_ParseTuple(args, "O!O!", &PyTuple_Type, &places, &PyTuple_Type, &rows)) return NULL;
  RtTable* table = PyTuple_Size(rows) ? rt_table_new(places, rows) : NULL;
  if (!table && PyErr_Occurred()) return NULL;
  put_table((Dispatcher*)object, table);
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"_set_otherwise", set_otherwise, METH_O,
     "_set_otherwise(callable)\n--\n\n"
     "Let callable(args, kwargs) answer calls that the table does not."},
    {"_set_table", set_table, METH_VARARGS,
     "_set_table(places, rows)\n--\n\n"
     "What was compiled, and where what it was compiled from is found; no rows: nothing."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Dispatcher, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Calls the function that its table has for the arguments."},
    {Py_tp_new, dispatcher_new},
    {Py_tp_dealloc, dispatcher_dealloc},
    {Py_tp_traverse, dispatcher_traverse},
    {Py_tp_clear, dispatcher_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {0, NULL},
};

static PyType_Spec spec = {"kdsl.runtime.Dispatcher", sizeof(Dispatcher), 0,
                           Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC |
                               RT_TPFLAGS_HAVE_VECTORCALL | RT_TPFLAGS_IMMUTABLETYPE,
                           slots};

int rt_dispatcher_init(PyObject* module) {
  // A second import in one process gets the same types: objects of the first one live on.
  if (!dispatcher_type) dispatcher_type = (PyTypeObject*)PyType_FromSpec(&spec);
  if (!dispatcher_type) return -1;
  return PyObject_SetAttrString(module, "Dispatcher", (PyObject*)dispatcher_type);
}
