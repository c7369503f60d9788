// kdsl/ffi/cuda.h: the CUDA driver, found at the first CUDA call of a process that has one.
//
// A table of functions from libcuda.so.1, or from the library that KDSL_CUDA_DRIVER names. What is
// used of CUDA's binary interface is declared here: no cuda.h, nothing to link.
#pragma once

#include <kdsl/ffi/error.h>
#include <kdsl/ffi/text.h>

namespace kdsl {

/// CUresult, CUdevice, CUdeviceptr; contexts, streams, code and functions are pointers.
typedef int CudaResult;
typedef int CudaDevice;
typedef unsigned long long CudaAddress;

inline constexpr CudaResult kCudaOutOfMemory = 2, kCudaNotInitialized = 3;
inline constexpr CudaResult kCudaStreamCapture = 900;  // the first of those about a capture

// Attributes of a device, and of a function.
inline constexpr int kCudaMajor = 75, kCudaMinor = 76, kCudaSharedMemory = 97, kCudaPools = 115;
inline constexpr int kCudaFunctionSharedMemory = 8;

/// What waits here waits for a driver to start, or for code to load.
class CudaLock {
 public:
  explicit CudaLock(int& word) : word_(word) {
#if defined(__x86_64__)
    constexpr long kYield = 24;
#else
    constexpr long kYield = 124;
#endif
    while (__atomic_exchange_n(&word_, 1, __ATOMIC_ACQUIRE)) kdsl_syscall(kYield);
  }
  ~CudaLock() { __atomic_store_n(&word_, 0, __ATOMIC_RELEASE); }
  CudaLock(const CudaLock&) = delete;
  CudaLock& operator=(const CudaLock&) = delete;

 private:
  int& word_;
};

struct CudaDriver {
  CudaResult (*init)(unsigned flags);
  CudaResult (*driver_version)(int* version);
  CudaResult (*error_name)(CudaResult, const char** text);
  CudaResult (*error_string)(CudaResult, const char** text);
  CudaResult (*device_count)(int* count);
  CudaResult (*device_get)(CudaDevice*, int ordinal);
  CudaResult (*device_attribute)(int* value, int attribute, CudaDevice);
  CudaResult (*primary_retain)(void** context, CudaDevice);
  CudaResult (*primary_release)(CudaDevice);
  CudaResult (*context_get)(void** context);
  CudaResult (*context_set)(void* context);
  CudaResult (*context_device)(CudaDevice*);
  CudaResult (*context_synchronize)();
  CudaResult (*stream_synchronize)(void* stream);
  CudaResult (*module_load)(void** module, const void* image);
  CudaResult (*module_unload)(void* module);
  CudaResult (*module_function)(void** function, void* module, const char* name);
  CudaResult (*function_set)(void* function, int attribute, int value);
  CudaResult (*launch)(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       void* stream, void** args, void** extra);
  CudaResult (*memory_alloc)(CudaAddress*, size_t bytes);
  CudaResult (*memory_free)(CudaAddress);
  CudaResult (*host_alloc)(void** block, size_t bytes, unsigned flags);
  CudaResult (*host_free)(void* block);
  CudaResult (*host_address)(CudaAddress*, void* block, unsigned flags);
  // Since CUDA 12.0: code that works in every context of a device. All of these or none.
  CudaResult (*library_load)(void** library, const void* code, int* jit_options, void** jit_values,
                             unsigned jit_count, int* options, void** values, unsigned count);
  CudaResult (*library_unload)(void* library);
  CudaResult (*library_kernel)(void** kernel, void* library, const char* name);
  CudaResult (*kernel_set)(int attribute, int value, void* kernel, CudaDevice);
  // Since CUDA 11.2: memory in the order of a stream. Both or none.
  CudaResult (*memory_alloc_async)(CudaAddress*, size_t bytes, void* stream);
  CudaResult (*memory_free_async)(CudaAddress, void* stream);
  /// Of the simulator alone.
  int (*simulator_version)();

  /// The driver, ready for use; null, and the reason in `text`, where there is none. The first
  /// library that loads and starts stays for good; a failure is tried again by the next call.
  KDSL_NOINLINE static const CudaDriver* get(Text& text) {
    static CudaDriver driver;
    static int lock;
    CudaLock held(lock);
    if (!started_) {
      if (!driver.load(text)) return nullptr;
      __atomic_store_n(&started_, &driver, __ATOMIC_RELEASE);
    }
    return started_;
  }
  /// The same where `get` was successful before; else null.
  static const CudaDriver* started() { return __atomic_load_n(&started_, __ATOMIC_ACQUIRE); }

  bool has_libraries() const {
    return library_load && library_unload && library_kernel && kernel_set;
  }
  bool has_pools() const { return memory_alloc_async && memory_free_async; }

  /// "cuCtxSynchronize: CUDA_ERROR_LAUNCH_FAILED (unspecified launch failure)".
  KDSL_COLD Text& show(Text& text, const char* function, CudaResult result) const {
    const char *name = nullptr, *meaning = nullptr;
    error_name(result, &name);
    error_string(result, &meaning);
    text << function << ": ";
    if (name) {
      text << name;
    } else {
      text << "error " << result;
    }
    if (meaning) text << " (" << meaning << ")";
    if (result == kCudaNotInitialized) {
      text << "; a process forked from one that used CUDA cannot use it: start it by \"spawn\"";
    }
    return text;
  }

 private:
  struct Entry {
    const char* name;
    size_t offset;
    bool is_required = true;
  };
  static const Entry kEntries[];
  static inline const CudaDriver* started_ = nullptr;

  bool load(Text& text);
};

inline constexpr CudaDriver::Entry CudaDriver::kEntries[] = {
    {"cuInit", offsetof(CudaDriver, init)},
    {"cuDriverGetVersion", offsetof(CudaDriver, driver_version)},
    {"cuGetErrorName", offsetof(CudaDriver, error_name)},
    {"cuGetErrorString", offsetof(CudaDriver, error_string)},
    {"cuDeviceGetCount", offsetof(CudaDriver, device_count)},
    {"cuDeviceGet", offsetof(CudaDriver, device_get)},
    {"cuDeviceGetAttribute", offsetof(CudaDriver, device_attribute)},
    {"cuDevicePrimaryCtxRetain", offsetof(CudaDriver, primary_retain)},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(CudaDriver, primary_release)},
    {"cuCtxGetCurrent", offsetof(CudaDriver, context_get)},
    {"cuCtxSetCurrent", offsetof(CudaDriver, context_set)},
    {"cuCtxGetDevice", offsetof(CudaDriver, context_device)},
    {"cuCtxSynchronize", offsetof(CudaDriver, context_synchronize)},
    {"cuStreamSynchronize", offsetof(CudaDriver, stream_synchronize)},
    {"cuModuleLoadData", offsetof(CudaDriver, module_load)},
    {"cuModuleUnload", offsetof(CudaDriver, module_unload)},
    {"cuModuleGetFunction", offsetof(CudaDriver, module_function)},
    {"cuFuncSetAttribute", offsetof(CudaDriver, function_set)},
    {"cuLaunchKernel", offsetof(CudaDriver, launch)},
    {"cuMemAlloc_v2", offsetof(CudaDriver, memory_alloc)},
    {"cuMemFree_v2", offsetof(CudaDriver, memory_free)},
    {"cuMemHostAlloc", offsetof(CudaDriver, host_alloc)},
    {"cuMemFreeHost", offsetof(CudaDriver, host_free)},
    {"cuMemHostGetDevicePointer_v2", offsetof(CudaDriver, host_address)},
    {"cuLibraryLoadData", offsetof(CudaDriver, library_load), false},
    {"cuLibraryUnload", offsetof(CudaDriver, library_unload), false},
    {"cuLibraryGetKernel", offsetof(CudaDriver, library_kernel), false},
    {"cuKernelSetAttribute", offsetof(CudaDriver, kernel_set), false},
    {"cuMemAllocAsync", offsetof(CudaDriver, memory_alloc_async), false},
    {"cuMemFreeAsync", offsetof(CudaDriver, memory_free_async), false},
    {"kdsl_sim_version", offsetof(CudaDriver, simulator_version), false},
};

inline bool CudaDriver::load(Text& text) {
  constexpr int kNow = 2;
  const char* asked = kdsl_getenv("KDSL_CUDA_DRIVER");
  if (asked && !*asked) asked = nullptr;
  const char* name = asked ? asked : "libcuda.so.1";
  // Looked up first: that clears what it tells.
  auto* reason = find_symbol<const char*()>("dlerror");
  void* library = kdsl_dlopen(name, kNow);
  if (!library) {
    const char* why = reason ? reason() : nullptr;
    const bool is_word =
        asked && asked[0] == 's' && asked[1] == 'i' && asked[2] == 'm' && !asked[3];
    text << "no CUDA driver: " << (why ? why : name) << "; "
         << (is_word ? "for the simulator KDSL_CUDA_DRIVER is what kdsl.sim.driver_path() gives"
             : asked ? "KDSL_CUDA_DRIVER names it"
                     : "install the NVIDIA driver of this GPU, or let "
                       "KDSL_CUDA_DRIVER=sim simulate one");
    return false;
  }
  for (const Entry& entry : kEntries) {
    void* found = kdsl_dlsym(library, entry.name);
    if (!found && entry.is_required) {
      text << "the CUDA driver " << name << " has no " << entry.name;
      return false;
    }
    kdsl_memcpy(reinterpret_cast<char*>(this) + entry.offset, &found, sizeof(found));
  }
  const CudaResult result = init(0);
  if (result) show(text, "cuInit", result);
  return result == 0;
}

}  // namespace kdsl
