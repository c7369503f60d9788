// fuzzed.c: a function whose metadata and doc are whatever was set last.
#include <kdsl/ffi/c_abi.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PACKED(name)                                                                             \
  EXPORT int __tvm_ffi_##name(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* ret); \
  int __tvm_ffi_##name(                                                                          \
      __attribute__((unused)) void* self, __attribute__((unused)) const TVMFFIAny* args,         \
      __attribute__((unused)) int32_t count, __attribute__((unused)) TVMFFIAny* ret)

static char* text;
static size_t size;

// set(bytes): any bytes.
PACKED(set) {
  const char* data = args[0].v_bytes;
  size = args[0].small_str_len;
  if (args[0].type_index == kTVMFFIByteArrayPtr) {
    data = ((const TVMFFIByteArray*)args[0].v_ptr)->data;
    size = ((const TVMFFIByteArray*)args[0].v_ptr)->size;
  } else if (args[0].type_index == kTVMFFIBytes) {
    data = ((const KdslStringObject*)args[0].v_obj)->bytes.data;
    size = ((const KdslStringObject*)args[0].v_obj)->bytes.size;
  }
  free(text);
  text = malloc(size + 1);
  memcpy(text, data, size);
  text[size] = '\0';
  return 0;
}

static void delete_text(void* self, int flags) {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) free(self);
}

static int give(TVMFFIAny* ret) {
  KdslStringObject* string = malloc(sizeof *string + size + 1);
  string->head = (TVMFFIObject){KDSL_REF_COUNT_ONE, kTVMFFIStr, 0, delete_text};
  memcpy(string + 1, text ? text : "", size);
  string->bytes = (TVMFFIByteArray){(const char*)(string + 1), size};
  *ret = (TVMFFIAny){.type_index = kTVMFFIStr, .v_obj = &string->head};
  return 0;
}

PACKED(_metadata_fuzzed) { return give(ret); }
PACKED(_doc_fuzzed) { return give(ret); }
PACKED(fuzzed) {
  *ret = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = count};
  return 0;
}
