// kdsl/native/function.h: Function, typed calls in both directions, and the export of functions.
#pragma once

#include <kdsl/native/values.h>

#pragma GCC visibility push(hidden)
namespace tvm::ffi {

class Function;

/// The arguments of a packed call, borrowed.
class PackedArgs {
 public:
  PackedArgs(const AnyView* data, int32_t size) : data_(data), size_(size) {}
  int size() const { return size_; }
  const AnyView* data() const { return data_; }
  AnyView operator[](int index) const { return data_[index]; }
  PackedArgs Slice(int begin, int end = -1) const {
    return PackedArgs(data_ + begin, (end < 0 ? size_ : end) - begin);
  }

 private:
  const AnyView* data_;
  int32_t size_;
};

// ---- from packed arguments to a call of C++

namespace detail {

template <class F>
struct PlainType : PlainType<decltype(&F::operator())> {};
template <class R, class... Args>
struct PlainType<R(Args...)> {
  using type = R(Args...);
};
template <class R, class... Args>
struct PlainType<R (*)(Args...)> : PlainType<R(Args...)> {};
template <class R, class... Args>
struct PlainType<R (*)(Args...) noexcept> : PlainType<R(Args...)> {};
template <class C, class R, class... Args>
struct PlainType<R (C::*)(Args...)> : PlainType<R(Args...)> {};
template <class C, class R, class... Args>
struct PlainType<R (C::*)(Args...) const> : PlainType<R(Args...)> {};

/// The R(Args...) of a function, a lambda or another functor.
template <class F>
using TypeOf = typename PlainType<kdsl::own::decay_t<F>>::type;

/// Name and schema of a function type.
template <class F>
inline constexpr TypeText function_text = {};
template <class R, class... Args>
inline constexpr TypeText function_text<R(Args...)> = {"", "ffi.Function", text_list<R, Args...>,
                                                       1 + sizeof...(Args), TypeText::kFunction};

/// Throws that the count of the arguments is wrong or, with an index, the type of one.
[[noreturn]] KDSL_COLD inline void wrong_call(const char* name, const TypeText& type,
                                              const TVMFFIAny* args, int32_t count, int index = -1,
                                              Came* came = nullptr) {
  Writer text = {};
  text.put("Mismatched ");
  index < 0 ? text.put("number of arguments") : text.put("type on argument #").put_int(index);
  write_name(text.put(" when calling: `").put(name), type);
  text.put("`. Expected ");
  if (index < 0) {
    text.put_int(type.count - 1).put(" but got ").put_int(count).put(" arguments");
  } else {
    write_name(text.put("`"), *type.args[1 + index]);
    write_came(text.put("` but got `"), args[index], came);
    text.put("`");
  }
  fail("TypeError", text);
}

/// Throws where argument `index` does not convert to a T.
template <class T>
TVM_FFI_INLINE void accept(const char* name, const TypeText& type, const TVMFFIAny* args,
                           int32_t count, int index) {
  if constexpr (!is_any_v<T>) {
    static_assert(is_enabled_v<T>, "a packed function cannot take this type");
    if (TVM_FFI_PREDICT_FALSE(!TypeTraits<T>::fits(args[index]))) {
      wrong_call(name, type, args, count, index, TypeTraits<T>::came);
    }
  }
}

template <class F, class Indices>
struct Unpack;
/// A call of C++ with packed arguments. Throws.
template <class R, class... Args, size_t... I>
struct Unpack<R(Args...), kdsl::own::index_sequence<I...>> {
  template <class F>
  TVM_FFI_INLINE static void run(F& function, const char* name, const TVMFFIAny* args,
                                 int32_t count, TVMFFIAny* result) {
    constexpr const TypeText& type = function_text<R(Args...)>;
    if (TVM_FFI_PREDICT_FALSE(count != sizeof...(Args))) wrong_call(name, type, args, count);
    (accept<Bare<Args>>(name, type, args, count, I), ...);
    if constexpr (kdsl::own::is_void_v<R>) {
      function(read<Bare<Args>>(args[I])...);
      *result = raw(kTVMFFINone);
    } else if constexpr (kdsl::own::is_same_v<Bare<R>, Any>) {
      *result = Any(function(read<Bare<Args>>(args[I])...)).give();
    } else {
      static_assert(is_enabled_v<Bare<R>>, "a packed function cannot return this type");
      *result = TypeTraits<Bare<R>>::give(function(read<Bare<Args>>(args[I])...));
    }
  }
};
template <class F>
struct UnpackOf;
template <class R, class... Args>
struct UnpackOf<R(Args...)> : Unpack<R(Args...), kdsl::own::index_sequence_for<Args...>> {};

/// Call `function` with packed arguments. Throws.
template <class F>
TVM_FFI_INLINE void call_typed(F& function, const char* name, const TVMFFIAny* args, int32_t count,
                               TVMFFIAny* result) {
  UnpackOf<TypeOf<F>>::run(function, name, args, count, result);
}

/// {"type_schema":"...","arg_names":["x","y"]}; `names` are separated by commas, and may be empty.
KDSL_COLD inline int give_metadata(const TypeText& type, const char* names,
                                   TVMFFIAny* result) noexcept {
  TVM_FFI_SAFE_CALL_BEGIN();
  Writer schema, text;
  write_schema(schema, type);
  text.put("{\"type_schema\":\"");
  for (size_t i = 0; i < schema.size(); ++i) {
    const char c = schema.data()[i];
    if (c == '"' || c == '\\') text.put("\\");
    text.append(&c, 1);
  }
  text.put("\"");
  if (*names) {
    text.put(",\"arg_names\":[\"");
    for (; *names; ++names) {
      if (*names == ',') {
        text.put("\",\"");
      } else if (*names != ' ') {
        text.append(names, 1);
      }
    }
    text.put("\"]");
  }
  text.put("}");
  schema.free();
  *result = take(text).give();
  TVM_FFI_SAFE_CALL_END();
}
KDSL_COLD inline int give_text(const char* text, TVMFFIAny* result) noexcept {
  TVM_FFI_SAFE_CALL_BEGIN();
  *result = String(text).give();
  TVM_FFI_SAFE_CALL_END();
}

}  // namespace detail

// ---- functions as values

class FunctionObj : public Object, public TVMFFIFunctionCell {
 public:
  static constexpr int32_t _type_index = kTVMFFIFunction;
};

namespace detail {

/// A Function object around a functor `void body(args, count, result)` that may throw.
template <class Body>
class BodyObj : public FunctionObj {
 public:
  explicit BodyObj(Body body) noexcept(noexcept(Body(kdsl::own::move(body))))
      : body_(kdsl::own::move(body)) {
    // The other entry is for callers that share a C++ ABI and its exceptions: never given.
    cpp_call = nullptr;
    safe_call = call;
  }

 private:
  static int call(void* self, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
    TVM_FFI_SAFE_CALL_BEGIN();
    static_cast<BodyObj*>(static_cast<Object*>(self))->body_(args, count, result);
    TVM_FFI_SAFE_CALL_END();
  }
  Body body_;
};

/// A Function object around a C function and what it is called with.
class ExternObj : public FunctionObj {
 public:
  ExternObj(void* self, TVMFFISafeCallType call, void (*deleter)(void*))
      : self_(self), call_(call), deleter_(deleter) {
    cpp_call = nullptr;
    safe_call = [](void* object, const TVMFFIAny* args, int32_t count, TVMFFIAny* result) {
      auto* mine = static_cast<ExternObj*>(static_cast<Object*>(object));
      return mine->call_(mine->self_, args, count, result);
    };
  }
  ExternObj(const ExternObj&) = delete;
  ~ExternObj() {
    if (deleter_) deleter_(self_);
  }

 private:
  void* self_;
  TVMFFISafeCallType call_;
  void (*deleter_)(void*);
};

template <class Body>
ObjectPtr<Object> new_function(Body body) {
  return own_object(new_object<BodyObj<Body>>(0, kdsl::own::move(body)));
}

// registry.h
int get_global(TVMFFIByteArray name, TVMFFIObjectHandle* out);
Function global_function(const String& name);
int set_global(TVMFFIByteArray name, TVMFFIObjectHandle function, bool replace);

}  // namespace detail

class Function : public ObjectRef {
 public:
  using ContainerType = FunctionObj;

  Function() = default;
  Function(std::nullptr_t) {}
  explicit Function(UnsafeInit tag) : ObjectRef(tag) {}
  template <class F, class = kdsl::own::enable_if_t<
                         !kdsl::own::is_base_of_v<ObjectRef, kdsl::own::decay_t<F>> &&
                         !kdsl::own::is_same_v<kdsl::own::decay_t<F>, UnsafeInit>>>
  explicit Function(F&& packed) : Function(FromPacked(kdsl::own::forward<F>(packed))) {}

  /// Of `void f(PackedArgs, Any*)` or `void f(const AnyView*, int32_t, Any*)`.
  template <class F>
  static Function FromPacked(F packed) {
    return make(
        detail::new_function([packed = kdsl::own::move(packed)](
                                 const TVMFFIAny* args, int32_t count, TVMFFIAny* result) mutable {
          Any made;
          const auto* views = reinterpret_cast<const AnyView*>(args);
          if constexpr (kdsl::own::is_invocable_v<F&, PackedArgs, Any*>) {
            packed(PackedArgs(views, count), &made);
          } else {
            packed(views, count, &made);
          }
          *result = made.give();
        }));
  }
  /// Of any function whose parameters and result can be converted. `name` is for messages.
  template <class F>
  static Function FromTyped(F function, String name = String()) {
    return make(
        detail::new_function([function = kdsl::own::move(function), name = kdsl::own::move(name)](
                                 const TVMFFIAny* args, int32_t count, TVMFFIAny* result) mutable {
          detail::call_typed(function, name.c_str(), args, count, result);
        }));
  }
  KDSL_LAZY static Function FromExternC(void* self, TVMFFISafeCallType call,
                                        void (*deleter)(void*)) {
    return make(make_object<detail::ExternObj>(self, call, deleter));
  }

  /// The global function of that name; nothing where there is none.
  template <class Name>
  static Optional<Function> GetGlobal(const Name& name) {
    return detail::global_function(name);
  }
  static Function GetGlobalRequired(const String& name) {
    Function found = detail::global_function(name);
    if (found.defined()) return found;
    detail::Writer text = {};
    text.put("Function ").append(name.data(), name.size());
    detail::fail("ValueError", text.put(" not found"));
  }
  static void SetGlobal(const String& name, const Function& function, bool override = false) {
    TVM_FFI_CHECK_SAFE_CALL(
        detail::set_global(name.bytes(), ObjectAccess::head(function), override));
  }

  template <class... Args>
  Any operator()(Args&&... args) const {
    const AnyView views[sizeof...(Args) + 1] = {AnyView(args)..., AnyView()};
    Any result;
    CallPacked(views, sizeof...(Args), &result);
    return result;
  }
  KDSL_NOINLINE void CallPacked(const AnyView* args, int32_t count, Any* result) const {
    if (TVM_FFI_PREDICT_FALSE(!data_)) {
      detail::fail("ValueError",
                   "the Function is undefined: it stands for None and has nothing to read");
    }
    auto* function = static_cast<FunctionObj*>(data_.get());
    TVMFFIAny raw = detail::raw(kTVMFFINone);
    TVM_FFI_CHECK_SAFE_CALL(
        function->safe_call(data_.get(), reinterpret_cast<const TVMFFIAny*>(args), count, &raw));
    *result = Any::own(raw);
  }
  void CallPacked(PackedArgs args, Any* result) const {
    CallPacked(args.data(), args.size(), result);
  }
  bool operator==(std::nullptr_t) const { return !data_; }
  bool operator!=(std::nullptr_t) const { return bool(data_); }

 private:
  static Function make(ObjectPtr<Object> object) {
    return ObjectAccess::make<Function>(kdsl::own::move(object));
  }
};

template <class F>
class TypedFunction;
/// A Function whose arguments and result have types.
template <class R, class... Args>
class TypedFunction<R(Args...)> {
 public:
  TypedFunction() = default;
  TypedFunction(std::nullptr_t) {}
  TypedFunction(Function packed) : packed_(kdsl::own::move(packed)) {}
  template <class F, class = kdsl::own::enable_if_t<
                         kdsl::own::is_invocable_r_v<R, F&, Args...> &&
                         !kdsl::own::is_base_of_v<ObjectRef, kdsl::own::decay_t<F>>>>
  TypedFunction(F function, String name = String())
      : packed_(Function::FromTyped(kdsl::own::move(function), kdsl::own::move(name))) {}

  R operator()(Args... args) const {
    if constexpr (kdsl::own::is_void_v<R>) {
      packed_(args...);
    } else {
      return packed_(args...).template cast<R>();
    }
  }
  operator Function() const { return packed_; }
  const Function& packed() const { return packed_; }
  bool operator==(std::nullptr_t) const { return packed_ == nullptr; }
  bool operator!=(std::nullptr_t) const { return packed_ != nullptr; }

 private:
  Function packed_;
};

template <class F>
struct TypeTraits<TypedFunction<F>> : TypeTraitsBase {
  using T = TypedFunction<F>;
  using Base = TypeTraits<Function>;
  static constexpr detail::TypeText text = detail::function_text<F>;
  static TVMFFIAny view(const T& function) { return Base::view(function.packed()); }
  static TVMFFIAny give(const T& function) { return Base::give(function.packed()); }
  static bool is(const TVMFFIAny& value) { return value.type_index == kTVMFFIFunction; }
  static bool fits(const TVMFFIAny& value) { return Base::fits(value); }
  static T get(const TVMFFIAny& value) { return Base::get(value); }
};

}  // namespace tvm::ffi
#pragma GCC visibility pop

// ---- export

#ifndef TVM_FFI_DLL_EXPORT_INCLUDE_METADATA
#define TVM_FFI_DLL_EXPORT_INCLUDE_METADATA 0
#endif

/// `Function` becomes the packed function `ExportName` of the module.
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC(ExportName, Function) \
  KDSL_EXPORT_TYPED_FUNC(ExportName, Function, "")
/// The same with the names of the parameters, for callers that pass them by name: "x, y".
#define KDSL_EXPORT_TYPED_FUNC(ExportName, Function, Names)                                       \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi_##ExportName(void*, const TVMFFIAny* args,          \
                                                           int32_t num_args, TVMFFIAny* result) { \
    TVM_FFI_SAFE_CALL_BEGIN();                                                                    \
    auto&& function = Function;                                                                   \
    ::tvm::ffi::detail::call_typed(function, #ExportName, args, num_args, result);                \
    TVM_FFI_SAFE_CALL_END();                                                                      \
  }                                                                                               \
  KDSL_EXPORT_METADATA_(ExportName, Function, Names)

#if TVM_FFI_DLL_EXPORT_INCLUDE_METADATA
#define KDSL_EXPORT_METADATA_(ExportName, Function, Names)                                         \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi__metadata_##ExportName(void*, const TVMFFIAny*,      \
                                                                     int32_t, TVMFFIAny* result) { \
    using Type = ::tvm::ffi::detail::TypeOf<decltype(Function)>;                                   \
    return ::tvm::ffi::detail::give_metadata(::tvm::ffi::detail::function_text<Type>, Names,       \
                                             result);                                              \
  }
/// What the function does, for people.
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(ExportName, Text)                                       \
  extern "C" TVM_FFI_DLL_EXPORT int __tvm_ffi__doc_##ExportName(void*, const TVMFFIAny*, int32_t, \
                                                                TVMFFIAny* out) {                 \
    return ::tvm::ffi::detail::give_text(Text, out);                                              \
  }
#else
#define KDSL_EXPORT_METADATA_(ExportName, Function, Names)
#define TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC(ExportName, Text)
#endif
