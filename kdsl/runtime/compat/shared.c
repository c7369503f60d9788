// shared.c: what the containers of ../csrc, which this library shares, ask for.
#include <stdlib.h>

#include "builtin.h"

void* rt_object_new(size_t size, int32_t type_index, void (*deleter)(void* self, int flags)) {
  void* object = calloc(1, size);
  if (object) start_object(object, type_index, deleter);
  return object;
}

void rt_object_free(void* object) { free(object); }
void rt_incref(void* object) { retain(object); }
void rt_decref(void* object) { release(object); }

void rt_value_retain(const TVMFFIAny* value) {
  if (is_object(value) && value->v_obj) retain(value->v_obj);
}

void rt_value_release(TVMFFIAny* value) {
  TVMFFIAny old = *value;
  *value = (TVMFFIAny){0};
  release_any(&old);
}

TVMFFIByteArray rt_bytes_of(const TVMFFIAny* value) {
  TVMFFIByteArray bytes = {NULL, 0};
  text_of(value, &bytes);
  return bytes;
}
