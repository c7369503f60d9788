// errors.c: the error slot of this thread, and Error objects.
//
// An error is one object from where it is raised to where it is handled, in every runtime of the
// process. One that began as a Python exception carries it: exceptions.c.
#include "errors.h"

#include <stdlib.h>
#include <string.h>

#include "loaded.h"

static __thread TVMFFIObject* slot __attribute__((tls_model("initial-exec")));
__thread int rt_error_pending __attribute__((tls_model("initial-exec")));

// ---- objects ---------------------------------------------------------------------------------

static void update_backtrace(TVMFFIObjectHandle self, const TVMFFIByteArray* text, int32_t append) {
  RtError* error = self;
  size_t kept = append ? error->base.error.backtrace.size : 0;
  char* fresh = malloc(kept + text->size + 1);
  if (!fresh) return;  // an error without its history is still that error
  if (kept) memcpy(fresh, error->base.error.backtrace.data, kept);
  if (text->size) memcpy(fresh + kept, text->data, text->size);
  fresh[kept + text->size] = '\0';
  free(error->backtrace);
  error->backtrace = fresh;
  error->base.error.backtrace = (TVMFFIByteArray){fresh, kept + text->size};
}

static void error_delete(void* self, int flags) {
  RtError* error = self;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    if (error->exception) rt_python_release(error->exception);
    if (error->base.error.cause_chain) rt_decref(error->base.error.cause_chain);
    if (error->base.error.extra_context) rt_decref(error->base.error.extra_context);
    free(error->backtrace);
    error->exception = NULL;
    error->backtrace = NULL;
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) rt_object_free(error);
}

RtError* rt_error_own(const TVMFFIObject* object) {
  int is = object->type_index == kTVMFFIError && object->deleter == error_delete;
  return is ? (RtError*)object : NULL;
}

TVMFFIObject* rt_error_new(const char* kind, size_t kind_size, const char* message, size_t size) {
  RtError* error = rt_object_new(sizeof *error + kind_size + size + 2, kTVMFFIError, error_delete);
  if (!error) return NULL;
  char* text = (char*)(error + 1);
  memcpy(text, kind, kind_size);
  text[kind_size] = '\0';
  char* second = text + kind_size + 1;
  memcpy(second, message, size);
  second[size] = '\0';
  error->base.error = (TVMFFIErrorCell){.kind = {text, kind_size},
                                        .message = {second, size},
                                        .backtrace = {second + size, 0},
                                        .update_backtrace = update_backtrace};
  return &error->base.head;
}

// ---- the slot --------------------------------------------------------------------------------

void rt_error_keep(TVMFFIObject* error) {
  static const char kind[] = "MemoryError", message[] = "out of memory while an error was raised";
  static RtError no_memory = {.base = {.head = {KDSL_REF_COUNT_ONE, kTVMFFIError, 0, NULL},
                                       .error = {.kind = {kind, sizeof kind - 1},
                                                 .message = {message, sizeof message - 1},
                                                 .backtrace = {"", 0},
                                                 .update_backtrace = update_backtrace}}};
  if (!error) {
    error = &no_memory.base.head;
    rt_incref(error);  // never the last reference
  }
  if (rt_provider.error_set_raised) {
    rt_provider.error_set_raised(error);
    rt_decref(error);
    return;
  }
  if (slot) rt_decref(slot);
  slot = error;
  rt_error_pending = 1;
}

void rt_error_set(const char* kind, const char* message) {
  if (!kind) kind = "RuntimeError";
  if (!message) message = "";
  rt_error_keep(rt_error_new(kind, strlen(kind), message, strlen(message)));
}

void rt_error_drop(void) {
  if (slot) rt_decref(slot);
  slot = NULL;
  rt_error_pending = 0;
}

TVMFFIObject* rt_error_take(void) {
  TVMFFIObject* error = NULL;
  // What the provider holds is the later one: ours was raised before there was a provider.
  if (rt_provider.error_move_from_raised) rt_provider.error_move_from_raised((void**)&error);
  if (error) {
    rt_error_clear();
    return error;
  }
  error = slot;
  slot = NULL;
  rt_error_pending = 0;
  return error;
}

void rt_raise_everywhere(const char* kind, const char* message) {
  rt_error_set(kind, message);
  if (rt_provider.error_set_raised) return;
  // A libtvm_ffi that we do not use may be the one that called.
  static RtLoaded raise = {"TVMFFIErrorSetRaisedFromCStr", "libtvm_ffi.so", NULL, 0};
  void (*theirs)(const char*, const char*);
  *(void**)&theirs = rt_loaded_symbol(&raise);
  if (theirs) theirs(kind, message);
}
