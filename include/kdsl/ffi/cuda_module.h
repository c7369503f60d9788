// kdsl/ffi/cuda_module.h: the device code of a module, loaded once for each GPU that is used.
#pragma once

#include <kdsl/ffi/call.h>
#include <kdsl/ffi/cuda.h>
#include <kdsl/ffi/export.h>
#include <kdsl/ffi/inflate.h>
#include <kdsl/room.h>

namespace kdsl {

/// Device code as it lies in the module: machine code for one architecture, or PTX for it and
/// later ones.
struct CudaImage {
  /// 80 for sm_80.
  int arch;
  /// sm_90a: for this architecture alone.
  bool is_exact;
  bool is_ptx;
  /// Two sizes of 8 bytes, of the code and of what follows, and the code as deflate packs it.
  const unsigned char* data;

  /// The code, for kdsl_free; null where memory is short.
  unsigned char* unpack() const {
    uint64_t sizes[2];
    kdsl_memcpy(sizes, data, sizeof(sizes));
    auto* code = static_cast<unsigned char*>(kdsl_malloc(sizes[0]));
    if (code && Inflate(data + sizeof(sizes), sizes[1], code, sizes[0]).run()) return code;
    kdsl_free(code);
    return nullptr;
  }
};

/// One parallel loop of a kernel: one launch.
struct CudaPhase {
  const char* symbol;
  /// Number of the function in its module.
  int function;
  int threads;
  /// Bytes a block.
  int shared_memory;
  i64 (*blocks)(const void* args);
};

/// One specialisation as it runs on a GPU.
struct CudaKernel {
  const CudaPhase* phases;
  int phase_count;
  i64 (*scratch)(const void* args);
  /// Arguments whose address and rows must be multiples of 16 bytes: bit i for argument i.
  uint64_t aligned;
  /// Outputs that it writes as a whole.
  uint64_t covered;
  /// Of the function that it belongs to.
  const char* signature;
  /// The indices it checks; null: none.
  const Site* sites;
  /// Where it reports them: number of its Fault in the module.
  int fault;
};

/// One GPU, as one module has it.
struct CudaGpu {
  int ordinal;
  CudaDevice device;
  /// 80 for compute capability 8.0.
  int arch;
  /// Bytes of shared memory that a block can have.
  int shared_memory;
  bool has_pools;
  void* context;
  /// A CUlibrary, or where the driver has none a CUmodule of `context`.
  void* code;
  /// By number; null until first used.
  void** functions;
  /// In memory that the GPU writes to, and their addresses there.
  Fault* faults;
  CudaAddress fault_address;
};

/// Makes a GPU's context current while it lives, if no context of that GPU is.
class CudaCurrent {
 public:
  CudaCurrent() = default;
  CudaCurrent(const CudaCurrent&) = delete;
  CudaCurrent& operator=(const CudaCurrent&) = delete;
  ~CudaCurrent() {
    if (driver_) driver_->context_set(before_);
  }

  /// The name of the function that failed; null when all is well.
  const char* enter(const CudaDriver& driver, CudaDevice device, void* context,
                    CudaResult& result) {
    CudaDevice current = -1;
    if ((result = driver.context_get(&before_))) return "cuCtxGetCurrent";
    if (before_ == context) return nullptr;
    const bool may_stay = driver.has_libraries();
    if (before_ && may_stay && driver.context_device(&current) == 0 && current == device) {
      return nullptr;
    }
    if ((result = driver.context_set(context))) return "cuCtxSetCurrent";
    driver_ = &driver;
    return nullptr;
  }

 private:
  const CudaDriver* driver_ = nullptr;
  void* before_ = nullptr;
};

/// What went wrong in the driver, for whoever raises it.
struct CudaFailure {
  const char* function;
  CudaResult result;
  Text* text;

  /// Keep the first failure; false, so that callers can return it.
  KDSL_COLD bool note(const char* name, CudaResult code) {
    if (!function) {
      function = name;
      result = code;
    }
    return false;
  }
};

class CudaModule {
 public:
  static constexpr int kMaxGpus = 64;

  /// `guarded`: the kernels that check indices, by the number of their Fault.
  template <int Images>
  constexpr CudaModule(const CudaImage (&images)[Images], int functions,
                       const CudaKernel* const* guarded, int guarded_count)
      : images_(images),
        image_count_(Images),
        function_count_(functions),
        guarded_(guarded),
        guarded_count_(guarded_count) {}

  /// The last function of a module is `kdsl_copy`.
  int copy_function() const { return function_count_ - 1; }

  /// The GPU with the code of this module; null, and the reason in `why`, where it has none.
  CudaGpu* gpu(const CudaDriver& driver, int ordinal, CudaFailure& why) {
    if (ordinal >= 0 && ordinal < kMaxGpus) return prepare(driver, ordinal, why);
    *why.text << "there is no such GPU";
    return nullptr;
  }
  /// The same where it was found before; else null.
  CudaGpu* known_gpu(int ordinal) const {
    if (ordinal < 0 || ordinal >= kMaxGpus) return nullptr;
    return __atomic_load_n(&gpus_[ordinal], __ATOMIC_ACQUIRE);
  }

  /// A function of the module on this GPU; null where it cannot be had.
  void* function(const CudaDriver& driver, CudaGpu& gpu, int number, const char* symbol,
                 int shared_memory, CudaFailure& why);

  /// Wait for all GPUs that the module has used; what checks have found meanwhile is raised.
  KDSL_NOINLINE int synchronize() {
    int status = 0;
    Text text;
    for (CudaGpu*& entry : gpus_) {
      CudaGpu* gpu = __atomic_load_n(&entry, __ATOMIC_ACQUIRE);
      const CudaDriver* driver = gpu ? CudaDriver::started() : nullptr;
      if (!driver) continue;
      CudaCurrent current;
      CudaResult result = 0;
      const char* failed = current.enter(*driver, gpu->device, gpu->context, result);
      if (!failed && (result = driver->context_synchronize())) failed = "cuCtxSynchronize";
      if (failed && status == 0) {
        text << "kdsl.synchronize: cuda:" << gpu->ordinal << ": ";
        status = raise("RuntimeError", driver->show(text, failed, result).c_str());
      } else if (status == 0 && take_fault(*gpu, text)) {
        status = raise("IndexError", text.c_str());
      }
    }
    return status;
  }

  /// Take a fault that a kernel has reported on this GPU and write what it says; false: none. The
  /// GPU has nothing more to do.
  bool take_fault(CudaGpu& gpu, Text& text) const;
  /// Whether a kernel has begun to report.
  bool has_fault(const CudaGpu& gpu) const {
    for (int i = 0; i < guarded_count_; ++i) {
      if (__atomic_load_n(&gpu.faults[i].found, __ATOMIC_ACQUIRE)) return true;
    }
    return false;
  }

 private:
  CudaGpu* prepare(const CudaDriver& driver, int ordinal, CudaFailure& why);
  bool fill(const CudaDriver& driver, CudaGpu& gpu, CudaFailure& why);
  bool load(const CudaDriver& driver, CudaGpu& gpu, CudaFailure& why);
  const CudaImage* better(const CudaDriver& driver, int arch, uint64_t tried) const;
  void release(const CudaDriver& driver, CudaGpu& gpu);

  const CudaImage* images_;
  int image_count_;
  int function_count_;
  const CudaKernel* const* guarded_;
  int guarded_count_;
  int lock_ = 0;
  CudaGpu* gpus_[kMaxGpus] = {};
};

inline CudaGpu* CudaModule::prepare(const CudaDriver& driver, int ordinal, CudaFailure& why) {
  CudaLock held(lock_);
  if (gpus_[ordinal]) return gpus_[ordinal];
  const size_t size = sizeof(CudaGpu) + function_count_ * sizeof(void*);
  auto* gpu = static_cast<CudaGpu*>(kdsl_malloc(size));
  if (!gpu) {
    why.note("malloc", kCudaOutOfMemory);
    return nullptr;
  }
  *gpu = {};
  gpu->ordinal = ordinal;
  gpu->functions = reinterpret_cast<void**>(gpu + 1);
  for (int i = 0; i < function_count_; ++i) gpu->functions[i] = nullptr;
  if (!fill(driver, *gpu, why)) {
    release(driver, *gpu);
    kdsl_free(gpu);
    return nullptr;
  }
  __atomic_store_n(&gpus_[ordinal], gpu, __ATOMIC_RELEASE);
  return gpu;
}

inline bool CudaModule::fill(const CudaDriver& driver, CudaGpu& gpu, CudaFailure& why) {
  CudaResult result = driver.device_get(&gpu.device, gpu.ordinal);
  if (result) return why.note("cuDeviceGet", result);
  int major = 0, minor = 0, pools = 0;
  const struct {
    int attribute;
    int* value;
  } wanted[] = {{kCudaMajor, &major},
                {kCudaMinor, &minor},
                {kCudaSharedMemory, &gpu.shared_memory},
                {kCudaPools, &pools}};
  for (const auto& each : wanted) {
    result = driver.device_attribute(each.value, each.attribute, gpu.device);
    // A driver from before there were pools does not know them.
    if (result && each.attribute != kCudaPools) return why.note("cuDeviceGetAttribute", result);
  }
  gpu.arch = 10 * major + minor;
  gpu.has_pools = pools && driver.has_pools();
  result = driver.primary_retain(&gpu.context, gpu.device);
  if (result) {
    gpu.context = nullptr;
    return why.note("cuDevicePrimaryCtxRetain", result);
  }
  CudaCurrent current;
  const char* failed = current.enter(driver, gpu.device, gpu.context, result);
  if (failed) return why.note(failed, result);
  if (guarded_count_) {
    constexpr unsigned kPortableAndMapped = 3;
    void* block = nullptr;
    result = driver.host_alloc(&block, guarded_count_ * sizeof(Fault), kPortableAndMapped);
    if (result) return why.note("cuMemHostAlloc", result);
    gpu.faults = static_cast<Fault*>(block);
    for (int i = 0; i < guarded_count_; ++i) gpu.faults[i] = {};
    result = driver.host_address(&gpu.fault_address, block, 0);
    if (result) return why.note("cuMemHostGetDevicePointer", result);
  }
  return load(driver, gpu, why);
}

/// Load the best image that the driver takes. One that is newer than the driver may leave PTX.
inline bool CudaModule::load(const CudaDriver& driver, CudaGpu& gpu, CudaFailure& why) {
  uint64_t tried = 0;
  while (const CudaImage* image = better(driver, gpu.arch, tried)) {
    tried |= uint64_t{1} << (image - images_);
    const bool library = driver.has_libraries();
    unsigned char* code = image->unpack();
    if (!code) return why.note("malloc", kCudaOutOfMemory);
    // The driver makes a copy of it.
    const CudaResult result =
        library ? driver.library_load(&gpu.code, code, nullptr, nullptr, 0, nullptr, nullptr, 0)
                : driver.module_load(&gpu.code, code);
    kdsl_free(code);
    if (result == 0) return true;
    gpu.code = nullptr;
    why.note(library ? "cuLibraryLoadData" : "cuModuleLoadData", result);
  }
  if (tried) return false;
  *why.text << "this module has no code for it, which is sm_" << gpu.arch << "; it has ";
  for (int i = 0; i < image_count_; ++i) {
    *why.text << (i ? ", " : "") << (images_[i].is_ptx ? "PTX of sm_" : "sm_") << images_[i].arch
              << (images_[i].is_exact ? "a" : "");
  }
  return false;
}

/// Of the images that were not tried: machine code before PTX, the newest that fits.
inline const CudaImage* CudaModule::better(const CudaDriver& driver, int arch,
                                           uint64_t tried) const {
  const CudaImage* best = nullptr;
  for (int i = 0; i < image_count_ && i < 64; ++i) {
    const CudaImage& image = images_[i];
    bool fits = image.is_exact ? image.arch == arch : image.arch <= arch;
    if (!image.is_ptx) fits = fits && image.arch / 10 == arch / 10 && !driver.simulator_version;
    if (!fits || tried >> i & 1) continue;
    const bool is_better = !best || (best->is_ptx && !image.is_ptx) ||
                           (best->is_ptx == image.is_ptx && image.arch > best->arch);
    if (is_better) best = &image;
  }
  return best;
}

/// Give back what a GPU holds whose preparation failed.
inline void CudaModule::release(const CudaDriver& driver, CudaGpu& gpu) {
  if (!gpu.context) return;
  if (gpu.faults) {
    CudaCurrent current;
    CudaResult result = 0;
    if (!current.enter(driver, gpu.device, gpu.context, result)) driver.host_free(gpu.faults);
  }
  driver.primary_release(gpu.device);
}

inline bool CudaModule::take_fault(CudaGpu& gpu, Text& text) const {
  for (int i = 0; i < guarded_count_; ++i) {
    if (!gpu.faults[i].found) continue;
    const Fault fault = gpu.faults[i];
    gpu.faults[i] = {};
    show_fault(text, guarded_[i]->signature, fault, guarded_[i]->sites[fault.site]);
    text << ", on cuda:" << gpu.ordinal;
    return true;
  }
  return false;
}

inline void* CudaModule::function(const CudaDriver& driver, CudaGpu& gpu, int number,
                                  const char* symbol, int shared_memory, CudaFailure& why) {
  constexpr int kGranted = 48 << 10;  // what a function has without asking
  CudaLock held(lock_);
  if (gpu.functions[number]) return gpu.functions[number];
  const bool library = driver.has_libraries();
  void* found = nullptr;
  CudaResult result = library ? driver.library_kernel(&found, gpu.code, symbol)
                              : driver.module_function(&found, gpu.code, symbol);
  if (result) {
    why.note(library ? "cuLibraryGetKernel" : "cuModuleGetFunction", result);
    return nullptr;
  }
  if (shared_memory > gpu.shared_memory) {
    *why.text << symbol << " needs " << shared_memory << " bytes of shared memory a block; sm_"
              << gpu.arch << " has " << gpu.shared_memory;
    return nullptr;
  }
  if (shared_memory > kGranted) {
    result = library
                 ? driver.kernel_set(kCudaFunctionSharedMemory, shared_memory, found, gpu.device)
                 : driver.function_set(found, kCudaFunctionSharedMemory, shared_memory);
    if (result) {
      why.note(library ? "cuKernelSetAttribute" : "cuFuncSetAttribute", result);
      return nullptr;
    }
  }
  __atomic_store_n(&gpu.functions[number], found, __ATOMIC_RELEASE);
  return found;
}

}  // namespace kdsl

/// The packed function by which a loader waits for what a module has queued on GPUs; it raises what
/// kernels have found.
#define KDSL_EXPORT_SYNCHRONIZE(module)                                          \
  KDSL_EXPORT int __tvm_ffi___kdsl_synchronize(void*, const TVMFFIAny*, int32_t, \
                                               TVMFFIAny* result) {              \
    if (result) *result = {kTVMFFINone, {0}, {0}};                               \
    return module.synchronize();                                                 \
  }
