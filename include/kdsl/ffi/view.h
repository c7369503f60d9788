// kdsl/ffi/view.h: a tensor argument, checked against its annotation, as kernels want to see it.
#pragma once

#include <kdsl/ffi/args.h>
#include <kdsl/ffi/overlap.h>
#include <kdsl/ffi/tensor.h>

namespace kdsl {

/// One tensor parameter of a call. `Input`, `Output` and `InOut` are what functions declare.
class View {
 public:
  static constexpr int kMaxDims = Region::kMaxDims;
  enum Role { kInput, kOutput, kInOut };

  View(const View&) = delete;
  View& operator=(const View&) = delete;

  /// This output may be the very same view as `input`: the kernel reads each element of it before
  /// it writes that element, and never after.
  void may_replace(const View& input) { replaces_ |= uint64_t{1} << (input.index_ & 63); }

  /// Whether the call has a tensor here.
  bool given() const { return given_; }

  /// Hand address and strides (in elements) to a kernel's arguments.
  template <class Pointer, int N>
  KDSL_INLINE void pass(Pointer& data, i64 (&strides)[N]) const {
    data = data_;
    for (int i = 0; i < N; ++i) strides[i] = strides_[i];
  }
  template <class Pointer>
  void pass(Pointer& data) const {
    data = data_;
  }

 protected:
  KDSL_NOINLINE View(ArgReader& args, int index, const char* name, Role role, ElementType type,
                     const Extent* shape, int ndim, bool optional = false)
      : args_(args),
        next_(args.views_),
        name_(name),
        index_(index),
        role_(role),
        optional_(optional),
        type_(type),
        ndim_(ndim) {
    args.views_ = this;
    for (int i = 0; i < ndim; ++i) extents_[i] = shape[i];
    if (args.ok()) bind(args[index]);
  }

  /// The extents of a shape as an array; one more, so that there is one of an empty shape.
  template <class... Extents>
  struct Shape {
    static_assert(sizeof...(Extents) <= kMaxDims, "a tensor has 8 axes at most");
    Extent extents[sizeof...(Extents) + 1];
  };

 private:
  friend class Call;
  friend class CudaCall;

  /// Find the tensor in the argument, check it, bind dims and dtype.
  KDSL_INLINE void bind(const TVMFFIAny& arg) {
    const DLTensor* tensor = tensor_of(arg);
    if (!tensor) return bind_omitted(arg);
    given_ = true;
    if (tensor->ndim != ndim_ || !accept(tensor->dtype)) return mismatch("TypeError");
    if (ndim_ && !tensor->shape) return mismatch("ValueError");
    if (!args_.admits(tensor->device)) return wrong_device(*tensor);
    data_ = static_cast<char*>(tensor->data) + tensor->byte_offset;
    i64 elements = 1;
    bool countable = true;
    for (int i = ndim_ - 1; i >= 0; --i) {
      const i64 size = tensor->shape[i];
      const i64 stride = tensor->strides ? tensor->strides[i] : elements;
      if (!accept(extents_[i], size)) return mismatch("ValueError");
      // The stride of a size-1 axis carries no meaning.
      if (stride != elements && size != 1) has_gaps_ = true;
      sizes_[i] = size;
      strides_[i] = stride;
      countable = !__builtin_mul_overflow(elements, size, &elements) && countable;
    }
    // A stride of 0 makes a tensor of any size, also of one that no loop ends over.
    if (!countable && !is_empty()) return bad_memory("it has 2**63 elements or more");
    if (countable && elements != 0) check_memory(elements);
  }

  bool is_empty() const {
    for (int i = 0; i < ndim_; ++i) {
      if (sizes_[i] == 0) return true;
    }
    return false;
  }

  KDSL_INLINE bool accept(DLDataType dtype) {
    TypeVar* variable = type_.variable;
    if (!variable) return dtype == type_.dtype;
    if (variable->bound) return dtype == variable->value;
    if (!variable->offers(dtype)) return false;
    variable->value = dtype;
    variable->bound = true;
    return true;
  }

  KDSL_INLINE bool accept(const Extent& extent, i64 size) {
    if (!extent.dim) return size == extent.number;
    if (extent.dim->is_bound()) return size == extent.dim->value;
    extent.dim->value = size;
    extent.dim->origin = this;
    return true;
  }

  KDSL_INLINE void check_memory(i64 elements) {
    const auto address = reinterpret_cast<uintptr_t>(data_);
    const auto size = static_cast<uintptr_t>(element_bytes());
    if (address == 0) return bad_memory("the data pointer is null");
    if (address & (size - 1)) return bad_memory("the data is not aligned to its element size");
    first_byte_ = address;
    end_byte_ = address + elements * size;
    if (has_gaps_) check_gaps();
  }

  KDSL_NOINLINE void check_gaps() {
    const Region mine = region();
    first_byte_ = mine.first_byte();
    end_byte_ = mine.end_byte();
    if (role_ != kInput && overlaps_itself(mine)) {
      bad_memory("elements share memory (a stride is 0 or too small); an output cannot");
    }
  }

  KDSL_COLD void bind_omitted(const TVMFFIAny& arg) {
    const bool may_be_none = role_ == kOutput || optional_;
    if (!may_be_none || arg.type_index != kTVMFFINone) return mismatch("TypeError");
    for (int i = 0; i < ndim_; ++i) {
      strides_[i] = 0;
      sizes_[i] = extents_[i].dim ? extents_[i].dim->value : extents_[i].number;
    }
  }

  KDSL_COLD void mismatch(const char* kind) const {
    Text text;
    args_.argument(text, index_, name_) << "expected ";
    show_expected(text);
    args_.fail(kind, text << ", got " << args_[index_]);
  }

  KDSL_COLD void wrong_device(const DLTensor& tensor) const {
    Text text;
    args_.argument(text, index_, name_) << "expected ";
    show_expected(text);
    text << args_.device() << ", got " << tensor;
    if (args_.lacks_cuda()) text << "; this module has no CUDA code";
    args_.fail("ValueError", text);
  }

  KDSL_COLD void bad_memory(const char* what) const {
    Text text;
    args_.fail("ValueError", args_.argument(text, index_, name_) << what);
  }

  /// The annotation; sizes and dtypes that other arguments have bound stand in it.
  KDSL_COLD void show_expected(Text& text) const {
    const TypeVar* variable = type_.variable;
    if (variable && !variable->bound) {
      text << variable->name;
    } else {
      text << dtype();
    }
    text << "[";
    for (int i = 0; i < ndim_; ++i) {
      const Dim* dim = extents_[i].dim;
      const DLTensor* own = dim && dim->origin == this ? repeated(*dim) : nullptr;
      text << (i ? ", " : "");
      if (!dim) {
        text << extents_[i].number;
      } else if (own) {
        text << dim->text << "=" << static_cast<i64>(own->shape[first_axis(*dim)]);
      } else if (dim->is_bound() && dim->origin != this) {
        text << dim->text << "=" << dim->value;
      } else {
        text << dim->text;
      }
    }
    text << (ndim_ ? "]" : "()]");
    if (!variable || variable->bound) return;
    text << " with " << variable->name << " one of ";
    for (int i = 0; i < variable->count; ++i) text << (i ? ", " : "") << variable->choices[i];
  }

  int first_axis(const Dim& dim) const {
    int axis = 0;
    while (extents_[axis].dim != &dim) ++axis;
    return axis;
  }

  /// The argument itself, where two of its axes have this dim: what it says there differs.
  KDSL_COLD const DLTensor* repeated(const Dim& dim) const {
    const DLTensor* tensor = tensor_of(args_[index_]);
    if (!tensor || tensor->ndim != ndim_) return nullptr;
    for (int i = first_axis(dim) + 1; i < ndim_; ++i) {
      if (extents_[i].dim == &dim) return tensor;
    }
    return nullptr;
  }

  KDSL_INLINE DLDataType dtype() const {
    return type_.variable ? type_.variable->value : type_.dtype;
  }
  KDSL_INLINE i64 element_bytes() const { return dtype().bits / 8; }

  Region region() const {
    Region region;
    region.base = static_cast<i64>(reinterpret_cast<uintptr_t>(data_));
    region.element_bytes = element_bytes();
    region.ndim = ndim_;
    for (int i = 0; i < ndim_; ++i) {
      region.shape[i] = sizes_[i];
      region.strides[i] = strides_[i] * region.element_bytes;
    }
    return region;
  }

  ArgReader& args_;
  View* next_;
  const char* name_;
  int index_;
  Role role_;
  /// An input that may be None.
  bool optional_;
  ElementType type_;
  int ndim_;
  bool given_ = false;
  /// Whether its elements lie otherwise than row after row without gaps.
  bool has_gaps_ = false;
  /// Inputs that may be the very memory of this output: bit i for argument i.
  uint64_t replaces_ = 0;
  char* data_ = nullptr;
  /// The memory it lies in; nothing for a tensor without elements.
  uintptr_t first_byte_ = 0;
  uintptr_t end_byte_ = 0;
  /// The caller's memory, where `data_` is a copy of it without gaps.
  char* original_ = nullptr;
  Extent extents_[kMaxDims];
  int64_t sizes_[kMaxDims];
  i64 strides_[kMaxDims];
};

/// A tensor that the kernel reads.
class Input : public View {
 public:
  template <class... Extents>
  Input(ArgReader& args, int index, const char* name, ElementType type, Extents&&... shape)
      : View(args, index, name, kInput, type, Shape<Extents...>{{shape...}}.extents,
             sizeof...(shape)) {}
};

/// A tensor that the kernel reads where the call has one.
class OptionalInput : public View {
 public:
  template <class... Extents>
  OptionalInput(ArgReader& args, int index, const char* name, ElementType type, Extents&&... shape)
      : View(args, index, name, kInput, type, Shape<Extents...>{{shape...}}.extents,
             sizeof...(shape), true) {}
};

/// A tensor that the kernel changes.
class InOut : public View {
 public:
  template <class... Extents>
  InOut(ArgReader& args, int index, const char* name, ElementType type, Extents&&... shape)
      : View(args, index, name, kInOut, type, Shape<Extents...>{{shape...}}.extents,
             sizeof...(shape)) {}
};

/// A tensor that the kernel writes; the call makes it where the caller gives none.
class Output : public View {
 public:
  template <class... Extents>
  Output(ArgReader& args, int index, const char* name, ElementType type, Extents&&... shape)
      : View(args, index, name, kOutput, type, Shape<Extents...>{{shape...}}.extents,
             sizeof...(shape)) {}
};

}  // namespace kdsl
