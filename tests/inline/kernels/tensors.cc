// tensors.cc: kernels over tensors, functions as values and errors; compiled with both headers.
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;

namespace {

void scale_into(ffi::TensorView x, double factor, ffi::TensorView y) {
  TVM_FFI_ICHECK_EQ(x.ndim(), 1);
  TVM_FFI_CHECK_EQ(y.ndim(), 1, ValueError) << "y must be a vector";
  if (x.size(0) != y.size(0)) {
    TVM_FFI_THROW(ValueError) << "expected size " << x.size(0) << ", got " << y.size(0);
  }
  if (x.dtype() != DLDataType{kDLFloat, 32, 1}) {
    TVM_FFI_THROW(TypeError) << "expected float32, got " << x.dtype();
  }
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.size(0); ++i) {
    to[i * y.stride(0)] = from[i * x.stride(0)] * static_cast<float>(factor);
  }
}

ffi::Tensor doubled(ffi::Tensor x) {
  ffi::Tensor y = ffi::Tensor::FromEnvAlloc(TVMFFIEnvTensorAlloc, x.shape(), x.dtype(), x.device());
  const float* from = static_cast<const float*>(x.data_ptr());
  float* to = static_cast<float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) to[i] = 2 * from[i];
  return y;
}
ffi::Array<ffi::Tensor> both(ffi::Tensor x) { return {x, doubled(x)}; }

struct Malloc {
  void AllocData(DLTensor* tensor) { tensor->data = new char[ffi::GetDataSize(*tensor)]; }
  void FreeData(DLTensor* tensor) { delete[] static_cast<char*>(tensor->data); }
};
ffi::Tensor ones(ffi::Shape shape) {
  ffi::Tensor made =
      ffi::Tensor::FromNDAlloc(Malloc(), shape, DLDataType{kDLFloat, 32, 1}, DLDevice{kDLCPU, 0});
  for (int64_t i = 0; i < made.numel(); ++i) static_cast<float*>(made.data_ptr())[i] = 1;
  return made;
}
ffi::Tensor transposed(ffi::Tensor x) {
  int64_t shape[] = {x.size(1), x.size(0)}, strides[] = {x.stride(1), x.stride(0)};
  return x.as_strided(ffi::ShapeView(shape, 2), ffi::ShapeView(strides, 2));
}

ffi::Shape shape_of(ffi::TensorView x) { return x.shape(); }
DLDataType dtype_of(ffi::TensorView x) { return x.dtype(); }
DLDevice device_of(const ffi::TensorView& x) { return x.device(); }
bool contiguous(ffi::TensorView x) { return x.IsContiguous(); }
int64_t size_of(ffi::TensorView x, int64_t axis) { return x.size(axis); }
int64_t rank(DLTensor* x) { return x->ndim; }
int64_t count(ffi::Array<ffi::Tensor> tensors) {
  int64_t sum = 0;
  for (const ffi::Tensor& x : tensors) sum += x.numel();
  return sum;
}
bool is_defined(ffi::Optional<ffi::Tensor> x) { return x.has_value(); }
int64_t stream_of(ffi::TensorView x) {
  return reinterpret_cast<int64_t>(
      TVMFFIEnvGetStream(x.device().device_type, x.device().device_id));
}

ffi::Any kept;
ffi::Any exchange(ffi::Any value) {
  ffi::Any before = kept;
  kept = value;
  return before;
}

void fail(ffi::String kind) { throw ffi::Error(kind, "on purpose", ""); }
void fail_standard() { throw std::bad_exception(); }
void fail_with_number() { throw 3; }
void fail_within(ffi::Function function) {
  TVM_FFI_THROW(ValueError) << "it gave " << function().cast<int64_t>();
}
void fail_check(int64_t x) { TVM_FFI_ICHECK(x > 3) << "x is " << x; }
void fail_less(int64_t x, int y) { TVM_FFI_ICHECK_LT(x, y) << "so it is"; }
void fail_text(bool yes, double number) {
  TVM_FFI_THROW(KeyError) << yes << ' ' << number << " " << 1.0f / 3 << " " << -5 << " " << 7u;
}
ffi::String caught(ffi::Function function) {
  try {
    function(1, "two", 3.5);
  } catch (const ffi::Error& error) {
    return error.kind() + ": " + error.message();
  }
  return "nothing";
}

ffi::Function adder(int64_t by) {
  return ffi::Function::FromTyped([by](int64_t value) { return value + by; });
}
ffi::Function packed_count() {
  return ffi::Function::FromPacked(
      [](ffi::PackedArgs args, ffi::Any* result) { *result = static_cast<int64_t>(args.size()); });
}
int64_t apply(ffi::Function function, int64_t value) { return function(value).cast<int64_t>(); }
double apply_typed(ffi::TypedFunction<double(double, ffi::String)> function) {
  return function(1.5, "half");
}
int64_t call_global(ffi::String name, int64_t value) {
  return ffi::Function::GetGlobalRequired(name)(value).cast<int64_t>();
}

TVM_FFI_STATIC_INIT_BLOCK() {
  namespace refl = tvm::ffi::reflection;
  refl::GlobalDef()
      .def(KDSL_TEST_PREFIX ".triple", [](int64_t value) { return 3 * value; })
      .def_packed(KDSL_TEST_PREFIX ".count", [](ffi::PackedArgs args, ffi::Any* result) {
        *result = static_cast<int64_t>(args.size());
      });
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(scale_into, scale_into);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(doubled, doubled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(both, both);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(ones, ones);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(transposed, transposed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(shape_of, shape_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dtype_of, dtype_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(device_of, device_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(contiguous, contiguous);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(size_of, size_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(rank, rank);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(count, count);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(is_defined, is_defined);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(stream_of, stream_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(exchange, exchange);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail, fail);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail_standard, fail_standard);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail_with_number, fail_with_number);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail_within, fail_within);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail_check, fail_check);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail_less, fail_less);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(fail_text, fail_text);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(caught, caught);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(adder, adder);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(packed_count, packed_count);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(apply, apply);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(apply_typed, apply_typed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(call_global, call_global);
