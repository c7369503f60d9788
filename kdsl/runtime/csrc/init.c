// init.c: the extension module kdsl.runtime._core.
#include "core.h"

int rt_mirrors_allowed = 1;

static PyObject* mirrors(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  return Py_BuildValue("{s:i,s:i}", "numpy", rt_numpy_is_mirrored(), "torch",
                       rt_torch_is_mirrored());
}

static PyObject* use_mirrors(PyObject* self, PyObject* on) {
  (void)self;
  int use = PyObject_IsTrue(on);
  if (use < 0) return NULL;
  rt_mirrors_allowed = use;
  Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"use_provider", rt_use_provider, METH_O,
     "use_provider(path)\n--\n\n"
     "Use libtvm_ffi.so for process-wide state: the loaded one, else the file at `path`, if any.\n"
     "Returns the name of the provider in use."},
    {"provider", rt_provider_name, METH_NOARGS,
     "provider()\n--\n\nThe provider in use: 'tvm_ffi' or 'bundled'."},
    {"use_mirrors", use_mirrors, METH_O,
     "use_mirrors(on)\n--\n\nFalse, before the first array: read arrays by public protocols only."},
    {"mirrors", mirrors, METH_NOARGS,
     "mirrors()\n--\n\nWhich frameworks' arrays are read in place: 1 yes, 0 no, -1 none seen yet."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject* module) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError, "kdsl.runtime works in the main interpreter only");
    return -1;
  }
  if (rt_function_init(module)) return -1;
  if (rt_dispatcher_init(module)) return -1;
  if (rt_tensor_init(module)) return -1;
  return rt_library_init(module);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill}, {0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                 .m_name = "kdsl.runtime._core",
                                 .m_doc = "The packed-function runtime's core.",
                                 .m_size = 0,
                                 .m_methods = methods,
                                 .m_slots = slots};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
