// torch_bits.c: three facts of a Torch tensor (requires grad, conjugate bit, negative bit) where
// asking Python for them costs more than the rest of a call.
//
// Whether a tensor requires grad is asked of Torch's C++ function of that name. The two bits are
// read in place; where they are is private to a Torch build, so it is found by experiment: tensors
// that have a bit and tensors that do not are compared word by word. Only answers without any
// doubt are used; else torch.c asks Python, which is slower and just as right.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core.h"

// The part of a c10::TensorImpl that is looked at; every build since 1.x has at least this much.
#define IMPL_WORDS 22

typedef struct {
  uint64_t words[IMPL_WORDS];
} Impl;

static size_t impl_at;  // where in the Python object the pointer to the implementation is
static int keys_word;   // the dispatch keys
static uint64_t lazy_mask;

// bool c10::TensorImpl::requires_grad() const
static bool (*requires_grad)(const void* impl);

static const Impl* impl_of(PyObject* tensor) {
  return *(const Impl* const*)((const char*)tensor + impl_at);
}

TorchBits rt_torch_bits(PyObject* tensor) {
  const Impl* impl = impl_of(tensor);
  return (TorchBits){requires_grad(impl), (impl->words[keys_word] & lazy_mask) != 0};
}

int rt_torch_is_lazy(PyObject* tensor) {
  return (impl_of(tensor)->words[keys_word] & lazy_mask) != 0;
}

uint64_t rt_torch_keys(PyObject* tensor) { return impl_of(tensor)->words[keys_word]; }

void* rt_torch_handle(PyObject* tensor) { return (char*)tensor + impl_at; }

static uint64_t number(PyObject* object, const char* name) {
  PyObject* value = PyObject_GetAttrString(object, name);
  uint64_t n = value ? PyLong_AsUnsignedLongLong(value) : 0;
  Py_XDECREF(value);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return 0;
  }
  return n;
}

// Torch tells the address of the implementation; look for it in each object.
static int find_impl(PyObject* all) {
  uint64_t size = number((PyObject*)Py_TYPE(PyList_GetItem(all, 0)), "__basicsize__");
  int found = 0;
  for (size_t at = sizeof(PyObject); at + sizeof(void*) <= size && at <= 64; at += sizeof(void*)) {
    int fits = 1;
    for (Py_ssize_t i = 0; fits && i < PyList_Size(all); ++i) {
      PyObject* tensor = PyList_GetItem(all, i);
      uint64_t word;
      memcpy(&word, (const char*)tensor + at, sizeof word);
      fits = word != 0 && word == number(tensor, "_cdata");
    }
    if (fits) impl_at = at, ++found;
  }
  return found == 1;
}

// Find the function, and try it.
static int find_grad(PyObject* plain, PyObject* grad) {
  void* library = dlopen("libc10.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!library) return 0;
  *(void**)&requires_grad = dlsym(library, "_ZNK3c1010TensorImpl13requires_gradEv");
  dlclose(library);  // Torch holds it
  if (!requires_grad) return 0;
  for (Py_ssize_t i = 0; i < PyList_Size(plain); ++i) {
    if (requires_grad(impl_of(PyList_GetItem(plain, i)))) return 0;
  }
  for (Py_ssize_t i = 0; i < PyList_Size(grad); ++i) {
    if (!requires_grad(impl_of(PyList_GetItem(grad, i)))) return 0;
  }
  return 1;
}

// Whether word `w` is the same in all of these tensors, and which.
static int common_word(PyObject* tensors, int w, uint64_t* word) {
  *word = impl_of(PyList_GetItem(tensors, 0))->words[w];
  for (Py_ssize_t i = 1; i < PyList_Size(tensors); ++i) {
    if (impl_of(PyList_GetItem(tensors, i))->words[w] != *word) return 0;
  }
  return 1;
}

// The dispatch keys are one set for all plain tensors on the CPU; being lazy adds one key to it.
static int find_lazy(PyObject* plain, PyObject* conj, PyObject* neg) {
  int found = 0;
  for (int w = 1; w < IMPL_WORDS; ++w) {
    uint64_t p, c, n;
    if (!common_word(plain, w, &p) || !common_word(conj, w, &c) || !common_word(neg, w, &n)) {
      continue;
    }
    int one_more = (p & c) == p && (p & n) == p && __builtin_popcountll(p ^ c) == 1 &&
                   __builtin_popcountll(p ^ n) == 1;
    if (one_more && c != n) keys_word = w, lazy_mask = p ^ (c | n), ++found;
  }
  return found == 1;
}

int rt_torch_bits_find(void) {
  PyObject* samples = rt_import("kdsl.runtime.frameworks", "torch_samples");
  PyObject* all = samples ? PyObject_CallObject(samples, NULL) : NULL;
  PyObject *every, *plain, *grad, *conj, *neg;
  int good = all && PyArg_ParseTuple(all, "OOOOO", &every, &plain, &grad, &conj, &neg) &&
             find_impl(every) && find_grad(plain, grad) && find_lazy(plain, conj, neg);
  Py_XDECREF(all);
  Py_XDECREF(samples);
  PyErr_Clear();
  return good;
}
