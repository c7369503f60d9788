// registry.c: functions by name, for the whole process.
//
// Where libtvm_ffi is the provider they are in its table. Until then they are here, and move when
// it comes.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core.h"

#define BUCKETS 256

typedef struct Entry {
  struct Entry* next;
  TVMFFIObject* function;
  size_t size;
  char name[];
} Entry;

static Entry* table[BUCKETS];
// Native code registers without the GIL.
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// A child of fork has one thread: it must not wait for a holder that is not there. Whoever holds
// the lock calls nobody, so that fork can wait for it.
static void hold(void) { pthread_mutex_lock(&lock); }
static void let_go(void) { pthread_mutex_unlock(&lock); }
__attribute__((constructor)) static void make_fork_safe(void) {
  pthread_atfork(hold, let_go, let_go);
}

static size_t bucket(const char* name, size_t size) {
  uint64_t hash = 14695981039346656037ull;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ (unsigned char)name[i]) * 1099511628211ull;
  return (hash ^ hash >> 32) % BUCKETS;
}

// Where the pointer to the entry of that name is, or would be.
static Entry** find(const char* name, size_t size) {
  Entry** at = &table[bucket(name, size)];
  while (*at && !((*at)->size == size && memcmp((*at)->name, name, size) == 0)) at = &(*at)->next;
  return at;
}

int rt_registry_set(const char* name, size_t size, TVMFFIObject* function, int override_it) {
  Entry* fresh = malloc(sizeof *fresh + size + 1);
  if (!fresh) {
    rt_error_set("MemoryError", "out of memory");
    return -1;
  }
  memcpy(fresh->name, name, size);
  fresh->name[size] = '\0';
  fresh->size = size;
  fresh->function = function;
  fresh->next = NULL;
  rt_incref(function);
  pthread_mutex_lock(&lock);
  Entry** at = find(name, size);
  Entry* before = *at;
  int taken = before && !override_it;
  if (!taken) {
    if (before) fresh->next = before->next;
    *at = fresh;
  }
  pthread_mutex_unlock(&lock);
  Entry* useless = taken ? fresh : before;
  if (taken) rt_error_set("RuntimeError", "a global function of that name is registered already");
  if (useless) rt_decref(useless->function);
  free(useless);
  return taken ? -1 : 0;
}

TVMFFIObject* rt_registry_get(const char* name, size_t size) {
  pthread_mutex_lock(&lock);
  Entry* entry = *find(name, size);
  TVMFFIObject* function = entry ? entry->function : NULL;
  if (function) rt_incref(function);
  pthread_mutex_unlock(&lock);
  return function;
}

int rt_registry_remove(const char* name, size_t size) {
  pthread_mutex_lock(&lock);
  Entry** at = find(name, size);
  Entry* entry = *at;
  if (entry) *at = entry->next;
  pthread_mutex_unlock(&lock);
  if (!entry) return 0;
  rt_decref(entry->function);
  free(entry);
  return 1;
}

void rt_registry_move(void) {
  if (!rt_provider.function_set_global) return;
  for (size_t i = 0; i < BUCKETS; ++i) {
    pthread_mutex_lock(&lock);
    Entry* entry = table[i];
    table[i] = NULL;
    pthread_mutex_unlock(&lock);
    while (entry) {
      Entry* next = entry->next;
      TVMFFIByteArray name = {entry->name, entry->size};
      if (rt_provider.function_set_global(&name, entry->function, 1)) {
        TVMFFIObject* error = rt_error_take();
        if (error) rt_decref(error);
      }
      rt_decref(entry->function);
      free(entry);
      entry = next;
    }
  }
}

// ---- for Python ------------------------------------------------------------------------------

static PyObject* set_global(PyObject* self, PyObject* args) {
  (void)self;
  const char* name;
  Py_ssize_t size;
  PyObject* function;
  int override_it;
  if (!PyArg_ParseTuple(args, "s#O!p", &name, &size, rt_function_type, &function, &override_it)) {
    return NULL;
  }
  TVMFFIObject* object = rt_function_object(function);
  if (!object) return NULL;
  TVMFFIByteArray text = {name, (size_t)size};
  int failed = rt_provider.function_set_global
                   ? rt_provider.function_set_global(&text, object, override_it)
                   : rt_registry_set(name, (size_t)size, object, override_it);
  rt_decref(object);
  if (failed) return rt_error_raise("register_global_func");
  Py_RETURN_NONE;
}

static PyObject* get_global(PyObject* self, PyObject* name) {
  (void)self;
  Py_ssize_t size;
  const char* text = PyUnicode_AsUTF8AndSize(name, &size);
  if (!text) return NULL;
  TVMFFIObject* object = NULL;
  if (rt_provider.function_get_global) {
    TVMFFIByteArray bytes = {text, (size_t)size};
    if (rt_provider.function_get_global(&bytes, (void**)&object)) {
      return rt_error_raise("get_global_func");
    }
  } else {
    object = rt_registry_get(text, (size_t)size);
  }
  if (!object) Py_RETURN_NONE;
  return rt_function_of(object, name);
}

static PyObject* remove_global(PyObject* self, PyObject* name) {
  (void)self;
  Py_ssize_t size;
  const char* text = PyUnicode_AsUTF8AndSize(name, &size);
  return text ? PyBool_FromLong(rt_registry_remove(text, (size_t)size)) : NULL;
}

static PyObject* list_global(PyObject* self, PyObject* unused) {
  (void)self, (void)unused;
  PyObject* names = PyList_New(0);
  // No Python code runs under the lock: making str objects runs none, but may collect garbage.
  char** copies = NULL;
  size_t count = 0;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; i < BUCKETS; ++i) {
    for (const Entry* entry = table[i]; entry; entry = entry->next) ++count;
  }
  copies = calloc(count + 1, sizeof *copies);
  size_t at = 0;
  for (size_t i = 0; copies && i < BUCKETS; ++i) {
    for (const Entry* entry = table[i]; entry; entry = entry->next) {
      copies[at++] = strdup(entry->name);
    }
  }
  pthread_mutex_unlock(&lock);
  for (size_t i = 0; i < at; ++i) {
    PyObject* name = names && copies[i] ? PyUnicode_FromString(copies[i]) : NULL;
    if (!name || PyList_Append(names, name)) Py_CLEAR(names);
    Py_XDECREF(name);
    free(copies[i]);
  }
  free(copies);
  if (names || PyErr_Occurred()) return names;
  return PyErr_NoMemory();
}

PyMethodDef rt_registry_methods[] = {
    {"set_global", set_global, METH_VARARGS,
     "set_global(name, function, override)\n--\n\nKeep a Function under a name."},
    {"get_global", get_global, METH_O,
     "get_global(name)\n--\n\nThe Function of that name, or None."},
    {"remove_global", remove_global, METH_O,
     "remove_global(name)\n--\n\nForget a name that is kept here; whether it was."},
    {"list_global", list_global, METH_NOARGS, "list_global()\n--\n\nThe names that are kept here."},
    {NULL, NULL, 0, NULL},
};
