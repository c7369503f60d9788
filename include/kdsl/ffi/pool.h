// kdsl/ffi/pool.h: a module's own threads, for processes that have none to lend; safe after fork.
#pragma once

#include <kdsl/cpu/kernel.h>
#include <kdsl/ffi/libc.h>

namespace kdsl {

/// Tasks [next, count), handed out in chunks to whoever asks.
struct Tasks {
  void (*body)(void* ctx, int64_t begin, int64_t end);
  void* ctx;
  i64 count;
  i64 chunk;
  i64 next;

  /// Work until nothing is left to begin.
  void drain() {
    for (;;) {
      const i64 begin = __atomic_fetch_add(&next, chunk, __ATOMIC_RELAXED);
      if (begin >= count) return;
      body(ctx, begin, begin + chunk < count ? begin + chunk : count);
    }
  }

  /// The same tasks counted from 0, for a host that hands them out.
  static void shifted(void* self, int64_t begin, int64_t end) {
    const auto& tasks = *static_cast<const Tasks*>(self);
    tasks.body(tasks.ctx, tasks.next + begin, tasks.next + end);
  }
};

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  __asm__ volatile("yield");
#endif
}

/// Threads that sleep until there are tasks. One call at a time has them; a second one, and a call
/// from inside a task, finds the pool taken and works alone.
///
/// The caller works too. It waits only for threads that have entered: when it runs out of tasks it
/// shuts the door, and a thread that wakes later finds it shut. So a thread that the system does
/// not let run delays nobody.
class Pool {
 public:
  /// The pool of this process, started at its first use; null when there can be none. A child of
  /// fork has none of its parent's threads and gets a pool of its own.
  __attribute__((noinline)) static Pool* get(int threads) {
    const int process = kdsl_getpid();
    Pool* pool = __atomic_load_n(&current_, __ATOMIC_ACQUIRE);
    if (pool && pool->process_ == process) return pool;
    auto* fresh = static_cast<Pool*>(kdsl_malloc(sizeof(Pool)));
    if (!fresh) return nullptr;
    *fresh = Pool();
    fresh->process_ = process;
    if (!__atomic_compare_exchange_n(&current_, &pool, fresh, false, __ATOMIC_ACQ_REL,
                                     __ATOMIC_ACQUIRE)) {
      kdsl_free(fresh);
      return pool;
    }
    fresh->start(threads - 1);
    return fresh;
  }

  /// Run all tasks; false, nothing done, when another call has the threads.
  __attribute__((noinline)) bool run(Tasks& tasks) {
    if (__atomic_exchange_n(&taken_, 1, __ATOMIC_ACQUIRE)) return false;
    tasks_ = &tasks;
    const uint32_t round = __atomic_add_fetch(&round_, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&door_, pack(round, true, 0), __ATOMIC_RELEASE);
    if (__atomic_load_n(&sleepers_, __ATOMIC_SEQ_CST)) futex(&round_, kWake, 1 << 30);
    tasks.drain();
    shut();
    __atomic_store_n(&taken_, 0, __ATOMIC_RELEASE);
    return true;
  }

 private:
  // Turns of waiting before a thread asks the system: some 20 us, the pause between two phases.
  static constexpr int kSpins = 400;
  static constexpr int kWait = 128, kWake = 129;  // FUTEX_WAIT, FUTEX_WAKE, private
  static constexpr uint64_t kOpen = uint64_t{1} << 31, kInside = kOpen - 1;

  static uint64_t pack(uint32_t round, bool open, uint64_t inside) {
    return uint64_t{round} << 32 | (open ? kOpen : 0) | inside;
  }

  static long futex(uint32_t* word, int what, long value) {
#if defined(__x86_64__)
    constexpr long kFutex = 202;
#else
    constexpr long kFutex = 98;
#endif
    return kdsl_syscall(kFutex, word, what, value, nullptr, nullptr, 0);
  }

  __attribute__((noinline)) void start(int workers) {
    using Create = int(unsigned long*, const void*, void* (*)(void*), void*);
    using Detach = int(unsigned long);
    // Looked up, not linked: before glibc 2.34 they are in libpthread, which may be absent.
    auto* create = find_symbol<Create>("pthread_create");
    auto* detach = find_symbol<Detach>("pthread_detach");
    if (!create || !detach) return;
    // Signals belong to the program's own threads; a new thread inherits who blocks them.
    uint64_t all = ~uint64_t{0}, before = 0;
    signal_mask(&all, &before);
    for (int i = 0; i < workers; ++i) {
      unsigned long thread;
      if (create(&thread, nullptr, work, this) != 0) break;
      detach(thread);
    }
    signal_mask(&before, nullptr);
  }

  static void signal_mask(const uint64_t* set, uint64_t* before) {
#if defined(__x86_64__)
    constexpr long kSigprocmask = 14;
#else
    constexpr long kSigprocmask = 135;
#endif
    constexpr long kSetMask = 2;
    kdsl_syscall(kSigprocmask, kSetMask, set, before, sizeof(uint64_t));
  }

  static void* work(void* self) {
    auto* pool = static_cast<Pool*>(self);
    // Round 0 has no tasks; whatever is on when a thread starts is not missed.
    for (uint32_t seen = 0;;) {
      seen = pool->await(seen);
      pool->enter(seen);
    }
  }

  /// Wait until there is another round than `seen`; its number.
  uint32_t await(uint32_t seen) {
    for (int i = 0; i < kSpins; ++i) {
      const uint32_t round = __atomic_load_n(&round_, __ATOMIC_ACQUIRE);
      if (round != seen) return round;
      relax();
    }
    __atomic_add_fetch(&sleepers_, 1, __ATOMIC_SEQ_CST);
    uint32_t round;
    while ((round = __atomic_load_n(&round_, __ATOMIC_SEQ_CST)) == seen) {
      futex(&round_, kWait, static_cast<int32_t>(seen));
    }
    __atomic_sub_fetch(&sleepers_, 1, __ATOMIC_SEQ_CST);
    return round;
  }

  /// Take part in a round if its door is still open.
  void enter(uint32_t round) {
    uint64_t door = __atomic_load_n(&door_, __ATOMIC_ACQUIRE);
    // The round's number is published before its door opens.
    for (int i = 0; i < kSpins && static_cast<uint32_t>(door >> 32) != round; ++i) {
      relax();
      door = __atomic_load_n(&door_, __ATOMIC_ACQUIRE);
    }
    do {
      if (!(door & kOpen)) return;
    } while (!__atomic_compare_exchange_n(&door_, &door, door + 1, true, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    tasks_->drain();
    const uint64_t left = __atomic_sub_fetch(&door_, 1, __ATOMIC_ACQ_REL);
    if (!(left & kOpen) && !(left & kInside)) {
      __atomic_add_fetch(&gone_, 1, __ATOMIC_RELEASE);
      futex(&gone_, kWake, 1);
    }
  }

  /// Let nobody in any more and wait for those inside.
  void shut() {
    uint32_t gone = __atomic_load_n(&gone_, __ATOMIC_ACQUIRE);
    uint64_t door = __atomic_and_fetch(&door_, ~kOpen, __ATOMIC_ACQ_REL);
    for (int i = 0; door & kInside; ++i) {
      if (i < 8 * kSpins) {
        relax();
      } else {
        futex(&gone_, kWait, static_cast<int32_t>(gone));
        gone = __atomic_load_n(&gone_, __ATOMIC_ACQUIRE);
      }
      door = __atomic_load_n(&door_, __ATOMIC_ACQUIRE);
    }
  }

  static inline Pool* current_ = nullptr;

  int process_ = 0;
  uint32_t taken_ = 0;
  Tasks* tasks_ = nullptr;
  /// Number of the latest call: what idle threads watch.
  uint32_t round_ = 0;
  uint32_t sleepers_ = 0;
  /// Round, whether its door is open, and how many threads are inside.
  uint64_t door_ = 0;
  /// Counts the times that the last thread left after the door was shut.
  uint32_t gone_ = 0;
};

}  // namespace kdsl
