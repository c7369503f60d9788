// types.c: which Python type is taken how; each type is looked at once.
#include <string.h>

#include "core.h"

#define TABLE_SIZE 128
static const TypeEntry* table[TABLE_SIZE];

static inline size_t place(const PyTypeObject* type) {
  uintptr_t bits = (uintptr_t)type;
  return (bits >> 4 ^ bits >> 11) % TABLE_SIZE;
}

PyObject* rt_loaded(const char* module, const char* attribute) {
  PyObject* modules = PyImport_GetModuleDict();  // borrowed
  PyObject* found = modules ? PyDict_GetItemString(modules, module) : NULL;
  PyObject* value = found ? PyObject_GetAttrString(found, attribute) : NULL;
  if (!value) PyErr_Clear();
  return value;
}

// Classes of which we know nothing are not kept: a program may make and drop any number of them.
static const TypeEntry unknown = {.take = rt_take_opaque};

// The first that knows the type has it. A class may be several things at once: a str that is a
// dtype, a tuple that is a device, a callable array.
static const TypeEntry* plain_entry(PyTypeObject* type) {
  static const TypeEntry of_function = {.take = rt_take_function};
  const TypeEntry* entry = rt_handle_entry(type);
  if (!entry) entry = rt_tensor_entry(type);
  if (!entry && type == rt_function_type) entry = &of_function;
  if (!entry) entry = rt_peer_entry(type);
  if (!entry) entry = rt_plain_entry(type);
  if (!entry) entry = rt_scalar_entry(type);
  if (!entry) entry = rt_container_entry(type);
  if (!entry) entry = rt_pointer_entry(type);
  return entry ? entry : rt_number_entry(type);
}

static const TypeEntry* last_entry(PyTypeObject* type) {
  static const TypeEntry of_error = {.take = rt_take_exception},
                         of_callable = {.take = rt_take_callable};
  if (PyType_IsSubtype(type, (PyTypeObject*)PyExc_BaseException)) return &of_error;
  return PyType_GetSlot(type, Py_tp_call) ? &of_callable : &unknown;
}

static int learn(PyTypeObject* type, TypeEntry* entry) {
  const TypeEntry* plain = plain_entry(type);
  if (plain) {
    *entry = *plain;
    return 0;
  }
  int known = rt_exchange_learn(type, entry);
  if (known == 0) known = rt_numpy_learn(type, entry);
  if (known < 0) return -1;
  if (known) return 0;
  if (rt_is_jax(type))
    entry->take = rt_take_jax;
  else if (PyObject_HasAttrString((PyObject*)type, "__dlpack__"))
    *entry = (TypeEntry){.take = rt_take_dlpack, .import = rt_import_of(type)};
  else if (rt_has_buffer(type))
    entry->take = rt_take_buffer;
  else
    *entry = *last_entry(type);
  return 0;
}

RT_COLD static const TypeEntry* learn_and_keep(PyTypeObject* type) {
  TypeEntry fresh;
  memset(&fresh, 0, sizeof fresh);
  if (learn(type, &fresh)) return NULL;
  int is_class = (PyType_GetFlags(type) & Py_TPFLAGS_HEAPTYPE) != 0;
  if (fresh.take == unknown.take && is_class) return &unknown;
  fresh.type = type;
  TypeEntry* entry = PyMem_Malloc(sizeof *entry);
  if (!entry) {
    PyErr_NoMemory();
    return NULL;
  }
  *entry = fresh;
  // Without the GIL two threads may do so at once: one of the entries may be lost, and is made
  // anew.
  entry->next = __atomic_load_n(&table[place(type)], __ATOMIC_ACQUIRE);
  __atomic_store_n(&table[place(type)], entry, __ATOMIC_RELEASE);
  Py_INCREF((PyObject*)type);
  return entry;
}

const TypeEntry* rt_type_entry(PyTypeObject* type) {
  const TypeEntry* entry = __atomic_load_n(&table[place(type)], __ATOMIC_ACQUIRE);
  while (entry && entry->type != type) entry = entry->next;
  return RT_LIKELY(entry != NULL) ? entry : learn_and_keep(type);
}
