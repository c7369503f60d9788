// object.c: reference counts, values that own, opaque objects; texts of every form.
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "compat.h"

#define VERSION_PATCH 15
#define SMALL_TEXT 7  // bytes that fit into a value

void TVMFFIGetVersion(TVMFFIVersion* out) { *out = (TVMFFIVersion){0, 1, VERSION_PATCH}; }

// ---- counts ------------------------------------------------------------------------------------

void retain(void* object) {
  __atomic_fetch_add(&((TVMFFIObject*)object)->combined_ref_count, 1, __ATOMIC_RELAXED);
}

void release(void* object) {
  TVMFFIObject* self = object;
  uint64_t before = __atomic_fetch_sub(&self->combined_ref_count, 1, __ATOMIC_RELEASE);
  if ((before & 0xffffffffu) != 1) return;
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (before == KDSL_REF_COUNT_ONE) {
    if (self->deleter) self->deleter(self, kTVMFFIObjectDeleterFlagBitMaskBoth);
    return;
  }
  // Weak references remain: the last of them frees the memory.
  if (self->deleter) self->deleter(self, kTVMFFIObjectDeleterFlagBitMaskStrong);
  before = __atomic_fetch_sub(&self->combined_ref_count, 1ull << 32, __ATOMIC_ACQ_REL);
  if (before >> 32 == 1 && self->deleter) {
    self->deleter(self, kTVMFFIObjectDeleterFlagBitMaskWeak);
  }
}

void release_any(const TVMFFIAny* value) {
  if (is_object(value) && value->v_obj) release(value->v_obj);
}

int TVMFFIObjectIncRef(TVMFFIObjectHandle object) {
  if (object) retain(object);
  return 0;
}

int TVMFFIObjectDecRef(TVMFFIObjectHandle object) {
  if (object) release(object);
  return 0;
}

void start_object(void* object, int32_t type_index, void (*deleter)(void*, int)) {
  *(TVMFFIObject*)object = (TVMFFIObject){KDSL_REF_COUNT_ONE, type_index, 0, deleter};
}

// ---- opaque objects ----------------------------------------------------------------------------

typedef struct {
  TVMFFIObject header;
  TVMFFIOpaqueObjectCell cell;
  void (*deleter)(void*);
} Opaque;

static void delete_opaque(void* object, int flags) {
  Opaque* self = object;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong && self->deleter) {
    self->deleter(self->cell.handle);
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) free(self);
}

int TVMFFIObjectCreateOpaque(void* handle, int32_t type_index, void (*deleter)(void*),
                             TVMFFIObjectHandle* out) {
  if (type_index != kTVMFFIOpaquePyObject) {
    return fail("RuntimeError", "TVMFFIObjectCreateOpaque: expected type index %d, got %d",
                kTVMFFIOpaquePyObject, type_index);
  }
  Opaque* self = malloc(sizeof *self);
  if (!self) return no_memory();
  start_object(self, type_index, delete_opaque);
  self->cell.handle = handle;
  self->deleter = deleter;
  *out = self;
  return 0;
}

// Modules of one release ask for the memory of their objects here. In front of an object stands the
// function that its deleter calls to free it. What this library makes itself is plain malloc.
#define ALLOCATION_HEAD 16
static TVMFFICustomAllocator* custom_allocator;

static void plain_free(void* object) { free((char*)object - ALLOCATION_HEAD); }

static void* plain_allocate(size_t size, size_t alignment, int32_t type_index, void* context) {
  (void)type_index, (void)context;
  char* block = alignment > ALLOCATION_HEAD ? NULL : malloc(ALLOCATION_HEAD + size);
  if (!block) {
    no_memory();
    return NULL;
  }
  void (**in_front)(void*) = (void (**)(void*))(block + ALLOCATION_HEAD);
  in_front[-1] = plain_free;
  return block + ALLOCATION_HEAD;
}

TVMFFICustomAllocator* TVMFFIGetCustomAllocator(void) {
  static TVMFFICustomAllocator plain = {plain_allocate, NULL};
  TVMFFICustomAllocator* set = __atomic_load_n(&custom_allocator, __ATOMIC_ACQUIRE);
  return set ? set : &plain;
}

int TVMFFISetCustomAllocator(TVMFFICustomAllocator* allocator) {
  __atomic_store_n(&custom_allocator, allocator, __ATOMIC_RELEASE);
  return 0;
}

// ---- texts -------------------------------------------------------------------------------------

static void delete_text(void* object, int flags) {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) free(object);
}

int text_value(int heap_index, TVMFFIByteArray bytes, TVMFFIAny* out) {
  *out = (TVMFFIAny){0};
  if (bytes.size <= SMALL_TEXT) {
    out->type_index = heap_index == kTVMFFIStr ? kTVMFFISmallStr : kTVMFFISmallBytes;
    out->small_str_len = (uint32_t)bytes.size;
    if (bytes.size) memcpy(out->v_bytes, bytes.data, bytes.size);
    return 0;
  }
  KdslStringObject* self = malloc(sizeof *self + bytes.size + 1);
  if (!self) return no_memory();
  start_object(self, heap_index, delete_text);
  char* copy = (char*)(self + 1);
  if (bytes.size) memcpy(copy, bytes.data, bytes.size);
  copy[bytes.size] = '\0';
  self->bytes = (TVMFFIByteArray){copy, bytes.size};
  out->type_index = heap_index;
  out->v_obj = &self->head;
  return 0;
}

int text_of(const TVMFFIAny* value, TVMFFIByteArray* out) {
  switch (value->type_index) {
    case kTVMFFISmallStr:
    case kTVMFFISmallBytes:
      *out = (TVMFFIByteArray){value->v_bytes, value->small_str_len};
      return 1;
    case kTVMFFIRawStr:
      *out = bytes_of(value->v_c_str);
      return 1;
    case kTVMFFIByteArrayPtr:
      *out = *(const TVMFFIByteArray*)value->v_ptr;
      return 1;
    case kTVMFFIStr:
    case kTVMFFIBytes:
      *out = ((const KdslStringObject*)value->v_obj)->bytes;
      return 1;
    default:
      return 0;
  }
}

int TVMFFIStringFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out) {
  return text_value(kTVMFFIStr, *input, out);
}

int TVMFFIBytesFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out) {
  return text_value(kTVMFFIBytes, *input, out);
}

// ---- integers of more than 64 bits: words of two's complement, the lowest first -----------------

typedef struct {
  TVMFFIObject header;
  size_t word_count;
  int64_t words[];
} BigInt;
_Static_assert(offsetof(BigInt, words) == 32, "ABI: words of a BigInt begin at 32");

int TVMFFIBigIntFromByteArray(const TVMFFIByteArray* input, TVMFFIAny* out) {
  size_t size = input->size, word = sizeof(int64_t);
  int64_t top = 0, below = 0;
  if (size % word) {
    return fail("ValueError", "an integer is made of whole 64-bit words, got %zu bytes", size);
  }
  if (size) memcpy(&top, input->data + size - word, word);
  for (; size > word;
       size -= word, top = below) {  // a word that only repeats the sign says nothing
    memcpy(&below, input->data + size - 2 * word, word);
    if (top != (below < 0 ? -1 : 0)) break;
  }
  if (size <= word) {
    *out = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = top};
    return 0;
  }
  BigInt* self = malloc(sizeof *self + size);
  if (!self) return no_memory();
  start_object(self, kTVMFFIBigInt, delete_text);
  self->word_count = size / word;
  memcpy(self->words, input->data, size);
  *out = (TVMFFIAny){.type_index = kTVMFFIBigInt, .v_obj = &self->header};
  return 0;
}

TVMFFIByteArray TVMFFIBigIntGetContentByteArray(const TVMFFIAny* value) {
  if (value->type_index == kTVMFFIBigInt) {
    const BigInt* number = (const BigInt*)value->v_obj;
    return (TVMFFIByteArray){(const char*)number->words, number->word_count * sizeof(int64_t)};
  }
  return (TVMFFIByteArray){(const char*)&value->v_int64, sizeof value->v_int64};
}

// ---- borrowed to owned
// ---------------------------------------------------------------------------

int TVMFFIAnyViewToOwnedAny(const TVMFFIAny* view, TVMFFIAny* out) {
  TVMFFIByteArray bytes;
  switch (view->type_index) {
    case kTVMFFIRawStr:
    case kTVMFFIByteArrayPtr:
      text_of(view, &bytes);
      return text_value(view->type_index == kTVMFFIRawStr ? kTVMFFIStr : kTVMFFIBytes, bytes, out);
    case kTVMFFIObjectRValueRef: {  // the caller gives the object away
      TVMFFIObject** place = view->v_ptr;
      TVMFFIObject* object = *place;
      *place = NULL;
      *out = (TVMFFIAny){.type_index = object ? object->type_index : kTVMFFINone, .v_obj = object};
      return 0;
    }
    default:
      *out = *view;
      if (is_object(out)) retain(out->v_obj);
      return 0;
  }
}
