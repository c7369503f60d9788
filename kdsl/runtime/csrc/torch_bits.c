// torch_bits.c: three facts of a Torch tensor (requires grad, conjugate bit, negative bit) by one
// look at two words of it, where asking Torch costs more than the rest of a call.
//
// Where those words are is private to a Torch build, so it is found by experiment: tensors that
// have a fact and tensors that do not are compared word by word. Only an answer without any doubt
// is used; else torch.c asks Torch, which is slower and just as right.
#include <stdint.h>
#include <string.h>

#include "core.h"

// The part of a c10::TensorImpl that is looked at; every build since 1.x has at least this much.
#define IMPL_WORDS 22

typedef struct {
  uint64_t words[IMPL_WORDS];
} Impl;

static size_t impl_at;  // where in the Python object the pointer to the implementation is
static int grad_word;   // that word is 0: no autograd data, so it does not require grad
static int keys_word;   // the dispatch keys
static uint64_t lazy_mask;

static const Impl* impl_of(PyObject* tensor) {
  return *(const Impl* const*)((const char*)tensor + impl_at);
}

TorchBits rt_torch_bits(PyObject* tensor) {
  const Impl* impl = impl_of(tensor);
  return (TorchBits){impl->words[grad_word] != 0, (impl->words[keys_word] & lazy_mask) != 0};
}

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

// The one word that is 0 in every `plain` tensor and a pointer in every `grad` tensor.
static int find_grad(PyObject* plain, PyObject* grad) {
  int found = 0;
  for (int w = 1; w < IMPL_WORDS; ++w) {
    int fits = 1;
    for (Py_ssize_t i = 0; fits && i < PyList_Size(plain); ++i) {
      fits = impl_of(PyList_GetItem(plain, i))->words[w] == 0;
    }
    for (Py_ssize_t i = 0; fits && i < PyList_Size(grad); ++i) {
      uint64_t word = impl_of(PyList_GetItem(grad, i))->words[w];
      fits = word > 4096 && word % 8 == 0;
    }
    if (fits) grad_word = w, ++found;
  }
  return found == 1;
}

// The one word in which each lazy tensor has one fixed bit, and no plain tensor has it.
static uint64_t lazy_bit(PyObject* plain, PyObject* lazy, int w) {
  uint64_t set = ~(uint64_t)0, clear = 0;
  for (Py_ssize_t i = 0; i < PyList_Size(lazy); ++i) {
    set &= impl_of(PyList_GetItem(lazy, i))->words[w];
  }
  for (Py_ssize_t i = 0; i < PyList_Size(plain); ++i) {
    clear |= impl_of(PyList_GetItem(plain, i))->words[w];
  }
  uint64_t bit = set & ~clear;
  return __builtin_popcountll(bit) == 1 ? bit : 0;
}

static int find_lazy(PyObject* plain, PyObject* conj, PyObject* neg) {
  int found = 0;
  for (int w = 1; w < IMPL_WORDS; ++w) {
    uint64_t c = lazy_bit(plain, conj, w), n = lazy_bit(plain, neg, w);
    if (c && n && c != n) keys_word = w, lazy_mask = c | n, ++found;
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
