// sequences.c: the global functions that hosts use on Array, List and Shape objects.
#include <stdlib.h>
#include <string.h>

#include "builtin.h"

TVMFFIObject* new_sequence(int32_t type_index, const TVMFFIAny* items, int64_t count) {
  TVMFFIObject* self = rt_sequence_new(type_index, count);
  TVMFFIAny* own = self ? rt_sequence(self)->data : NULL;
  for (int64_t i = 0; self && i < count; ++i) {
    if (!TVMFFIAnyViewToOwnedAny(&items[i], &own[i])) continue;
    release(self);
    return NULL;
  }
  return self;
}

int append(TVMFFIObject* list, const TVMFFIAny* value) {
  TVMFFIAny owned;
  if (TVMFFIAnyViewToOwnedAny(value, &owned)) return -1;
  return rt_list_insert(list, rt_sequence(list)->size, owned) ? no_memory() : 0;
}

// ---- arguments
// -----------------------------------------------------------------------------------

static int want_sequence(const TVMFFIAny* args, int32_t count, TVMFFISeqCell** out) {
  if (count > 0 && (args[0].type_index == kTVMFFIArray || args[0].type_index == kTVMFFIList)) {
    *out = rt_sequence(args[0].v_obj);
    return 1;
  }
  fail("TypeError", "Mismatched type on argument #0: expected `ffi.Array` or `ffi.List`, got `%s`",
       count > 0 ? type_name(args[0].type_index) : "nothing");
  return 0;
}

static int want_place(const TVMFFIAny* args, int32_t count, int32_t at, int64_t end, int64_t* out) {
  if (!want_int(args, count, at, out)) return 0;
  if (*out >= 0 && *out < end) return 1;
  fail("IndexError", "Index %lld out of bounds %lld", (long long)*out, (long long)end);
  return 0;
}

// ---- Array and List
// ------------------------------------------------------------------------------

BUILTIN(make_array) {
  UNUSED();
  return answer_object(result, new_sequence(kTVMFFIArray, args, count));
}

BUILTIN(make_list) {
  UNUSED();
  return answer_object(result, new_sequence(kTVMFFIList, args, count));
}

BUILTIN(size) {
  UNUSED();
  TVMFFISeqCell* cell;
  return want_sequence(args, count, &cell) ? answer_int(result, cell->size) : -1;
}

BUILTIN(get_item) {
  UNUSED();
  TVMFFISeqCell* cell;
  int64_t at;
  if (!want_sequence(args, count, &cell) || !want_place(args, count, 1, cell->size, &at)) return -1;
  return answer_copy(result, (TVMFFIAny*)cell->data + at);
}

BUILTIN(contains) {
  UNUSED();
  TVMFFISeqCell* cell;
  if (!want_sequence(args, count, &cell) || !want_any(args, count, 1)) return -1;
  for (int64_t i = 0; i < cell->size; ++i) {
    if (equal_values((TVMFFIAny*)cell->data + i, &args[1])) return answer_bool(result, 1);
  }
  return answer_bool(result, 0);
}

BUILTIN(set_item) {
  UNUSED();
  TVMFFISeqCell* cell;
  int64_t at;
  TVMFFIAny owned;
  if (!want_sequence(args, count, &cell) || !want_place(args, count, 1, cell->size, &at)) return -1;
  if (!want_any(args, count, 2) || TVMFFIAnyViewToOwnedAny(&args[2], &owned)) return -1;
  rt_list_replace(args[0].v_obj, at, owned);
  return 0;
}

BUILTIN(add_item) {
  UNUSED();
  TVMFFIObject* list;
  if (!want(args, count, 0, kTVMFFIList, &list) || !want_any(args, count, 1)) return -1;
  return append(list, &args[1]);
}

BUILTIN(insert_item) {
  UNUSED();
  TVMFFIObject* list;
  int64_t at;
  TVMFFIAny owned;
  if (!want(args, count, 0, kTVMFFIList, &list) || !want_int(args, count, 1, &at)) return -1;
  int64_t size = rt_sequence(list)->size;
  at += at < 0 ? size : 0;
  at = at < 0 ? 0 : at > size ? size : at;
  if (!want_any(args, count, 2) || TVMFFIAnyViewToOwnedAny(&args[2], &owned)) return -1;
  return rt_list_insert(list, at, owned) ? no_memory() : 0;
}

static int erase(TVMFFIObject* list, int64_t begin, int64_t end) {
  return rt_list_erase(list, begin, end) ? no_memory() : 0;
}

BUILTIN(pop_item) {
  UNUSED();
  TVMFFIObject* list;
  int64_t at;
  if (!want(args, count, 0, kTVMFFIList, &list)) return -1;
  int64_t size = rt_sequence(list)->size;
  if (!want_place(args, count, 1, size, &at)) return -1;
  if (answer_copy(result, (TVMFFIAny*)rt_sequence(list)->data + at)) return -1;
  return erase(list, at, at + 1);
}

BUILTIN(erase_item) {
  UNUSED();
  TVMFFIObject* list;
  int64_t at;
  if (!want(args, count, 0, kTVMFFIList, &list)) return -1;
  if (!want_place(args, count, 1, rt_sequence(list)->size, &at)) return -1;
  return erase(list, at, at + 1);
}

static int want_range(const TVMFFIAny* args, int32_t count, TVMFFIObject** list, int64_t* begin,
                      int64_t* end) {
  if (!want(args, count, 0, kTVMFFIList, list)) return 0;
  if (!want_int(args, count, 1, begin) || !want_int(args, count, 2, end)) return 0;
  int64_t size = rt_sequence(*list)->size;
  if (*begin >= 0 && *begin <= *end && *end <= size) return 1;
  fail("IndexError", "range [%lld, %lld) out of bounds %lld", (long long)*begin, (long long)*end,
       (long long)size);
  return 0;
}

BUILTIN(erase_range) {
  UNUSED();
  TVMFFIObject* list;
  int64_t begin, end;
  return want_range(args, count, &list, &begin, &end) ? erase(list, begin, end) : -1;
}

BUILTIN(replace_slice) {
  UNUSED();
  TVMFFIObject* list;
  TVMFFISeqCell* source;
  int64_t begin, end;
  if (!want_range(args, count, &list, &begin, &end)) return -1;
  if (!want_sequence(args + 3, count - 3, &source)) return -1;
  // A copy: the source may be the List itself.
  TVMFFIObject* copy = new_sequence(kTVMFFIArray, source->data, source->size);
  int failed = !copy || rt_list_erase(list, begin, end);
  for (int64_t i = 0; !failed && i < rt_sequence(copy)->size; ++i) {
    TVMFFIAny value = ((TVMFFIAny*)rt_sequence(copy)->data)[i];
    rt_value_retain(&value);
    failed = rt_list_insert(list, begin + i, value);
  }
  if (copy) release(copy);
  return failed ? no_memory() : 0;
}

BUILTIN(clear) {
  UNUSED();
  TVMFFIObject* list;
  if (!want(args, count, 0, kTVMFFIList, &list)) return -1;
  return erase(list, 0, rt_sequence(list)->size);
}

BUILTIN(reverse) {
  UNUSED();
  TVMFFIObject* list;
  if (!want(args, count, 0, kTVMFFIList, &list)) return -1;
  TVMFFIAny* items = rt_sequence(list)->data;
  for (int64_t i = 0, j = rt_sequence(list)->size - 1; i < j; ++i, --j) {
    TVMFFIAny one = items[i];
    items[i] = items[j];
    items[j] = one;
  }
  return 0;
}

BUILTIN(reserve_items) {  // a hint
  UNUSED();
  TVMFFIObject* list;
  return want(args, count, 0, kTVMFFIList, &list) ? 0 : -1;
}

// ---- Shape
// -----------------------------------------------------------------------------------------

static void delete_plain(void* object, int flags) {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) free(object);
}

BUILTIN(make_shape) {
  UNUSED();
  KdslShapeObject* shape = malloc(sizeof *shape + (size_t)count * sizeof(int64_t));
  if (!shape) return no_memory();
  start_object(shape, kTVMFFIShape, delete_plain);
  int64_t* sizes = (int64_t*)(shape + 1);
  shape->shape = (TVMFFIShapeCell){sizes, (size_t)count};
  for (int32_t i = 0; i < count; ++i) {
    if (want_int(args, count, i, &sizes[i])) continue;
    release(shape);
    return -1;
  }
  return answer_object(result, shape);
}

void define_sequences(void) {
  define("ffi.Array", make_array);
  define("ffi.ArrayGetItem", get_item);
  define("ffi.ArraySize", size);
  define("ffi.ArrayContains", contains);
  define("ffi.List", make_list);
  define("ffi.ListGetItem", get_item);
  define("ffi.ListSetItem", set_item);
  define("ffi.ListSize", size);
  define("ffi.ListContains", contains);
  define("ffi.ListAppend", add_item);
  define("ffi.ListInsert", insert_item);
  define("ffi.ListPop", pop_item);
  define("ffi.ListErase", erase_item);
  define("ffi.ListEraseRange", erase_range);
  define("ffi.ListReplaceSlice", replace_slice);
  define("ffi.ListClear", clear);
  define("ffi.ListReverse", reverse);
  define("ffi.ListReserve", reserve_items);
  define("ffi.Shape", make_shape);
}
