// map.c: Map and Dict, whose layout is read and written by C++ code of the published headers.
//
// Up to four pairs lie in a row and are searched one by one. Above that the slots are a power of
// two, in blocks of 16: a mark for each slot, then the entries. A key's hash leads to its home
// slot. The entries of one home form a chain that begins there; a mark says whether its entry is
// the head of a chain, and how far away the next one is, as an index of `jumps`. Besides, all
// entries are linked in the order in which they were put.
#include <stdlib.h>
#include <string.h>

#include "core.h"
#include "map_jumps.h"

#define SMALL_TAG (1ull << 63)
#define SMALL_MOST 4
#define BLOCK 16
#define NOWHERE UINT64_MAX

enum { EMPTY = 0xff, RESERVED = 0xfe, MEMBER = 0x80, JUMP = 0x7f };

typedef struct {
  TVMFFIAny key;
  TVMFFIAny value;
} Pair;

typedef struct {
  Pair pair;
  uint64_t before;
  uint64_t after;
} Entry;

typedef struct {
  uint8_t marks[BLOCK];
  Entry entries[BLOCK];
} Block;
_Static_assert(sizeof(Block) == BLOCK * (1 + 48), "ABI: a block of a Map is 784 bytes");
_Static_assert(sizeof(((RtMapContent*)0)->few) == SMALL_MOST * sizeof(Pair), "few pairs");
_Static_assert(sizeof(RtMapObject) == 80, "ABI: a Map with hashed keys is 80 bytes");

#define FROZEN(S, F, OFFSET) _Static_assert(offsetof(S, F) == (OFFSET), "ABI: " #S "." #F " moved")
FROZEN(RtMapCell, data, 0);
FROZEN(RtMapCell, size, 8);
FROZEN(RtMapCell, slots, 16);
FROZEN(RtMapCell, data_deleter, 24);
FROZEN(RtMapCell, shift, 32);
FROZEN(RtMapCell, first, 40);
FROZEN(RtMapCell, last, 48);
FROZEN(RtMapObject, map, 24);
FROZEN(Entry, before, 32);
FROZEN(Entry, after, 40);
FROZEN(Block, entries, 16);
#undef FROZEN

// ---- keys -------------------------------------------------------------------------------------

static int is_text(int32_t type_index) {
  return type_index == kTVMFFISmallStr || type_index == kTVMFFISmallBytes ||
         type_index == kTVMFFIStr || type_index == kTVMFFIBytes;
}

// Text inline and text in an object are one key.
static int32_t key_type(int32_t type_index) {
  if (type_index == kTVMFFISmallStr) return kTVMFFIStr;
  return type_index == kTVMFFISmallBytes ? kTVMFFIBytes : type_index;
}

static uint64_t hash_bytes(TVMFFIByteArray bytes) {
  const uint64_t multiplier = 1099511628211u, modulus = 2147483647u;
  uint64_t hash = 0;
  for (size_t at = 0; at < bytes.size; at += 8) {
    uint64_t word = 0;
    size_t left = bytes.size - at;
    memcpy(&word, bytes.data + at, left < 8 ? left : 8);
    hash = (hash * multiplier + word) % modulus;
  }
  return hash;
}

static uint64_t hash_key(const TVMFFIAny* key) {
  uint64_t type = (uint64_t)(int64_t)key_type(key->type_index);
  uint64_t content = is_text(key->type_index) ? hash_bytes(rt_bytes_of(key)) : key->v_uint64;
  return type ^ (content + 0x9e3779b9u + (type << 6) + (type >> 2));
}

int rt_same_key(const TVMFFIAny* a, const TVMFFIAny* b) {
  if (key_type(a->type_index) != key_type(b->type_index)) return 0;
  if (!is_text(a->type_index)) return a->v_uint64 == b->v_uint64;
  TVMFFIByteArray x = rt_bytes_of(a), y = rt_bytes_of(b);
  return x.size == y.size && (x.size == 0 || memcmp(x.data, y.data, x.size) == 0);
}

int rt_is_key(const TVMFFIAny* value) { return value->type_index < kTVMFFIVisitInterrupt; }

// ---- slots ------------------------------------------------------------------------------------

static RtMapCell* cell_of(const TVMFFIObject* map) { return &((RtMapObject*)map)->map; }

static int is_small(const RtMapCell* cell) { return (cell->slots & SMALL_TAG) != 0; }

static uint8_t* mark_at(const RtMapCell* cell, uint64_t slot) {
  return &((Block*)cell->data)[slot / BLOCK].marks[slot % BLOCK];
}

static Entry* entry_at(const RtMapCell* cell, uint64_t slot) {
  return &((Block*)cell->data)[slot / BLOCK].entries[slot % BLOCK];
}

static uint64_t home_of(const RtMapCell* cell, const TVMFFIAny* key) {
  return (11400714819323198485ull * hash_key(key)) >> cell->shift;
}

static int is_head(uint8_t mark) { return !(mark & MEMBER); }

// The next slot of a chain; NOWHERE after the last.
static uint64_t follow(const RtMapCell* cell, uint64_t slot, uint8_t mark) {
  uint64_t distance = mark & JUMP ? jump_distance(mark & JUMP) : 0;
  return distance ? (slot + distance) % cell->slots : NOWHERE;
}

// An empty slot that a mark at `slot` can name; its index of `jumps`, 0: there is none.
static unsigned find_empty(const RtMapCell* cell, uint64_t slot, uint64_t* found) {
  for (unsigned jump = 1; jump < JUMPS; ++jump) {
    *found = (slot + jump_distance(jump)) % cell->slots;
    if (*mark_at(cell, *found) == EMPTY) return jump;
  }
  return 0;
}

static void set_jump(const RtMapCell* cell, uint64_t slot, unsigned jump) {
  uint8_t* mark = mark_at(cell, slot);
  *mark = (uint8_t)((*mark & MEMBER) | jump);
}

// Make what lies around `slot` in the order of the map point to it.
static void mend_order(RtMapCell* cell, uint64_t slot) {
  const Entry* entry = entry_at(cell, slot);
  if (entry->before == NOWHERE)
    cell->first = slot;
  else
    entry_at(cell, entry->before)->after = slot;
  if (entry->after == NOWHERE)
    cell->last = slot;
  else
    entry_at(cell, entry->after)->before = slot;
}

static void leave_order(RtMapCell* cell, uint64_t slot) {
  const Entry* entry = entry_at(cell, slot);
  if (entry->before == NOWHERE)
    cell->first = entry->after;
  else
    entry_at(cell, entry->before)->after = entry->after;
  if (entry->after == NOWHERE)
    cell->last = entry->before;
  else
    entry_at(cell, entry->after)->before = entry->before;
}

static void write_entry(RtMapCell* cell, uint64_t slot, uint8_t mark, Pair pair) {
  *mark_at(cell, slot) = mark;
  *entry_at(cell, slot) = (Entry){pair, cell->last, NOWHERE};
  mend_order(cell, slot);
  ++cell->size;
}

// ---- search -----------------------------------------------------------------------------------

static uint64_t find_slot(const RtMapCell* cell, const TVMFFIAny* key) {
  if (cell->size == 0) return NOWHERE;
  uint64_t slot = home_of(cell, key);
  if (!is_head(*mark_at(cell, slot))) return NOWHERE;
  while (slot != NOWHERE && !rt_same_key(&entry_at(cell, slot)->pair.key, key)) {
    slot = follow(cell, slot, *mark_at(cell, slot));
  }
  return slot;
}

static Pair* find_pair(const RtMapCell* cell, const TVMFFIAny* key) {
  if (!is_small(cell)) {
    uint64_t slot = find_slot(cell, key);
    return slot == NOWHERE ? NULL : &entry_at(cell, slot)->pair;
  }
  Pair* pairs = cell->data;
  for (uint64_t i = 0; i < cell->size; ++i) {
    if (rt_same_key(&pairs[i].key, key)) return &pairs[i];
  }
  return NULL;
}

TVMFFIAny* rt_map_find(const TVMFFIObject* map, const TVMFFIAny* key) {
  Pair* pair = find_pair(cell_of(map), key);
  return pair ? &pair->value : NULL;
}

int rt_map_next(const TVMFFIObject* map, RtMapCursor* cursor) {
  const RtMapCell* cell = cell_of(map);
  Pair* pair;
  if (is_small(cell)) {
    cursor->at = cursor->begun ? cursor->at + 1 : 0;
    if (cursor->at >= cell->size) return 0;
    pair = (Pair*)cell->data + cursor->at;
  } else {
    cursor->at = !cursor->begun ? cell->first : entry_at(cell, cursor->at)->after;
    if (cell->size == 0 || cursor->at == NOWHERE) return 0;
    pair = &entry_at(cell, cursor->at)->pair;
  }
  cursor->begun = 1;
  cursor->key = &pair->key;
  cursor->value = &pair->value;
  return 1;
}

// ---- making room ------------------------------------------------------------------------------

static void free_slots(void* data) { free(data); }

// Hashed storage for `expected` pairs and some; -1: no memory.
static int hashed_storage(RtMapCell* cell, uint64_t slots) {
  uint64_t blocks = (slots + BLOCK - 1) / BLOCK;
  Block* data = blocks > PTRDIFF_MAX / sizeof(Block) ? NULL : malloc(blocks * sizeof *data);
  if (!data) return -1;
  for (uint64_t b = 0; b < blocks; ++b) memset(data[b].marks, EMPTY, BLOCK);
  *cell = (RtMapCell){.data = data,
                      .slots = slots,
                      .data_deleter = free_slots,
                      .shift = (uint32_t)(64 - __builtin_ctzll(slots)),
                      .first = NOWHERE,
                      .last = NOWHERE};
  return 0;
}

static int put_hashed(RtMapCell* cell, Pair pair);

// Move all pairs of `from` into storage that is larger, until they fit.
static int rebuild(RtMapCell* to, const RtMapCell* from, uint64_t slots) {
  for (;; slots *= 2) {
    if (hashed_storage(to, slots)) return -1;
    int fits = 1;
    if (is_small(from)) {
      const Pair* pairs = from->data;
      for (uint64_t i = 0; fits && i < from->size; ++i) fits = put_hashed(to, pairs[i]);
    } else {
      for (uint64_t at = from->first; fits && from->size && at != NOWHERE;) {
        const Entry* entry = entry_at(from, at);
        fits = put_hashed(to, entry->pair);
        at = entry->after;
      }
    }
    if (fits) return 0;
    free(to->data);
  }
}

// Put larger storage in the place of what the map has; the pairs move.
static int enlarge(RtMapCell* cell) {
  RtMapCell fresh;
  uint64_t slots = is_small(cell) || cell->slots == 0 ? BLOCK : 2 * cell->slots;
  if (rebuild(&fresh, cell, slots)) return -1;
  if (cell->data_deleter) cell->data_deleter(cell->data);
  *cell = fresh;
  return 0;
}

// ---- putting ----------------------------------------------------------------------------------

// Empty a slot that a chain of another home goes through: that part of the chain moves elsewhere.
// 0: there is no room for it. What has moved by then is in order, the rest is found no more.
static int vacate(RtMapCell* cell, uint64_t slot) {
  uint64_t before = home_of(cell, &entry_at(cell, slot)->pair.key);
  for (uint64_t next; (next = follow(cell, before, *mark_at(cell, before))) != slot;) before = next;
  for (uint64_t from = slot; from != NOWHERE;) {
    uint64_t to;
    unsigned jump = find_empty(cell, before, &to);
    if (!jump) return 0;
    uint8_t mark = *mark_at(cell, from);
    *mark_at(cell, to) = MEMBER;
    *entry_at(cell, to) = *entry_at(cell, from);
    mend_order(cell, to);
    *mark_at(cell, from) = from == slot ? RESERVED : EMPTY;
    set_jump(cell, before, jump);
    before = to;
    from = follow(cell, from, mark);
  }
  return 1;
}

// Put a pair whose key is not there; 0: there is no room for it.
static int put_hashed(RtMapCell* cell, Pair pair) {
  if ((double)(cell->size + 1) > (double)cell->slots * 0.99) return 0;
  uint64_t slot = home_of(cell, &pair.key);
  uint8_t mark = *mark_at(cell, slot);
  if (mark == EMPTY || !is_head(mark)) {
    if (mark != EMPTY && !vacate(cell, slot)) return 0;
    write_entry(cell, slot, 0, pair);
    return 1;
  }
  for (uint64_t next; (next = follow(cell, slot, *mark_at(cell, slot))) != NOWHERE;) slot = next;
  uint64_t tail;
  unsigned jump = find_empty(cell, slot, &tail);
  if (!jump) return 0;
  write_entry(cell, tail, MEMBER, pair);
  set_jump(cell, slot, jump);
  return 1;
}

static int put_new(RtMapCell* cell, Pair pair) {
  if (is_small(cell) && cell->size < (cell->slots & ~SMALL_TAG)) {
    ((Pair*)cell->data)[cell->size++] = pair;
    return 0;
  }
  while (is_small(cell) || cell->slots == 0 || !put_hashed(cell, pair)) {
    if (enlarge(cell)) return -1;
  }
  return 0;
}

int rt_map_swap(TVMFFIObject* map, TVMFFIAny pair[2]) {
  Pair* found = find_pair(cell_of(map), &pair[0]);
  if (found) {
    TVMFFIAny before = found->value;
    found->value = pair[1];
    pair[1] = before;
    return 0;
  }
  if (put_new(cell_of(map), (Pair){pair[0], pair[1]})) return -1;
  pair[0] = pair[1] = (TVMFFIAny){.type_index = kTVMFFINone};
  return 0;
}

int rt_map_put(TVMFFIObject* map, TVMFFIAny key, TVMFFIAny value) {
  TVMFFIAny pair[2] = {key, value};
  int failed = rt_map_swap(map, pair);
  rt_value_release(&pair[0]);
  rt_value_release(&pair[1]);  // last: it may run code that looks at the map
  return failed;
}

// ---- taking out -------------------------------------------------------------------------------

static Pair take_small(RtMapCell* cell, Pair* pair) {
  Pair taken = *pair;
  Pair* end = (Pair*)cell->data + cell->size;
  memmove(pair, pair + 1, (size_t)(end - pair - 1) * sizeof *pair);
  return taken;
}

// The last entry of the chain takes the place of the one that goes.
static Pair take_hashed(RtMapCell* cell, uint64_t slot) {
  Pair taken = entry_at(cell, slot)->pair;
  uint64_t before = NOWHERE, last = slot;
  for (uint64_t next; (next = follow(cell, last, *mark_at(cell, last))) != NOWHERE; last = next) {
    before = last;
  }
  if (before == NOWHERE && !is_head(*mark_at(cell, slot))) {
    before = home_of(cell, &taken.key);
    for (uint64_t next; (next = follow(cell, before, *mark_at(cell, before))) != slot;) {
      before = next;
    }
  }
  leave_order(cell, slot);
  if (last != slot) {
    *entry_at(cell, slot) = *entry_at(cell, last);
    mend_order(cell, slot);
  }
  *mark_at(cell, last) = EMPTY;
  if (before != NOWHERE) set_jump(cell, before, 0);
  return taken;
}

int rt_map_take(TVMFFIObject* map, const TVMFFIAny* key, TVMFFIAny out[2]) {
  RtMapCell* cell = cell_of(map);
  Pair* pair = find_pair(cell, key);
  if (!pair) return 0;
  Pair taken = is_small(cell) ? take_small(cell, pair) : take_hashed(cell, find_slot(cell, key));
  --cell->size;
  out[0] = taken.key;
  out[1] = taken.value;
  return 1;
}

static void release_pairs(const RtMapCell* cell) {
  RtMapObject shell = {.map = *cell};
  RtMapCursor cursor = {0};
  // A pair is read before it goes, and the links between entries stay.
  while (rt_map_next(&shell.head, &cursor)) {
    TVMFFIAny key = *cursor.key, value = *cursor.value;
    rt_value_release(&key);
    rt_value_release(&value);
  }
}

// ---- objects ----------------------------------------------------------------------------------

static void map_delete(void* self, int flags) {
  RtMapCell* cell = cell_of(self);
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    release_pairs(cell);
    if (cell->data_deleter) cell->data_deleter(cell->data);
    *cell = (RtMapCell){.slots = SMALL_TAG};
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) rt_object_free(self);
}

// Slots for so many pairs: the next power of two, and that is more than half empty.
static uint64_t slots_for(uint64_t expected) {
  uint64_t slots = 1;
  for (uint64_t left = expected; left; left >>= 1) slots *= 2;
  return slots < expected * 2 ? slots * 2 : slots;
}

TVMFFIObject* rt_map_new(int32_t type_index, size_t expected) {
  if (expected > PTRDIFF_MAX / sizeof(Entry) / 8) return NULL;
  int small = expected <= SMALL_MOST;
  // Pairs in a row begin where the fields of hashed storage do, which may come to lie there.
  size_t in_row = offsetof(RtMapObject, map.shift) + SMALL_MOST * sizeof(Pair);
  RtMapObject* map = rt_object_new(small ? in_row : sizeof(RtMapObject), type_index, map_delete);
  if (!map) return NULL;
  if (small) {
    map->map.data = &map->map.shift;
    map->map.slots = SMALL_MOST | SMALL_TAG;
  } else if (hashed_storage(&map->map, slots_for(expected))) {
    rt_object_free(map);
    return NULL;
  }
  return &map->head;
}

// The pairs go with storage of their own: dropping them may run code that fills the map anew.
void rt_map_take_all(TVMFFIObject* map, RtMapContent* out) {
  RtMapCell* cell = cell_of(map);
  out->map = *cell;
  if (is_small(cell)) {
    uint64_t size = cell->size < SMALL_MOST ? cell->size : SMALL_MOST;
    memcpy(out->few, cell->data, size * sizeof(Pair));
    cell->size = 0;
    out->map.size = size;
    out->map.data_deleter = NULL;
  } else if (hashed_storage(cell, slots_for(SMALL_MOST + 1))) {
    *cell = (RtMapCell){.data = NULL, .slots = 0, .shift = 63, .first = NOWHERE, .last = NOWHERE};
  }
}

void rt_map_drop(RtMapContent* content) {
  if (is_small(&content->map)) content->map.data = content->few;
  release_pairs(&content->map);
  if (content->map.data_deleter) content->map.data_deleter(content->map.data);
}

void rt_map_clear(TVMFFIObject* map) {
  RtMapContent content;
  rt_map_take_all(map, &content);
  rt_map_drop(&content);
}
