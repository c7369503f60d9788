// types.c: the table of types: keys, indices, ancestors.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"

// Indices that a process gives out begin well above those of an official library, which begins at
// 128: should one come later, no type of its own has the index of one of ours.
#define DYNAMIC_BEGIN 4096
#define CHUNK 1024
#define CHUNKS (MAX_TYPES / CHUNK)

typedef struct {
  TVMFFITypeInfo info;
  int32_t slots, slots_used;  ///< indices behind its own that are kept for its children
  int can_overflow;
} Type;

static Type** chunks[CHUNKS];  // read without the lock
static Names keys;
static int32_t next_index = DYNAMIC_BEGIN;

static Type* find_type(int32_t index) {
  if (index < 0 || index >= MAX_TYPES) return NULL;
  Type** chunk = __atomic_load_n(&chunks[index / CHUNK], __ATOMIC_ACQUIRE);
  return chunk ? __atomic_load_n(&chunk[index % CHUNK], __ATOMIC_ACQUIRE) : NULL;
}

TVMFFITypeInfo* type_info(int32_t index) {
  Type* type = find_type(index);
  return type ? &type->info : NULL;
}

const char* type_name(int32_t index) {
  const Type* type = find_type(index);
  return type ? type->info.type_key.data : "an unknown type";
}

// ---- new types, with the lock held
// ---------------------------------------------------------------

static int put_type(int32_t index, Type* type) {
  Type** chunk = chunks[index / CHUNK];
  if (!chunk) {
    if (!(chunk = calloc(CHUNK, sizeof *chunk))) return -1;
    __atomic_store_n(&chunks[index / CHUNK], chunk, __ATOMIC_RELEASE);
  }
  __atomic_store_n(&chunk[index % CHUNK], type, __ATOMIC_RELEASE);
  return 0;
}

static uint64_t hash_of(TVMFFIByteArray key) {
  uint64_t hash = 14695981039346656037ull;
  for (size_t i = 0; i < key.size; ++i) hash = (hash ^ (uint8_t)key.data[i]) * 1099511628211ull;
  return hash;
}

// From the slots of the nearest ancestor that has room, else a new one; -1: there is none.
static int32_t free_index(Type* parent, int32_t wanted) {
  for (Type* type = parent; type;) {
    if (type->slots_used + wanted <= type->slots) {
      int32_t index = type->info.type_index + 1 + type->slots_used;
      type->slots_used += wanted;
      return index;
    }
    if (!type->can_overflow) return -1;
    int32_t depth = type->info.type_depth;
    type = depth > 0 ? find_type(type->info.type_ancestors[depth - 1]->type_index) : NULL;
  }
  int32_t index = next_index;
  if (index + wanted > MAX_TYPES) return -1;
  next_index += wanted;
  return index;
}

static int32_t add_type(TVMFFIByteArray key, int32_t static_index, Type* parent, int32_t slots,
                        int can_overflow) {
  int32_t depth = parent ? parent->info.type_depth + 1 : 0;
  Type* type = calloc(1, sizeof *type);
  const TVMFFITypeInfo** ancestors = calloc((size_t)depth + 1, sizeof *ancestors);
  key = keep_bytes(key);
  int32_t index = static_index >= 0 ? static_index : free_index(parent, slots + 1);
  if (!type || !ancestors || !key.data || index < 0) goto failed;
  if (parent) {
    size_t above = (size_t)parent->info.type_depth;
    memcpy(ancestors, parent->info.type_ancestors, above * sizeof *ancestors);
    ancestors[above] = &parent->info;
  }
  type->info = (TVMFFITypeInfo){.type_index = index,
                                .type_depth = depth,
                                .type_key = key,
                                .type_ancestors = ancestors,
                                .type_key_hash = hash_of(key)};
  type->slots = slots;
  type->can_overflow = can_overflow;
  if (put_type(index, type) || names_put(&keys, key, index)) goto failed;
  return index;
failed:
  free(type);
  free(ancestors);
  free((char*)key.data);
  return -1;
}

int32_t TVMFFITypeGetOrAllocIndex(const TVMFFIByteArray* key, int32_t static_index, int32_t depth,
                                  int32_t child_slots, int32_t child_slots_can_overflow,
                                  int32_t parent_index) {
  const Official* other = official();
  lock_tables();
  int32_t index = names_find(&keys, *key);
  if (index < 0 && !other) {
    Type* parent = find_type(parent_index);
    int taken = static_index >= 0 && find_type(static_index);
    if (!taken) {
      index = add_type(*key, static_index, parent, child_slots, child_slots_can_overflow);
    }
  }
  unlock_tables();
  if (index < 0 && other) {  // types that come now are the official library's
    return other->type_get_or_alloc(key, static_index, depth, child_slots, child_slots_can_overflow,
                                    parent_index);
  }
  if (index < 0) {
    fail("RuntimeError", "no type index for `%.*s`: %s", (int)key->size, key->data,
         static_index >= 0 ? "its static index belongs to another type" : "the table is full");
  }
  return index;
}

int TVMFFITypeKeyToIndex(const TVMFFIByteArray* key, int32_t* out) {
  lock_tables();
  int32_t index = names_find(&keys, *key);
  unlock_tables();
  const Official* other = index < 0 ? official() : NULL;
  if (other) return other->type_key_to_index(key, out);
  if (index < 0) {
    return fail("KeyError", "Cannot find type `%.*s`", (int)key->size, key->data);
  }
  *out = index;
  return 0;
}

const TVMFFITypeInfo* TVMFFIGetTypeInfo(int32_t type_index) {
  // Headers read the answer without a look: an index of nobody's is an object, and no more.
  const TVMFFITypeInfo* info = type_info(type_index);
  const Official* other = info ? NULL : official();
  if (other) return other->get_type_info(type_index);
  return info ? info : type_info(kTVMFFIObject);
}

int32_t count_types(void (*each)(void* context, const TVMFFITypeInfo* info), void* context) {
  int32_t count = 0, end = __atomic_load_n(&next_index, __ATOMIC_RELAXED);
  for (int32_t i = 0; i < end; ++i) {
    const TVMFFITypeInfo* info = type_info(i);
    if (!info) continue;
    if (each) each(context, info);
    ++count;
  }
  return count;
}

// ---- for an official library that came later
// -----------------------------------------------------

static void share_type(const Official* other, const TVMFFITypeInfo* info) {
  const Type* type = find_type(info->type_index);
  int32_t parent = info->type_ancestors[info->type_depth - 1]->type_index;
  int32_t index = other->type_get_or_alloc(&info->type_key, info->type_index, info->type_depth,
                                           type->slots, type->can_overflow, parent);
  if (index != info->type_index) {  // it has one of that name; objects of ours need theirs, too
    char name[256];
    snprintf(name, sizeof name, "%s@%d", info->type_key.data, info->type_index);
    TVMFFIByteArray key = bytes_of(name);
    other->type_get_or_alloc(&key, info->type_index, info->type_depth, type->slots,
                             type->can_overflow, parent);
  }
  for (int32_t i = 0; i < info->num_fields; ++i) {
    other->register_field(info->type_index, &info->fields[i]);
  }
  for (int32_t i = 0; i < info->num_methods; ++i) {
    other->register_method(info->type_index, &info->methods[i]);
  }
  if (info->metadata) other->register_metadata(info->type_index, info->metadata);
  share_attributes(other, info->type_index);
}

void share_types(const Official* other) {
  int32_t end = __atomic_load_n(&next_index, __ATOMIC_ACQUIRE);
  if (end == DYNAMIC_BEGIN) return;
  // Its table must reach as far as ours. A type that is of no use, with room for children behind
  // it, makes it longer; where it ends is told by another one.
  TVMFFIByteArray probe = LITERAL("kdsl.TableProbe"), spacer = LITERAL("kdsl.TableSpacer");
  int32_t at = other->type_get_or_alloc(&probe, -1, 1, 0, 0, kTVMFFIObject);
  if (at < 0 || at >= DYNAMIC_BEGIN) return;
  other->type_get_or_alloc(&spacer, -1, 1, end - at, 0, kTVMFFIObject);
  for (int32_t i = DYNAMIC_BEGIN; i < end; ++i) {
    const TVMFFITypeInfo* info = type_info(i);
    if (info && info->type_depth > 0) share_type(other, info);
  }
}

// ---- those that every process has
// ----------------------------------------------------------------

static const struct {
  int32_t index;
  const char* key;
} basic[] = {
    {kTVMFFINone, "None"},
    {kTVMFFIInt, "int"},
    {kTVMFFIBool, "bool"},
    {kTVMFFIFloat, "float"},
    {kTVMFFIOpaquePtr, "void*"},
    {kTVMFFIDataType, "DataType"},
    {kTVMFFIDevice, "Device"},
    {kTVMFFIDLTensorPtr, "DLTensor*"},
    {kTVMFFIRawStr, "const char*"},
    {kTVMFFIByteArrayPtr, "TVMFFIByteArray*"},
    {kTVMFFIObjectRValueRef, "ObjectRValueRef"},
    {kTVMFFISmallStr, "ffi.SmallStr"},
    {kTVMFFISmallBytes, "ffi.SmallBytes"},
    {kTVMFFIUnchanged, "ffi.Unchanged"},
    {kTVMFFIObject, "ffi.Object"},
    {kTVMFFIStr, "ffi.String"},
    {kTVMFFIBytes, "ffi.Bytes"},
    {kTVMFFIError, "ffi.Error"},
    {kTVMFFIFunction, "ffi.Function"},
    {kTVMFFIShape, "ffi.Shape"},
    {kTVMFFITensor, "ffi.Tensor"},
    {kTVMFFIArray, "ffi.Array"},
    {kTVMFFIMap, "ffi.Map"},
    {kTVMFFIModule, "ffi.Module"},
    {kTVMFFIOpaquePyObject, "ffi.OpaquePyObject"},
    {kTVMFFIList, "ffi.List"},
    {kTVMFFIDict, "ffi.Dict"},
    {kTVMFFIVisitInterrupt, "ffi.VisitInterrupt"},
    {kTVMFFIBigInt, "ffi.BigInt"},
};

// Types that hosts look up as they start; nothing here makes objects of them.
static const char* const known[] = {
    "ffi.EnumState",
    "ffi.Enum",
    "ffi.reflection.AccessStep",
    "ffi.reflection.AccessPath",
    "ffi.StructuralKey",
    "ffi.StructuralVisitor",
    "ffi.StructuralMutator",
    "ffi.VisitErrorContext",
};

void register_types(void) {
  lock_tables();
  for (size_t i = 0; i < sizeof basic / sizeof *basic; ++i) {
    Type* parent = basic[i].index > kTVMFFIObject ? find_type(kTVMFFIObject) : NULL;
    add_type(bytes_of(basic[i].key), basic[i].index, parent, 0, 1);
  }
  for (size_t i = 0; i < sizeof known / sizeof *known; ++i) {
    add_type(bytes_of(known[i]), -1, find_type(kTVMFFIObject), 0, 1);
  }
  Type* enumeration = find_type(names_find(&keys, LITERAL("ffi.Enum")));
  add_type(LITERAL("ffi.IntEnum"), -1, enumeration, 0, 1);
  add_type(LITERAL("ffi.StrEnum"), -1, enumeration, 0, 1);
  unlock_tables();
}
