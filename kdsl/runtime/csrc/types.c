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

// Types that we cannot take are not kept: a program may make and drop any number of them.
static int take_unsupported(Frame* frame, Py_ssize_t index, PyObject* object,
                            const TypeEntry* entry) {
  (void)object, (void)entry;
  return rt_argument_error(frame, index, "unsupported");
}

static const TypeEntry unsupported = {.take = take_unsupported};

static int learn(PyTypeObject* type, TypeEntry* entry) {
  const TypeEntry* scalar = rt_scalar_entry(type);
  if (scalar) {
    *entry = *scalar;
    return 0;
  }
  int known = rt_exchange_learn(type, entry);
  if (known == 0) known = rt_numpy_learn(type, entry);
  if (known < 0) return -1;
  if (known) return 0;
  if (rt_is_jax(type))
    entry->take = rt_take_jax;
  else if (PyObject_HasAttrString((PyObject*)type, "__dlpack__"))
    entry->take = rt_take_dlpack;
  else if (rt_has_buffer(type))
    entry->take = rt_take_buffer;
  else
    entry->take = take_unsupported;
  return 0;
}

RT_COLD static const TypeEntry* learn_and_keep(PyTypeObject* type) {
  TypeEntry fresh;
  memset(&fresh, 0, sizeof fresh);
  if (learn(type, &fresh)) return NULL;
  if (fresh.take == take_unsupported) return &unsupported;
  fresh.type = type;
  TypeEntry* entry = PyMem_Malloc(sizeof *entry);
  if (!entry) {
    PyErr_NoMemory();
    return NULL;
  }
  *entry = fresh;
  entry->next = table[place(type)];
  table[place(type)] = entry;
  Py_INCREF((PyObject*)type);
  return entry;
}

const TypeEntry* rt_type_entry(PyTypeObject* type) {
  const TypeEntry* entry = table[place(type)];
  while (entry && entry->type != type) entry = entry->next;
  return RT_LIKELY(entry != NULL) ? entry : learn_and_keep(type);
}
