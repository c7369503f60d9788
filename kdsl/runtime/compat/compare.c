// compare.c: equality, order and hashes of values and of what containers hold.
#include <string.h>

#include "builtin.h"

#define DEEPEST 128  // containers inside of each other; a List may hold itself

static int is_bytes(const TVMFFIAny* value) {
  return value->type_index == kTVMFFIBytes || value->type_index == kTVMFFISmallBytes ||
         value->type_index == kTVMFFIByteArrayPtr;
}

static int is_sequence(const TVMFFIAny* value) {
  return value->type_index == kTVMFFIArray || value->type_index == kTVMFFIList;
}

static int is_map(const TVMFFIAny* value) {
  return value->type_index == kTVMFFIMap || value->type_index == kTVMFFIDict;
}

static int equal(const TVMFFIAny* a, const TVMFFIAny* b, int depth);

static int equal_sequences(const TVMFFISeqCell* a, const TVMFFISeqCell* b, int depth) {
  int same = a->size == b->size;
  for (int64_t i = 0; same && i < a->size; ++i) {
    same = equal((const TVMFFIAny*)a->data + i, (const TVMFFIAny*)b->data + i, depth);
  }
  return same;
}

static int equal_maps(const TVMFFIObject* a, const TVMFFIObject* b, int depth) {
  const RtMapCell *x = &((const RtMapObject*)a)->map, *y = &((const RtMapObject*)b)->map;
  RtMapCursor cursor = {0};
  int same = x->size == y->size;
  while (same && rt_map_next(a, &cursor)) {
    const TVMFFIAny* value = rt_map_find(b, cursor.key);
    same = value && equal(cursor.value, value, depth);
  }
  return same;
}

static int equal(const TVMFFIAny* a, const TVMFFIAny* b, int depth) {
  TVMFFIByteArray x, y;
  if (text_of(a, &x) && text_of(b, &y)) return is_bytes(a) == is_bytes(b) && same_bytes(x, y);
  if (a->type_index != b->type_index) return 0;
  if (a->type_index == kTVMFFIFloat) {
    int both_nan = a->v_float64 != a->v_float64 && b->v_float64 != b->v_float64;
    return both_nan || a->v_float64 == b->v_float64;
  }
  if (a->v_uint64 == b->v_uint64) return 1;
  if (depth >= DEEPEST) return 0;
  if (is_sequence(a))
    return equal_sequences(rt_sequence(a->v_obj), rt_sequence(b->v_obj), depth + 1);
  if (is_map(a)) return equal_maps(a->v_obj, b->v_obj, depth + 1);
  if (a->type_index == kTVMFFIShape) {
    TVMFFIShapeCell s = ((const KdslShapeObject*)a->v_obj)->shape;
    TVMFFIShapeCell t = ((const KdslShapeObject*)b->v_obj)->shape;
    return s.size == t.size && (!s.size || !memcmp(s.data, t.data, s.size * sizeof *s.data));
  }
  if (a->type_index == kTVMFFIBigInt) {
    return same_bytes(TVMFFIBigIntGetContentByteArray(a), TVMFFIBigIntGetContentByteArray(b));
  }
  return 0;
}

int equal_values(const TVMFFIAny* a, const TVMFFIAny* b) { return equal(a, b, 0); }

// ---- order
// -----------------------------------------------------------------------------------------

static int sign(int64_t a, int64_t b) { return (a > b) - (a < b); }

// -1, 0, 1 to `out`; -1 after an error: the two have no order.
static int compare(const TVMFFIAny* a, const TVMFFIAny* b, int depth, int* out) {
  TVMFFIByteArray x, y;
  int numbers = a->type_index == kTVMFFIInt || a->type_index == kTVMFFIBool;
  if (a->type_index == b->type_index && numbers) {
    *out = sign(a->v_int64, b->v_int64);
    return 0;
  }
  if (a->type_index == kTVMFFIFloat && b->type_index == kTVMFFIFloat) {
    *out = (a->v_float64 > b->v_float64) - (a->v_float64 < b->v_float64);
    return 0;
  }
  if (text_of(a, &x) && text_of(b, &y) && is_bytes(a) == is_bytes(b)) {
    size_t both = x.size < y.size ? x.size : y.size;
    int order = both ? memcmp(x.data, y.data, both) : 0;
    *out = order ? sign(order, 0) : sign((int64_t)x.size, (int64_t)y.size);
    return 0;
  }
  if (a->type_index == b->type_index && is_sequence(a) && depth < DEEPEST) {
    const TVMFFISeqCell *s = rt_sequence(a->v_obj), *t = rt_sequence(b->v_obj);
    for (int64_t i = 0; i < s->size && i < t->size; ++i) {
      if (compare((const TVMFFIAny*)s->data + i, (const TVMFFIAny*)t->data + i, depth + 1, out)) {
        return -1;
      }
      if (*out) return 0;
    }
    *out = sign(s->size, t->size);
    return 0;
  }
  if (a->type_index == kTVMFFINone && b->type_index == kTVMFFINone) return *out = 0;
  return fail("TypeError", "`%s` and `%s` have no order", type_name(a->type_index),
              type_name(b->type_index));
}

// ---- hashes
// ----------------------------------------------------------------------------------------

static uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ hash >> 29;
}

static uint64_t mix_bytes(uint64_t hash, const void* data, size_t size) {
  for (size_t i = 0; i < size; ++i) hash = mix(hash, ((const uint8_t*)data)[i]);
  return mix(hash, size);
}

// Equal values have equal hashes.
static uint64_t hash_of(const TVMFFIAny* value, int depth) {
  TVMFFIByteArray text;
  if (text_of(value, &text)) return mix_bytes((uint64_t)is_bytes(value), text.data, text.size);
  uint64_t hash = mix(1, (uint64_t)value->type_index);
  if (value->type_index == kTVMFFIFloat) {
    double number = value->v_float64;
    if (number != number || number == 0) return mix(hash, number == 0);
  }
  if (depth >= DEEPEST) return hash;
  if (is_sequence(value)) {
    const TVMFFISeqCell* cell = rt_sequence(value->v_obj);
    for (int64_t i = 0; i < cell->size; ++i) {
      hash = mix(hash, hash_of((const TVMFFIAny*)cell->data + i, depth + 1));
    }
    return hash;
  }
  if (is_map(value)) {
    uint64_t sum = 0;  // in whatever order
    RtMapCursor cursor = {0};
    while (rt_map_next(value->v_obj, &cursor)) {
      sum += mix(hash_of(cursor.key, depth + 1), hash_of(cursor.value, depth + 1));
    }
    return mix(hash, sum);
  }
  if (value->type_index == kTVMFFIShape) {
    TVMFFIShapeCell shape = ((const KdslShapeObject*)value->v_obj)->shape;
    return mix_bytes(hash, shape.data, shape.size * sizeof *shape.data);
  }
  if (value->type_index == kTVMFFIBigInt) {
    TVMFFIByteArray bytes = TVMFFIBigIntGetContentByteArray(value);
    return mix_bytes(hash, bytes.data, bytes.size);
  }
  return mix(hash, value->v_uint64);
}

// ---- the functions
// ---------------------------------------------------------------------------------

BUILTIN(are_equal) {
  UNUSED();
  return want_any(args, count, 1) ? answer_bool(result, equal_values(&args[0], &args[1])) : -1;
}

BUILTIN(hash_any) {
  UNUSED();
  return want_any(args, count, 0) ? answer_int(result, (int64_t)hash_of(&args[0], 0)) : -1;
}

static int order(const TVMFFIAny* args, int32_t count, int* out) {
  return want_any(args, count, 1) ? compare(&args[0], &args[1], 0, out) : -1;
}

BUILTIN(is_less) {
  UNUSED();
  int found = 0;
  return order(args, count, &found) ? -1 : answer_bool(result, found < 0);
}

BUILTIN(is_less_or_equal) {
  UNUSED();
  int found = 0;
  return order(args, count, &found) ? -1 : answer_bool(result, found <= 0);
}

BUILTIN(is_greater) {
  UNUSED();
  int found = 0;
  return order(args, count, &found) ? -1 : answer_bool(result, found > 0);
}

BUILTIN(is_greater_or_equal) {
  UNUSED();
  int found = 0;
  return order(args, count, &found) ? -1 : answer_bool(result, found >= 0);
}

void define_comparisons(void) {
  define("ffi.RecursiveEq", are_equal);
  define("ffi.RecursiveHash", hash_any);
  define("ffi.RecursiveLt", is_less);
  define("ffi.RecursiveLe", is_less_or_equal);
  define("ffi.RecursiveGt", is_greater);
  define("ffi.RecursiveGe", is_greater_or_equal);
}
