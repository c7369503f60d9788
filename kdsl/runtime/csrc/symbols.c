// symbols.c: functions of TVM FFI's C API by name, for modules that our loader has loaded.
//
// They do what libtvm_ffi's do, with the state of the provider in use; a module that finds one here
// needs no library.
#include <string.h>

#include "errors.h"

// ---- errors ----------------------------------------------------------------------------------

static void error_set_raised(TVMFFIObjectHandle error) {
  if (!error) return;
  rt_incref(error);
  rt_error_keep(error);
}

static void error_move_from_raised(TVMFFIObjectHandle* out) { *out = rt_error_take(); }

static void error_from_parts(const char* kind, const char** parts, int32_t count) {
  char text[2048];
  size_t at = 0;
  for (int32_t i = 0; i < count; ++i) {
    size_t size = parts[i] ? strlen(parts[i]) : 0;
    if (size > sizeof text - 1 - at) size = sizeof text - 1 - at;
    if (size) memcpy(text + at, parts[i], size);
    at += size;
  }
  text[at] = '\0';
  rt_raise_everywhere(kind, text);
}

static int error_create(const TVMFFIByteArray* kind, const TVMFFIByteArray* message,
                        const TVMFFIByteArray* backtrace, TVMFFIObjectHandle* out) {
  TVMFFIObject* object = rt_error_new(kind->data, kind->size, message->data, message->size);
  *out = object;
  if (!object) return -1;
  TVMFFIErrorCell* cell = (TVMFFIErrorCell*)(object + 1);
  if (backtrace && backtrace->size) cell->update_backtrace(object, backtrace, 0);
  return 0;
}

// ---- functions -------------------------------------------------------------------------------

typedef struct {
  KdslFunctionObject base;
  void* self;
  TVMFFISafeCallType entry;
  void (*deleter)(void* self);
} Closure;

static int closure_call(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  const Closure* closure = self;
  return closure->entry(closure->self, args, count, result);
}

static void closure_delete(void* self, int flags) {
  Closure* closure = self;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong && closure->deleter) {
    closure->deleter(closure->self);
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) rt_object_free(closure);
}

static int function_create(void* self, TVMFFISafeCallType entry, void (*deleter)(void* self),
                           TVMFFIObjectHandle* out) {
  Closure* closure = rt_object_new(sizeof *closure, kTVMFFIFunction, closure_delete);
  *out = closure;
  if (!closure) {
    rt_error_keep(NULL);
    return -1;
  }
  closure->base.function.safe_call = closure_call;
  closure->self = self;
  closure->entry = entry;
  closure->deleter = deleter;
  return 0;
}

static int function_call(TVMFFIObjectHandle function, TVMFFIAny* args, int32_t count,
                         TVMFFIAny* result) {
  const KdslFunctionObject* object = function;
  return object->function.safe_call(function, args, count, result);
}

static int function_get_global(const TVMFFIByteArray* name, TVMFFIObjectHandle* out) {
  if (rt_provider.function_get_global) return rt_provider.function_get_global(name, out);
  *out = rt_registry_get(name->data, name->size);
  return 0;
}

static int function_set_global(const TVMFFIByteArray* name, TVMFFIObjectHandle function,
                               int override_it) {
  if (rt_provider.function_set_global) {
    return rt_provider.function_set_global(name, function, override_it);
  }
  return rt_registry_set(name->data, name->size, function, override_it);
}

// ---- the rest --------------------------------------------------------------------------------

static int object_inc_ref(TVMFFIObjectHandle object) {
  rt_incref(object);
  return 0;
}

static int object_dec_ref(TVMFFIObjectHandle object) {
  rt_decref(object);
  return 0;
}

static void* env_get_stream(int32_t device_type, int32_t device_id) {
  return rt_table.stream(device_type, device_id);
}

static int env_tensor_alloc(DLTensor* prototype, TVMFFIObjectHandle* out) {
  return rt_table.alloc_tensor(prototype, out);
}

void* rt_symbol(const char* name) {
  static const struct {
    const char* name;
    void* function;
  } table[] = {
      {"TVMFFIErrorSetRaised", (void*)error_set_raised},
      {"TVMFFIErrorMoveFromRaised", (void*)error_move_from_raised},
      {"TVMFFIErrorSetRaisedFromCStr", (void*)rt_raise_everywhere},
      {"TVMFFIErrorSetRaisedFromCStrParts", (void*)error_from_parts},
      {"TVMFFIErrorCreate", (void*)error_create},
      {"TVMFFIFunctionCreate", (void*)function_create},
      {"TVMFFIFunctionCall", (void*)function_call},
      {"TVMFFIFunctionGetGlobal", (void*)function_get_global},
      {"TVMFFIFunctionSetGlobal", (void*)function_set_global},
      {"TVMFFIObjectIncRef", (void*)object_inc_ref},
      {"TVMFFIObjectDecRef", (void*)object_dec_ref},
      {"TVMFFIEnvCheckSignals", (void*)rt_check_signals},
      {"TVMFFIEnvGetStream", (void*)env_get_stream},
      {"TVMFFIEnvTensorAlloc", (void*)env_tensor_alloc},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; ++i) {
    if (strcmp(name, table[i].name) == 0) return table[i].function;
  }
  return NULL;
}
