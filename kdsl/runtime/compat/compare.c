// compare.c: values that are equal, and the global functions that say so.
#include "builtin.h"

int equal_values(const TVMFFIAny* a, const TVMFFIAny* b) {
  TVMFFIByteArray x, y;
  if (text_of(a, &x) && text_of(b, &y)) {
    int a_bytes = a->type_index == kTVMFFIBytes || a->type_index == kTVMFFISmallBytes;
    int b_bytes = b->type_index == kTVMFFIBytes || b->type_index == kTVMFFISmallBytes;
    return a_bytes == b_bytes && same_bytes(x, y);
  }
  return a->type_index == b->type_index && a->v_uint64 == b->v_uint64;
}

void define_comparisons(void) {}
