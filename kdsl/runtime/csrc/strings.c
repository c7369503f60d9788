// strings.c: text and bytes, inline up to 7 bytes and as objects above.
#include <string.h>

#include "core.h"

#define SMALL 7

static void string_delete(void* self, int flags) {
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) rt_object_free(self);
}

TVMFFIObject* rt_string_new(int32_t type_index, const char* data, size_t size) {
  size_t head = sizeof(KdslStringObject);
  if (size > PTRDIFF_MAX - head) return NULL;
  KdslStringObject* s = rt_object_new(head + size + 1, type_index, string_delete);
  if (!s) return NULL;
  char* text = (char*)(s + 1);
  if (size) memcpy(text, data, size);
  s->bytes = (TVMFFIByteArray){text, size};
  return &s->head;
}

int rt_string_value(int32_t type_index, const char* data, size_t size, TVMFFIAny* out) {
  if (size <= SMALL) {
    *out = (TVMFFIAny){.type_index = type_index == kTVMFFIStr ? kTVMFFISmallStr : kTVMFFISmallBytes,
                       .small_str_len = (uint32_t)size};
    if (size) memcpy(out->v_bytes, data, size);
    return 0;
  }
  TVMFFIObject* object = rt_string_new(type_index, data, size);
  *out = (TVMFFIAny){.type_index = object ? type_index : kTVMFFINone, .v_obj = object};
  if (!object) PyErr_NoMemory();
  return object ? 0 : -1;
}

TVMFFIByteArray rt_bytes_of(const TVMFFIAny* value) {
  switch (value->type_index) {
    case kTVMFFISmallStr:
    case kTVMFFISmallBytes:
      return (TVMFFIByteArray){value->v_bytes, value->small_str_len};
    case kTVMFFIRawStr:
      return (TVMFFIByteArray){value->v_c_str, value->v_c_str ? strlen(value->v_c_str) : 0};
    case kTVMFFIByteArrayPtr:
      return *(const TVMFFIByteArray*)value->v_ptr;
    default:
      return ((const KdslStringObject*)value->v_obj)->bytes;
  }
}

PyObject* rt_text_of(TVMFFIAny* value) {
  PyObject* answer = NULL;
  if (value->type_index == kTVMFFISmallStr || value->type_index == kTVMFFIStr) {
    TVMFFIByteArray bytes = rt_bytes_of(value);
    answer = PyUnicode_DecodeUTF8(bytes.data, (Py_ssize_t)bytes.size, "replace");
  } else {
    PyErr_SetString(PyExc_TypeError, "expected a string from the module");
  }
  rt_value_release(value);
  return answer;
}
