// module.c: a TVM FFI module that does next to nothing: what is left of a call is the call.
//
// Built once for each runtime: a module that kdsl's loader has seen takes memory and raises errors
// through kdsl's table, under whichever runtime it is called.
#define _GNU_SOURCE 1
#include <dlfcn.h>
#include <kdsl/ffi/runtime.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define PACKED(name)                                                                             \
  EXPORT int __tvm_ffi_##name(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* ret); \
  int __tvm_ffi_##name(                                                                          \
      __attribute__((unused)) void* self, __attribute__((unused)) const TVMFFIAny* args,         \
      __attribute__((unused)) int32_t count, __attribute__((unused)) TVMFFIAny* ret)

EXPORT const KdslRuntime* __kdsl_rt;

static void never(void* self, int flags) { (void)self, (void)flags; }

// kdsl's metadata: a name, three parameters, what else there is.
#define DESCRIBED(name, parameter, rest)                                                           \
  PACKED(_metadata_##name) {                                                                       \
    static const char text[] =                                                                     \
        "{\"kdsl\":{\"schema\":1,\"version\":\"0\"},\"name\":\"" #name "\",\"signature\":\"" #name \
        "(a, b, c)\",\"params\":[" parameter("a") "," parameter("b") "," parameter(                \
            "c") "],\"dims\":[\"N\"],\"dtypes\":{}" rest "}";                                      \
    static KdslStringObject object = {{1, kTVMFFIStr, 0, never}, {text, sizeof text - 1}};         \
    __atomic_fetch_add(&object.head.combined_ref_count, KDSL_REF_COUNT_ONE, __ATOMIC_RELAXED);     \
    *ret = (TVMFFIAny){.type_index = kTVMFFIStr, .v_obj = &object.head};                           \
    return 0;                                                                                      \
  }                                                                                                \
  PACKED(name)
#define TENSOR(name)                                                           \
  "{\"name\":\"" name                                                          \
  "\",\"kind\":\"in\",\"type\":\"tensor\",\"dtype\":\"f32\",\"shape\":[\"N\"]" \
  "}"
#define NUMBER(name)                                                          \
  "{\"name\":\"" name                                                         \
  "\",\"kind\":\"scalar\",\"type\":\"scalar\",\"dtype\":\"i64\",\"default\":" \
  "0}"

PACKED(nop) { return 0; }
DESCRIBED(ints, NUMBER, "") { return 0; }
PACKED(text) { return 0; }
DESCRIBED(tensors, TENSOR, "") { return 0; }
DESCRIBED(constants, TENSOR, ",\"differentiable\":false") { return 0; }

// A new tensor like the argument.
PACKED(like) {
  const DLTensor* x = args[0].type_index == kTVMFFITensor
                          ? &((const KdslTensorObject*)args[0].v_obj)->tensor
                          : args[0].v_ptr;
  KdslTensorObject* made = NULL;
  if (__kdsl_rt) {
    if (__kdsl_rt->alloc_tensor(x, (void**)&made)) return -1;
  } else {
    static int (*alloc)(DLTensor*, void**);
    if (!alloc) *(void**)&alloc = dlsym(RTLD_DEFAULT, "TVMFFIEnvTensorAlloc");
    DLTensor prototype = *x;
    if (alloc(&prototype, (void**)&made)) return -1;
  }
  *ret = (TVMFFIAny){.type_index = kTVMFFITensor, .v_obj = &made->head};
  return 0;
}

// repeat(n, f): f() n times.
PACKED(repeat) {
  TVMFFIObject* f = args[1].v_obj;
  for (int64_t i = 0; i < args[0].v_int64; ++i) {
    TVMFFIAny result = {.type_index = kTVMFFINone};
    if (((KdslFunctionObject*)f)->function.safe_call(f, NULL, 0, &result)) return -1;
  }
  return 0;
}

PACKED(fail) {
  void (*set)(const char*, const char*) = __kdsl_rt ? __kdsl_rt->raise : NULL;
  if (!set) *(void**)&set = dlsym(RTLD_DEFAULT, "TVMFFIErrorSetRaisedFromCStr");
  set("ValueError", "a reason");
  return -1;
}

// ---- for ctypes
// ----------------------------------------------------------------------------------

EXPORT void c_nop(void);
void c_nop(void) {}
EXPORT void c_ints(int64_t a, int64_t b, int64_t c);
void c_ints(int64_t a, int64_t b, int64_t c) { (void)a, (void)b, (void)c; }
EXPORT void c_text(const char* text);
void c_text(const char* text) { (void)text; }
EXPORT void c_tensors(void* a, void* b, void* c);
void c_tensors(void* a, void* b, void* c) { (void)a, (void)b, (void)c; }
EXPORT void c_repeat(int64_t n, void (*f)(void));
void c_repeat(int64_t n, void (*f)(void)) {
  for (int64_t i = 0; i < n; ++i) f();
}
