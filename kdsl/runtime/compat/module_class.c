// module_class.c: the methods that C++ code calls of a Module object: `module->GetFunction(name)`.
//
// Such code has the method table of tvm::ffi::ModuleObj from its headers. `this` is the place of
// the pointer to the table, right before the object; texts come as values by address; results that
// are objects or values go where the first argument says, as the C++ ABI of x86-64 has it.
#include <string.h>

#include "module.h"

#ifdef __x86_64__

typedef struct This This;

static Module* module_of(const This* self) { return (Module*)((const void* const*)self + 1); }

static TVMFFIByteArray text(const TVMFFIAny* value) {
  TVMFFIByteArray bytes = {"", 0};
  text_of(value, &bytes);
  return bytes;
}

// ---- that a C function cannot do is to throw: whatever fails here is nothing, or empty

static const char* kind(const This* self) {
  (void)self;
  return MODULE_KIND;
}

static int properties(const This* self) {
  (void)self;
  return MODULE_PROPERTIES;
}

// Optional<Function> is the object's address or NULL.
static void** get_function(void** result, This* self, const TVMFFIAny* name) {
  TVMFFIAny found = {0};
  if (module_function(module_of(self), text(name), &found)) drop_raised();
  *result = found.v_obj;
  return result;
}

static _Bool implements_function(This* self, const TVMFFIAny* name) {
  return module_has_function(module_of(self), text(name)) != 0;
}

// Optional<String> is a value, which may be None.
static TVMFFIAny* says(TVMFFIAny* result, This* self, const char* prefix, const TVMFFIAny* name) {
  memset(result, 0, sizeof *result);
  if (module_says(module_of(self), prefix, text(name), result)) drop_raised();
  return result;
}

static TVMFFIAny* get_doc(TVMFFIAny* result, This* self, const TVMFFIAny* name) {
  return says(result, self, DOC_PREFIX, name);
}

static TVMFFIAny* get_metadata(TVMFFIAny* result, This* self, const TVMFFIAny* name) {
  return says(result, self, METADATA_PREFIX, name);
}

static void write_to_file(const This* self, const TVMFFIAny* file, const TVMFFIAny* format) {
  (void)self, (void)file, (void)format;
}

static void** write_formats(void** result, const This* self) {
  (void)self;
  *result = new_sequence(kTVMFFIArray, NULL, 0);
  return result;
}

static TVMFFIAny* save_to_bytes(TVMFFIAny* result, const This* self) {
  (void)self;
  *result = (TVMFFIAny){.type_index = kTVMFFISmallBytes};
  return result;
}

static TVMFFIAny* inspect_source(TVMFFIAny* result, const This* self, const TVMFFIAny* format) {
  (void)self, (void)format;
  *result = (TVMFFIAny){.type_index = kTVMFFISmallStr};
  return result;
}

static void import_module(This* self, TVMFFIObject* const* other) {
  TVMFFIAny value = {.type_index = kTVMFFIModule, .v_obj = *other};
  if (module_import(module_of(self), &value)) drop_raised();
}

static void clear_imports(This* self) {
  if (module_drop_imports(module_of(self))) drop_raised();
}

typedef void (*Method)(void);

static const struct {
  ptrdiff_t offset_to_top;
  const void* type_info;
  Method methods[12];
} table = {
    0,
    NULL,
    {(Method)kind, (Method)properties, (Method)get_function, (Method)implements_function,
     (Method)get_doc, (Method)get_metadata, (Method)write_to_file, (Method)write_formats,
     (Method)save_to_bytes, (Method)inspect_source, (Method)import_module, (Method)clear_imports},
};

const void* const module_class = table.methods;

#else  // results go elsewhere; code of the C API alone can use a module

const void* const module_class = NULL;

#endif
