// refused.c: global functions for compilers' own data, which this library does not have.
//
// Hosts look them up as they start, so they are there; to call one is an error that says why.
#include "builtin.h"

static int refuse(void* name, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  (void)args, (void)count, (void)result;
  return fail("NotImplementedError",
              "%s: kdsl's own libtvm_ffi.so is for kernels and their hosts; install apache-tvm-ffi",
              (const char*)name);
}

// Hosts make objects of a type without a look at whether there is a way to: this one says no.
static int refuse_to_make(const TVMFFITypeInfo* type) {
  TVMFFIByteArray name = LITERAL("__ffi_init__");
  TVMFFIObject* maker = new_function((void*)type->type_key.data, refuse, NULL);
  if (!maker) return no_memory();
  TVMFFIAny value = {.type_index = kTVMFFIFunction, .v_obj = maker};
  int failed = TVMFFITypeRegisterAttr(type->type_index, &name, &value);
  release(maker);
  return failed;
}

// The headers call it as a type is registered that says nothing of how its objects are made.
BUILTIN(register_init) {
  (void)self, (void)result;
  int64_t index;
  if (!want_int(args, count, 0, &index)) return -1;
  return refuse_to_make(TVMFFIGetTypeInfo((int32_t)index));
}

void define_refused(void) {
  static const char* const names[] = {
      "ffi.DeepCopy",
      "ffi.FromJSONGraph",
      "ffi.FromJSONGraphString",
      "ffi.GetFirstStructuralMismatch",
      "ffi.MakeFieldGetter",
      "ffi.MakeFieldSetter",
      "ffi.MakeObjectFromPackedArgs",
      "ffi.StructuralEqual",
      "ffi.StructuralHash",
      "ffi.StructuralKey",
      "ffi.StructuralKeyEqual",
      "ffi.StructuralMap",
      "ffi.StructuralMutate",
      "ffi.StructuralMutatorDefRegionKind",
      "ffi.StructuralMutatorDefaultMutate",
      "ffi.StructuralMutatorMutate",
      "ffi.StructuralMutatorVarRemapGet",
      "ffi.StructuralMutatorVarRemapSet",
      "ffi.StructuralMutatorWithDefRegionKind",
      "ffi.StructuralVisit",
      "ffi.StructuralVisitorDefRegionKind",
      "ffi.StructuralVisitorDefaultVisit",
      "ffi.StructuralVisitorVisit",
      "ffi.StructuralVisitorWithDefRegionKind",
      "ffi.StructuralWalk",
      "ffi.ToJSONGraph",
      "ffi.ToJSONGraphString",
      "ffi.VisitErrorContext.FindAccessPaths",
      "ffi.VisitInterrupt",
      "ffi._PyClassRegisterTypeAttrColumns",
      "ffi.json.Parse",
      "ffi.json.Stringify",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    define_with(names[i], (void*)names[i], refuse);
  }
  TVMFFIByteArray state = LITERAL("ffi.EnumState");
  int32_t index;
  if (!TVMFFITypeKeyToIndex(&state, &index)) refuse_to_make(TVMFFIGetTypeInfo(index));
  define("ffi._RegisterFFIInit", register_init);
}
