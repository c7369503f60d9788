// fastcall.c: the least that a call from CPython into C costs; it looks at no argument.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyObject* nop(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self, (void)args, (void)count;
  Py_RETURN_NONE;
}

static PyObject* ints(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (PyLong_AsLongLong(args[i]) == -1 && PyErr_Occurred()) return NULL;
  }
  Py_RETURN_NONE;
}

static PyObject* text(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self, (void)count;
  Py_ssize_t size;
  if (!PyUnicode_AsUTF8AndSize(args[0], &size)) return NULL;
  Py_RETURN_NONE;
}

static PyObject* buffers(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self;
  for (Py_ssize_t i = 0; i < count; ++i) {
    Py_buffer view;
    if (PyObject_GetBuffer(args[i], &view, PyBUF_STRIDED_RO | PyBUF_FORMAT)) return NULL;
    PyBuffer_Release(&view);
  }
  Py_RETURN_NONE;
}

static PyObject* repeat(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self, (void)count;
  long long n = PyLong_AsLongLong(args[0]);
  for (long long i = 0; i < n; ++i) {
    PyObject* answer = PyObject_CallNoArgs(args[1]);
    if (!answer) return NULL;
    Py_DECREF(answer);
  }
  Py_RETURN_NONE;
}

static PyObject* fail(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  (void)self, (void)args, (void)count;
  PyErr_SetString(PyExc_ValueError, "a reason");
  return NULL;
}

#define METHOD(name) {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, NULL}
static PyMethodDef methods[] = {METHOD(nop),    METHOD(ints), METHOD(text),         METHOD(buffers),
                                METHOD(repeat), METHOD(fail), {NULL, NULL, 0, NULL}};
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "peer_fastcall", .m_size = 0,
                                 .m_methods = methods};
PyMODINIT_FUNC PyInit_peer_fastcall(void) { return PyModuleDef_Init(&definition); }
