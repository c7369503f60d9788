// error.c: Error objects, and the slot of each thread that one waits in.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"

static __thread TVMFFIObject* raised;
static __thread int swept;

extern void* __dso_handle;
extern int __cxa_thread_atexit_impl(void (*at_exit)(void*), void* object, void* dso)
    __attribute__((weak));

static void sweep(void* unused) {
  (void)unused;
  drop_raised();
}

void drop_raised(void) {
  TVMFFIObject* error = raised;
  raised = NULL;
  if (error) release(error);
}

static void keep_raised(TVMFFIObject* error) {
  drop_raised();
  raised = error;
  if (!swept && __cxa_thread_atexit_impl) {
    swept = 1;
    __cxa_thread_atexit_impl(sweep, NULL, &__dso_handle);
  }
}

// ---- objects -----------------------------------------------------------------------------------

typedef struct {
  KdslErrorObject base;
  char* backtrace;  ///< of its own; it may be replaced
} Error;

static void delete_error(void* object, int flags) {
  Error* self = object;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    if (self->base.error.cause_chain) release(self->base.error.cause_chain);
    if (self->base.error.extra_context) release(self->base.error.extra_context);
    self->base.error.cause_chain = self->base.error.extra_context = NULL;
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) {
    free(self->backtrace);
    free(self);
  }
}

// Mode 0 replaces the text, 1 puts the new one behind it.
static void update_backtrace(TVMFFIObjectHandle object, const TVMFFIByteArray* text, int32_t mode) {
  Error* self = object;
  TVMFFIByteArray old = mode == 1 ? self->base.error.backtrace : (TVMFFIByteArray){NULL, 0};
  char* joined = malloc(old.size + text->size + 1);
  if (!joined) return;
  if (old.size) memcpy(joined, old.data, old.size);
  if (text->size) memcpy(joined + old.size, text->data, text->size);
  joined[old.size + text->size] = '\0';
  self->base.error.backtrace = (TVMFFIByteArray){joined, old.size + text->size};
  free(self->backtrace);
  self->backtrace = joined;
}

static TVMFFIByteArray place(char** at, TVMFFIByteArray text) {
  char* start = *at;
  if (text.size) memcpy(start, text.data, text.size);
  start[text.size] = '\0';
  *at += text.size + 1;
  return (TVMFFIByteArray){start, text.size};
}

static Error* new_error(TVMFFIByteArray kind, TVMFFIByteArray message, TVMFFIByteArray backtrace) {
  Error* self = calloc(1, sizeof *self + kind.size + message.size + backtrace.size + 3);
  if (!self) return NULL;
  start_object(self, kTVMFFIError, delete_error);
  char* at = (char*)(self + 1);
  self->base.error.kind = place(&at, kind);
  self->base.error.message = place(&at, message);
  self->base.error.backtrace = place(&at, backtrace);
  self->base.error.update_backtrace = update_backtrace;
  return self;
}

int TVMFFIErrorCreateWithCauseAndExtraContext(
    const TVMFFIByteArray* kind, const TVMFFIByteArray* message, const TVMFFIByteArray* backtrace,
    TVMFFIObjectHandle cause_chain, TVMFFIObjectHandle extra_context, TVMFFIObjectHandle* out) {
  Error* self = new_error(*kind, *message, *backtrace);
  if (!self) return no_memory();
  if (cause_chain) retain(cause_chain);
  if (extra_context) retain(extra_context);
  self->base.error.cause_chain = cause_chain;
  self->base.error.extra_context = extra_context;
  *out = self;
  return 0;
}

int TVMFFIErrorCreate(const TVMFFIByteArray* kind, const TVMFFIByteArray* message,
                      const TVMFFIByteArray* backtrace, TVMFFIObjectHandle* out) {
  return TVMFFIErrorCreateWithCauseAndExtraContext(kind, message, backtrace, NULL, NULL, out);
}

// ---- the slot ----------------------------------------------------------------------------------

void TVMFFIErrorMoveFromRaised(TVMFFIObjectHandle* out) {
  *out = raised;
  raised = NULL;
  const Official* other = *out ? NULL : official();
  if (other) other->error_move_from_raised(out);
}

void TVMFFIErrorSetRaised(TVMFFIObjectHandle error) {
  const Official* other = official();
  if (other) {
    drop_raised();
    other->error_set_raised(error);
    return;
  }
  if (error) retain(error);
  keep_raised(error);
}

// What a thread raises when there is no memory for an Error: one for all, never freed.
static TVMFFIObject* last_resort(void) {
  static KdslErrorObject error = {
      {KDSL_REF_COUNT_ONE, kTVMFFIError, 0, NULL},
      {{"MemoryError", 11}, {"out of memory", 13}, {"", 0}, update_backtrace, NULL, NULL}};
  retain(&error);
  return &error.head;
}

static void raise_text(TVMFFIByteArray kind, TVMFFIByteArray message) {
  Error* made = new_error(kind, message, (TVMFFIByteArray){"", 0});
  TVMFFIObject* error = made ? &made->base.head : last_resort();
  TVMFFIErrorSetRaised(error);
  release(error);
}

void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  raise_text(bytes_of(kind), bytes_of(message));
}

void TVMFFIErrorSetRaisedFromCStrParts(const char* kind, const char** parts, int32_t count) {
  size_t size = 0;
  for (int32_t i = 0; i < count; ++i) size += parts[i] ? strlen(parts[i]) : 0;
  char* joined = malloc(size + 1);
  if (!joined) {
    raise_text(LITERAL("MemoryError"), LITERAL("out of memory"));
    return;
  }
  char* at = joined;
  for (int32_t i = 0; i < count; ++i) {
    if (parts[i]) at = stpcpy(at, parts[i]);
  }
  raise_text(bytes_of(kind), (TVMFFIByteArray){joined, size});
  free(joined);
}

int fail(const char* kind, const char* format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  TVMFFIErrorSetRaisedFromCStr(kind, text);
  return -1;
}

int no_memory(void) { return fail("MemoryError", "out of memory"); }

// ---- where an error was raised
// -------------------------------------------------------------------

// The one line that the caller names, in Python's form; the C stack beyond is not walked.
const TVMFFIByteArray* TVMFFIBacktrace(const char* file, int line, const char* function,
                                       int cross_ffi_boundary) {
  static __thread char text[1024];
  static __thread TVMFFIByteArray bytes;
  (void)cross_ffi_boundary;
  int size = 0;
  if (file && function) {
    size = snprintf(text, sizeof text, "  File \"%s\", line %d, in %s\n", file, line, function);
  }
  if (size < 0) size = 0;
  if (size >= (int)sizeof text) size = sizeof text - 1;
  text[size] = '\0';
  bytes = (TVMFFIByteArray){text, (size_t)size};
  return &bytes;
}
