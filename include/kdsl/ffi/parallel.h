// kdsl/ffi/parallel.h: run tasks on the threads that this process already has, else on our own.
#pragma once

#include <kdsl/ffi/error.h>
#include <kdsl/ffi/pool.h>

namespace kdsl {

/// The OpenMP of GCC's libgomp, when another library (torch) has brought it into the process.
///
/// Two pools of spinning threads on the same cores slow each other down several times, so ours
/// stays asleep where there is a libgomp. libgomp hangs in a child of fork whose parent used it.
class Gomp {
 public:
  using Parallel = void(void (*)(void*), void*, unsigned threads, unsigned flags);
  using MaxThreads = int();

  static const Gomp& get() {
    // Libraries come while a process runs; a new look costs what dlsym costs, the counter little.
    const uint64_t now = libraries_loaded();
    if (__atomic_load_n(&found_.seen_, __ATOMIC_ACQUIRE) != now) found_.look(now);
    return found_;
  }
  /// The function that starts a parallel region; null without libgomp and in a child of fork.
  Parallel* parallel() const {
    return kdsl_getpid() == home_ ? __atomic_load_n(&parallel_, __ATOMIC_RELAXED) : nullptr;
  }
  /// What omp_set_num_threads, and so torch.set_num_threads, has set; 0 without libgomp.
  int threads() const {
    MaxThreads* ask = __atomic_load_n(&max_threads_, __ATOMIC_RELAXED);
    return ask ? ask() : 0;
  }

 private:
  struct PhdrInfo {
    void* addr;
    const char* name;
    const void* phdr;
    uint16_t phnum;
    unsigned long long adds;
  };

  static uint64_t libraries_loaded();

  KDSL_COLD void look(uint64_t now) {
    void* library = nullptr;
    auto* parallel = find_symbol<Parallel>("GOMP_parallel");
    if (!parallel && (library = loaded_library("libgomp.so.1"))) {
      parallel = find_symbol<Parallel>("GOMP_parallel", library);
    }
    auto* threads = find_symbol<MaxThreads>("omp_get_max_threads", library);
    __atomic_store_n(&max_threads_, threads, __ATOMIC_RELAXED);
    __atomic_store_n(&parallel_, threads ? parallel : nullptr, __ATOMIC_RELAXED);
    __atomic_store_n(&seen_, now, __ATOMIC_RELEASE);
  }

  static Gomp found_;
  /// The process that loaded the module.
  static inline const int home_ = kdsl_getpid();
  uint64_t seen_ = 0;
  Parallel* parallel_ = nullptr;
  MaxThreads* max_threads_ = nullptr;
};

inline Gomp Gomp::found_;

extern "C" int kdsl_dl_iterate_phdr(int (*each)(void* info, size_t size, void* out),
                                    void* out) __asm__("dl_iterate_phdr");

inline uint64_t Gomp::libraries_loaded() {
  uint64_t count = 0;
  kdsl_dl_iterate_phdr(
      [](void* info, size_t, void* out) {
        *static_cast<uint64_t*>(out) = static_cast<PhdrInfo*>(info)->adds;
        return 1;
      },
      &count);
  return count;
}

/// Number in an environment variable; 0 where it is not set or no number.
inline int number_in_environment(const char* name) {
  const char* text = kdsl_getenv(name);
  int value = 0;
  for (; text && *text >= '0' && *text <= '9' && value < 10000; ++text) {
    value = 10 * value + (*text - '0');
  }
  return value;
}

/// CPUs that this process may run on.
inline int usable_cpus() {
  unsigned long mask[128] = {};
  const int failed = kdsl_sched_getaffinity(0, sizeof(mask), mask);
  int count = 0;
  for (unsigned long word : mask) count += __builtin_popcountl(word);
  return failed || count == 0 ? 1 : count;
}

/// How many threads a call is to use: KDSL_NUM_THREADS, else OpenMP's number, else all CPUs.
KDSL_NOINLINE inline int thread_count(const Gomp& gomp) {
  // A guarded static would need the C++ library. Two threads may compute the same here.
  static int known = 0;
  int threads = __atomic_load_n(&known, __ATOMIC_RELAXED);
  if (threads == 0) {
    const int asked = number_in_environment("KDSL_NUM_THREADS");
    // Negative: what the environment asks for goes before what OpenMP does.
    threads = asked > 0 ? -asked : usable_cpus();
    __atomic_store_n(&known, threads, __ATOMIC_RELAXED);
  }
  if (threads < 0) return -threads;
  const int openmp = gomp.threads();
  return openmp > 0 ? openmp : threads;
}

/// Nanoseconds of a clock that only goes forward.
inline i64 clock_now() {
  constexpr int kMonotonic = 1;
  long time[2] = {};
  kdsl_clock_gettime(kMonotonic, time);
  return time[0] * 1000000000 + time[1];
}

/// Run tasks here until it is clear whether the rest is worth other threads; returns where it
/// stopped. Waking threads that have gone to sleep takes far longer than a small call.
KDSL_NOINLINE inline i64 begin_alone(i64 tasks, void (*body)(void* ctx, int64_t begin, int64_t end),
                                     void* ctx) {
  constexpr i64 kWorthIt = 50000, kLongEnough = 2000;  // ns
  const i64 start = clock_now();
  for (i64 done = 0, step = 1;; step *= 2) {
    body(ctx, done, done + step < tasks ? done + step : tasks);
    done += step;
    if (done >= tasks) return tasks;
    const i64 spent = clock_now() - start;
    const double rest = static_cast<double>(spent) / done * (tasks - done);
    if (rest < kWorthIt) {
      body(ctx, done, tasks);
      return tasks;
    }
    if (spent >= kLongEnough) return done;
  }
}

/// Call body(ctx, begin, end) over disjoint parts of [0, tasks), on several threads where that
/// pays; returns when all are done. `small`: it is likely that all of it is little work.
KDSL_NOINLINE inline void parallel_for(i64 tasks,
                                       void (*body)(void* ctx, int64_t begin, int64_t end),
                                       void* ctx, bool small = false) {
  if (tasks <= 0) return;
  if (tasks == 1) return body(ctx, 0, tasks);
  const Gomp& gomp = Gomp::get();
  const int available = thread_count(gomp);
  if (available <= 1) return body(ctx, 0, tasks);
  // Few tasks may be long ones: to do the first alone would cost more than it saves.
  const bool few = tasks < 4 * available && !small;
  const i64 begin = few ? 0 : begin_alone(tasks, body, ctx);
  if (begin == tasks) return;
  Tasks rest = {body, ctx, tasks, 1, begin};
  if (__kdsl_rt && __kdsl_rt->parallel_for) {
    return __kdsl_rt->parallel_for(tasks - begin, Tasks::shifted, &rest);
  }
  const i64 count = tasks - begin;
  const int threads = available < count ? available : static_cast<int>(count);
  // Small enough that an early thread takes over from a late one, large enough to be cheap.
  rest.chunk = count / (8 * threads) > 1 ? count / (8 * threads) : 1;
  if (auto* parallel = gomp.parallel()) {
    return parallel([](void* tasks) { static_cast<Tasks*>(tasks)->drain(); }, &rest, threads, 0);
  }
  Pool* pool = Pool::get(available);
  if (!pool || !pool->run(rest)) body(ctx, begin, tasks);
}

/// Run one phase of a kernel; false when a thread found no memory for its arena.
KDSL_NOINLINE inline bool run_phase(const Phase& phase, const void* args, bool small) {
  struct Context {
    const Phase& phase;
    const void* args;
    i64 arena;
    bool failed;
  };
  Context context = {phase, args, phase.arena ? phase.arena(args) : 0, false};
  auto body = [](void* ctx, int64_t begin, int64_t end) {
    auto& work = *static_cast<Context*>(ctx);
    ThreadState* state = work.arena ? thread_state() : nullptr;
    char* arena = state ? state->arena.reserve(work.arena) : nullptr;
    if (work.arena && !arena) {
      work.failed = true;
    } else {
      work.phase.run(work.args, arena, begin, end);
    }
  };
  parallel_for(phase.tasks(args), body, &context, small);
  return !context.failed;
}

}  // namespace kdsl
