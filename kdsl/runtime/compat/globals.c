// globals.c: global functions about functions, types and texts; reading of arguments; the start.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"

// ---- arguments
// -----------------------------------------------------------------------------------

static int mismatch(const TVMFFIAny* args, int32_t count, int32_t at, const char* expected) {
  fail("TypeError", "Mismatched type on argument #%d: Expected `%s` but got `%s`", at, expected,
       at < count ? type_name(args[at].type_index) : "nothing");
  return 0;
}

int want_int(const TVMFFIAny* args, int32_t count, int32_t at, int64_t* out) {
  int32_t type = at < count ? args[at].type_index : kTVMFFINone;
  if (type != kTVMFFIInt && type != kTVMFFIBool) return mismatch(args, count, at, "int");
  *out = args[at].v_int64;
  return 1;
}

int want_text(const TVMFFIAny* args, int32_t count, int32_t at, TVMFFIByteArray* out) {
  return (at < count && text_of(&args[at], out)) || mismatch(args, count, at, "str");
}

int want_any(const TVMFFIAny* args, int32_t count, int32_t at) {
  return at < count || mismatch(args, count, at, "Any");
}

int want(const TVMFFIAny* args, int32_t count, int32_t at, int32_t type_index, void* out) {
  if (at >= count || args[at].type_index != type_index) {
    return mismatch(args, count, at, type_name(type_index));
  }
  memcpy(out, &args[at].v_obj, sizeof(void*));
  return 1;
}

// ---- functions
// -----------------------------------------------------------------------------------

BUILTIN(remove_function) {
  UNUSED();
  TVMFFIByteArray name;
  return want_text(args, count, 0, &name) ? answer_bool(result, remove_global(name)) : -1;
}

typedef struct {
  TVMFFIAny* items;
  int32_t count;
} List;

static void delete_list(void* self) {
  List* list = self;
  for (int32_t i = 0; i < list->count; ++i) release_any(&list->items[i]);
  free(list->items);
  free(list);
}

// A list to read: called with -1 it gives its length, else the value at that place.
static int read_list(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  const List* list = self;
  int64_t at;
  if (!want_int(args, count, 0, &at)) return -1;
  if (at == -1) return answer_int(result, list->count);
  if (at < 0 || at >= list->count) return fail("IndexError", "%lld out of range", (long long)at);
  return answer_copy(result, &list->items[at]);
}

BUILTIN(list_names) {
  UNUSED();
  List* list = malloc(sizeof *list);
  if (!list) return no_memory();
  list->items = global_names(&list->count);
  TVMFFIObject* function = list->items ? new_function(list, read_list, delete_list) : NULL;
  if (!function) delete_list(list);
  return answer_object(result, function);
}

typedef struct {
  TVMFFISafeCallType call;
  void* context;
} Foreign;

BUILTIN(from_extern_c) {
  UNUSED();
  TVMFFISafeCallType call;
  if (count < 3 || args[1].type_index != kTVMFFIOpaquePtr) {
    mismatch(args, count, 1, "void*");
    return -1;
  }
  memcpy(&call, &args[1].v_ptr, sizeof call);
  void* handle = args[0].type_index == kTVMFFIOpaquePtr ? args[0].v_ptr : NULL;
  void (*deleter)(void*) = NULL;
  if (args[2].type_index == kTVMFFIOpaquePtr) memcpy(&deleter, &args[2].v_ptr, sizeof deleter);
  return answer_object(result, new_function(handle, call, deleter));
}

BUILTIN(function_metadata) {
  UNUSED();
  TVMFFIByteArray name;
  return want_text(args, count, 0, &name) ? global_metadata(name, result) : -1;
}

// ---- types and texts
// -----------------------------------------------------------------------------

static void put_key(void* list, const TVMFFITypeInfo* info) {
  TVMFFIAny text;
  if (text_value(kTVMFFIStr, info->type_key, &text)) return;
  append(list, &text);
  release_any(&text);
}

BUILTIN(type_keys) {
  UNUSED();
  TVMFFIObject* keys = new_sequence(kTVMFFIList, NULL, 0);
  if (!keys) return no_memory();
  count_types(put_key, keys);
  const TVMFFISeqCell* cell = rt_sequence(keys);
  TVMFFIObject* array = new_sequence(kTVMFFIArray, cell->data, cell->size);
  release(keys);
  return answer_object(result, array);
}

BUILTIN(make_string) {
  UNUSED();
  TVMFFIByteArray text;
  return want_text(args, count, 0, &text) ? text_value(kTVMFFIStr, text, result) : -1;
}

BUILTIN(make_bytes) {
  UNUSED();
  TVMFFIByteArray text;
  return want_text(args, count, 0, &text) ? text_value(kTVMFFIBytes, text, result) : -1;
}

// A value of which one compares the identity: a keyword argument follows, or nothing is there.
static int answer_singleton(TVMFFIObject** place, TVMFFIAny* result) {
  TVMFFIObject* one = __atomic_load_n(place, __ATOMIC_ACQUIRE);
  if (!one) {
    TVMFFIObject* made = calloc(1, sizeof *made);
    if (!made) return no_memory();
    start_object(made, kTVMFFIObject, NULL);  // stays for good
    if (__atomic_compare_exchange_n(place, &one, made, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
      one = made;
    } else {
      free(made);
    }
  }
  retain(one);
  return answer_object(result, one);
}

int answer_invalid(TVMFFIAny* result) {
  static TVMFFIObject* one;
  return answer_singleton(&one, result);
}

BUILTIN(invalid_object) {
  UNUSED();
  return answer_invalid(result);
}

BUILTIN(kwargs_object) {
  UNUSED();
  static TVMFFIObject* one;
  return answer_singleton(&one, result);
}

void define_globals(void) {
  define("ffi.FunctionRemoveGlobal", remove_function);
  define("ffi.FunctionListGlobalNamesFunctor", list_names);
  define("ffi.FunctionFromExternC", from_extern_c);
  define("ffi.GetGlobalFuncMetadata", function_metadata);
  define("ffi.GetRegisteredTypeKeys", type_keys);
  define("ffi.String", make_string);
  define("ffi.Bytes", make_bytes);
  define("ffi.GetInvalidObject", invalid_object);
  define("ffi.GetKwargsObject", kwargs_object);
}

__attribute__((constructor(102))) static void start(void) {
  register_types();
  register_attributes();
  define_globals();
  define_sequences();
  define_maps();
  define_comparisons();
  define_modules();
  define_repr();
  define_refused();
}
