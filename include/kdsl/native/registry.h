// kdsl/native/registry.h: global functions: registered when a module is loaded, found by name.
//
// They are the runtime's, where the process has one when the module is loaded. Else they wait in a
// list, `__kdsl_globals`, which a loader of kdsl's walks after it has set `__kdsl_rt`.
#pragma once

#include <kdsl/native/function.h>

#pragma GCC visibility push(hidden)
extern "C" {
/// A global function that no runtime has been given yet; whoever gives it sets `taken`.
struct KdslGlobal {
  KdslGlobal* next;
  TVMFFIByteArray name;
  TVMFFIObject* function;
  int taken;
};
__attribute__((weak, visibility("default"))) KdslGlobal* __kdsl_globals = nullptr;
}

namespace tvm::ffi {

namespace detail {

KDSL_COLD inline KdslGlobal* find_global(TVMFFIByteArray name) {
  KdslGlobal* own = __kdsl_globals;
  while (own &&
         (own->name.size != name.size || !same_bytes(own->name.data, name.data, name.size))) {
    own = own->next;
  }
  return own;
}

KDSL_COLD inline int get_global(TVMFFIByteArray name, TVMFFIObjectHandle* out) {
  using Get = int(const TVMFFIByteArray*, TVMFFIObjectHandle*);
  *out = nullptr;
  if (auto* get = in_runtime<Get>("TVMFFIFunctionGetGlobal")) {
    if (get(&name, out) != 0) return -1;
    if (*out) return 0;
  }
  if (KdslGlobal* own = find_global(name)) {
    retain(own->function);
    *out = own->function;
  }
  return 0;
}
KDSL_COLD inline Function global_function(const String& name) {
  TVMFFIObjectHandle found = nullptr;
  TVM_FFI_CHECK_SAFE_CALL(get_global(name.bytes(), &found));
  return ObjectAccess::make<Function>(own_object(found));
}

KDSL_COLD inline int set_global(TVMFFIByteArray name, TVMFFIObjectHandle function, bool replace) {
  using Set = int(const TVMFFIByteArray*, TVMFFIObjectHandle, int);
  if (auto* set = in_runtime<Set>("TVMFFIFunctionSetGlobal")) return set(&name, function, replace);
  KdslGlobal* own = find_global(name);
  if (own && !replace) {
    Writer text = {};
    text.put("Global Function `").append(name.data, name.size).put("` is already registered");
    fail("ValueError", text);
  }
  if (!own) {
    auto* kept = static_cast<char*>(allocate(name.size));
    __builtin_memcpy(kept, name.data, name.size);
    own = static_cast<KdslGlobal*>(allocate(sizeof(KdslGlobal)));
    *own = {__kdsl_globals, {kept, name.size}, nullptr, 0};
    __kdsl_globals = own;
  }
  retain(static_cast<TVMFFIObject*>(function));
  drop(own->function);
  own->function = static_cast<TVMFFIObject*>(function);
  return 0;
}

}  // namespace detail

namespace reflection {

/// Registers global functions, in a TVM_FFI_STATIC_INIT_BLOCK:
///   reflection::GlobalDef().def("my.add", add).def_packed("my.packed", packed);
class GlobalDef {
 public:
  /// What `def` takes beyond name and function (documentation, metadata) is accepted.
  template <class F, class... Extra>
  GlobalDef& def(const char* name, F&& function, const Extra&...) {
    return set(name, Function::FromTyped(kdsl::own::forward<F>(function), name));
  }
  template <class F, class... Extra>
  GlobalDef& def_packed(const char* name, F&& function, const Extra&...) {
    return set(name, Function::FromPacked(kdsl::own::forward<F>(function)));
  }

 private:
  GlobalDef& set(const char* name, const Function& function) {
    put(name, ObjectAccess::head(function));
    return *this;
  }
  static KDSL_COLD void put(const char* name, TVMFFIObject* function) {
    try {
      TVM_FFI_CHECK_SAFE_CALL(detail::set_global(detail::bytes_of(name), function, false));
    } catch (const Error& error) {
      // Nobody above could catch it: this runs while the module is loaded.
      complain(name, error.what());
    }
  }
  static KDSL_COLD void complain(const char* name, const char* why) {
    detail::Writer text = {};
    text.put("kdsl: global function `").put(name).put("` is not registered: ").put(why).put("\n");
    kdsl_write(2, text.data(), text.size());
    text.free();
  }
};

}  // namespace reflection

/// The older spelling: TVM_FFI_REGISTER_GLOBAL("my.add").set_body_typed(add);
class GlobalRegistry {
 public:
  explicit GlobalRegistry(const char* name) : name_(name) {}
  template <class F>
  GlobalRegistry& set_body_typed(F&& function) {
    reflection::GlobalDef().def(name_, kdsl::own::forward<F>(function));
    return *this;
  }
  template <class F>
  GlobalRegistry& set_body_packed(F&& function) {
    reflection::GlobalDef().def_packed(name_, kdsl::own::forward<F>(function));
    return *this;
  }
  template <class F>
  GlobalRegistry& set_body(F&& function) {
    return set_body_packed(kdsl::own::forward<F>(function));
  }

 private:
  const char* name_;
};

}  // namespace tvm::ffi
#pragma GCC visibility pop

#define TVM_FFI_REGISTER_GLOBAL(Name)                                           \
  static __attribute__((unused)) ::tvm::ffi::GlobalRegistry TVM_FFI_STR_CONCAT( \
      kdsl_registered_, __COUNTER__) = ::tvm::ffi::GlobalRegistry(Name)
