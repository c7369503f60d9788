// sequence.c: Array, whose elements lie in its own block, and List, which grows.
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "loaded.h"

// ---- the memory of a List ---------------------------------------------------------------------

// C++ code that lets a List grow takes memory from `operator new`, and leaves it to the function
// that the List came with to free it. So where there is C++, its allocator is used here too.
static struct {
  void* (*make)(size_t size, const void* nothrow);
  void (*drop)(void* data);
} cpp;

static int has_cpp(void) {
  static RtLoaded make = {"_ZnwmRKSt9nothrow_t", "libstdc++.so.6", NULL, 0};
  static RtLoaded drop = {"_ZdlPv", "libstdc++.so.6", NULL, 0};
  if (__atomic_load_n((void**)&cpp.drop, __ATOMIC_ACQUIRE)) return 1;
  void *allocate = rt_loaded_symbol(&make), *release = rt_loaded_symbol(&drop);
  if (!allocate || !release) return 0;
  __atomic_store_n((void**)&cpp.make, allocate, __ATOMIC_RELAXED);
  __atomic_store_n((void**)&cpp.drop, release, __ATOMIC_RELEASE);
  return 1;
}

// Everyone who lets a List grow hands its old memory to this, which may be NULL.
static void free_items(void* data) { free(data); }
static void delete_items(void* data) { cpp.drop(data); }

// Room for elements, and who frees it; NULL: no memory.
static TVMFFIAny* new_items(int64_t capacity, void (**deleter)(void*)) {
  size_t bytes = (size_t)capacity * sizeof(TVMFFIAny);
  int by_cpp = has_cpp();
  *deleter = by_cpp ? delete_items : free_items;
  if (!bytes) return NULL;
  return by_cpp ? cpp.make(bytes, "") : malloc(bytes);
}

// ---- objects ----------------------------------------------------------------------------------

static void sequence_delete(void* self, int flags) {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    TVMFFISeqCell* cell = rt_sequence(self);
    TVMFFIAny* items = cell->data;
    while (cell->size > 0) rt_value_release(&items[--cell->size]);
    if (cell->data_deleter) cell->data_deleter(cell->data);
    cell->data = NULL, cell->capacity = 0;
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) rt_object_free(self);
}

TVMFFIObject* rt_sequence_new(int32_t type_index, Py_ssize_t size) {
  if ((size_t)size > PTRDIFF_MAX / sizeof(TVMFFIAny) - 64) return NULL;
  int grows = type_index == kTVMFFIList;
  size_t bytes = (size_t)size * sizeof(TVMFFIAny);
  KdslArrayObject* s = rt_object_new(sizeof *s + (grows ? 0 : bytes), type_index, sequence_delete);
  if (!s) return NULL;
  s->seq = (TVMFFISeqCell){s + 1, size, size, NULL};
  if (grows) {
    s->seq.data = new_items(size, &s->seq.data_deleter);
    if (size && !s->seq.data) {
      rt_object_free(s);
      return NULL;
    }
    if (size) memset(s->seq.data, 0, bytes);
  }
  return &s->head;
}

static int grow(TVMFFISeqCell* cell) {
  int64_t capacity = cell->capacity < 4 ? 4 : 2 * cell->capacity;
  void (*deleter)(void*);
  TVMFFIAny* items = new_items(capacity, &deleter);
  if (!items) return -1;
  if (cell->size) memcpy(items, cell->data, (size_t)cell->size * sizeof *items);
  if (cell->data_deleter && cell->data) cell->data_deleter(cell->data);
  cell->data = items;
  cell->capacity = capacity;
  cell->data_deleter = deleter;
  return 0;
}

int rt_list_put(TVMFFIObject* list, int64_t at, TVMFFIAny value) {
  TVMFFISeqCell* cell = rt_sequence(list);
  if (cell->size >= cell->capacity && grow(cell)) return -1;
  TVMFFIAny* items = cell->data;
  memmove(items + at + 1, items + at, (size_t)(cell->size - at) * sizeof *items);
  items[at] = value;
  ++cell->size;
  return 0;
}

TVMFFIAny rt_list_swap(TVMFFIObject* list, int64_t at, TVMFFIAny value) {
  TVMFFIAny* item = (TVMFFIAny*)rt_sequence(list)->data + at;
  TVMFFIAny before = *item;
  *item = value;
  return before;
}

void rt_list_take(TVMFFIObject* list, int64_t begin, int64_t count, TVMFFIAny* out) {
  TVMFFISeqCell* cell = rt_sequence(list);
  TVMFFIAny* items = cell->data;
  if (count <= 0) return;
  memcpy(out, items + begin, (size_t)count * sizeof *items);
  cell->size -= count;
  memmove(items + begin, items + begin + count, (size_t)(cell->size - begin) * sizeof *items);
}

int rt_list_insert(TVMFFIObject* list, int64_t at, TVMFFIAny value) {
  int failed = rt_list_put(list, at, value);
  if (failed) rt_value_release(&value);
  return failed;
}

void rt_list_replace(TVMFFIObject* list, int64_t at, TVMFFIAny value) {
  TVMFFIAny before = rt_list_swap(list, at, value);
  rt_value_release(&before);  // last: it may run code that looks at the list
}

int rt_list_erase(TVMFFIObject* list, int64_t begin, int64_t end) {
  if (end <= begin) return 0;
  TVMFFIAny* removed = malloc((size_t)(end - begin) * sizeof *removed);
  if (!removed) return -1;
  rt_list_take(list, begin, end - begin, removed);
  for (int64_t i = 0; i < end - begin; ++i) rt_value_release(&removed[i]);  // may run any code
  free(removed);
  return 0;
}
