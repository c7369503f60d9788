// function.c: Function objects, and functions by name for the whole process.
#include <stdlib.h>
#include <string.h>

#include "compat.h"

typedef struct {
  KdslFunctionObject base;
  void* self;
  TVMFFISafeCallType call;
  void (*deleter)(void*);
} Function;

static int call_with_self(void* handle, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  const Function* function = handle;
  return function->call(function->self, args, count, result);
}

static void delete_function(void* object, int flags) {
  Function* self = object;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong && self->deleter) self->deleter(self->self);
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) free(self);
}

TVMFFIObject* new_function(void* self, TVMFFISafeCallType call, void (*deleter)(void*)) {
  Function* function = calloc(1, sizeof *function);
  if (!function) return NULL;
  start_object(function, kTVMFFIFunction, delete_function);
  function->base.function.safe_call = call_with_self;
  function->self = self;
  function->call = call;
  function->deleter = deleter;
  return &function->base.head;
}

int TVMFFIFunctionCreate(void* self, TVMFFISafeCallType safe_call, void (*deleter)(void*),
                         TVMFFIObjectHandle* out) {
  *out = new_function(self, safe_call, deleter);
  return *out ? 0 : no_memory();
}

int TVMFFIFunctionCall(TVMFFIObjectHandle function, TVMFFIAny* args, int32_t count,
                       TVMFFIAny* result) {
  const KdslFunctionObject* object = function;
  return object->function.safe_call(function, args, count, result);
}

// ---- by name
// -------------------------------------------------------------------------------------

static Names names;                // to positions in `functions`; guarded by the lock
static TVMFFIObject** functions;   // NULL: removed
static TVMFFIByteArray* metadata;  // of each, as its library told it
static int32_t function_count, function_room;

static TVMFFIObject* find_global(TVMFFIByteArray name) {
  int32_t at = names_find(&names, name);
  return at < 0 ? NULL : functions[at];
}

// 0 done, 1 the name is taken, -1 no memory; the lock is held.
static int set_global(TVMFFIByteArray name, TVMFFIObject* function, int override_it,
                      TVMFFIObject** old) {
  int32_t at = names_find(&names, name);
  if (at >= 0) {
    if (functions[at] && !override_it) return 1;
    *old = functions[at];
    functions[at] = function;
    return 0;
  }
  if (function_count == function_room) {
    int32_t room = function_room ? 2 * function_room : 256;
    TVMFFIObject** larger = realloc(functions, (size_t)room * sizeof *larger);
    if (larger) functions = larger;
    TVMFFIByteArray* texts = realloc(metadata, (size_t)room * sizeof *texts);
    if (texts) metadata = texts;
    if (!larger || !texts) return -1;
    function_room = room;
  }
  TVMFFIByteArray kept = keep_bytes(name);
  if (!kept.data || names_put(&names, kept, function_count)) return -1;
  metadata[function_count] = (TVMFFIByteArray){"", 0};
  functions[function_count++] = function;
  return 0;
}

int TVMFFIFunctionGetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle* out) {
  *out = NULL;
  lock_tables();
  TVMFFIObject* found = find_global(*name);
  if (found) retain(found);
  unlock_tables();
  *out = found;
  const Official* other = found ? NULL : official();
  return other ? other->function_get_global(name, out) : 0;
}

int TVMFFIFunctionSetGlobal(const TVMFFIByteArray* name, TVMFFIObjectHandle function,
                            int allow_override) {
  const Official* other = official();
  if (other) return other->function_set_global(name, function, allow_override);
  TVMFFIObject* old = NULL;
  retain(function);
  lock_tables();
  int failed = set_global(*name, function, allow_override, &old);
  unlock_tables();
  if (old) release(old);
  if (!failed) return 0;
  release(function);
  if (failed < 0) return no_memory();
  return fail("RuntimeError", "Global Function `%.*s` is already registered", (int)name->size,
              name->data);
}

int TVMFFIFunctionSetGlobalFromMethodInfo(const TVMFFIMethodInfo* info, int allow_override) {
  if (info->method.type_index != kTVMFFIFunction) {
    return fail("TypeError", "a global function is a Function, got %s",
                type_name(info->method.type_index));
  }
  if (TVMFFIFunctionSetGlobal(&info->name, info->method.v_obj, allow_override)) return -1;
  TVMFFIByteArray kept = info->metadata.size ? keep_bytes(info->metadata) : LITERAL("");
  lock_tables();
  int32_t at = names_find(&names, info->name);
  if (at >= 0 && kept.data) metadata[at] = kept;
  unlock_tables();
  return 0;
}

int global_metadata(TVMFFIByteArray name, TVMFFIAny* out) {
  lock_tables();
  int32_t at = names_find(&names, name);
  TVMFFIByteArray text = at < 0 ? LITERAL("") : metadata[at];
  unlock_tables();
  if (at < 0) {
    return fail("RuntimeError", "Global Function is not found: %.*s", (int)name.size, name.data);
  }
  return text_value(kTVMFFIStr, text, out);
}

void define(const char* name, TVMFFISafeCallType call) { define_with(name, NULL, call); }

void define_with(const char* name, void* self, TVMFFISafeCallType call) {
  TVMFFIObject* function = new_function(self, call, NULL);
  TVMFFIObject* old = NULL;
  if (!function) return;
  lock_tables();
  set_global(bytes_of(name), function, 0, &old);
  unlock_tables();
}

int remove_global(TVMFFIByteArray name) {
  lock_tables();
  int32_t at = names_find(&names, name);
  TVMFFIObject* old = at < 0 ? NULL : functions[at];
  if (old) functions[at] = NULL;
  unlock_tables();
  if (old) release(old);
  return old != NULL;
}

TVMFFIAny* global_names(int32_t* count) {
  lock_tables();
  TVMFFIAny* all = calloc((size_t)function_count + 1, sizeof *all);
  int32_t used = 0;
  for (size_t i = 0; all && i < names.capacity; ++i) {
    if (!names.keys[i].data || !functions[names.values[i]]) continue;
    used += !text_value(kTVMFFIStr, names.keys[i], &all[used]);
  }
  unlock_tables();
  *count = used;
  return all;
}

void share_globals(const Official* other) {
  for (int32_t i = 0;; ++i) {
    TVMFFIByteArray name = {NULL, 0};
    TVMFFIObject* function = NULL;
    lock_tables();
    int done = i >= (int32_t)names.capacity;
    if (!done && names.keys[i].data) {
      name = names.keys[i];
      function = functions[names.values[i]];
      if (function) retain(function);
    }
    unlock_tables();
    if (done) return;
    if (!function) continue;
    TVMFFIObjectHandle theirs = NULL;
    if (!other->function_get_global(&name, &theirs) && !theirs) {
      other->function_set_global(&name, function, 0);
    }
    if (theirs) release(theirs);
    release(function);
  }
}
