// kdsl/ffi/export.h: the symbols by which hosts find a module's functions, metadata and docs.
//
// A module says once KDSL_MODULE("attention\nsoftmax\n"), and for each function
// KDSL_EXPORT_FUNC(attention, function), KDSL_EXPORT_METADATA and KDSL_EXPORT_DOC. The strings are
// objects that live as long as the module: no runtime is needed to return them.
#pragma once

#include <kdsl/ffi/error.h>

namespace kdsl {

/// A String object without end; every return of it is one more reference.
struct StaticString {
  constexpr StaticString(const char* text, size_t size)
      : object{{KDSL_REF_COUNT_ONE, kTVMFFIStr, 0, [](void*, int) {}}, {text, size}} {}

  int give(TVMFFIAny* result) {
    __atomic_fetch_add(&object.head.combined_ref_count, 1, __ATOMIC_RELAXED);
    result->type_index = kTVMFFIStr;
    result->zero_padding = 0;
    result->v_obj = &object.head;
    return 0;
  }

  KdslStringObject object;
};

}  // namespace kdsl

/// `function(const TVMFFIAny* args, int32_t count, TVMFFIAny* result)` becomes the packed `name`.
#define KDSL_EXPORT_FUNC(name, function)                                        \
  KDSL_EXPORT int __tvm_ffi_##name(void*, const TVMFFIAny* args, int32_t count, \
                                   TVMFFIAny* result) {                         \
    return function(args, count, result);                                       \
  }

#define KDSL_EXPORT_TEXT_(symbol, text)                                         \
  KDSL_EXPORT int symbol(void*, const TVMFFIAny*, int32_t, TVMFFIAny* result) { \
    static kdsl::StaticString string(text, sizeof(text) - 1);                   \
    return string.give(result);                                                 \
  }

/// What the function is, as JSON.
#define KDSL_EXPORT_METADATA(name, text) KDSL_EXPORT_TEXT_(__tvm_ffi__metadata_##name, text)
/// What the function does, for people.
#define KDSL_EXPORT_DOC(name, text) KDSL_EXPORT_TEXT_(__tvm_ffi__doc_##name, text)

/// Once in a module: its functions, one a line, and what a loader and a C host look for.
#define KDSL_MODULE(functions)                                                 \
  extern "C" {                                                                 \
  __attribute__((visibility("default"))) extern const char __kdsl_functions[]; \
  const char __kdsl_functions[] = functions;                                   \
  const KdslRuntime* __kdsl_rt = nullptr;                                      \
  __attribute__((visibility("default"))) const char* __kdsl_last_error(void) { \
    return kdsl::last_error();                                                 \
  }                                                                            \
  }
