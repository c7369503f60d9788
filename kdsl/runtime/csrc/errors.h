// errors.h: Error objects of ours, for errors.c and exceptions.c.
#pragma once
#include "core.h"

/// The published 96 bytes, then what we know more.
typedef struct {
  KdslErrorObject base;
  PyObject* exception;  ///< the Python exception that this error is, or NULL
  char* backtrace;      ///< text that came later, to be freed
} RtError;

/// `object` if it is an Error of ours, else NULL.
RtError* rt_error_own(const TVMFFIObject* object);
/// Raise in this thread for whoever called, whichever runtime that is.
void rt_raise_everywhere(const char* kind, const char* message);
/// A function of TVM FFI's C API by its name; NULL: it is not here (symbols.c).
void* rt_symbol(const char* name);
