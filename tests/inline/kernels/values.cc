// values.cc: values of every kind into C++ and back; compiled with kdsl's headers and the official.
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/container/tuple.h>
#include <tvm/ffi/container/variant.h>
#include <tvm/ffi/tvm_ffi.h>

#include <optional>
#include <string>
#include <vector>

namespace ffi = tvm::ffi;

namespace {

int64_t add_ints(int64_t a, int64_t b) { return a + b; }
int8_t small_int(int8_t value) { return value; }
uint64_t natural(uint64_t value) { return value; }
double half(double value) { return value / 2; }
float single(float value) { return value; }
bool negate(bool value) { return !value; }
void nothing() {}
void* pointer(void* value) { return value; }

ffi::String greet(ffi::String name, bool loud) {
  return std::string("hello ") + std::string(name) + (loud ? "!" : "");
}
ffi::String joined(const ffi::String& a, ffi::String b) { return a + ", " + b + "."; }
std::string standard(std::string text) { return text + text; }
int64_t text_facts(ffi::String text) {
  const bool same = text == "kernel" || text == std::string("module");
  return static_cast<int64_t>(text.size()) * 100 + same * 10 +
         (text.find("er") != ffi::String::npos);
}
ffi::Bytes bytes(ffi::Bytes value) { return value; }
const char* literal() { return "a literal"; }

ffi::Optional<double> maybe(ffi::Optional<double> value) {
  if (!value.has_value()) return std::nullopt;
  return value.value() + 1;
}
int64_t or_seven(ffi::Optional<int64_t> value) { return value.value_or(7); }
bool is_given(ffi::Optional<ffi::String> value) { return static_cast<bool>(value); }

int64_t total(ffi::Array<int64_t> numbers) {
  int64_t sum = 0;
  for (int64_t n : numbers) sum += n;
  return sum;
}
ffi::Array<ffi::String> reversed(ffi::Array<ffi::String> words) {
  ffi::Array<ffi::String> result;
  for (size_t i = words.size(); i-- > 0;) result.push_back(words[i]);
  return result;
}
ffi::Array<int64_t> changed(ffi::Array<int64_t> numbers) {
  numbers.Set(0, 100);
  numbers.push_back(static_cast<int64_t>(numbers.size()));
  return numbers;
}
int64_t item(ffi::Array<int64_t> numbers, int64_t index) { return numbers[index]; }
int64_t ends(ffi::Array<int64_t> numbers) { return numbers.front() - numbers.back(); }
ffi::Array<int64_t> popped(ffi::Array<int64_t> numbers) {
  numbers.pop_back();
  return numbers;
}
int64_t deep(ffi::Array<ffi::Array<ffi::Array<int64_t>>> cube) { return cube[0][0][0]; }
ffi::Array<int64_t> from_vector(int64_t count) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(i * i);
  return ffi::Array<int64_t>(values.begin(), values.end());
}
ffi::Array<ffi::Array<double>> nested(ffi::Array<ffi::Array<double>> rows) { return rows; }
ffi::Tuple<int64_t, ffi::String> swapped(ffi::Tuple<ffi::String, int64_t> pair) {
  return ffi::Tuple<int64_t, ffi::String>(pair.get<1>(), pair.get<0>());
}
ffi::Variant<int64_t, ffi::String> either(ffi::Variant<int64_t, ffi::String> value) {
  if (auto number = value.as<int64_t>()) return *number + 1;
  return value;
}

ffi::Any same(ffi::Any value) { return value; }
ffi::Any second(ffi::Any, ffi::AnyView b) { return ffi::Any(b); }
ffi::String kind_of(ffi::Any value) {
  if (value == nullptr) return "nothing";
  if (value.as<int64_t>()) return "integer";
  if (auto text = value.try_cast<ffi::String>()) return "text " + *text;
  return value.GetTypeKey();
}
int64_t to_int(ffi::Any value) { return value.cast<int64_t>(); }

DLDataType dtype(DLDataType value) { return value; }
ffi::String dtype_text(DLDataType value) { return ffi::DLDataTypeToString(value); }
DLDevice device(DLDevice value) { return value; }
ffi::Shape shape(ffi::Shape value) { return value; }
int64_t product(ffi::Shape value) { return value.Product(); }

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(add_ints, add_ints);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(small_int, small_int);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(natural, natural);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(half, half);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(single, single);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(negate, negate);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(nothing, nothing);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(pointer, pointer);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(greet, greet);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(joined, joined);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(standard, standard);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(text_facts, text_facts);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(bytes, bytes);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(literal, literal);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(maybe, maybe);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(or_seven, or_seven);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(is_given, is_given);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(total, total);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(reversed, reversed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(changed, changed);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(item, item);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(ends, ends);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(popped, popped);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(deep, deep);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(from_vector, from_vector);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(nested, nested);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(swapped, swapped);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(either, either);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(same, same);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(second, second);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(kind_of, kind_of);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(to_int, to_int);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dtype, dtype);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(dtype_text, dtype_text);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(device, device);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(shape, shape);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(product, product);
