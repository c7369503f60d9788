// module.h: a Module object of our libtvm_ffi.so, as C++ code sees it.
#pragma once
#include "builtin.h"

/// In memory a pointer to `module_class` stands before it: C++ calls its methods there.
typedef struct {
  TVMFFIObject header;
  TVMFFIObject* imports;  // an Array; where reflection says that field `imports_` is
  void* import_cache;     // of the C++ class; nothing of ours uses it
  void* handle;           // of dlopen; NULL: functions that were linked in
  char* prefix;           // in front of the names of those
} Module;

/// The method table that every release from 0.1.3 on calls (but 0.1.13.0 and 0.1.13.1).
extern const void* const module_class;

// ---- module.c

/// Set `result` to the function of that name, or leave it None; -1: no memory, raised.
int module_function(Module* module, TVMFFIByteArray name, TVMFFIAny* result);
int module_has_function(Module* module, TVMFFIByteArray name);
/// What the module says of a function: `prefix` is that of the symbol. None: nothing.
int module_says(Module* module, const char* prefix, TVMFFIByteArray name, TVMFFIAny* result);
/// -1: raised, for what would be a cycle.
int module_import(Module* module, const TVMFFIAny* other);
int module_drop_imports(Module* module);

#define MODULE_KIND "library"
#define MODULE_PROPERTIES 3  // can be written as bytes, can run
#define METADATA_PREFIX "__tvm_ffi__metadata_"
#define DOC_PREFIX "__tvm_ffi__doc_"
