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
      "ffi.json.Parse",
      "ffi.json.Stringify",
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    define_with(names[i], (void*)names[i], refuse);
  }
}
