// The functions that Python calls. Failures return null or 0 and leave a text for kdsl_sim_error.
#include <condition_variable>
#include <thread>

#include "module.h"

#define KDSL_SIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using namespace sim;

thread_local std::string error;
thread_local std::string text;

/// A launch on its own thread, so that the caller can look around while it runs.
struct Job {
  Launch launch;
  std::thread thread;
  std::mutex lock;
  std::condition_variable changed;
  bool done = false;

  ~Job() {
    launch.cancelled = true;
    if (thread.joinable()) thread.join();
  }
};

template <class F>
auto guarded(F f) -> decltype(f()) {
  try {
    return f();
  } catch (const std::exception& e) {
    error = e.what();
    return decltype(f())();
  }
}

}  // namespace

KDSL_SIM_EXPORT int kdsl_sim_version() { return 1; }

KDSL_SIM_EXPORT const char* kdsl_sim_error() { return error.c_str(); }

KDSL_SIM_EXPORT void* kdsl_sim_load(const char* ptx) {
  return guarded([&] { return static_cast<void*>(new Loaded(ptx)); });
}

KDSL_SIM_EXPORT void kdsl_sim_unload(void* module) { delete static_cast<Loaded*>(module); }

/// Names of all kernels, a line each.
KDSL_SIM_EXPORT const char* kdsl_sim_kernels(void* module) {
  text.clear();
  for (const std::string& name : static_cast<Loaded*>(module)->kernels()) text += name + '\n';
  return text.c_str();
}

/// The parameters of a kernel: name, type, elements, offset, bytes; a line each. Null: an error.
KDSL_SIM_EXPORT const char* kdsl_sim_params(void* module, const char* kernel) {
  return guarded([&]() -> const char* {
    const Program& p = static_cast<Loaded*>(module)->program(kernel);
    text.clear();
    for (size_t k = 0; k < p.params.size(); k++) {
      const Variable& v = p.params[k];
      const i64 end = k + 1 < p.params.size() ? p.param_offsets[k + 1] : p.param_bytes;
      text += v.name + '\t' + v.type + '\t' + std::to_string(v.array ? v.count : 0) + '\t' +
              std::to_string(p.param_offsets[k]) + '\t' + std::to_string(end - p.param_offsets[k]) +
              '\n';
    }
    return text.c_str();
  });
}

KDSL_SIM_EXPORT u64 kdsl_sim_allocate(u64 size, int tracked, const char* name) {
  return Heap::get().allocate(size, tracked != 0, name);
}

KDSL_SIM_EXPORT int kdsl_sim_free(u64 address) { return Heap::get().release(address); }

KDSL_SIM_EXPORT void kdsl_sim_mark_written(u64 address, u64 size) {
  Heap::get().mark_written(address, size);
}

/// Bytes from an address to the end of the allocation that holds it; 0: none does.
KDSL_SIM_EXPORT u64 kdsl_sim_room(u64 address) {
  const std::shared_ptr<const Map> map = Heap::get().map();
  const Allocation* found = find(*map, address);
  return found && address - found->base < found->size ? found->size - (address - found->base) : 0;
}

struct KdslSimOptions {
  u32 grid[3], block[3];
  u32 shared;
  i32 threads;
  u64 seed, limit;
};

KDSL_SIM_EXPORT void* kdsl_sim_start(void* module, const char* kernel,
                                     const KdslSimOptions* options, const u8* params, u64 bytes) {
  return guarded([&]() -> void* {
    auto job = std::make_unique<Job>();
    Launch& l = job->launch;
    l.program = &static_cast<Loaded*>(module)->program(kernel);
    std::copy(options->grid, options->grid + 3, l.grid);
    std::copy(options->block, options->block + 3, l.block);
    l.dynamic_shared = options->shared;
    l.threads = options->threads;
    l.seed = options->seed;
    l.limit = options->limit;
    l.params.assign(params, params + bytes);
    l.params.resize(std::max<size_t>(bytes, l.program->param_bytes));
    check_launch(l);
    l.memory = Heap::get().map();
    Job* raw = job.release();
    raw->thread = std::thread([raw] {
      raw->launch.run();
      std::lock_guard<std::mutex> hold(raw->lock);
      raw->done = true;
      raw->changed.notify_all();
    });
    return raw;
  });
}

/// 1 once the launch has ended, 0 after so many milliseconds.
KDSL_SIM_EXPORT int kdsl_sim_wait(void* job, int milliseconds) {
  Job& j = *static_cast<Job*>(job);
  std::unique_lock<std::mutex> hold(j.lock);
  return j.changed.wait_for(hold, std::chrono::milliseconds(milliseconds), [&j] { return j.done; });
}

KDSL_SIM_EXPORT void kdsl_sim_cancel(void* job) { static_cast<Job*>(job)->launch.cancelled = true; }

KDSL_SIM_EXPORT const char* kdsl_sim_result(void* job) {
  text = result_text(static_cast<Job*>(job)->launch);
  return text.c_str();
}

KDSL_SIM_EXPORT void kdsl_sim_close(void* job) { delete static_cast<Job*>(job); }

/// Results of launches that came through the driver since the last call.
KDSL_SIM_EXPORT const char* kdsl_sim_take_log() {
  text.clear();
  for (const std::string& one : Log::get().take()) text += one;
  return text.c_str();
}
