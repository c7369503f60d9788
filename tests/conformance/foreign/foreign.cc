// foreign.cc: a library that knows nothing of kdsl, as projects on apache-tvm-ffi write them:
// kernels on views, new tensors, texts, containers, functions, errors, and names registered as it
// loads.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/map.h>
#include <tvm/ffi/container/shape.h>
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/extra/module.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/string.h>

#include <string>

namespace ffi = tvm::ffi;

namespace {

// ---- a kernel

void add_one(ffi::TensorView x, ffi::TensorView y) {
  if (x.ndim() != 1) TVM_FFI_THROW(ValueError) << "x has " << x.ndim() << " dimensions, not 1";
  if (x.size(0) != y.size(0)) {
    TVM_FFI_THROW(ValueError) << "sizes differ: " << x.size(0) << " and " << y.size(0);
  }
  DLDataType want{kDLFloat, 32, 1};
  if (x.dtype() != want) TVM_FFI_THROW(TypeError) << "expected float32, got " << x.dtype();
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) to[i * y.stride(0)] = from[i * x.stride(0)] + 1;
}

ffi::Tensor twice(ffi::Tensor x) {
  ffi::Tensor y = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = 2 * from[i];
  return y;
}

ffi::Tensor fresh(int64_t size) {
  ffi::Tensor y = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, ffi::Shape({size}),
                                            DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  for (int64_t i = 0; i < size; ++i) static_cast<float*>(y.data_ptr())[i] = static_cast<float>(i);
  return y;
}

int64_t stream_of(int64_t type) {
  return reinterpret_cast<int64_t>(TVMFFIEnvGetStream(static_cast<int32_t>(type), 0));
}

// ---- texts, containers, functions

ffi::String greet(ffi::String name) { return std::string("hello ") + std::string(name); }
ffi::Bytes bytes_of(ffi::String text) { return ffi::Bytes(std::string(text)); }
ffi::Any same(ffi::Any value) { return value; }
ffi::String key_of(ffi::Any value) { return value.GetTypeKey(); }

ffi::Array<ffi::Any> pack(ffi::Any a, ffi::Any b) { return {a, b}; }

ffi::Map<ffi::String, int64_t> lengths(ffi::Array<ffi::String> words) {
  ffi::Map<ffi::String, int64_t> map;
  for (const ffi::String& word : words) map.Set(word, static_cast<int64_t>(word.size()));
  return map;
}

int64_t look_up(ffi::Map<ffi::String, int64_t> map, ffi::String key) { return map[key]; }
ffi::Shape shape_of(ffi::TensorView x) { return x.shape(); }
DLDataType dtype_of(ffi::TensorView x) { return x.dtype(); }
DLDevice device_of(ffi::TensorView x) { return x.device(); }

ffi::Function adder(int64_t by) {
  return ffi::Function::FromTyped([by](int64_t value) { return value + by; });
}

int64_t call_twice(ffi::Function f, int64_t value) { return f(f(value)).cast<int64_t>(); }

// ---- errors

void raise(ffi::String kind, ffi::String text) {
  throw ffi::Error(std::string(kind), std::string(text), "");
}

ffi::String caught(ffi::Function f) {
  try {
    f();
  } catch (const ffi::Error& error) {
    return error.kind() + ": " + error.message();
  }
  return ffi::String("nothing");
}

thread_local int64_t cleaned = 0;
struct Cleaner {
  ~Cleaner() { ++cleaned; }
};
// What stands between two calls into Python is unwound.
ffi::Any through(ffi::Function f) {
  Cleaner cleaner;
  return f();
}
int64_t cleanings() { return cleaned; }

// ---- what lives on

ffi::Any kept;
ffi::Any exchange(ffi::Any value) {
  ffi::Any before = kept;
  kept = value;
  return before;
}

// ---- a type of its own, and names of the process

class PairObj : public ffi::Object {
 public:
  int64_t first, second;
  PairObj(int64_t a, int64_t b) : first(a), second(b) {}
  static constexpr bool _type_mutable = true;
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("foreign.Pair", PairObj, ffi::Object);
};

class Pair : public ffi::ObjectRef {
 public:
  Pair(int64_t a, int64_t b) { data_ = ffi::make_object<PairObj>(a, b); }
  TVM_FFI_DEFINE_OBJECT_REF_METHODS_NULLABLE(Pair, ffi::ObjectRef, PairObj);
};

Pair make_pair(int64_t a, int64_t b) { return Pair(a, b); }
int64_t pair_sum(Pair pair) { return pair->first + pair->second; }

int64_t call_global(ffi::String name, int64_t value) {
  return ffi::Function::GetGlobalRequired(name)(value).cast<int64_t>();
}

// ---- modules

ffi::Module load(ffi::String path) {
  return ffi::Function::GetGlobalRequired("ffi.ModuleLoadFromFile")(path).cast<ffi::Module>();
}
ffi::String kind_of(ffi::Module module) { return module->kind(); }
ffi::Any call_of(ffi::Module module, ffi::String name, ffi::Any argument) {
  ffi::Optional<ffi::Function> function = module->GetFunction(name);
  if (!function.has_value()) TVM_FFI_THROW(KeyError) << "no " << std::string(name);
  return function.value()(argument);
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::ObjectDef<PairObj>()
      .def_ro("first", &PairObj::first, "the first number")
      .def_rw("second", &PairObj::second);
  refl::GlobalDef()
      .def("foreign.triple", [](int64_t x) { return 3 * x; })
      .def("foreign.pair_sum", pair_sum);
}

}  // namespace

#define EXPORT(name) TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, name)
EXPORT(add_one);
EXPORT(twice);
EXPORT(fresh);
EXPORT(stream_of);
EXPORT(greet);
EXPORT(bytes_of);
EXPORT(same);
EXPORT(key_of);
EXPORT(pack);
EXPORT(lengths);
EXPORT(look_up);
EXPORT(shape_of);
EXPORT(dtype_of);
EXPORT(device_of);
EXPORT(adder);
EXPORT(call_twice);
EXPORT(raise);
EXPORT(caught);
EXPORT(through);
EXPORT(cleanings);
EXPORT(exchange);
EXPORT(make_pair);
EXPORT(pair_sum);
EXPORT(call_global);
EXPORT(load);
EXPORT(kind_of);
EXPORT(call_of);
