// libcuda's functions over the simulator: devices, contexts, modules, launches. A launch has ended
// when it returns; what it found waits in the log for kdsl_sim_take_log.
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>

#include <algorithm>
#include <condition_variable>
#include <thread>

#include "device.h"
#include "module.h"
#include "types.h"

#define CU extern "C" __attribute__((visibility("default"))) int

namespace {

using namespace sim;

struct Entry {
  Loaded* module;
  std::string name;
  u32 shared_limit = kDefaultShared;
};

/// How launches run; kdsl_sim_configure sets it.
struct Settings {
  u64 seed = 0, limit = 50'000'000;
  int threads = 0;
} settings;

std::atomic<bool> initialised{false};
std::atomic<int> pending{0};  // what the next synchronisation says
std::atomic<u32> launches{0};
int context_object;
thread_local void* current_context;

int take_pending() { return pending.exchange(kSuccess); }

int processors() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

/// Whether Ctrl-C came since the last look; Python will raise it again.
bool interrupted() {
  using Int = int (*)();
  static const Int is_up = reinterpret_cast<Int>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  static const Int enter = reinterpret_cast<Int>(dlsym(RTLD_DEFAULT, "PyGILState_Ensure"));
  static const Int check = reinterpret_cast<Int>(dlsym(RTLD_DEFAULT, "PyErr_CheckSignals"));
  static const auto clear = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "PyErr_Clear"));
  static const auto raise = reinterpret_cast<void (*)()>(dlsym(RTLD_DEFAULT, "PyErr_SetInterrupt"));
  static const auto leave =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "PyGILState_Release"));
  if (!is_up || !is_up() || !enter || !check || !clear || !raise || !leave) return false;
  const int state = enter();
  const bool came = check() != 0;
  if (came) {
    clear();
    raise();
  }
  leave(state);
  return came;
}

/// Run a launch on threads of its own, with an eye on Ctrl-C.
bool run_watched(Launch& l) {
  std::mutex lock;
  std::condition_variable changed;
  bool done = false, stopped = false;
  std::thread worker([&] {
    l.run();
    std::lock_guard<std::mutex> hold(lock);
    done = true;
    changed.notify_all();
  });
  {
    std::unique_lock<std::mutex> hold(lock);
    while (!changed.wait_for(hold, std::chrono::milliseconds(100), [&] { return done; })) {
      hold.unlock();
      if (!stopped && interrupted()) l.cancelled = stopped = true;
      hold.lock();
    }
  }
  worker.join();
  return !stopped;
}

/// The error that a device would give at the next synchronisation.
int error_of(const Launch& l) {
  int result = kSuccess;
  for (const auto& [key, f] : l.findings) {
    const std::string kind = f.kind;
    if (kind == "assert")
      result = kAssert;
    else if (kind == "trap" || kind == "hang" || kind == "deadlock")
      result = kLaunchFailed;
    else if (kind == "misaligned" && result == kSuccess)
      result = kMisaligned;
    else if (kind.rfind("oob-", 0) == 0 && result == kSuccess)
      result = kIllegalAddress;
  }
  return result;
}

std::vector<u8> packed(const Program& p, void** args, void** extra) {
  std::vector<u8> out(p.param_bytes);
  if (!args && extra) {  // CU_LAUNCH_PARAM_BUFFER_POINTER 1, ..._SIZE 2, END 0
    const u8* buffer = nullptr;
    size_t size = 0;
    for (int k = 0; extra[k]; k += 2) {
      if (extra[k] == reinterpret_cast<void*>(1)) buffer = static_cast<const u8*>(extra[k + 1]);
      if (extra[k] == reinterpret_cast<void*>(2)) size = *static_cast<size_t*>(extra[k + 1]);
    }
    if (buffer) memcpy(out.data(), buffer, std::min(size, out.size()));
    return out;
  }
  for (size_t k = 0; k < p.params.size(); k++) {
    const i64 bytes = bytes_of(type_named(p.params[k].type)) * p.params[k].count;
    memcpy(out.data() + p.param_offsets[k], args[k], bytes);
  }
  return out;
}

int launch(Entry& f, const u32 grid[3], const u32 block[3], u32 shared, void** args, void** extra) {
  if (!initialised) return kNotInitialized;
  try {
    Launch l;
    l.program = &f.module->program(f.name);
    std::copy(grid, grid + 3, l.grid);
    std::copy(block, block + 3, l.block);
    l.dynamic_shared = shared;
    l.seed = settings.seed;
    l.limit = settings.limit;
    l.threads = settings.threads > 0 ? settings.threads : processors();
    l.grid_id = launches++;
    if (l.program->param_bytes > 0 && !args && !extra) {
      return fail(kInvalidValue, "kernel " + f.name + ": no arguments");
    }
    const u64 total = l.program->static_shared - kSharedBase + shared;
    if (total > f.shared_limit) {
      return fail(kInvalidValue, "kernel " + f.name + ": " + std::to_string(total) +
                                     " bytes of shared memory, it may have " +
                                     std::to_string(f.shared_limit) +
                                     " (the attribute of the function allows more)");
    }
    l.params = packed(*l.program, args, extra);
    check_launch(l);
    l.memory = Heap::get().map();
    const bool ran = run_watched(l);
    Log::get().add(result_text(l));
    fwrite(l.printed.data(), 1, l.printed.size(), stdout);
    if (!l.printed.empty()) fflush(stdout);
    if (!ran) return fail(kLaunchFailed, "the simulation was interrupted");
    const int error = error_of(l);
    if (error) {
      pending = error;
      for (const auto& [key, found] : l.findings) {
        fail(static_cast<Result>(error),
             "kernel " + f.name + ": " + found.kind + ": " + found.text);
      }
    }
    return kSuccess;
  } catch (const std::exception& e) {
    return fail(kInvalidValue, e.what());
  }
}

int load(void** module, const void* image) {
  const char* text = static_cast<const char*>(image);
  if (memcmp(text, "\177ELF", 4) == 0) {
    return fail(kNoBinary, "the simulator runs PTX; this image is machine code");
  }
  const u32 magic = *static_cast<const u32*>(image);
  if (magic == 0x466243b1u || magic == 0xba55ed50u) {
    return fail(kNoBinary, "the simulator runs PTX; this image is a fat binary");
  }
  try {
    auto loaded = std::make_unique<Loaded>(text);
    const std::string& target = loaded->target();
    const int wanted = target.rfind("sm_", 0) == 0 ? atoi(target.c_str() + 3) : 0;
    if (wanted > architecture()) {
      return fail(kNoBinary, "the PTX is for " + target + ", the simulated device is sm_" +
                                 std::to_string(architecture()));
    }
    *module = loaded.release();
    return kSuccess;
  } catch (const std::exception& e) {
    return fail(kInvalidPtx, e.what());
  }
}

int function_of(void** function, void* module, const char* name) {
  Loaded* loaded = static_cast<Loaded*>(module);
  const std::vector<std::string> names = loaded->kernels();
  if (std::find(names.begin(), names.end(), name) == names.end()) return kNotFound;
  try {
    loaded->program(name);  // what it cannot run is said here, not at a launch
  } catch (const std::exception& e) {
    return fail(kInvalidPtx, e.what());
  }
  *function = new Entry{loaded, name};  // lives as long as the process, as do handles of CUDA
  return kSuccess;
}

int set_attribute(void* function, int attribute, int value) {
  if (attribute != 8) return kSuccess;  // preferences
  if (value < 0 || static_cast<u32>(value) > most_shared()) {
    return fail(kInvalidValue, std::to_string(value) + " bytes of shared memory; the device has " +
                                   std::to_string(most_shared()));
  }
  static_cast<Entry*>(function)->shared_limit = std::max(static_cast<u32>(value), kDefaultShared);
  return kSuccess;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void kdsl_sim_configure(u64 seed, int threads,
                                                                          u64 limit) {
  settings.seed = seed;
  settings.threads = threads;
  settings.limit = limit;
}

CU cuInit(unsigned) {
  initialised = true;
  return kSuccess;
}
CU cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
CU cuGetErrorName(int result, const char** text) {
  *text = result_name(result);
  return *text ? kSuccess : kInvalidValue;
}
CU cuGetErrorString(int result, const char** text) {
  *text = result_text_of(result);
  return *text ? kSuccess : kInvalidValue;
}

CU cuDeviceGetCount(int* count) {
  *count = 1;
  return initialised ? kSuccess : kNotInitialized;
}
CU cuDeviceGet(int* device, int ordinal) {
  if (ordinal != 0) return kInvalidDevice;
  *device = 0;
  return initialised ? kSuccess : kNotInitialized;
}
CU cuDeviceGetName(char* name, int length, int) {
  snprintf(name, length, "kdsl simulator sm_%d", architecture());
  return kSuccess;
}
CU cuDeviceGetUuid_v2(void* uuid, int) {
  memset(uuid, 0x5d, 16);
  return kSuccess;
}
CU cuDeviceTotalMem_v2(size_t* bytes, int) {
  *bytes = kDeviceMemory;
  return kSuccess;
}
CU cuDeviceGetAttribute(int* value, int number, int) {
  return attribute(number, *value) ? kSuccess : kInvalidValue;
}
CU cuDeviceComputeCapability(int* major, int* minor, int) {
  *major = architecture() / 10;
  *minor = architecture() % 10;
  return kSuccess;
}

CU cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &context_object;
  return kSuccess;
}
CU cuDevicePrimaryCtxRelease_v2(int) { return kSuccess; }
CU cuDevicePrimaryCtxGetState(int, unsigned* flags, int* active) {
  *flags = 0;
  *active = 1;
  return kSuccess;
}
CU cuCtxCreate_v2(void** context, unsigned, int) {
  *context = current_context = &context_object;
  return kSuccess;
}
CU cuCtxDestroy_v2(void*) { return kSuccess; }
CU cuCtxGetCurrent(void** context) {
  *context = current_context;
  return kSuccess;
}
CU cuCtxSetCurrent(void* context) {
  current_context = context;
  return kSuccess;
}
CU cuCtxPushCurrent_v2(void* context) { return cuCtxSetCurrent(context); }
CU cuCtxPopCurrent_v2(void** context) {
  if (context) *context = current_context;
  current_context = nullptr;
  return kSuccess;
}
CU cuCtxGetDevice(int* device) {
  *device = 0;
  return current_context ? kSuccess : kInvalidContext;
}
CU cuCtxSynchronize() { return take_pending(); }
CU cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = *greatest = 0;
  return kSuccess;
}

// Work is done when a call returns: streams and events have nothing to wait for.
CU cuStreamCreate(void** stream, unsigned) {
  *stream = new int;
  return kSuccess;
}
CU cuStreamCreateWithPriority(void** stream, unsigned flags, int) {
  return cuStreamCreate(stream, flags);
}
CU cuStreamDestroy_v2(void* stream) {
  delete static_cast<int*>(stream);
  return kSuccess;
}
CU cuStreamSynchronize(void*) { return take_pending(); }
CU cuStreamQuery(void*) { return take_pending(); }
CU cuStreamWaitEvent(void*, void*, unsigned) { return kSuccess; }
CU cuStreamIsCapturing(void*, int* status) {
  *status = 0;
  return kSuccess;
}
CU cuEventCreate(void** event, unsigned) { return cuStreamCreate(event, 0); }
CU cuEventDestroy_v2(void* event) { return cuStreamDestroy_v2(event); }
CU cuEventRecord(void*, void*) { return kSuccess; }
CU cuEventSynchronize(void*) { return take_pending(); }
CU cuEventQuery(void*) { return kSuccess; }
CU cuEventElapsedTime(float* milliseconds, void*, void*) {
  *milliseconds = 0;
  return kSuccess;
}

CU cuModuleLoadData(void** module, const void* image) { return load(module, image); }
CU cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
  return load(module, image);
}
CU cuModuleUnload(void* module) {
  delete static_cast<Loaded*>(module);
  return kSuccess;
}
CU cuModuleGetFunction(void** function, void* module, const char* name) {
  return function_of(function, module, name);
}
CU cuModuleGetGlobal_v2(u64* address, size_t* bytes, void* module, const char* name) {
  u64 at = 0, size = 0;
  if (!static_cast<Loaded*>(module)->variable(name, at, size)) return kNotFound;
  if (address) *address = at;
  if (bytes) *bytes = size;
  return kSuccess;
}
CU cuFuncSetAttribute(void* function, int attribute, int value) {
  return set_attribute(function, attribute, value);
}
CU cuFuncSetCacheConfig(void*, int) { return kSuccess; }
CU cuFuncGetAttribute(int* value, int attribute, void* function) {
  const Entry& f = *static_cast<Entry*>(function);
  *value = attribute == 0 ? 1024 : attribute == 8 ? static_cast<int>(f.shared_limit) : 0;
  return kSuccess;
}
CU cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void*, int, size_t) {
  *blocks = 1;
  return kSuccess;
}

CU cuLibraryLoadData(void** library, const void* code, int*, void**, unsigned, int*, void**,
                     unsigned) {
  return load(library, code);
}
CU cuLibraryUnload(void* library) { return cuModuleUnload(library); }
CU cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  return function_of(kernel, library, name);
}
CU cuLibraryGetModule(void** module, void* library) {
  *module = library;
  return kSuccess;
}
CU cuKernelSetAttribute(int attribute, int value, void* kernel, int) {
  return set_attribute(kernel, attribute, value);
}
CU cuKernelGetFunction(void** function, void* kernel) {
  *function = kernel;
  return kSuccess;
}

CU cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                  unsigned bz, unsigned shared, void*, void** args, void** extra) {
  const u32 grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  return launch(*static_cast<Entry*>(function), grid, block, shared, args, extra);
}

struct LaunchConfig {
  unsigned grid[3], block[3], shared;
  void* stream;
  void* attributes;
  unsigned count;
};

CU cuLaunchKernelEx(const LaunchConfig* config, void* function, void** args, void** extra) {
  return launch(*static_cast<Entry*>(function), config->grid, config->block, config->shared, args,
                extra);
}
