// kdsl/ffi/cuda_call.h: one call of a kernel whose tensors may lie on a GPU: packing and launches.
#pragma once

#include <kdsl/cuda/copy.h>
#include <kdsl/ffi/cuda_memory.h>

namespace kdsl {

/// A call that runs on the CPU or a GPU, where its tensors are. All that it queues goes to the
/// caller's stream, and it returns without waiting.
class CudaCall : public Call {
 public:
  CudaCall(const char* signature, const TVMFFIAny* args, int count, int least, int most,
           CudaModule& module)
      : Call(signature, args, count, least, most, true), module_(module) {}
  ~CudaCall() {
    while (Packed* packed = packed_) {
      packed_ = packed->next;
      kdsl_free(packed);
    }
    if (!blocks_.is_empty()) blocks_.release(*driver_, stream_);
  }

  /// As `Call::prepare`, for the kernel that is to run where the tensors are on a GPU: temporary
  /// copies are made of tensors whose rows have gaps or lie where it cannot read them.
  KDSL_NOINLINE bool prepare(const CudaKernel* kernel) {
    if (!on_cuda()) return Call::prepare();
    if (!outputs_fit() || !start()) return false;
    for (View* view = views_; view; view = view->next_) {
      if (view->role_ == View::kInput && !view->given_) continue;
      if (!view->given_ && !make(*view)) return false;
      const uint64_t bit = uint64_t{1} << (view->index_ & 63);
      const bool aligned = kernel->aligned & bit;
      if (!rows_have_gaps(*view) && (!aligned || is_aligned(*view))) continue;
      // What a kernel does not write of an output keeps its value.
      const bool keeps = view->given_ && !(kernel->covered & bit);
      if (!pack(*view, aligned, keeps)) return false;
    }
    return true;
  }

  /// Queue the phases of the kernel, then hand the outputs over. `scratch` and `fault` are fields
  /// of `args`.
  KDSL_NOINLINE int launch(const CudaKernel& kernel, void* args, void*& scratch, Fault*& fault,
                           TVMFFIAny* result) {
    const i64 bytes = kernel.scratch(args);
    if (bytes < 0) return bad_size("scratch memory has a negative size, or one");
    if (!writes()) return hand_over(result);
    if (bytes > 0) {
      const CudaAddress block = blocks_.get(*driver_, *gpu_, stream_, bytes, failure_);
      if (!block) return failed("for scratch memory");
      scratch = reinterpret_cast<void*>(block);
    }
    if (kernel.sites) {
      fault = reinterpret_cast<Fault*>(gpu_->fault_address + kernel.fault * sizeof(Fault));
    }
    for (int i = 0; i < kernel.phase_count; ++i) {
      const CudaPhase& phase = kernel.phases[i];
      const i64 blocks = phase.blocks(args);
      if (blocks < 0) return bad_size("a loop has a number of iterations");
      if (!queue(phase.symbol, phase.function, blocks, phase.threads, phase.shared_memory, args)) {
        return -1;
      }
    }
    for (const Packed* packed = packed_; packed; packed = packed->next) {
      if (packed->view->role_ != View::kInput && !copy(*packed, false)) return -1;
    }
    if (checks_at_once() && !settle(kernel)) return -1;
    return hand_over(result);
  }

  /// Raises that the module has nothing for these dtypes, statics and sizes. Returns -1.
  template <class... Values>
  KDSL_COLD int no_device_code(const char* compiled, const Values&... values) {
    Text text;
    text << signature() << ": no CUDA code";
    if (sizeof...(values)) {
      text << " for";
      list_plain(text, " ", values...);
    }
    if (*compiled) text << "; compiled: " << compiled;
    return fail("ValueError", text);
  }
  /// Raises that nothing was compiled for the CPU. Returns -1.
  KDSL_COLD int no_cpu_code() {
    Text text;
    return fail("ValueError", text << signature() << ": no CPU code; its tensors are on the CPU");
  }

 private:
  /// A tensor with a temporary copy that the kernel works on.
  struct Packed {
    Packed* next;
    View* view;
    char* data;
    i64 strides[View::kMaxDims];
  };

  /// Find driver, GPU, code and stream, and tell what kernels of earlier calls have found.
  bool start() {
    driver_ = CudaDriver::started();
    gpu_ = driver_ ? module_.known_gpu(device().device_id) : nullptr;
    if (!gpu_ && !start_first()) return false;
    CudaResult result = 0;
    const char* function = current_.enter(*driver_, gpu_->device, gpu_->context, result);
    if (function) return failed("", function, result) == 0;
    stream_ = find_stream();
    return !module_.has_fault(*gpu_) || earlier_is_well();
  }

  KDSL_COLD bool start_first() {
    Text text;
    CudaFailure failure = {nullptr, 0, &text};
    driver_ = CudaDriver::get(text);
    if (!driver_) return refuse(text);
    gpu_ = module_.gpu(*driver_, device().device_id, failure);
    if (gpu_) return true;
    return failure.function ? failed("", failure.function, failure.result) == 0 : refuse(text);
  }

  KDSL_COLD bool earlier_is_well() {
    // A report is whole once its kernel has ended.
    const CudaResult result = driver_->context_synchronize();
    if (result) return failed("", "cuCtxSynchronize", result) == 0;
    Text text;
    if (!module_.take_fault(*gpu_, text)) return true;
    return fail("IndexError", text << ", in an earlier call") == 0;
  }

  void* find_stream() const {
    using Get = void*(int32_t, int32_t);
    const DLDevice at = device();
    if (__kdsl_rt && __kdsl_rt->stream) return __kdsl_rt->stream(at.device_type, at.device_id);
    // Found once, it stays: that library cannot be unloaded.
    static Get* found = nullptr;
    Get* get = __atomic_load_n(&found, __ATOMIC_RELAXED);
    if (!get) {
      get = find_in_tvm_ffi<Get>("TVMFFIEnvGetStream");
      __atomic_store_n(&found, get, __ATOMIC_RELAXED);
    }
    return get ? get(at.device_type, at.device_id) : nullptr;
  }

  KDSL_NOINLINE bool make(View& view) {
    DLTensor prototype = {nullptr, device(), view.ndim_, view.dtype(), view.sizes_, nullptr, 0};
    KdslTensorObject* made = can_make(prototype) ? borrow_tensor(prototype) : nullptr;
    if (!made && can_make(prototype)) made = new_cuda_tensor(*driver_, *gpu_, prototype);
    return adopt(view, made, prototype);
  }

  static bool is_aligned(const View& view) {
    constexpr i64 kAlign = 16;
    if (!view.end_byte_) return true;
    const i64 size = view.element_bytes();
    i64 bits = static_cast<i64>(reinterpret_cast<uintptr_t>(view.data_));
    for (int i = 0; i + 1 < view.ndim_; ++i) {
      if (view.sizes_[i] > 1) bits |= view.strides_[i] * size;
    }
    return bits % kAlign == 0;
  }

  /// Let the kernel work on a temporary tensor, `keeps`: with the values of this one.
  KDSL_COLD bool pack(View& view, bool aligned, bool keeps) {
    const i64 per_row = aligned ? 16 / view.element_bytes() : 1;
    i64 stride = 1;
    bool fits = true;
    i64 strides[View::kMaxDims];
    for (int i = view.ndim_ - 1; i >= 0; --i) {
      strides[i] = stride;
      fits = !__builtin_mul_overflow(stride, view.sizes_[i], &stride) && fits;
      if (i == view.ndim_ - 1) stride = (stride + per_row - 1) / per_row * per_row;
    }
    fits = !__builtin_mul_overflow(stride, view.element_bytes(), &stride) && fits;
    auto* packed = static_cast<Packed*>(kdsl_malloc(sizeof(Packed)));
    if (!fits || !packed) {
      kdsl_free(packed);
      return out_of_memory() == 0;
    }
    *packed = {packed_, &view, view.data_, {}};
    packed_ = packed;
    const CudaAddress block = blocks_.get(*driver_, *gpu_, stream_, stride, failure_);
    if (!block) return failed("for a temporary copy") == 0;
    view.data_ = reinterpret_cast<char*>(block);
    for (int i = 0; i < view.ndim_; ++i) {
      packed->strides[i] = view.strides_[i];
      view.strides_[i] = strides[i];
    }
    return !keeps || copy(*packed, true);
  }

  /// Queue a copy between a tensor and its temporary one.
  bool copy(const Packed& packed, bool to_temporary) {
    static_assert(CopyArgs::kMaxDims == View::kMaxDims, "a copy has as many axes as a tensor");
    constexpr int kThreads = 256;
    constexpr i64 kMostBlocks = 1 << 20;
    const View& view = *packed.view;
    CopyArgs args = {};
    args.to = to_temporary ? view.data_ : packed.data;
    args.from = to_temporary ? packed.data : view.data_;
    args.count = 1;
    args.ndim = view.ndim_;
    args.element_bytes = static_cast<int>(view.element_bytes());
    for (int i = 0; i < view.ndim_; ++i) {
      args.count *= view.sizes_[i];
      args.sizes[i] = view.sizes_[i];
      args.to_strides[i] = to_temporary ? view.strides_[i] : packed.strides[i];
      args.from_strides[i] = to_temporary ? packed.strides[i] : view.strides_[i];
    }
    const i64 wanted = blocks(args.count, kThreads);
    return queue("kdsl_copy", module_.copy_function(), wanted < kMostBlocks ? wanted : kMostBlocks,
                 kThreads, 0, &args);
  }

  /// Queue one kernel. A grid of more blocks than one axis has is folded into two.
  bool queue(const char* symbol, int number, i64 count, int threads, int shared_memory,
             void* args) {
    constexpr i64 kMostX = 0x7fffffff, kMostY = 65535;
    if (count == 0) return true;
    const i64 rows = blocks(count, kMostX);
    if (rows > kMostY) return bad_size("a grid has a number of blocks") == 0;
    const i64 columns = blocks(count, rows);
    void* function = __atomic_load_n(&gpu_->functions[number], __ATOMIC_ACQUIRE);
    if (!function && !(function = find(symbol, number, shared_memory))) return false;
    void* list[] = {args};
    const CudaResult result =
        driver_->launch(function, static_cast<unsigned>(columns), static_cast<unsigned>(rows), 1,
                        static_cast<unsigned>(threads), 1, 1, static_cast<unsigned>(shared_memory),
                        stream_, list, nullptr);
    if (result == 0) return true;
    Text text;
    text << symbol << " with a grid of " << columns << " x " << rows << " blocks of " << threads
         << " threads and " << shared_memory << " bytes of shared memory";
    return failed(text.c_str(), "cuLaunchKernel", result) == 0;
  }

  KDSL_COLD void* find(const char* symbol, int number, int shared_memory) {
    Text text;
    CudaFailure failure = {nullptr, 0, &text};
    void* function = module_.function(*driver_, *gpu_, number, symbol, shared_memory, failure);
    if (!function && failure.function) failed(symbol, failure.function, failure.result);
    if (!function && !failure.function) refuse(text);
    return function;
  }

  /// Whether KDSL_CHECK asks that a call waits for what it finds.
  static bool checks_at_once() {
    static int known = -1;
    int asked = __atomic_load_n(&known, __ATOMIC_RELAXED);
    if (asked < 0) {
      asked = number_in_environment("KDSL_CHECK") != 0;
      __atomic_store_n(&known, asked, __ATOMIC_RELAXED);
    }
    return asked;
  }

  /// Wait for the kernels of this call.
  bool settle(const CudaKernel& kernel) {
    const CudaResult result = driver_->stream_synchronize(stream_);
    // A stream that is being captured has run nothing yet.
    if (result >= kCudaStreamCapture && result < kCudaStreamCapture + 10) return true;
    if (result) {
      Text text;
      for (int i = 0; i < kernel.phase_count; ++i)
        text << (i ? ", " : "") << kernel.phases[i].symbol;
      return failed(text.c_str(), "cuStreamSynchronize", result) == 0;
    }
    Text text;
    return !module_.take_fault(*gpu_, text) || fail("IndexError", text) == 0;
  }

  KDSL_COLD int failed(const char* what) {
    return failed(what, failure_.function, failure_.result);
  }
  /// Raise what the driver says; `what` it was asked for.
  KDSL_COLD int failed(const char* what, const char* function, CudaResult result) {
    Text text;
    text << signature() << ": cuda:" << device().device_id << ": ";
    driver_->show(text, function, result);
    if (*what) text << ", " << what;
    return fail(result == kCudaOutOfMemory ? "MemoryError" : "RuntimeError", text);
  }
  /// Raise that this GPU cannot be used at all.
  KDSL_COLD bool refuse(const Text& why) {
    Text text;
    text << signature() << ": cuda:" << device().device_id << ": " << why.c_str();
    return fail("RuntimeError", text) == 0;
  }

  CudaModule& module_;
  const CudaDriver* driver_ = nullptr;
  CudaGpu* gpu_ = nullptr;
  void* stream_ = nullptr;
  CudaCurrent current_;
  CudaBlocks blocks_;
  Packed* packed_ = nullptr;
  CudaFailure failure_ = {};
};

}  // namespace kdsl
