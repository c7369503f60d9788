// maps.c: the global functions that hosts use on Map and Dict objects.
#include <stdio.h>
#include <stdlib.h>

#include "builtin.h"

static int want_map(const TVMFFIAny* args, int32_t count, TVMFFIObject** out) {
  if (count > 0 && (args[0].type_index == kTVMFFIMap || args[0].type_index == kTVMFFIDict)) {
    *out = args[0].v_obj;
    return 1;
  }
  return want(args, count, 0, kTVMFFIMap, out);
}

static const RtMapCell* map_of(const TVMFFIObject* map) { return &((const RtMapObject*)map)->map; }

static int put(TVMFFIObject* map, const TVMFFIAny* key, const TVMFFIAny* value) {
  TVMFFIAny own_key, own_value;
  if (TVMFFIAnyViewToOwnedAny(key, &own_key)) return -1;
  if (TVMFFIAnyViewToOwnedAny(value, &own_value)) {
    release_any(&own_key);
    return -1;
  }
  return rt_map_put(map, own_key, own_value) ? no_memory() : 0;
}

static int make(int32_t type_index, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  if (count % 2) return fail("TypeError", "a map is made of keys and values in turn");
  TVMFFIObject* map = rt_map_new(type_index, (size_t)count / 2);
  if (!map) return no_memory();
  for (int32_t i = 0; i < count; i += 2) {
    if (!put(map, &args[i], &args[i + 1])) continue;
    release(map);
    return -1;
  }
  return answer_object(result, map);
}

BUILTIN(make_map) {
  UNUSED();
  return make(kTVMFFIMap, args, count, result);
}

BUILTIN(make_dict) {
  UNUSED();
  return make(kTVMFFIDict, args, count, result);
}

BUILTIN(size) {
  UNUSED();
  TVMFFIObject* map;
  return want_map(args, count, &map) ? answer_int(result, (int64_t)map_of(map)->size) : -1;
}

BUILTIN(count_key) {
  UNUSED();
  TVMFFIObject* map;
  if (!want_map(args, count, &map) || !want_any(args, count, 1)) return -1;
  return answer_int(result, rt_map_find(map, &args[1]) != NULL);
}

BUILTIN(get_item) {
  UNUSED();
  TVMFFIObject* map;
  if (!want_map(args, count, &map) || !want_any(args, count, 1)) return -1;
  const TVMFFIAny* value = rt_map_find(map, &args[1]);
  return value ? answer_copy(result, value) : fail("KeyError", "key is not in Map");
}

BUILTIN(get_item_or_missing) {
  UNUSED();
  TVMFFIObject* map;
  if (!want_map(args, count, &map) || !want_any(args, count, 1)) return -1;
  const TVMFFIAny* value = rt_map_find(map, &args[1]);
  return value ? answer_copy(result, value) : answer_invalid(result);
}

BUILTIN(set_item) {
  UNUSED();
  TVMFFIObject* map;
  if (!want(args, count, 0, kTVMFFIDict, &map) || !want_any(args, count, 2)) return -1;
  return put(map, &args[1], &args[2]);
}

BUILTIN(erase_item) {
  UNUSED();
  TVMFFIObject* map;
  TVMFFIAny taken[2];
  if (!want(args, count, 0, kTVMFFIDict, &map) || !want_any(args, count, 1)) return -1;
  if (!rt_map_take(map, &args[1], taken)) return 0;
  release_any(&taken[0]);
  release_any(&taken[1]);
  return 0;
}

BUILTIN(clear) {
  UNUSED();
  TVMFFIObject* map;
  if (!want(args, count, 0, kTVMFFIDict, &map)) return -1;
  rt_map_clear(map);
  return 0;
}

// ---- reading one pair after the other
// --------------------------------------------------------------

typedef struct {
  TVMFFIObject* map;
  RtMapCursor cursor;
  uint64_t left;
} Walk;

static void end_walk(void* self) {
  release(((Walk*)self)->map);
  free(self);
}

// Called with 0 it gives the key, with 1 the value, with 2 it steps: whether there is another.
static int walk(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  Walk* walk = self;
  int64_t what;
  if (!want_int(args, count, 0, &what)) return -1;
  if (what == 2) {
    if (walk->left) --walk->left;
    return answer_bool(result, walk->left && rt_map_next(walk->map, &walk->cursor));
  }
  if (!walk->left) return fail("IndexError", "the walk over a map is at its end");
  return answer_copy(result, what == 0 ? walk->cursor.key : walk->cursor.value);
}

BUILTIN(forward_walk) {
  UNUSED();
  TVMFFIObject* map;
  if (!want_map(args, count, &map)) return -1;
  Walk* made = calloc(1, sizeof *made);
  if (!made) return no_memory();
  retain(map);
  made->map = map;
  made->left = map_of(map)->size;
  if (made->left) rt_map_next(map, &made->cursor);
  TVMFFIObject* function = new_function(made, walk, end_walk);
  if (!function) end_walk(made);
  return answer_object(result, function);
}

void define_maps(void) {
  static const char* const kinds[] = {"ffi.Map", "ffi.Dict"};
  static const struct {
    const char* name;
    TVMFFISafeCallType call;
  } both[] = {{"Size", size},
              {"Count", count_key},
              {"GetItem", get_item},
              {"GetItemOrMissing", get_item_or_missing},
              {"ForwardIterFunctor", forward_walk}};
  char name[64];
  for (size_t k = 0; k < 2; ++k) {
    for (size_t i = 0; i < sizeof both / sizeof *both; ++i) {
      snprintf(name, sizeof name, "%s%s", kinds[k], both[i].name);
      define(name, both[i].call);
    }
  }
  define("ffi.Map", make_map);
  define("ffi.Dict", make_dict);
  define("ffi.DictSetItem", set_item);
  define("ffi.DictErase", erase_item);
  define("ffi.DictClear", clear);
}
