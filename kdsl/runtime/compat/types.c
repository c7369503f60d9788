// types.c: the table of types: keys, indices, ancestors.
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
  (void)depth;  // the parent has it
  lock_tables();
  int32_t index = names_find(&keys, *key);
  if (index < 0) {
    Type* parent = find_type(parent_index);
    int taken = static_index >= 0 && find_type(static_index);
    if (!taken) {
      index = add_type(*key, static_index, parent, child_slots, child_slots_can_overflow);
    }
  }
  unlock_tables();
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
  if (index < 0) {
    return fail("KeyError", "Cannot find type `%.*s`", (int)key->size, key->data);
  }
  *out = index;
  return 0;
}

const TVMFFITypeInfo* TVMFFIGetTypeInfo(int32_t type_index) {
  // Headers read the answer without a look: an index of nobody's is an object, and no more.
  const TVMFFITypeInfo* info = type_info(type_index);
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

void register_types(void) {
  lock_tables();
  for (size_t i = 0; i < sizeof basic / sizeof *basic; ++i) {
    Type* parent = basic[i].index > kTVMFFIObject ? find_type(kTVMFFIObject) : NULL;
    add_type(bytes_of(basic[i].key), basic[i].index, parent, 0, 1);
  }
  unlock_tables();
}
