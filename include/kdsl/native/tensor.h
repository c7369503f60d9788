// kdsl/native/tensor.h: Shape, Tensor (owned) and TensorView (borrowed), dtypes and devices.
#pragma once

#include <kdsl/native/array.h>

#pragma GCC visibility push(hidden)

inline bool operator==(const DLDataType& a, const DLDataType& b) {
  return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}
inline bool operator!=(const DLDataType& a, const DLDataType& b) { return !(a == b); }
inline bool operator==(const DLDevice& a, const DLDevice& b) {
  return a.device_type == b.device_type && a.device_id == b.device_id;
}
inline bool operator!=(const DLDevice& a, const DLDevice& b) { return !(a == b); }

namespace tvm::ffi {

// ---- shapes

/// Integers that somebody else keeps.
class ShapeView {
 public:
  ShapeView() = default;
  ShapeView(const int64_t* data, size_t size) : cell_{data, size} {}
  ShapeView(const std::initializer_list<int64_t>& sizes) : cell_{sizes.begin(), sizes.size()} {}

  const int64_t* data() const { return cell_.data; }
  size_t size() const { return cell_.size; }
  bool empty() const { return cell_.size == 0; }
  const int64_t* begin() const { return cell_.data; }
  const int64_t* end() const { return cell_.data + cell_.size; }
  int64_t operator[](size_t index) const { return cell_.data[index]; }
  int64_t at(size_t index) const {
    if (index < cell_.size) return cell_.data[index];
    detail::Writer text = {};
    text.put("indexing ") << index;
    text.put(" on a Shape of size ") << cell_.size;
    detail::fail("IndexError", text);
  }
  int64_t front() const { return at(0); }
  int64_t back() const { return at(cell_.size - 1); }
  int64_t Product() const {
    int64_t product = 1;
    for (int64_t size : *this) product *= size;
    return product;
  }

 private:
  TVMFFIShapeCell cell_ = {nullptr, 0};
};

class ShapeObj : public Object, public TVMFFIShapeCell {
 public:
  static constexpr int32_t _type_index = kTVMFFIShape;
};

class Shape : public ObjectRef {
 public:
  using ContainerType = ShapeObj;
  using index_type = int64_t;
  static constexpr bool _type_is_nullable = false;

  KDSL_LAZY Shape() : Shape(ShapeView()) {}
  explicit Shape(UnsafeInit tag) : ObjectRef(tag) {}
  KDSL_LAZY Shape(ShapeView sizes) : Shape(sizes.begin(), sizes.end()) {}
  KDSL_LAZY Shape(std::initializer_list<int64_t> sizes) : Shape(sizes.begin(), sizes.end()) {}
  /// Of an Array<int64_t> or a std::vector<int64_t>.
  template <class C,
            class = kdsl::own::enable_if_t<kdsl::own::is_same_v<typename C::value_type, int64_t>>>
  Shape(const C& sizes) : Shape(sizes.begin(), sizes.end()) {}
  template <class It>
  Shape(It first, It last) {
    size_t count = 0;
    for (It at = first; at != last; ++at) ++count;
    auto* object = detail::new_object<ShapeObj>(count * sizeof(int64_t));
    auto* sizes = reinterpret_cast<int64_t*>(object + 1);
    static_cast<TVMFFIShapeCell&>(*object) = {sizes, count};
    for (; first != last; ++first) *sizes++ = *first;
    data_ = ObjectPtr<Object>::own(object);
  }
  /// Strides of a tensor of these sizes whose elements lie without gaps.
  KDSL_LAZY static Shape StridesFromShape(ShapeView sizes) {
    Shape strides(sizes);
    auto* out = const_cast<int64_t*>(strides.data());
    int64_t stride = 1;
    for (size_t i = sizes.size(); i-- > 0; stride *= sizes[i]) out[i] = stride;
    return strides;
  }

  operator ShapeView() const { return ShapeView(cell()->data, cell()->size); }
  const int64_t* data() const { return cell()->data; }
  size_t size() const { return cell()->size; }
  bool empty() const { return size() == 0; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size(); }
  int64_t operator[](size_t index) const { return data()[index]; }
  int64_t at(size_t index) const { return ShapeView(*this).at(index); }
  int64_t front() const { return at(0); }
  int64_t back() const { return at(size() - 1); }
  int64_t Product() const { return ShapeView(*this).Product(); }

 private:
  const ShapeObj* cell() const { return static_cast<const ShapeObj*>(data_.get()); }
};

template <>
inline constexpr bool use_default_type_traits_v<Shape> = false;
template <class S>
struct TypeTraits<S, kdsl::own::enable_if_t<kdsl::own::is_same_v<S, Shape>>>
    : detail::RefTraits<S> {
  using Base = detail::RefTraits<S>;
  static constexpr detail::TypeText text = {"ffi.Shape", "ffi.Shape"};
  // An array of integers converts.
  static bool fits(const TVMFFIAny& value) {
    return Base::is(value) || (detail::is_sequence(value.type_index) &&
                               detail::all_of(value, TypeTraits<int64_t>::fits));
  }
  static S get(const TVMFFIAny& value) {
    return Base::is(value) ? Base::get(value) : S(TypeTraits<Array<int64_t>>::get(value));
  }
};

namespace detail {

inline Writer& operator<<(Writer& out, ShapeView shape) {
  out.put("[");
  for (size_t i = 0; i < shape.size(); ++i) out.put(i ? ", " : "").put_int(shape[i]);
  return out.put("]");
}
inline Writer& operator<<(Writer& out, const Shape& shape) { return out << ShapeView(shape); }

[[noreturn]] KDSL_COLD inline void bad_axis(int64_t axis, int ndim) {
  Writer text = {};
  text.put("Index ").put_int(axis).put(" out of bounds for tensor with ").put_int(ndim);
  fail("IndexError", text.put(" dimensions"));
}
KDSL_LAZY const DLTensor& given(const DLTensor* tensor) {
  TVM_FFI_ICHECK(tensor != nullptr);
  return *tensor;
}
}  // namespace detail

// ---- tensors

inline bool IsContiguous(const DLTensor& tensor) {
  if (!tensor.strides) return true;
  for (int i = 0; i < tensor.ndim; ++i) {
    if (tensor.shape[i] == 0) return true;
  }
  int64_t stride = 1;
  for (int i = tensor.ndim; i-- > 0;) {
    // The stride of an axis of length 1 means nothing.
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}
inline bool IsDirectAddressDevice(const DLDevice& device) {
  return device.device_type <= kDLCUDAHost || device.device_type == kDLCUDAManaged ||
         device.device_type == kDLROCM || device.device_type == kDLROCMHost;
}
inline bool IsAligned(const DLTensor& tensor, size_t alignment) {
  const auto address = reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
  return (IsDirectAddressDevice(tensor.device) ? address : tensor.byte_offset) % alignment == 0;
}
inline size_t GetDataSize(size_t count, DLDataType dtype) {
  return (count * dtype.bits * dtype.lanes + 7) / 8;
}
inline size_t GetDataSize(const DLTensor& tensor) {
  return GetDataSize(static_cast<size_t>(ShapeView(tensor.shape, tensor.ndim).Product()),
                     tensor.dtype);
}

namespace detail {

/// What Tensor and TensorView tell of their DLTensor; D has `const DLTensor& dl() const`.
template <class D>
class TensorFacts {
 public:
  void* data_ptr() const { return dl().data; }
  DLDevice device() const { return dl().device; }
  int32_t ndim() const { return dl().ndim; }
  int32_t dim() const { return dl().ndim; }
  DLDataType dtype() const { return dl().dtype; }
  uint64_t byte_offset() const { return dl().byte_offset; }
  ShapeView shape() const { return ShapeView(dl().shape, dl().ndim); }
  ShapeView sizes() const { return shape(); }
  ShapeView strides() const {
    const DLTensor& tensor = dl();
    TVM_FFI_ICHECK(tensor.strides != nullptr || tensor.ndim == 0);
    return ShapeView(tensor.strides, tensor.ndim);
  }
  int64_t size(int64_t axis) const { return dl().shape[place(axis)]; }
  int64_t stride(int64_t axis) const {
    const int64_t at = place(axis);
    const DLTensor& tensor = dl();
    if (tensor.strides) return tensor.strides[at];
    // Without strides the elements lie without gaps.
    return ShapeView(tensor.shape + at + 1, tensor.ndim - at - 1).Product();
  }
  int64_t numel() const { return shape().Product(); }
  bool IsContiguous() const { return ffi::IsContiguous(dl()); }
  bool is_contiguous() const { return ffi::IsContiguous(dl()); }
  bool IsAligned(size_t alignment) const { return ffi::IsAligned(dl(), alignment); }

 private:
  const DLTensor& dl() const { return static_cast<const D*>(this)->dl(); }
  int64_t place(int64_t axis) const {
    const int ndim = dl().ndim;
    const int64_t at = axis < 0 ? axis + ndim : axis;
    if (TVM_FFI_PREDICT_FALSE(at < 0 || at >= ndim)) bad_axis(axis, ndim);
    return at;
  }
};

/// The tensor seen through other sizes and strides, from `from` elements on.
template <class From>
DLTensor restrided(DLTensor tensor, ShapeView shape, ShapeView strides, const From& from) {
  const int64_t offset = from ? *from : 0;
  TVM_FFI_ICHECK_EQ(shape.size(), strides.size());
  TVM_FFI_ICHECK_GE(offset, 0);
  tensor.shape = const_cast<int64_t*>(shape.data());
  tensor.ndim = static_cast<int>(shape.size());
  tensor.strides = const_cast<int64_t*>(strides.data());
  tensor.byte_offset += GetDataSize(static_cast<size_t>(offset), tensor.dtype);
  if (IsDirectAddressDevice(tensor.device)) {
    tensor.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
    tensor.byte_offset = 0;
  }
  return tensor;
}

}  // namespace detail

class TensorObj : public Object, public DLTensor {
 public:
  static constexpr int32_t _type_index = kTVMFFITensor;
};

namespace detail {

/// A tensor that `Owner` keeps: its `free(DLTensor&)` runs at the end. Sizes and strides lie
/// behind.
template <class Owner>
class OwningTensorObj : public TensorObj {
 public:
  OwningTensorObj(Owner owner, const DLTensor& prototype) : owner_(kdsl::own::move(owner)) {
    auto* numbers = reinterpret_cast<int64_t*>(this + 1);
    static_cast<DLTensor&>(*this) = prototype;
    shape = numbers;
    strides = numbers + ndim;
    int64_t stride = 1;
    for (int i = ndim; i-- > 0;) {
      shape[i] = prototype.shape[i];
      strides[i] = prototype.strides ? prototype.strides[i] : stride;
      stride *= shape[i];
    }
    owner_.fill(static_cast<DLTensor&>(*this));
  }
  OwningTensorObj(const OwningTensorObj&) = delete;
  ~OwningTensorObj() { owner_.free(static_cast<DLTensor&>(*this)); }

  static ObjectPtr<Object> make(Owner owner, const DLTensor& prototype) {
    return ObjectPtr<Object>::own(new_object<OwningTensorObj>(2 * sizeof(int64_t) * prototype.ndim,
                                                              kdsl::own::move(owner), prototype));
  }

 private:
  Owner owner_;
};

/// AllocData and FreeData of the user's, as FromNDAlloc takes it.
template <class Alloc>
struct AllocOwner {
  Alloc alloc;
  void fill(DLTensor& tensor) { alloc.AllocData(&tensor); }
  void free(DLTensor& tensor) { alloc.FreeData(&tensor); }
};
/// A DLPack tensor that somebody else made.
template <class Managed>
struct ManagedOwner {
  Managed* managed;
  void fill(DLTensor&) {}
  void free(DLTensor&) {
    if (managed->deleter) managed->deleter(managed);
  }
};
/// Another tensor.
struct SharedOwner {
  ObjectPtr<Object> kept;
  void fill(DLTensor&) {}
  void free(DLTensor&) {}
};

}  // namespace detail

/// A tensor that this handle keeps alive.
class Tensor : public ObjectRef, public detail::TensorFacts<Tensor> {
 public:
  using ContainerType = TensorObj;

  Tensor() = default;
  explicit Tensor(UnsafeInit tag) : ObjectRef(tag) {}
  explicit Tensor(ObjectPtr<TensorObj> object) : ObjectRef(kdsl::own::move(object)) {}

  const DLTensor* GetDLTensorPtr() const { return data_ ? &dl() : nullptr; }
  const DLTensor& dl() const {
    if (TVM_FFI_PREDICT_FALSE(!data_)) {
      detail::fail("ValueError",
                   "the Tensor is undefined: it stands for None and has nothing to read");
    }
    return *static_cast<const TensorObj*>(data_.get());
  }

  /// From `env_alloc`, which is TVMFFIEnvTensorAlloc: memory of the caller's framework.
  static Tensor FromEnvAlloc(int (*env_alloc)(DLTensor*, TVMFFIObjectHandle*), ShapeView shape,
                             DLDataType dtype, DLDevice device) {
    DLTensor prototype = plain(shape, dtype, device);
    TVMFFIObjectHandle made = nullptr;
    TVM_FFI_CHECK_SAFE_CALL(env_alloc(&prototype, &made));
    return ObjectAccess::make<Tensor>(own_object(made));
  }
  /// From an allocator with AllocData(DLTensor*) and FreeData(DLTensor*).
  template <class Alloc>
  static Tensor FromNDAlloc(Alloc alloc, ShapeView shape, DLDataType dtype, DLDevice device) {
    using Made = detail::OwningTensorObj<detail::AllocOwner<Alloc>>;
    return ObjectAccess::make<Tensor>(
        Made::make({kdsl::own::move(alloc)}, plain(shape, dtype, device)));
  }
  template <class Managed>
  static Tensor from_managed(Managed* managed, size_t alignment, bool contiguous) {
    const DLTensor& tensor = managed->dl_tensor;
    if (alignment && !ffi::IsAligned(tensor, alignment)) {
      detail::Writer text = {};
      text.put("FromDLPack: Data is not aligned to ").put_int(static_cast<int64_t>(alignment));
      detail::fail("RuntimeError", text.put(" bytes."));
    }
    if (contiguous && !ffi::IsContiguous(tensor)) {
      detail::fail("RuntimeError", "FromDLPack: Tensor is not contiguous.");
    }
    using Made = detail::OwningTensorObj<detail::ManagedOwner<Managed>>;
    return ObjectAccess::make<Tensor>(Made::make({managed}, tensor));
  }
  template <class Managed = DLManagedTensor>
  static Tensor FromDLPack(Managed* tensor, size_t require_alignment = 0,
                           bool require_contiguous = false) {
    return from_managed(tensor, require_alignment, require_contiguous);
  }
  template <class Managed = DLManagedTensorVersioned>
  static Tensor FromDLPackVersioned(Managed* tensor, size_t require_alignment = 0,
                                    bool require_contiguous = false) {
    return from_managed(tensor, require_alignment, require_contiguous);
  }
  template <class Managed = DLManagedTensor>
  Managed* ToDLPack() const {
    return to_managed<Managed>();
  }
  template <class Managed = DLManagedTensorVersioned>
  Managed* ToDLPackVersioned() const {
    auto* managed = to_managed<Managed>();
    managed->version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
    managed->flags = 0;
    return managed;
  }
  /// The same memory through other sizes and strides; keeps this tensor alive.
  template <class Owner = detail::SharedOwner>
  Tensor as_strided(ShapeView shape, ShapeView strides, Optional<int64_t> offset = {}) const {
    using Made = detail::OwningTensorObj<Owner>;
    return ObjectAccess::make<Tensor>(
        Made::make({data_}, detail::restrided(dl(), shape, strides, offset)));
  }

 private:
  static DLTensor plain(ShapeView shape, DLDataType dtype, DLDevice device) {
    DLTensor prototype = {};
    prototype.device = device;
    prototype.dtype = dtype;
    prototype.ndim = static_cast<int>(shape.size());
    prototype.shape = const_cast<int64_t*>(shape.data());
    return prototype;
  }
  template <class Managed>
  Managed* to_managed() const {
    auto* managed = static_cast<Managed*>(detail::allocate(sizeof(Managed)));
    managed->dl_tensor = dl();
    managed->manager_ctx = ObjectPtr<Object>(data_).release();
    managed->deleter = [](Managed* self) {
      own_object(self->manager_ctx).reset();
      kdsl_free(self);
    };
    return managed;
  }
};

/// A tensor of somebody who keeps it alive for the length of the call.
class TensorView : public detail::TensorFacts<TensorView> {
 public:
  TensorView(const Tensor& tensor) : tensor_(tensor.dl()) {}
  TensorView(Tensor&& tensor) = delete;
  TensorView(const DLTensor* tensor) : tensor_(detail::given(tensor)) {}
  const DLTensor& dl() const { return tensor_; }
  template <class Offset = int64_t>
  TensorView as_strided(ShapeView shape, ShapeView strides, Optional<Offset> offset = {}) const {
    return TensorView(detail::restrided(tensor_, shape, strides, offset));
  }

 private:
  friend struct TypeTraits<TensorView>;
  explicit TensorView(const DLTensor& tensor) : tensor_(tensor) {}
  DLTensor tensor_;
};

inline size_t GetDataSize(const Tensor& tensor) { return GetDataSize(tensor.dl()); }
inline size_t GetDataSize(const TensorView& tensor) { return GetDataSize(tensor.dl()); }

namespace detail {

/// The DLTensor of a value that has one.
TVM_FFI_INLINE DLTensor* tensor_in(const TVMFFIAny& value) {
  if (value.type_index == kTVMFFIDLTensorPtr) return static_cast<DLTensor*>(value.v_ptr);
  return &reinterpret_cast<KdslTensorObject*>(value.v_obj)->tensor;
}
[[noreturn]] KDSL_COLD inline void cannot_keep() {
  fail("RuntimeError",
       "DLTensor* cannot be held in Any as it does not retain ownership, use Tensor instead");
}

/// Of tensors that somebody else keeps.
struct ViewTraits : TypeTraitsBase {
  static constexpr bool storage_enabled = false;
  static constexpr TypeText text = {"DLTensor*", "DLTensor*"};
  static bool is(const TVMFFIAny& value) {
    return value.type_index == kTVMFFIDLTensorPtr && value.v_ptr;
  }
  static bool fits(const TVMFFIAny& value) {
    return value.type_index == kTVMFFITensor || is(value);
  }
};

}  // namespace detail

template <>
struct TypeTraits<DLTensor*> : detail::ViewTraits {
  static TVMFFIAny view(DLTensor* tensor) { return detail::raw(kTVMFFIDLTensorPtr, tensor); }
  static TVMFFIAny give(DLTensor*) { detail::cannot_keep(); }
  static DLTensor* get(const TVMFFIAny& value) { return detail::tensor_in(value); }
};
template <>
struct TypeTraits<TensorView> : detail::ViewTraits {
  static TVMFFIAny view(const TensorView& tensor) {
    return detail::raw(kTVMFFIDLTensorPtr, &tensor.dl());
  }
  static TVMFFIAny give(const TensorView&) { detail::cannot_keep(); }
  static TensorView get(const TVMFFIAny& value) { return TensorView(*detail::tensor_in(value)); }
};

}  // namespace tvm::ffi
#pragma GCC visibility pop
