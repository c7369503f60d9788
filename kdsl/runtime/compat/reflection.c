// reflection.c: fields, methods, metadata and attributes that types are given.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "compat.h"

// A list that readers look at without the lock: it moves when it grows, and the old one stays.
static void* grown(const void* old, int32_t count, size_t size) {
  // Room for 4, 8, 16 ...: full when the count is a power of two from 4 on, or 0.
  int full = count == 0 || (count >= 4 && (count & (count - 1)) == 0);
  if (!full) return (void*)old;
  void* larger = calloc(count ? 2 * (size_t)count : 4, size);
  if (larger && count) memcpy(larger, old, (size_t)count * size);
  return larger;
}

static TVMFFIAny keep_value(const TVMFFIAny* value) {
  if (is_object(value) && value->v_obj) retain(value->v_obj);
  return *value;
}

static TVMFFIByteArray keep_text(TVMFFIByteArray text) {
  return text.data ? keep_bytes(text) : text;
}

static int unknown(int32_t type_index) {
  return fail("RuntimeError", "no type has index %d", type_index);
}

int TVMFFITypeRegisterField(int32_t type_index, const TVMFFIFieldInfo* info) {
  TVMFFITypeInfo* type = type_info(type_index);
  const Official* other = type ? NULL : official();
  if (other) return other->register_field(type_index, info);
  if (!type) return unknown(type_index);
  TVMFFIFieldInfo copy = *info;
  lock_tables();
  TVMFFIFieldInfo* list = grown(type->fields, type->num_fields, sizeof *list);
  if (list) {
    copy.name = keep_text(info->name);
    copy.doc = keep_text(info->doc);
    copy.metadata = keep_text(info->metadata);
    copy.default_value_or_factory = keep_value(&info->default_value_or_factory);
    if (info->flags & 1 << 11 && info->setter) retain(info->setter);  // the setter is a Function
    list[type->num_fields] = copy;
    type->fields = list;
    ++type->num_fields;
  }
  unlock_tables();
  return list ? 0 : no_memory();
}

int TVMFFITypeRegisterMethod(int32_t type_index, const TVMFFIMethodInfo* info) {
  TVMFFITypeInfo* type = type_info(type_index);
  const Official* other = type ? NULL : official();
  if (other) return other->register_method(type_index, info);
  if (!type) return unknown(type_index);
  TVMFFIMethodInfo copy = *info;
  lock_tables();
  TVMFFIMethodInfo* list = grown(type->methods, type->num_methods, sizeof *list);
  if (list) {
    copy.name = keep_text(info->name);
    copy.doc = keep_text(info->doc);
    copy.metadata = keep_text(info->metadata);
    copy.method = keep_value(&info->method);
    list[type->num_methods] = copy;
    type->methods = list;
    ++type->num_methods;
  }
  unlock_tables();
  return list ? 0 : no_memory();
}

int TVMFFITypeRegisterMetadata(int32_t type_index, const TVMFFITypeMetadata* metadata) {
  TVMFFITypeInfo* type = type_info(type_index);
  const Official* other = type ? NULL : official();
  if (other) return other->register_metadata(type_index, metadata);
  if (!type) return unknown(type_index);
  TVMFFITypeMetadata* copy = malloc(sizeof *copy);
  if (!copy) return no_memory();
  *copy = *metadata;
  copy->doc = keep_text(metadata->doc);
  lock_tables();
  int known = type->metadata != NULL;
  if (!known) type->metadata = copy;
  unlock_tables();
  if (known) {
    free((char*)copy->doc.data);
    free(copy);
    return fail("RuntimeError", "type `%s` has metadata already", type->type_key.data);
  }
  return 0;
}

// ---- attributes: a column of values by type
// ------------------------------------------------------

// A column has an address for every type there can be, so that it never moves under a reader; pages
// that nobody wrote cost nothing.
#define COLUMN_BYTES (MAX_TYPES * sizeof(TVMFFIAny))

static Names columns;
static TVMFFITypeAttrColumn** column_list;
static int32_t column_count;

static TVMFFITypeAttrColumn* new_column(TVMFFIByteArray name) {
  TVMFFITypeAttrColumn** larger = realloc(column_list, ((size_t)column_count + 1) * sizeof *larger);
  if (!larger) return NULL;
  column_list = larger;
  TVMFFITypeAttrColumn* column = calloc(1, sizeof *column);
  void* values = mmap(NULL, COLUMN_BYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  name = keep_bytes(name);
  if (!column || values == MAP_FAILED || !name.data) return NULL;
  column->data = values;
  if (names_put(&columns, name, column_count)) return NULL;
  return column_list[column_count++] = column;
}

int TVMFFITypeRegisterAttr(int32_t type_index, const TVMFFIByteArray* name,
                           const TVMFFIAny* value) {
  const Official* other = type_info(type_index) ? NULL : official();
  if (other) return other->register_attr(type_index, name, value);
  if (!type_info(type_index)) return unknown(type_index);
  lock_tables();
  int32_t at = names_find(&columns, *name);
  TVMFFITypeAttrColumn* column = at < 0 ? new_column(*name) : column_list[at];
  int failed = !column, taken = 0;
  if (!failed && value->type_index != kTVMFFINone) {  // None makes the column, no more
    TVMFFIAny* slot = (TVMFFIAny*)&column->data[type_index];
    taken = slot->type_index != kTVMFFINone;
    if (!taken) *slot = keep_value(value);
    if (column->size <= type_index) {
      __atomic_store_n(&column->size, type_index + 1, __ATOMIC_RELEASE);
    }
  }
  unlock_tables();
  if (failed) return no_memory();
  if (!taken) return 0;
  return fail("RuntimeError", "type `%s` has an attribute `%.*s` already", type_name(type_index),
              (int)name->size, name->data);
}

const TVMFFITypeAttrColumn* TVMFFIGetTypeAttrColumn(const TVMFFIByteArray* name) {
  lock_tables();
  int32_t at = names_find(&columns, *name);
  const TVMFFITypeAttrColumn* column = at < 0 ? NULL : column_list[at];
  unlock_tables();
  return column;
}

// Code of the headers takes it for granted that these columns are there.
void register_attributes(void) {
  static const char* const names[] = {
      "__any_equal__",
      "__any_hash__",
      "__data_from_json__",
      "__data_to_json__",
      "__ffi_compare__",
      "__ffi_convert__",
      "__ffi_convert_type_schema__",
      "__ffi_enum__",
      "__ffi_eq__",
      "__ffi_hash__",
      "__ffi_init__",
      "__ffi_new__",
      "__ffi_repr__",
      "__ffi_shallow_copy__",
      "__ffi_type_final__",
      "__s_equal__",
      "__s_hash__",
      "__s_mutate__",
      "__s_maybe_inplace_mutate__",
      "__s_visit__",
  };
  lock_tables();
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) new_column(bytes_of(names[i]));
  unlock_tables();
}

void share_attributes(const Official* other, int32_t type_index) {
  for (size_t i = 0;; ++i) {
    lock_tables();
    int done = i >= columns.capacity;
    TVMFFIByteArray name = done ? LITERAL("") : columns.keys[i];
    const TVMFFITypeAttrColumn* column = name.data && !done ? column_list[columns.values[i]] : NULL;
    unlock_tables();
    if (done) return;
    if (!column || type_index >= column->size) continue;
    if (column->data[type_index].type_index == kTVMFFINone) continue;
    other->register_attr(type_index, &name, &column->data[type_index]);
  }
}
