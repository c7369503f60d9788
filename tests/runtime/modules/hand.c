// hand.c: packed functions written by hand against include/kdsl/ffi, for the runtime's tests.
//
// They work under any TVM FFI host: the kdsl table where it was written, else libtvm_ffi.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <kdsl/ffi/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PACKED(name)                                                                             \
  EXPORT int __tvm_ffi_##name(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* ret); \
  int __tvm_ffi_##name(                                                                          \
      __attribute__((unused)) void* self, __attribute__((unused)) const TVMFFIAny* args,         \
      __attribute__((unused)) int32_t count, __attribute__((unused)) TVMFFIAny* ret)

EXPORT const KdslRuntime* __kdsl_rt;
EXPORT const char __kdsl_functions[] =
    "nop\nview\nscale\npair\necho\nfail\nsilent\nwait\nincrement\nupdate\nthree\nplain\nmany\n";

static int raise(const char* kind, const char* message) {
  void (*set)(const char*, const char*) = NULL;
  if (__kdsl_rt) __kdsl_rt->raise(kind, message);
  *(void**)&set = dlsym(RTLD_DEFAULT, "TVMFFIErrorSetRaisedFromCStr");
  if (set) set(kind, message);
  return -1;
}

static void never(void* self, int flags) { (void)self, (void)flags; }

static int give_text(TVMFFIAny* ret, KdslStringObject* object, const char* text) {
  object->head.type_index = kTVMFFIStr;
  object->head.deleter = never;
  object->bytes = (TVMFFIByteArray){text, strlen(text)};
  __atomic_fetch_add(&object->head.combined_ref_count, KDSL_REF_COUNT_ONE + 1, __ATOMIC_RELAXED);
  *ret = (TVMFFIAny){.type_index = kTVMFFIStr, .v_obj = &object->head};
  return 0;
}

// A function with kdsl metadata: name, text of the parameters, JSON of the parameters.
#define DESCRIBED(name, text, params)                                                       \
  PACKED(_metadata_##name) {                                                                \
    static KdslStringObject object;                                                         \
    return give_text(ret, &object,                                                          \
                     "{\"kdsl\":{\"schema\":1,\"version\":\"0\"},\"name\":\"" #name         \
                     "\",\"signature\":\"" #name "(" text ")\",\"doc\":\"The doc of " #name \
                     ".\",\"params\":[" params                                              \
                     "],\"dims\":[\"M\",\"N\"],"                                            \
                     "\"dtypes\":{\"T\":[\"f32\",\"bf16\"]}}");                             \
  }                                                                                         \
  PACKED(name)
#define TENSOR(name, kind)                  \
  "{\"name\":\"" name "\",\"kind\":\"" kind \
  "\",\"type\":\"tensor\",\"dtype\":\"T\",\"shape\":[\"M\",\"N\"]}"
#define SCALAR(name, dtype, rest) \
  "{\"name\":\"" name "\",\"kind\":\"scalar\",\"type\":\"scalar\",\"dtype\":\"" dtype "\"" rest "}"

static const DLTensor* tensor_of(const TVMFFIAny* arg) {
  if (arg->type_index == kTVMFFIDLTensorPtr) return arg->v_ptr;
  if (arg->type_index == kTVMFFITensor) return &((const KdslTensorObject*)arg->v_obj)->tensor;
  return NULL;
}

DESCRIBED(nop, "x: T[M, N], y: T[M, N], o: Out[T[M, N]]",
          TENSOR("x", "in") "," TENSOR("y", "in") "," TENSOR("o", "out")) {
  return 0;
}

// What argument 0 looks like from here, as text.
static void show(char* out, size_t room, const TVMFFIAny* arg) {
  const DLTensor* t = tensor_of(arg);
  if (!t) {
    snprintf(out, room, "type %d", arg->type_index);
    return;
  }
  int at =
      snprintf(out, room, "dtype %d:%d:%d shape", t->dtype.code, t->dtype.bits, t->dtype.lanes);
  for (int i = 0; i < t->ndim; ++i) at += snprintf(out + at, room - at, " %ld", (long)t->shape[i]);
  at += snprintf(out + at, room - at, " strides");
  for (int i = 0; i < t->ndim; ++i) {
    at += snprintf(out + at, room - at, " %ld", (long)t->strides[i]);
  }
  const char* data = (const char*)t->data + t->byte_offset;
  int empty = 0;
  for (int i = 0; i < t->ndim; ++i) empty |= t->shape[i] == 0;
  if (!empty)
    snprintf(out + at, room - at, " first %d", (unsigned char)data[t->dtype.bits / 8 - 1]);
}

DESCRIBED(view, "x: T[M, N]", TENSOR("x", "in")) {
  static __thread char text[512];
  static __thread KdslStringObject object;
  if (count < 1) return raise("TypeError", "view: expected 1 argument, got 0");
  show(text, sizeof text, &args[0]);
  return give_text(ret, &object, text);
}

static int allocate(const DLTensor* like, KdslTensorObject** out) {
  if (__kdsl_rt) return __kdsl_rt->alloc_tensor(like, (void**)out);
  int (*alloc)(DLTensor*, void**) = NULL;
  *(void**)&alloc = dlsym(RTLD_DEFAULT, "TVMFFIEnvTensorAlloc");
  if (!alloc) return raise("RuntimeError", "no allocator");
  DLTensor copy = *like;
  return alloc(&copy, (void**)out);
}

// A compact tensor with the elements of `t` in order; f32 elements times `factor`.
static int scaled(const DLTensor* t, double factor, KdslTensorObject** out) {
  if (allocate(t, out)) return -1;
  size_t size = t->dtype.bits / 8;
  char* to = (char*)(*out)->tensor.data + (*out)->tensor.byte_offset;
  int64_t index[8] = {0}, total = 1;
  for (int i = 0; i < t->ndim; ++i) total *= t->shape[i];
  for (int64_t n = 0; n < total; ++n, to += size) {
    const char* from = (const char*)t->data + t->byte_offset;
    for (int i = 0; i < t->ndim; ++i) from += index[i] * t->strides[i] * (int64_t)size;
    memcpy(to, from, size);
    if (t->dtype.code == kDLFloat && size == 4) *(float*)to *= (float)factor;
    for (int i = t->ndim - 1; i >= 0 && ++index[i] == t->shape[i]; --i) index[i] = 0;
  }
  return 0;
}

DESCRIBED(scale, "x: T[M, N], factor: f64 = 1.0",
          TENSOR("x", "in") "," SCALAR("factor", "f64", ",\"default\":1.0")) {
  KdslTensorObject* made;
  const DLTensor* x = count ? tensor_of(&args[0]) : NULL;
  if (!x) return raise("TypeError", "scale: argument 0 `x`: expected a tensor");
  double factor = count < 2 || args[1].type_index == kTVMFFINone ? 1.0
                  : args[1].type_index == kTVMFFIInt             ? (double)args[1].v_int64
                                                                 : args[1].v_float64;
  if (scaled(x, factor, &made)) return -1;
  *ret = (TVMFFIAny){.type_index = kTVMFFITensor, .v_obj = &made->head};
  return 0;
}

typedef struct {
  KdslArrayObject array;
  TVMFFIAny items[2];
} Pair;

static void release(TVMFFIObject* object) {
  uint64_t before = __atomic_fetch_sub(&object->combined_ref_count, 1, __ATOMIC_ACQ_REL);
  if (before == KDSL_REF_COUNT_ONE) object->deleter(object, kTVMFFIObjectDeleterFlagBitMaskBoth);
}

static void delete_pair(void* self, int flags) {
  Pair* pair = self;
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong) {
    for (int i = 0; i < 2; ++i) release(pair->items[i].v_obj);
  }
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) free(pair);
}

DESCRIBED(pair, "x: T[M, N]", TENSOR("x", "in")) {
  const DLTensor* x = count ? tensor_of(&args[0]) : NULL;
  if (!x) return raise("TypeError", "pair: argument 0 `x`: expected a tensor");
  Pair* pair = calloc(1, sizeof *pair);
  pair->array.head = (TVMFFIObject){KDSL_REF_COUNT_ONE, kTVMFFIArray, 0, delete_pair};
  pair->array.seq = (TVMFFISeqCell){pair->items, 2, 2, NULL};
  for (int i = 0; i < 2; ++i) {
    KdslTensorObject* made;
    if (scaled(x, i + 2, &made)) return -1;
    pair->items[i] = (TVMFFIAny){.type_index = kTVMFFITensor, .v_obj = &made->head};
  }
  *ret = (TVMFFIAny){.type_index = kTVMFFIArray, .v_obj = &pair->array.head};
  return 0;
}

DESCRIBED(echo, "value: object", SCALAR("value", "object", "")) {
  if (count < 1) return 0;
  *ret = args[0];
  if (ret->type_index == kTVMFFIRawStr) {
    static __thread char text[256];
    static __thread KdslStringObject object;
    snprintf(text, sizeof text, "%s", args[0].v_c_str);
    return give_text(ret, &object, text);
  }
  if (ret->type_index >= kTVMFFIStaticObjectBegin) {
    __atomic_fetch_add(&ret->v_obj->combined_ref_count, 1, __ATOMIC_RELAXED);
  }
  return 0;
}

static const char* chars(const TVMFFIAny* arg) {
  if (arg->type_index == kTVMFFISmallStr) return arg->v_bytes;
  if (arg->type_index == kTVMFFIRawStr) return arg->v_c_str;
  if (arg->type_index == kTVMFFIStr) return ((const KdslStringObject*)arg->v_obj)->bytes.data;
  return "";
}

PACKED(fail) { return raise(chars(&args[0]), chars(&args[1])); }

PACKED(silent) { return -1; }

// Waits until element 0 of a byte tensor is not 0: only another thread can end this call.
DESCRIBED(wait, "flag: u8[N]", TENSOR("flag", "in")) {
  volatile char* flag = tensor_of(&args[0])->data;
  for (long spins = 0; spins < 4000000000l && !*flag; ++spins) continue;
  *ret = (TVMFFIAny){.type_index = kTVMFFIBool, .v_int64 = *flag != 0};
  return 0;
}

DESCRIBED(increment, "x: InOut[f32[M, N]], by: f64 = 1.0",
          TENSOR("x", "inout") "," SCALAR("by", "f64", ",\"default\":1.0")) {
  const DLTensor* x = tensor_of(&args[0]);
  float* data = (float*)((char*)x->data + x->byte_offset);
  double by = count > 1 && args[1].type_index == kTVMFFIFloat ? args[1].v_float64 : 1.0;
  int64_t total = 1;
  for (int i = 0; i < x->ndim; ++i) total *= x->shape[i];
  for (int64_t i = 0; i < total; ++i) data[i] += (float)by;
  return 0;
}

// state becomes 2 everywhere; the output is a copy of x.
DESCRIBED(update, "x: T[M, N], o: Out[T[M, N]], state: InOut[T[M, N]]",
          TENSOR("x", "in") "," TENSOR("o", "out") "," TENSOR("state", "inout")) {
  KdslTensorObject* made;
  const DLTensor* state = tensor_of(&args[count - 1]);
  for (int64_t i = 0; i < state->shape[0]; ++i) ((float*)state->data)[i] = 2;
  if (scaled(tensor_of(&args[0]), 1, &made)) return -1;
  *ret = (TVMFFIAny){.type_index = kTVMFFITensor, .v_obj = &made->head};
  return 0;
}

DESCRIBED(three, "a: i64 = 0, b: i64 = 0, c: i64 = 0",
          SCALAR("a", "i64", ",\"default\":0") "," SCALAR("b", "i64", ",\"default\":0") "," SCALAR(
              "c", "i64", ",\"default\":0")) {
  return 0;
}

// No metadata: a function of somebody else's.
PACKED(plain) {
  static __thread char text[512];
  static __thread KdslStringObject object;
  int at = 0;
  for (int i = 0; i < count; ++i) {
    at += snprintf(text + at, sizeof text - at, "%s%d", i ? " " : "", args[i].type_index);
  }
  text[at] = 0;
  return give_text(ret, &object, text);
}

PACKED(many) {
  *ret = (TVMFFIAny){.type_index = kTVMFFIInt, .v_int64 = count};
  return 0;
}
