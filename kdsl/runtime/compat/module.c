// module.c: libraries of packed functions as Module objects, from files and linked in.
#define _GNU_SOURCE 1
#include "module.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "__tvm_ffi_"

static Names symbols;  // of linked-in functions; guarded by the lock
static void** symbol_list;
static int32_t symbol_count;

static Names context_names;  // variables that a library gets when it is loaded
static void** context_list;
static int32_t context_count;

// ---- a library ---------------------------------------------------------------------------------

// What `malloc` gave: the pointer to the class is in front of the object.
static void** block_of(Module* module) { return (void**)module - 1; }

static void delete_module(void* object, int flags) {
  Module* self = object;
  // The library stays: functions, objects and threads of it may live on.
  if (flags & kTVMFFIObjectDeleterFlagBitMaskStrong && self->imports) release(self->imports);
  if (flags & kTVMFFIObjectDeleterFlagBitMaskWeak) {
    free(self->prefix);
    free(block_of(self));
  }
}

static Module* new_module(void* handle, const char* prefix) {
  void** block = calloc(1, sizeof *block + sizeof(Module));
  if (!block) return NULL;
  Module* self = (Module*)(block + 1);
  memcpy(block, &module_class, sizeof *block);
  start_object(self, kTVMFFIModule, delete_module);
  self->handle = handle;
  self->prefix = strdup(prefix);
  self->imports = new_sequence(kTVMFFIArray, NULL, 0);
  if (self->prefix && self->imports) return self;
  release(self);
  return NULL;
}

static void* linked_symbol(const char* name) {
  lock_tables();
  int32_t at = names_find(&symbols, bytes_of(name));
  void* found = at < 0 ? NULL : symbol_list[at];
  unlock_tables();
  return found;
}

static void* find_symbol(const Module* module, const char* prefix, TVMFFIByteArray name) {
  char* symbol = malloc(strlen(prefix) + strlen(module->prefix) + name.size + 1);
  void* found = NULL;
  if (!symbol) return NULL;
  for (int own = *module->prefix ? 0 : 1; !found && own < 2; ++own) {
    sprintf(symbol, "%s%s%.*s", prefix, own ? "" : module->prefix, (int)name.size, name.data);
    found = module->handle ? dlsym(module->handle, symbol) : linked_symbol(symbol);
  }
  free(symbol);
  return found;
}

static void write_context(Module* module) {
  lock_tables();
  for (size_t i = 0; i < context_names.capacity; ++i) {
    if (!context_names.keys[i].data) continue;
    void** variable = dlsym(module->handle, context_names.keys[i].data);
    if (variable) *variable = context_list[context_names.values[i]];
  }
  unlock_tables();
  void** library = dlsym(module->handle, "__tvm_ffi__library_ctx");
  if (!library) return;
  retain(module);  // the library looks its imports up there for good
  *library = module;
}

BUILTIN(load_library) {
  UNUSED();
  TVMFFIByteArray path;
  if (!want_text(args, count, 0, &path)) return -1;
  TVMFFIByteArray kept = keep_bytes(path);
  if (!kept.data) return no_memory();
  // All symbols now: one that is missing is an error here, and would end the process later.
  void* handle = dlopen(kept.data, RTLD_NOW | RTLD_LOCAL);
  free((char*)kept.data);
  if (!handle) {
    return fail("RuntimeError", "Failed to load dynamic shared library %.*s: %s", (int)path.size,
                path.data, dlerror());
  }
  if (dlsym(handle, "__tvm_ffi__library_bin")) {
    return fail("RuntimeError",
                "%.*s: embeds other modules (__tvm_ffi__library_bin), which needs apache-tvm-ffi",
                (int)path.size, path.data);
  }
  Module* module = new_module(handle, "");
  if (!module) return no_memory();
  write_context(module);
  return answer_object(result, module);
}

BUILTIN(load_from_file) {
  UNUSED();
  TVMFFIByteArray path;
  if (!want_text(args, count, 0, &path)) return -1;
  const char* dot = memrchr(path.data, '.', path.size);
  TVMFFIByteArray kind = LITERAL("so");
  if (dot) kind = (TVMFFIByteArray){dot + 1, (size_t)(path.data + path.size - dot - 1)};
  if (same_bytes(kind, LITERAL("dll")) || same_bytes(kind, LITERAL("dylib")) ||
      same_bytes(kind, LITERAL("dso"))) {
    kind = LITERAL("so");
  }
  char name[128];
  int size =
      snprintf(name, sizeof name, "ffi.Module.load_from_file.%.*s", (int)kind.size, kind.data);
  TVMFFIObjectHandle loader = NULL;
  if (size > 0 && size < (int)sizeof name) {
    TVMFFIByteArray key = bytes_of(name);
    if (TVMFFIFunctionGetGlobal(&key, &loader)) return -1;
  }
  if (!loader) {
    return fail("RuntimeError", "Loader for `.%.*s` files is not registered, tried %s",
                (int)kind.size, kind.data, name);
  }
  TVMFFIAny call[2] = {args[0], {.type_index = kTVMFFISmallStr}};
  int rc = TVMFFIFunctionCall(loader, call, 2, result);
  release(loader);
  return rc;
}

BUILTIN(system_library) {
  UNUSED();
  TVMFFIByteArray prefix = {"", 0};
  if (count && !want_text(args, count, 0, &prefix)) return -1;
  TVMFFIByteArray kept = keep_bytes(prefix);
  if (!kept.data) return no_memory();
  Module* module = new_module(NULL, kept.data);
  free((char*)kept.data);
  return answer_object(result, module);
}

// ---- functions of a module
// -----------------------------------------------------------------------

typedef struct {
  Module* module;
  TVMFFISafeCallType entry;
} Bound;

static int call_bound(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
  return ((const Bound*)self)->entry(NULL, args, count, result);
}

static void delete_bound(void* self) {
  release(((Bound*)self)->module);
  free(self);
}

// Where the name is found: in the module, or in one that it imports.
static void* look_up(Module* module, const char* prefix, TVMFFIByteArray name, int imports,
                     Module** holder) {
  void* found = find_symbol(module, prefix, name);
  *holder = module;
  const TVMFFISeqCell* cell = rt_sequence(module->imports);
  for (int64_t i = 0; !found && imports && i < cell->size; ++i) {
    found = look_up((Module*)((TVMFFIAny*)cell->data)[i].v_obj, prefix, name, 1, holder);
  }
  return found;
}

typedef struct {
  Module* module;
  TVMFFIByteArray name;
  int64_t imports;
} Question;

// Only our own: of another runtime's we know nothing.
static int want_module(const TVMFFIAny* args, int32_t count, int32_t at, Module** out) {
  if (!want(args, count, at, kTVMFFIModule, out)) return 0;
  if ((*out)->header.deleter == delete_module) return 1;
  fail("RuntimeError",
       "argument #%d is a module that another library has made, which needs "
       "apache-tvm-ffi",
       at);
  return 0;
}

static int read_question(const TVMFFIAny* args, int32_t count, Question* out) {
  out->imports = 0;
  return want_module(args, count, 0, &out->module) && want_text(args, count, 1, &out->name) &&
         (count < 3 || want_int(args, count, 2, &out->imports));
}

static int answer_function(TVMFFIAny* result, Module* module, void* entry) {
  Bound* bound = malloc(sizeof *bound);
  if (!bound) return no_memory();
  bound->module = module;
  memcpy(&bound->entry, &entry, sizeof entry);
  TVMFFIObject* function = new_function(bound, call_bound, delete_bound);
  if (!function) {
    free(bound);
    return no_memory();
  }
  retain(module);
  return answer_object(result, function);
}

static int find_function(const Question* q, TVMFFIAny* result) {
  Module* holder;
  void* entry = look_up(q->module, PREFIX, q->name, q->imports != 0, &holder);
  return entry ? answer_function(result, holder, entry) : 0;
}

int module_function(Module* module, TVMFFIByteArray name, TVMFFIAny* result) {
  Question q = {module, name, 0};
  return find_function(&q, result);
}

int module_has_function(Module* module, TVMFFIByteArray name) {
  Module* holder;
  return look_up(module, PREFIX, name, 0, &holder) != NULL;
}

BUILTIN(get_function) {
  UNUSED();
  Question q;
  return read_question(args, count, &q) ? find_function(&q, result) : -1;
}

BUILTIN(implements_function) {
  UNUSED();
  Question q;
  Module* holder;
  if (!read_question(args, count, &q)) return -1;
  return answer_bool(result, look_up(q.module, PREFIX, q.name, q.imports != 0, &holder) != NULL);
}

static int describe(const char* prefix, const Question* q, TVMFFIAny* result) {
  Module* holder;
  TVMFFISafeCallType entry;
  void* found = look_up(q->module, prefix, q->name, q->imports != 0, &holder);
  memcpy(&entry, &found, sizeof entry);
  return entry ? entry(NULL, NULL, 0, result) : 0;
}

int module_says(Module* module, const char* prefix, TVMFFIByteArray name, TVMFFIAny* result) {
  Question q = {module, name, 0};
  return describe(prefix, &q, result);
}

BUILTIN(function_metadata) {
  UNUSED();
  Question q;
  return read_question(args, count, &q) ? describe(METADATA_PREFIX, &q, result) : -1;
}

BUILTIN(function_doc) {
  UNUSED();
  Question q;
  return read_question(args, count, &q) ? describe(DOC_PREFIX, &q, result) : -1;
}

// ---- a module itself
// -----------------------------------------------------------------------------

static int imports_module(Module* from, const Module* wanted) {
  const TVMFFISeqCell* cell = rt_sequence(from->imports);
  int found = from == wanted;
  for (int64_t i = 0; !found && i < cell->size; ++i) {
    found = imports_module((Module*)((TVMFFIAny*)cell->data)[i].v_obj, wanted);
  }
  return found;
}

int module_import(Module* module, const TVMFFIAny* value) {
  Module* other;
  if (!want_module(value, 1, 0, &other)) return -1;
  if (imports_module(other, module)) {
    return fail("RuntimeError", "Cyclic dependency detected during import");
  }
  const TVMFFISeqCell* cell = rt_sequence(module->imports);
  TVMFFIAny* items = calloc((size_t)cell->size + 1, sizeof *items);
  if (!items) return no_memory();
  if (cell->size) memcpy(items, cell->data, (size_t)cell->size * sizeof *items);
  items[cell->size] = *value;
  TVMFFIObject* longer = new_sequence(kTVMFFIArray, items, cell->size + 1);
  free(items);
  if (!longer) return no_memory();
  release(module->imports);
  module->imports = longer;
  return 0;
}

int module_drop_imports(Module* module) {
  TVMFFIObject* empty = new_sequence(kTVMFFIArray, NULL, 0);
  if (!empty) return no_memory();
  release(module->imports);
  module->imports = empty;
  return 0;
}

BUILTIN(import_module) {
  UNUSED();
  Module* module;
  if (!want_module(args, count, 0, &module)) return -1;
  return want(args, count, 1, kTVMFFIModule, &(Module*){0}) ? module_import(module, &args[1]) : -1;
}

BUILTIN(clear_imports) {
  UNUSED();
  Module* module;
  return want_module(args, count, 0, &module) ? module_drop_imports(module) : -1;
}

BUILTIN(module_kind) {
  UNUSED();
  Module* module;
  if (!want_module(args, count, 0, &module)) return -1;
  return text_value(kTVMFFIStr, LITERAL(MODULE_KIND), result);
}

BUILTIN(module_properties) {
  UNUSED();
  return answer_int(result, MODULE_PROPERTIES);
}

BUILTIN(inspect_source) {
  UNUSED();
  return text_value(kTVMFFIStr, LITERAL(""), result);
}

BUILTIN(write_formats) {
  UNUSED();
  return answer_object(result, new_sequence(kTVMFFIArray, NULL, 0));
}

BUILTIN(write_to_file) {
  UNUSED();
  return fail("RuntimeError", "Module[library] does not support WriteToFile");
}

BUILTIN(keep_module) {  // libraries stay anyway
  UNUSED();
  return 0;
}

// ---- functions of the C API
// ----------------------------------------------------------------------

static int put_symbol(Names* names, void*** list, int32_t* size, const char* name, void* symbol) {
  lock_tables();
  int32_t at = names_find(names, bytes_of(name));
  int failed = 0;
  if (at >= 0) {
    (*list)[at] = symbol;
  } else {
    void** larger = realloc(*list, ((size_t)*size + 1) * sizeof *larger);
    TVMFFIByteArray key = keep_bytes(bytes_of(name));
    if (larger) *list = larger;
    failed = !larger || !key.data || names_put(names, key, *size);
    if (!failed) larger[(*size)++] = symbol;
  }
  unlock_tables();
  return failed ? no_memory() : 0;
}

int TVMFFIEnvModRegisterContextSymbol(const char* name, void* symbol) {
  return put_symbol(&context_names, &context_list, &context_count, name, symbol);
}

int TVMFFIEnvModRegisterSystemLibSymbol(const char* name, void* symbol) {
  return put_symbol(&symbols, &symbol_list, &symbol_count, name, symbol);
}

int TVMFFIEnvModLookupFromImports(TVMFFIObjectHandle library, const char* name,
                                  TVMFFIObjectHandle* out) {
  Module* holder;
  Module* module = library;
  const TVMFFISeqCell* cell = rt_sequence(module->imports);
  void* entry = NULL;
  for (int64_t i = 0; !entry && i < cell->size; ++i) {
    entry = look_up((Module*)((TVMFFIAny*)cell->data)[i].v_obj, PREFIX, bytes_of(name), 1, &holder);
  }
  *out = NULL;
  if (!entry) {  // a global function will do
    TVMFFIByteArray key = bytes_of(name);
    if (TVMFFIFunctionGetGlobal(&key, out)) return -1;
    if (*out) return 0;
    return fail("RuntimeError", "Cannot find function %s in the imported modules or the registry",
                name);
  }
  TVMFFIAny function = {0};
  if (answer_function(&function, holder, entry)) return -1;
  *out = function.v_obj;  // the caller keeps it as long as the library
  return 0;
}

void define_modules(void) {
  define("ffi.ModuleLoadFromFile", load_from_file);
  define("ffi.Module.load_from_file.so", load_library);
  define("ffi.SystemLib", system_library);
  define("ffi.ModuleGetFunction", get_function);
  define("ffi.ModuleImplementsFunction", implements_function);
  define("ffi.ModuleGetFunctionMetadata", function_metadata);
  define("ffi.ModuleGetFunctionDoc", function_doc);
  define("ffi.ModuleImportModule", import_module);
  define("ffi.ModuleClearImports", clear_imports);
  define("ffi.ModuleGetKind", module_kind);
  define("ffi.ModuleGetPropertyMask", module_properties);
  define("ffi.ModuleInspectSource", inspect_source);
  define("ffi.ModuleGetWriteFormats", write_formats);
  define("ffi.ModuleWriteToFile", write_to_file);
  define("ffi.ModuleGlobalsAdd", keep_module);
  define("ffi.ModuleGlobalsRemove", keep_module);
}
