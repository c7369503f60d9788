// dtype.c: the letters of dtypes in the buffer protocol.
#include <stddef.h>

#include "core.h"

static const struct {
  DLDataType dtype;
  const char* format;
} table[] = {
    {{kDLFloat, 32, 1}, "f"},    {{kDLFloat, 16, 1}, "e"},     {{kDLFloat, 64, 1}, "d"},
    {{kDLInt, 8, 1}, "b"},       {{kDLInt, 16, 1}, "h"},       {{kDLInt, 32, 1}, "i"},
    {{kDLInt, 64, 1}, "q"},      {{kDLUInt, 8, 1}, "B"},       {{kDLUInt, 16, 1}, "H"},
    {{kDLUInt, 32, 1}, "I"},     {{kDLUInt, 64, 1}, "Q"},      {{kDLBool, 8, 1}, "?"},
    {{kDLComplex, 64, 1}, "Zf"}, {{kDLComplex, 128, 1}, "Zd"},
};
#define TABLE_SIZE (sizeof table / sizeof *table)

const char* rt_dtype_format(DLDataType dtype) {
  for (size_t i = 0; i < TABLE_SIZE; ++i) {
    DLDataType t = table[i].dtype;
    if (t.code == dtype.code && t.bits == dtype.bits && t.lanes == dtype.lanes) {
      return table[i].format;
    }
  }
  return NULL;
}
