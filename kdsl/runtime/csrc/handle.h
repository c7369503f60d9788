// handle.h: a Python object that holds a TVM FFI object, as handle.c and containers.c share it.
#pragma once
#include "core.h"

typedef struct {
  PyObject_HEAD TVMFFIObject* object;
  ArrayKind kind;
  PyObject* weak_references;
} Handle;

/// An instance of `type`; consumes the reference (NULL: an exception is set already).
PyObject* rt_handle_make(PyTypeObject* type, const ArrayKind* kind, TVMFFIObject* object);
/// Make a type under Object, once in a process, and put it into the module.
int rt_handle_type(PyObject* module, PyTypeObject** type, PyType_Spec* spec, const char* name);
int rt_containers_init(PyObject* module);

// ---- locks.c ----------------------------------------------------------------------------------

// What the GIL does for a List or Dict that several threads of Python change. Whoever holds a lock
// calls nobody's code: what is dropped then is dropped afterwards.
#ifdef Py_GIL_DISABLED
void rt_lock(const TVMFFIObject* object);
void rt_unlock(const TVMFFIObject* object);
void rt_lock_both(const TVMFFIObject* a, const TVMFFIObject* b);
void rt_unlock_both(const TVMFFIObject* a, const TVMFFIObject* b);
int rt_locks_init(void);
#else
static inline void rt_lock(const TVMFFIObject* object) { (void)object; }
static inline void rt_unlock(const TVMFFIObject* object) { (void)object; }
static inline void rt_lock_both(const TVMFFIObject* a, const TVMFFIObject* b) { (void)a, (void)b; }
static inline void rt_unlock_both(const TVMFFIObject* a, const TVMFFIObject* b) {
  (void)a, (void)b;
}
static inline int rt_locks_init(void) { return 0; }
#endif
