// repr.c: values as text, in Python's manner; strings in double quotes.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"

#define DEEPEST 64

typedef struct {
  char* data;
  size_t size, room;
  int failed;
} Text;

static void add(Text* text, const char* data, size_t size) {
  if (text->size + size > text->room) {
    size_t room = 2 * text->room + size + 64;
    char* larger = realloc(text->data, room);
    text->failed |= !larger;
    if (!larger) return;
    text->data = larger;
    text->room = room;
  }
  memcpy(text->data + text->size, data, size);
  text->size += size;
}

static void say(Text* text, const char* words) { add(text, words, strlen(words)); }

static void say_number(Text* text, const char* format, ...) __attribute__((format(printf, 2, 3)));
static void say_number(Text* text, const char* format, ...) {
  char digits[64];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(digits, sizeof digits, format, arguments);
  va_end(arguments);
  say(text, digits);
}

static void say_quoted(Text* text, TVMFFIByteArray bytes, const char* before) {
  say(text, before);
  for (size_t i = 0; i < bytes.size; ++i) {
    char c = bytes.data[i];
    if (c == '"' || c == '\\') {
      char escaped[2] = {'\\', c};
      add(text, escaped, 2);
    } else if (c == '\n') {
      say(text, "\\n");
    } else {
      add(text, &c, 1);
    }
  }
  say(text, "\"");
}

static void say_value(Text* text, const TVMFFIAny* value, int depth);

static void say_sequence(Text* text, const TVMFFIAny* value, int depth) {
  const TVMFFISeqCell* cell = rt_sequence(value->v_obj);
  int array = value->type_index == kTVMFFIArray;
  say(text, array ? "(" : "[");
  for (int64_t i = 0; i < cell->size; ++i) {
    if (i) say(text, ", ");
    say_value(text, (const TVMFFIAny*)cell->data + i, depth + 1);
  }
  say(text, !array ? "]" : cell->size == 1 ? ",)" : ")");
}

static void say_map(Text* text, const TVMFFIObject* map, int depth) {
  RtMapCursor cursor = {0};
  say(text, "{");
  for (int first = 1; rt_map_next(map, &cursor); first = 0) {
    if (!first) say(text, ", ");
    say_value(text, cursor.key, depth + 1);
    say(text, ": ");
    say_value(text, cursor.value, depth + 1);
  }
  say(text, "}");
}

static void say_shape(Text* text, const int64_t* sizes, int64_t count) {
  for (int64_t i = 0; i < count; ++i) say_number(text, i ? ", %lld" : "%lld", (long long)sizes[i]);
}

static void say_dtype(Text* text, DLDataType dtype) {
  TVMFFIAny name;
  TVMFFIByteArray bytes;
  if (TVMFFIDataTypeToString(&dtype, &name)) {
    drop_raised();
    say(text, "unknown");
  } else if (text_of(&name, &bytes)) {
    add(text, bytes.data, bytes.size);
    release_any(&name);
  }
}

static void say_device(Text* text, DLDevice device) {
  switch (device.device_type) {
    case kDLCPU:
      return say_number(text, "cpu:%d", device.device_id);
    case kDLCUDA:
      return say_number(text, "cuda:%d", device.device_id);
    case kDLROCM:
      return say_number(text, "rocm:%d", device.device_id);
    default:
      return say_number(text, "device(%d, %d)", (int)device.device_type, device.device_id);
  }
}

static void say_value(Text* text, const TVMFFIAny* value, int depth) {
  TVMFFIByteArray bytes;
  if (depth > DEEPEST) return say(text, "...");
  switch (value->type_index) {
    case kTVMFFINone:
      return say(text, "None");
    case kTVMFFIBool:
      return say(text, value->v_int64 ? "True" : "False");
    case kTVMFFIInt:
      return say_number(text, "%lld", (long long)value->v_int64);
    case kTVMFFIFloat:
      return say_number(text, "%g", value->v_float64);
    case kTVMFFIDataType:
      return say_dtype(text, value->v_dtype);
    case kTVMFFIDevice:
      return say_device(text, value->v_device);
    case kTVMFFIBytes:
    case kTVMFFISmallBytes:
      text_of(value, &bytes);
      return say_quoted(text, bytes, "b\"");
    case kTVMFFIArray:
    case kTVMFFIList:
      return say_sequence(text, value, depth);
    case kTVMFFIMap:
    case kTVMFFIDict:
      return say_map(text, value->v_obj, depth);
    case kTVMFFIShape: {
      TVMFFIShapeCell shape = ((const KdslShapeObject*)value->v_obj)->shape;
      say(text, "Shape(");
      say_shape(text, shape.data, (int64_t)shape.size);
      return say(text, ")");
    }
    case kTVMFFITensor: {
      const DLTensor* tensor = tensor_of(value->v_obj);
      say_dtype(text, tensor->dtype);
      say(text, "[");
      say_shape(text, tensor->shape, tensor->ndim);
      say(text, "]@");
      return say_device(text, tensor->device);
    }
    default:
      if (text_of(value, &bytes)) return say_quoted(text, bytes, "\"");
      return say(text, type_name(value->type_index));
  }
}

BUILTIN(print_value) {
  UNUSED();
  if (!want_any(args, count, 0)) return -1;
  Text text = {0};
  say_value(&text, &args[0], 0);
  int rc = text.failed ? no_memory()
                       : text_value(kTVMFFIStr, (TVMFFIByteArray){text.data, text.size}, result);
  free(text.data);
  return rc;
}

void define_repr(void) { define("ffi.ReprPrint", print_value); }
