// dtype.c: element types as text: "float32", "int8x4", "bool", "float8_e4m3fn".
#include <stdio.h>
#include <string.h>

#include "compat.h"

typedef struct {
  const char* name;
  uint8_t code;
  uint8_t bits;  ///< 0: they stand behind the name
} Kind;

// Names of which one begins as another: the longer first.
static const Kind kinds[] = {
    {"float8_e4m3b11fnuz", kDLFloat8_e4m3b11fnuz, 8},
    {"float8_e4m3fnuz", kDLFloat8_e4m3fnuz, 8},
    {"float8_e4m3fn", kDLFloat8_e4m3fn, 8},
    {"float8_e4m3", kDLFloat8_e4m3, 8},
    {"float8_e5m2fnuz", kDLFloat8_e5m2fnuz, 8},
    {"float8_e5m2", kDLFloat8_e5m2, 8},
    {"float8_e3m4", kDLFloat8_e3m4, 8},
    {"float8_e8m0fnu", kDLFloat8_e8m0fnu, 8},
    {"float6_e2m3fn", kDLFloat6_e2m3fn, 6},
    {"float6_e3m2fn", kDLFloat6_e3m2fn, 6},
    {"float4_e2m1fn", kDLFloat4_e2m1fn, 4},
    {"bfloat", kDLBfloat, 0},
    {"float", kDLFloat, 0},
    {"uint", kDLUInt, 0},
    {"int", kDLInt, 0},
    {"complex", kDLComplex, 0},
    {"handle", kDLOpaqueHandle, 0},
    {"bool", kDLBool, 8},
};
#define KINDS ((int)(sizeof kinds / sizeof *kinds))

static const char* const shorter[][2] = {// what stands for which name
                                         {"fp8_", "float8_"},
                                         {"fp6_", "float6_"},
                                         {"fp4_", "float4_"}};
static const char* const letters[][2] = {// the same, before a digit
                                         {"bf", "bfloat"},
                                         {"f", "float"},
                                         {"i", "int"},
                                         {"u", "uint"}};

#define LONGEST 63

static int is_digit(char c) { return c >= '0' && c <= '9'; }

// The text with short names written out; 0: too long to be one.
static int expand(TVMFFIByteArray text, char* out) {
  char whole[LONGEST + 1];
  if (text.size > LONGEST - 6) return 0;
  memcpy(whole, text.data, text.size);
  whole[text.size] = '\0';
  for (size_t i = 0; i < 3; ++i) {
    size_t size = strlen(shorter[i][0]);
    if (strncmp(whole, shorter[i][0], size)) continue;
    snprintf(out, LONGEST + 1, "%s%s", shorter[i][1], whole + size);
    return 1;
  }
  for (size_t i = 0; i < 4; ++i) {
    size_t size = strlen(letters[i][0]);
    if (strncmp(whole, letters[i][0], size) || !is_digit(whole[size])) continue;
    snprintf(out, LONGEST + 1, "%s%s", letters[i][1], whole + size);
    return 1;
  }
  memcpy(out, whole, text.size + 1);
  return 1;
}

// Digits at *at, which moves behind them; 0: none, or a number above `most`.
static int read_number(const char** at, unsigned most, unsigned* out) {
  unsigned value = 0;
  const char* start = *at;
  for (; is_digit(**at); ++*at) {
    value = value * 10 + (unsigned)(**at - '0');
    if (value > most) return 0;
  }
  *out = value;
  return *at > start;
}

int TVMFFIDataTypeFromString(const TVMFFIByteArray* text, DLDataType* out) {
  char whole[LONGEST + 1];
  if (!text->size || same_bytes(*text, LITERAL("void"))) {
    *out = (DLDataType){kDLOpaqueHandle, 0, 0};
    return 0;
  }
  int k = KINDS;
  if (!memchr(text->data, '\0', text->size) && expand(*text, whole)) {
    for (k = 0; k < KINDS && strncmp(whole, kinds[k].name, strlen(kinds[k].name)); ++k) continue;
  }
  if (k < KINDS) {
    const char* at = whole + strlen(kinds[k].name);
    unsigned bits = kinds[k].code == kDLOpaqueHandle ? 64 : kinds[k].code == kDLComplex ? 64 : 32;
    unsigned lanes = 1;
    int good = 1;
    if (kinds[k].bits) {
      bits = kinds[k].bits;
      if (kinds[k].code == kDLFloat4_e2m1fn && *at == '_') ++at;
    } else if (is_digit(*at)) {
      good = read_number(&at, 255, &bits);
    }
    int scalable = good && strncmp(at, "xvscalex", 8) == 0;
    if (scalable) at += 7;
    if (good && *at == 'x') {
      ++at;
      good = read_number(&at, scalable ? INT16_MAX : UINT16_MAX, &lanes) && lanes;
    }
    if (good && !*at) {
      if (scalable) lanes = (uint16_t)-(int)lanes;
      *out = (DLDataType){kinds[k].code, (uint8_t)bits, (uint16_t)lanes};
      return 0;
    }
  }
  return fail("ValueError", "unknown dtype `%.*s`", (int)text->size, text->data);
}

int TVMFFIDataTypeToString(const DLDataType* dtype, TVMFFIAny* out) {
  char text[LONGEST + 1];
  int size = 0, k = 0;
  if (dtype->code == kDLOpaqueHandle && !dtype->bits && !dtype->lanes) {
    return text_value(kTVMFFIStr, LITERAL(""), out);
  }
  while (k < KINDS && kinds[k].code != dtype->code) ++k;
  if (k == KINDS) return fail("ValueError", "unknown dtype code %d", dtype->code);
  size = snprintf(text, sizeof text, "%s", kinds[k].name);
  int plain = dtype->code == kDLOpaqueHandle;
  if (!plain && kinds[k].bits != dtype->bits && (!kinds[k].bits || dtype->code == kDLBool)) {
    size += snprintf(text + size, sizeof text - (size_t)size, "%d", dtype->bits);
  }
  int lanes = (int16_t)dtype->lanes;
  if (!plain && lanes > 1) {
    size += snprintf(text + size, sizeof text - (size_t)size, "x%d", lanes);
  } else if (!plain && lanes < -1) {
    size += snprintf(text + size, sizeof text - (size_t)size, "xvscalex%d", -lanes);
  }
  return text_value(kTVMFFIStr, (TVMFFIByteArray){text, (size_t)size}, out);
}
