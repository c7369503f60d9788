// modules.cc: Module objects made, taken and returned by code with apache-tvm-ffi's headers.
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/string.h>

namespace ffi = tvm::ffi;

namespace {

ffi::Module load(ffi::String path) {
  return ffi::Function::GetGlobalRequired("ffi.ModuleLoadFromFile")(path).cast<ffi::Module>();
}

ffi::Any same(ffi::Any value) { return value; }
ffi::Array<ffi::Any> pair(ffi::Module module) { return {module, 1}; }
ffi::Map<ffi::String, ffi::Any> named(ffi::Module module) { return {{"m", module}}; }
ffi::String kind(ffi::Module module) { return module->kind(); }
int64_t properties(ffi::Module module) { return module->GetPropertyMask(); }
bool has(ffi::Module module, ffi::String name) { return module->ImplementsFunction(name); }
ffi::Optional<ffi::Function> get(ffi::Module module, ffi::String name) {
  return module->GetFunction(name);
}
ffi::Optional<ffi::String> doc(ffi::Module module, ffi::String name) {
  return module->GetFunctionDoc(name);
}
ffi::Optional<ffi::String> metadata(ffi::Module module, ffi::String name) {
  return module->GetFunctionMetadata(name);
}
ffi::String source(ffi::Module module) { return module->InspectSource(""); }
int64_t formats(ffi::Module module) { return module->GetWriteFormats().size(); }
void join(ffi::Module module, ffi::Module other) { module->ImportModule(other); }
void part(ffi::Module module) { module->ClearImports(); }
int64_t imported(ffi::Module module) { return module->imports().size(); }
int64_t add(int64_t a, int64_t b) { return a + b; }
ffi::String text() { return "a text that does not fit into a value"; }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(load, load);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(same, same);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(pair, pair);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(named, named);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kind, kind);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(properties, properties);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(has, has);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(get, get);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(doc, doc);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(metadata, metadata);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(source, source);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(formats, formats);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(join, join);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(part, part);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(imported, imported);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add);
TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(add, "The sum of both.");
TVM_FFI_DLL_EXPORT_TYPED_FUNC(text, text);

#ifdef OWN_KIND  // a class of its own, which needs C++ functions of the official library

namespace {

int64_t alive = 0;

class Counted : public ffi::ModuleObj {
 public:
  Counted() { ++alive; }
  ~Counted() { --alive; }
  const char* kind() const final { return "counted"; }
  ffi::Optional<ffi::Function> GetFunction(const ffi::String& name) final {
    if (name == "two") return ffi::Function::FromTyped([]() { return 2; });
    if (name == "fail") {
      return ffi::Function::FromTyped([]() { TVM_FFI_THROW(ValueError) << "on purpose"; });
    }
    return std::nullopt;
  }
};

ffi::Module counted() { return ffi::Module(ffi::make_object<Counted>()); }
int64_t count_alive() { return alive; }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(counted, counted);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(count_alive, count_alive);
#endif
