// builtin.h: how the global functions of our libtvm_ffi.so read arguments and answer.
#pragma once
#include "../csrc/values.h"
#include "compat.h"

#define BUILTIN(name) \
  static int name(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result)
#define UNUSED(...) (void)(self), (void)(args), (void)(count), (void)(result)

/// Each gives 1, or 0 after it raised a TypeError about the argument `at`.
int want_int(const TVMFFIAny* args, int32_t count, int32_t at, int64_t* out);
int want_text(const TVMFFIAny* args, int32_t count, int32_t at, TVMFFIByteArray* out);
int want_any(const TVMFFIAny* args, int32_t count, int32_t at);
/// An object of that static type, borrowed.
int want(const TVMFFIAny* args, int32_t count, int32_t at, int32_t type_index, void* out);

static inline int answer_int(TVMFFIAny* result, int64_t value) {
  *result = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = value};
  return 0;
}
static inline int answer_bool(TVMFFIAny* result, int value) {
  *result = (TVMFFIAny){.type_index = kTVMFFIBool, .v_int64 = value != 0};
  return 0;
}
/// Steals the reference; NULL: out of memory.
static inline int answer_object(TVMFFIAny* result, void* object) {
  if (!object) return no_memory();
  TVMFFIObject* made = object;
  *result = (TVMFFIAny){.type_index = made->type_index, .v_obj = made};
  return 0;
}
/// A value that stays where it is.
static inline int answer_copy(TVMFFIAny* result, const TVMFFIAny* value) {
  return TVMFFIAnyViewToOwnedAny(value, result);
}

// ---- sequences.c; the objects themselves are those of ../csrc

/// An Array (or List) of owned copies; NULL: no memory.
TVMFFIObject* new_sequence(int32_t type_index, const TVMFFIAny* items, int64_t count);
/// Adds an owned copy to a List; -1: no memory, raised.
int append(TVMFFIObject* list, const TVMFFIAny* value);
void define_sequences(void);

// ---- maps.c, compare.c

void define_maps(void);
int equal_values(const TVMFFIAny* a, const TVMFFIAny* b);
void define_comparisons(void);

// ---- module.c, globals.c, repr.c, refused.c

void define_modules(void);
void define_globals(void);
void define_repr(void);
void define_refused(void);
/// A value that stands for none: hosts compare its identity.
int answer_invalid(TVMFFIAny* result);
