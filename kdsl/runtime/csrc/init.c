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
    {"use_provider", rt_use_provider, METH_VARARGS,
     "use_provider(path, own=False)\n--\n\n"
     "Use libtvm_ffi.so for process-wide state: the loaded one, else the file at `path`, if any;\n"
     "`own`: that file, which is ours.\n"
     "Returns the name of the provider in use."},
    {"provider", rt_provider_name, METH_NOARGS,
     "provider()\n--\n\nThe provider in use: 'tvm_ffi' or 'bundled'."},
    {"use_mirrors", use_mirrors, METH_O,
     "use_mirrors(on)\n--\n\nFalse, before the first array: read arrays by public protocols only."},
    {"convert", rt_convert, METH_O,
     "convert(callable)\n--\n\nA Function that calls a Python callable."},
    {"from_dlpack", rt_from_dlpack, METH_O,
     "from_dlpack(array)\n--\n\nA Tensor over the memory of anyone's array."},
    {"set_stream", rt_set_stream, METH_VARARGS,
     "set_stream(device_type, device_id, handle)\n--\n\n"
     "Set this thread's stream for a device, or None: unset it. Returns what was set before."},
    {"get_stream", rt_get_stream, METH_VARARGS,
     "get_stream(device_type, device_id)\n--\n\nThe handle of the stream for a device."},
    {"stream_handle", rt_stream_handle, METH_O,
     "stream_handle(stream)\n--\n\nThe handle of a stream object, None when it is none."},
    {"mirrors", mirrors, METH_NOARGS,
     "mirrors()\n--\n\nWhich frameworks' arrays are read in place: 1 yes, 0 no, -1 none seen yet."},
    {NULL, NULL, 0, NULL},
};

static int fill(PyObject* module) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError, "kdsl.runtime works in the main interpreter only");
    return -1;
  }
  if (rt_errors_init(module)) return -1;
  if (rt_function_init(module)) return -1;
  for (PyMethodDef* method = rt_registry_methods; method->ml_name; ++method) {
    PyObject* function = PyCFunction_NewEx(method, NULL, NULL);
    if (!function || PyObject_SetAttrString(module, method->ml_name, function)) return -1;
    Py_DECREF(function);
  }
  if (rt_dispatcher_init(module)) return -1;
  if (rt_tensor_init(module)) return -1;
  if (rt_handle_init(module)) return -1;
  return rt_library_init(module);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill},
#ifdef Py_GIL_DISABLED
                                   {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
                                   {0, NULL}};

static PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                 .m_name = "kdsl.runtime._core",
                                 .m_doc = "The packed-function runtime's core.",
                                 .m_size = 0,
                                 .m_methods = methods,
                                 .m_slots = slots};

PyMODINIT_FUNC PyInit__core(void) { return PyModuleDef_Init(&definition); }
