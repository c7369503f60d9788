// containers.cc: looks into values and changes them, with the headers of apache-tvm-ffi.
#include <tvm/ffi/extra/c_env_api.h>
#include <tvm/ffi/tvm_ffi.h>

namespace ffi = tvm::ffi;
using AnyMap = ffi::Map<ffi::Any, ffi::Any>;
using AnyDict = ffi::Dict<ffi::Any, ffi::Any>;
using AnyList = ffi::List<ffi::Any>;
using AnyArray = ffi::Array<ffi::Any>;

namespace {

template <class Container>
AnyArray flat(const Container& map) {
  AnyArray pairs;
  for (const auto& [key, value] : map) {
    pairs.push_back(key);
    pairs.push_back(value);
  }
  return pairs;
}

AnyArray map_flat(AnyMap map) { return flat(map); }
AnyArray dict_flat(AnyDict dict) { return flat(dict); }

// How many of the keys are found with the value that they have in the array (key, value, ...).
template <class Container>
int64_t found(const Container& map, const AnyArray& pairs) {
  int64_t count = 0;
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(pairs.size()); i += 2) {
    if (map.count(pairs[i]) && ffi::AnyEqual()(map.at(pairs[i]), pairs[i + 1])) ++count;
  }
  return count;
}

int64_t map_found(AnyMap map, AnyArray pairs) { return found(map, pairs); }
int64_t dict_found(AnyDict dict, AnyArray pairs) { return found(dict, pairs); }

AnyMap map_made(AnyArray pairs) {
  AnyMap map;
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(pairs.size()); i += 2) {
    map.Set(pairs[i], pairs[i + 1]);
  }
  return map;
}

// A changed copy: a Map that somebody else has stays as it is.
AnyMap map_with(AnyMap map, ffi::Any key, ffi::Any value) {
  map.Set(key, value);
  return map;
}

AnyDict dict_made(AnyArray pairs) {
  AnyDict dict;
  for (int64_t i = 0; i + 1 < static_cast<int64_t>(pairs.size()); i += 2) {
    dict.Set(pairs[i], pairs[i + 1]);
  }
  return dict;
}

void dict_set(AnyDict dict, ffi::Any key, ffi::Any value) { dict.Set(key, value); }
void dict_erase(AnyDict dict, ffi::Any key) { dict.erase(key); }
void dict_clear(AnyDict dict) { dict.clear(); }

AnyArray list_items(AnyList list) { return AnyArray(list.begin(), list.end()); }

AnyList list_made(AnyArray items) {
  AnyList list;
  for (const ffi::Any& item : items) list.push_back(item);
  return list;
}

void list_append(AnyList list, ffi::Any item) { list.push_back(item); }
void list_insert(AnyList list, int64_t at, ffi::Any item) { list.insert(list.begin() + at, item); }
void list_erase(AnyList list, int64_t at) { list.erase(list.begin() + at); }

AnyArray array_with(AnyArray array, ffi::Any item) {
  array.push_back(item);
  return array;
}

ffi::Any vault;
void put(ffi::Any value) { vault = value; }
ffi::Any get() { return vault; }
int64_t uses() { return vault.as<ffi::ObjectRef>() ? vault.cast<ffi::ObjectRef>().use_count() : 0; }

ffi::WeakObjectPtr<ffi::Object> weak;
void watch(ffi::ObjectRef object) {
  weak = ffi::WeakObjectPtr<ffi::Object>(
      ffi::GetObjectPtr<ffi::Object>(const_cast<ffi::Object*>(object.get())));
}
bool alive() { return weak.lock() != nullptr; }
void unwatch() { weak.reset(); }

// An object of a type that nobody knows elsewhere.
class StrangeObj : public ffi::Object {
 public:
  TVM_FFI_DECLARE_OBJECT_INFO_FINAL("kdsl.tests.Strange", StrangeObj, ffi::Object);
};
ffi::Any strange() { return ffi::ObjectRef(ffi::make_object<StrangeObj>()); }

ffi::Any same(ffi::Any value) { return value; }

ffi::Array<int64_t> types_of(AnyArray items) {
  ffi::Array<int64_t> types;
  for (const ffi::Any& item : items) types.push_back(item.type_index());
  return types;
}

int64_t stream_now(DLDevice device) {
  return reinterpret_cast<int64_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
}
int64_t stream_with(ffi::AnyView, DLDevice device) { return stream_now(device); }

int64_t type_of(ffi::AnyView value) { return value.type_index(); }
ffi::String text_of(ffi::String text) { return ffi::String("<") + text + ffi::String(">"); }
ffi::Bytes bytes_of(ffi::Bytes bytes) { return bytes; }
int64_t product(ffi::Shape shape) { return shape.Product(); }
ffi::Shape shape_of(ffi::TensorView tensor) {
  return ffi::Shape(tensor.shape().begin(), tensor.shape().end());
}
DLDataType wider(DLDataType dtype) {
  dtype.bits = static_cast<uint8_t>(dtype.bits * 2);
  return dtype;
}
DLDevice next(DLDevice device) {
  ++device.device_id;
  return device;
}
ffi::Array<ffi::Tensor> tensors_of(ffi::Map<ffi::String, ffi::Array<ffi::Tensor>> map) {
  ffi::Array<ffi::Tensor> all;
  for (const auto& [name, tensors] : map) {
    for (const ffi::Tensor& tensor : tensors) all.push_back(tensor);
  }
  return all;
}

}  // namespace

#define EXPORT(name) TVM_FFI_DLL_EXPORT_TYPED_FUNC(name, name)
EXPORT(map_flat)
EXPORT(dict_flat)
EXPORT(map_found)
EXPORT(dict_found)
EXPORT(map_made)
EXPORT(map_with)
EXPORT(dict_made)
EXPORT(dict_set)
EXPORT(dict_erase)
EXPORT(dict_clear)
EXPORT(list_items)
EXPORT(list_made)
EXPORT(list_append)
EXPORT(list_insert)
EXPORT(list_erase)
EXPORT(array_with)
EXPORT(put)
EXPORT(get)
EXPORT(uses)
EXPORT(watch)
EXPORT(alive)
EXPORT(unwatch)
EXPORT(stream_now)
EXPORT(stream_with)
EXPORT(strange)
EXPORT(same)
EXPORT(types_of)
EXPORT(type_of)
EXPORT(text_of)
EXPORT(bytes_of)
EXPORT(product)
EXPORT(shape_of)
EXPORT(wider)
EXPORT(next)
EXPORT(tensors_of)
