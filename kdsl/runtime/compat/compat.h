// compat.h: what the files of our libtvm_ffi.so share; none of it is visible outside.
#pragma once
#include <pthread.h>
#include <stdarg.h>

#include "api.h"

#define COLD __attribute__((cold, noinline))
#define LITERAL(text) ((TVMFFIByteArray){text, sizeof(text) - 1})

// ---- memory of the process: tables only grow, so that what a reader holds stays

/// Held for every change of a table; the holder calls nobody's code. Safe over fork.
void lock_tables(void);
void unlock_tables(void);
/// A copy with a NUL behind it that stays for good; data is NULL when there is no memory.
TVMFFIByteArray keep_bytes(TVMFFIByteArray bytes);
static inline TVMFFIByteArray bytes_of(const char* text) {
  return (TVMFFIByteArray){text, text ? __builtin_strlen(text) : 0};
}
int same_bytes(TVMFFIByteArray a, TVMFFIByteArray b);

/// Names to positions in a table of their owner; guarded by the lock.
typedef struct {
  TVMFFIByteArray* keys;
  int32_t* values;
  size_t capacity, used;
} Names;
/// -1: no such name.
int32_t names_find(const Names* names, TVMFFIByteArray key);
/// -1: no memory. `key` stays where it is for good.
int names_put(Names* names, TVMFFIByteArray key, int32_t value);

// ---- object.c

static inline int is_object(const TVMFFIAny* value) {
  return value->type_index >= kTVMFFIStaticObjectBegin;
}
void retain(void* object);
void release(void* object);
void release_any(const TVMFFIAny* value);
void start_object(void* object, int32_t type_index, void (*deleter)(void*, int));
/// A String or Bytes in the smallest form; -1 with the error raised.
int text_value(int heap_index, TVMFFIByteArray bytes, TVMFFIAny* out);
/// What a value of any string or bytes form holds; 0: it is another value.
int text_of(const TVMFFIAny* value, TVMFFIByteArray* out);

// ---- error.c

/// Raise with a text made as by printf. Returns -1.
COLD int fail(const char* kind, const char* format, ...) __attribute__((format(printf, 2, 3)));
int no_memory(void);
void drop_raised(void);

// ---- types.c

/// Indices are less than this.
#define MAX_TYPES (64 * 1024)
/// The record, or NULL for an index that nobody has.
TVMFFITypeInfo* type_info(int32_t type_index);
/// The name of the type of a value, for messages.
const char* type_name(int32_t type_index);
void register_types(void);
void register_attributes(void);
int32_t count_types(void (*each)(void* context, const TVMFFITypeInfo* info), void* context);

// ---- function.c

TVMFFIObject* new_function(void* self, TVMFFISafeCallType call, void (*deleter)(void*));
/// Registers a function without a `self` under that name, when the library is loaded.
void define(const char* name, TVMFFISafeCallType call);
void define_with(const char* name, void* self, TVMFFISafeCallType call);
int remove_global(TVMFFIByteArray name);
/// The JSON text that a function was registered with; "" for one without.
int global_metadata(TVMFFIByteArray name, TVMFFIAny* out);
/// Array of the names of all global functions, as owned values; NULL: no memory.
TVMFFIAny* global_names(int32_t* count);

// ---- tensor.c

/// A compact CPU tensor of ours, 64-byte-aligned; NULL with the error raised.
TVMFFIObject* new_tensor(const DLTensor* prototype);
static inline DLTensor* tensor_of(void* object) { return (DLTensor*)((TVMFFIObject*)object + 1); }

// ---- other.c

/// Functions of an official libtvm_ffi.so that came into the process after this one: from then on
/// it holds the process's state. NULL while there is none.
typedef struct {
  void (*error_move_from_raised)(TVMFFIObjectHandle* out);
  void (*error_set_raised)(TVMFFIObjectHandle error);
  int (*function_get_global)(const TVMFFIByteArray* name, TVMFFIObjectHandle* out);
  int (*function_set_global)(const TVMFFIByteArray* name, TVMFFIObjectHandle function,
                             int allow_override);
  int (*set_stream)(int32_t device_type, int32_t device_id, void* stream, void** original);
  void* (*get_stream)(int32_t device_type, int32_t device_id);
  int (*set_allocator)(DLPackManagedTensorAllocator allocator, int write_to_global_context,
                       DLPackManagedTensorAllocator* original);
  DLPackManagedTensorAllocator (*get_allocator)(void);
  int (*check_signals)(void);
  int32_t (*type_get_or_alloc)(const TVMFFIByteArray* key, int32_t static_index, int32_t depth,
                               int32_t child_slots, int32_t can_overflow, int32_t parent_index);
  int (*type_key_to_index)(const TVMFFIByteArray* key, int32_t* out);
  const TVMFFITypeInfo* (*get_type_info)(int32_t type_index);
  int (*register_field)(int32_t type_index, const TVMFFIFieldInfo* info);
  int (*register_method)(int32_t type_index, const TVMFFIMethodInfo* info);
  int (*register_metadata)(int32_t type_index, const TVMFFITypeMetadata* metadata);
  int (*register_attr)(int32_t type_index, const TVMFFIByteArray* name, const TVMFFIAny* value);
} Official;
const Official* official(void);
/// Tell it the functions and types that this library has and it lacks.
void share_globals(const Official* other);
void share_types(const Official* other);
void share_attributes(const Official* other, int32_t type_index);
