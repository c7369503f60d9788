// kdsl/ffi/call.h: one call of a kernel: overlap rules, omitted outputs, phases, the result.
#pragma once

#include <kdsl/ffi/copy.h>
#include <kdsl/ffi/parallel.h>
#include <kdsl/ffi/view.h>

namespace kdsl {

/// An index that a kernel checks: where it stands, and what it has to fit.
struct Site {
  const char* tensor;
  int dimension;
  /// The size as the signature has it ("V"); null where that is a number.
  const char* size;
  /// "embedding.py:12", or null.
  const char* place;
};

/// The index that a kernel of the function with this signature has found, and what it had to fit.
KDSL_COLD inline Text& show_fault(Text& text, const char* signature, const Fault& fault,
                                  const Site& site) {
  text << signature << ": index " << fault.index << " is out of range for dimension "
       << site.dimension << " of `" << site.tensor << "` (" << (site.size ? site.size : "size")
       << (site.size ? "=" : " ") << fault.size << ")";
  return site.place ? text << ", at " << site.place : text;
}

class Call : public ArgReader {
 public:
  using ArgReader::ArgReader;
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (made_count_ || copies_) drop();
  }

  /// The size that an expression in an annotation gives: checked where an input has it, and the
  /// size of outputs.
  KDSL_NOINLINE void computed(Dim& dim, i64 value) {
    if (!ok()) return;
    const bool agrees = !dim.is_bound() || dim.value == value;
    const View* origin = dim.origin;
    dim.value = value;
    dim.origin = nullptr;
    if (value < 0) {
      negative(dim);
    } else if (!agrees) {
      origin->mismatch("ValueError");
    }
  }

  /// After all arguments are read: outputs given or omitted together, none of them over another
  /// tensor; omitted ones made, and rows without gaps for the kernel. False after raising.
  KDSL_NOINLINE bool prepare() {
    if (!outputs_fit()) return false;
    for (View* view = views_; view; view = view->next_) {
      if (view->role_ == View::kInput && !view->given_) continue;
      if (!view->given_ ? !make(*view) : rows_have_gaps(*view) && !close_gaps(*view)) return false;
    }
    return true;
  }

  /// Run the phases of the kernel for this CPU in order, then hand the outputs over. `scratch` is
  /// the field of `args` that takes the call's scratch block. A kernel that checks indices reports
  /// to `fault`, by number of the site; no later phase runs then.
  KDSL_NOINLINE int run(const Kernel* const* variants, int variant, const void* args,
                        void*& scratch, TVMFFIAny* result, const Fault* fault = nullptr,
                        const Site* sites = nullptr) {
    if (variant < 0) return no_variant();
    const Kernel& kernel = *variants[variant];
    const i64 bytes = kernel.scratch ? kernel.scratch(args) : 0;
    if (bytes < 0) return bad_size("scratch memory has a negative size, or one");
    // Sizes may be huge where one of them is 0: nobody waits for loops that write nothing, unless
    // they are to find an index that is out of range.
    if (!fault && !writes()) return hand_over(result);
    for (int i = 0; i < kernel.phase_count; ++i) {
      const Phase& phase = kernel.phases[i];
      if (phase.arena && phase.arena(args) < 0) return bad_size("temporary values have a size");
    }
    if (bytes > 0) {
      ThreadState* state = thread_state();
      scratch = state ? state->scratch.reserve(bytes) : nullptr;
      if (!scratch) return out_of_memory();
    }
    const bool small = total_bytes() < kSmall;
    for (int i = 0; i < kernel.phase_count; ++i) {
      if (!run_phase(kernel.phases[i], args, small)) return out_of_memory();
      if (fault && fault->found) return out_of_range(*fault, sites[fault->site]);
    }
    for (View* view = views_; view; view = view->next_) {
      if (view->original_ && view->role_ != View::kInput) {
        move(*view, {view->original_, given_strides(*view)}, {view->data_, view->strides_});
      }
    }
    return hand_over(result);
  }

 protected:
  /// Whether outputs are given or omitted together, and no given one lies over another tensor.
  KDSL_INLINE bool outputs_fit() {
    if (!ok()) return false;
    const View* given = nullptr;
    const View* omitted = nullptr;
    for (View* view = views_; view; view = view->next_) {
      if (view->role_ == View::kOutput) (view->given_ ? given : omitted) = view;
      if (view->role_ != View::kInput && view->given_ && !is_separate(*view)) return false;
    }
    return !given || !omitted || half_omitted(*omitted);
  }

  /// Whether there is an element of an output.
  bool writes() const {
    for (View* view = views_; view; view = view->next_) {
      if (view->role_ != View::kInput && !view->is_empty()) return true;
    }
    return false;
  }

  /// Nothing for outputs that were given, a Tensor for one that was made, an Array for several.
  KDSL_NOINLINE int hand_over(TVMFFIAny* result) {
    TVMFFIObject* object = nullptr;
    if (made_count_ == 1) object = &made_[0]->head;
    if (made_count_ > 1) {
      // Views are listed from the last to the first, and so are the tensors made for them.
      KdslTensorObject* ordered[kMaxOutputs];
      for (int i = 0; i < made_count_; ++i) ordered[i] = made_[made_count_ - 1 - i];
      KdslArrayObject* array = new_array(ordered, made_count_);
      if (!array) return out_of_memory();
      object = &array->head;
    }
    if (!result && object) {
      drop();
      return no_place();
    }
    made_count_ = 0;
    if (!result) return 0;  // a C host that passes all outputs may leave it out
    result->type_index = object ? object->type_index : static_cast<int32_t>(kTVMFFINone);
    result->zero_padding = 0;
    result->v_obj = object;
    return 0;
  }

  /// Take a tensor that was made for an output; null: there was no memory.
  bool adopt(View& view, KdslTensorObject* made, const DLTensor& prototype) {
    if (!made) return cannot_make(view, prototype);
    made_[made_count_++] = made;
    view.data_ = static_cast<char*>(made->tensor.data) + made->tensor.byte_offset;
    view.first_byte_ = reinterpret_cast<uintptr_t>(view.data_);
    view.end_byte_ = view.first_byte_ + byte_count(prototype);
    compact_strides(view);
    return true;
  }
  /// Whether a tensor for an output can be made and kept.
  bool can_make(const DLTensor& prototype) const {
    return made_count_ < kMaxOutputs && byte_count(prototype) >= 0;
  }

  static void compact_strides(View& view) {
    i64 stride = 1;
    for (int i = view.ndim_ - 1; i >= 0; --i) {
      view.strides_[i] = stride;
      stride *= view.sizes_[i];
    }
  }

  /// Whether the elements of a row lie apart; kernels take them to be neighbours.
  static bool rows_have_gaps(const View& view) {
    const int last = view.ndim_ - 1;
    return view.has_gaps_ && view.end_byte_ && view.sizes_[last] > 1 && view.strides_[last] != 1;
  }

  KDSL_COLD int bad_size(const char* what) {
    Text text;
    text << signature() << ": " << what << " that does not fit in 64 bits";
    return fail("ValueError", text);
  }

  KDSL_COLD bool cannot_make(const View& view, const DLTensor& prototype) {
    Text text;
    argument(text, view.index_, view.name_);
    const bool fits = byte_count(prototype) >= 0;
    text << (fits ? "no memory for " : "a size in bytes that does not fit in 64 bits: ");
    return fail(fits ? "MemoryError" : "ValueError", text << prototype) == 0;
  }

  KDSL_COLD int out_of_memory() {
    Text text;
    return fail("MemoryError", text << signature() << ": no memory for temporary values");
  }

 private:
  static constexpr int kMaxOutputs = 64;
  /// Tensors so small that hardly a kernel takes long over them.
  static constexpr uintptr_t kSmall = 32 << 10;
  struct Copy;

  uintptr_t total_bytes() const {
    uintptr_t bytes = 0;
    for (View* view = views_; view; view = view->next_) {
      bytes += view->end_byte_ - view->first_byte_;
    }
    return bytes;
  }

  bool is_separate(const View& output) {
    for (View* other = views_; other; other = other->next_) {
      // Null and disjoint memory, nearly always, and nothing for a tensor with itself.
      if (other->end_byte_ <= output.first_byte_ || output.end_byte_ <= other->first_byte_)
        continue;
      if (other != &output && !may_meet(output, *other)) return overlapping(output, *other);
    }
    return true;
  }

  /// Whether views whose memory meets are interleaved, or the same where the kernel allows it.
  KDSL_COLD static bool may_meet(const View& output, const View& other) {
    const Region mine = output.region(), its = other.region();
    if (!overlap(mine, its)) return true;
    return output.replaces_ >> (other.index_ & 63) & 1 && mine.is_same_view(its);
  }

  KDSL_COLD bool overlapping(const View& output, const View& other) {
    Text text;
    argument(text, output.index_, output.name_)
        << "shares memory with argument " << other.index_ << " `" << other.name_
        << "`; pass a buffer of its own";
    if (output.role_ == View::kOutput && other.role_ == View::kInput) {
      text << ", or declare one parameter InOut";
    }
    return fail("ValueError", text) == 0;
  }

  KDSL_COLD bool half_omitted(const View& omitted) {
    Text text;
    argument(text, omitted.index_, omitted.name_) << "expected ";
    omitted.show_expected(text);
    return fail("TypeError", text << ", got None; outputs are given all or omitted all") == 0;
  }

  KDSL_COLD void negative(const Dim& dim) {
    Text text;
    text << signature() << ": the size " << dim.text << " is negative: " << dim.value;
    fail("ValueError", text);
  }

  KDSL_COLD int out_of_range(const Fault& fault, const Site& site) {
    Text text;
    return fail("IndexError", show_fault(text, signature(), fault, site));
  }

  KDSL_COLD int no_variant() {
    Text text;
    return fail("RuntimeError", text << signature() << ": compiled for a newer kind of CPU only");
  }

  KDSL_NOINLINE bool make(View& view) {
    // Of the CPU also where an input is pinned memory of a GPU.
    DLTensor prototype = {nullptr, {kDLCPU, 0}, view.ndim_, view.dtype(), view.sizes_, nullptr, 0};
    return adopt(view, can_make(prototype) ? allocate(prototype) : nullptr, prototype);
  }

  KDSL_COLD bool close_gaps(View& view) {
    i64 bytes = view.element_bytes();
    bool fits = true;
    for (int i = 0; i < view.ndim_; ++i) {
      fits = !__builtin_mul_overflow(bytes, view.sizes_[i], &bytes) && fits;
    }
    void* block = fits ? kdsl_malloc(sizeof(Copy) + bytes + Arena::kAlign) : nullptr;
    if (!block) return out_of_memory() == 0;
    auto* copy = static_cast<Copy*>(block);
    copy->next = copies_;
    copies_ = copy;
    const auto address = reinterpret_cast<uintptr_t>(copy + 1);
    view.original_ = view.data_;
    view.data_ = reinterpret_cast<char*>((address + Arena::kAlign - 1) & ~(Arena::kAlign - 1));
    compact_strides(view);
    // Outputs too: what the kernel does not write keeps its value.
    move(view, {view.data_, view.strides_}, {view.original_, given_strides(view)});
    return true;
  }

  const int64_t* given_strides(const View& view) const {
    return tensor_of((*this)[view.index_])->strides;
  }

  static void move(const View& view, const Strided& to, const Strided& from) {
    copy_elements(view.element_bytes(), to, from, view.sizes_, view.ndim_);
  }

  KDSL_NOINLINE void drop() {
    while (made_count_ > 0) release(&made_[--made_count_]->head);
    while (copies_) {
      Copy* copy = copies_;
      copies_ = copy->next;
      kdsl_free(copy);
    }
  }

  /// Head of a block that holds the copy of a tensor with gaps.
  struct Copy {
    Copy* next;
  };
  /// Tensors made for outputs, until they are handed over.
  KdslTensorObject* made_[kMaxOutputs];
  int made_count_ = 0;
  Copy* copies_ = nullptr;
};

}  // namespace kdsl
