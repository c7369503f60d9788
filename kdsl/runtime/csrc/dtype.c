// dtype.c: names and buffer letters of dtypes, one table.
#include <stddef.h>

#include "core.h"

static const struct {
  DLDataType dtype;
  const char* name;
  const char* format;
} table[] = {
    {{kDLFloat, 32, 1}, "f32", "f"},
    {{kDLBfloat, 16, 1}, "bf16", NULL},
    {{kDLFloat, 16, 1}, "f16", "e"},
    {{kDLFloat, 64, 1}, "f64", "d"},
    {{kDLInt, 8, 1}, "i8", "b"},
    {{kDLInt, 16, 1}, "i16", "h"},
    {{kDLInt, 32, 1}, "i32", "i"},
    {{kDLInt, 64, 1}, "i64", "q"},
    {{kDLUInt, 8, 1}, "u8", "B"},
    {{kDLUInt, 16, 1}, "u16", "H"},
    {{kDLUInt, 32, 1}, "u32", "I"},
    {{kDLUInt, 64, 1}, "u64", "Q"},
    {{kDLBool, 8, 1}, "bool", "?"},
    {{kDLFloat8_e4m3fn, 8, 1}, "f8e4m3", NULL},
    {{kDLFloat8_e5m2, 8, 1}, "f8e5m2", NULL},
    {{kDLComplex, 64, 1}, "complex64", "Zf"},
    {{kDLComplex, 128, 1}, "complex128", "Zd"},
};
#define TABLE_SIZE (sizeof table / sizeof *table)

static int find(DLDataType dtype) {
  for (size_t i = 0; i < TABLE_SIZE; ++i) {
    DLDataType t = table[i].dtype;
    if (t.code == dtype.code && t.bits == dtype.bits && t.lanes == dtype.lanes) return (int)i;
  }
  return -1;
}

const char* rt_dtype_name(DLDataType dtype) {
  int at = find(dtype);
  return at < 0 ? "" : table[at].name;
}

const char* rt_dtype_format(DLDataType dtype) {
  int at = find(dtype);
  return at < 0 ? NULL : table[at].format;
}
