// kdsl/ffi/threads.h: what a module keeps for each thread: the last error, a block of scratch.
#pragma once

#include <kdsl/ffi/libc.h>

namespace kdsl {

/// Bytes at a multiple of `align` that grow and are reused; never handed back to the system.
class Arena {
 public:
  static constexpr size_t kAlign = 64;

  /// A block of at least `size` bytes, its content undefined; null when memory is short.
  char* reserve(size_t size) {
    if (size > capacity_) grow(size);
    return size <= capacity_ ? data_ : nullptr;
  }

 private:
  __attribute__((noinline)) void grow(size_t size) {
    // Half as much again: a caller whose sizes creep up does not allocate at every call.
    const size_t wanted = size + size / 2;
    kdsl_free(block_);
    block_ = kdsl_malloc(wanted + kAlign);
    const auto address = reinterpret_cast<uintptr_t>(block_);
    data_ = reinterpret_cast<char*>((address + kAlign - 1) / kAlign * kAlign);
    capacity_ = block_ ? wanted : 0;
  }

  void* block_ = nullptr;
  char* data_ = nullptr;
  size_t capacity_ = 0;
};

/// State of one thread. A thread that ends leaves its entry to the next one at its address.
struct ThreadState {
  void* thread;
  ThreadState* next;
  /// Scratch of the tasks that this thread runs.
  Arena arena;
  /// Scratch of the call that this thread makes, shared with the threads that help.
  Arena scratch;
  char* error;
};

inline ThreadState* thread_states = nullptr;

/// This thread's state, made at its first use; null when memory is short.
inline ThreadState* thread_state() {
  void* self = this_thread();
  ThreadState* first = __atomic_load_n(&thread_states, __ATOMIC_ACQUIRE);
  for (ThreadState* state = first; state; state = state->next) {
    if (state->thread == self) return state;
  }
  auto* fresh = static_cast<ThreadState*>(kdsl_malloc(sizeof(ThreadState)));
  if (!fresh) return nullptr;
  *fresh = ThreadState{self, first, Arena(), Arena(), nullptr};
  while (!__atomic_compare_exchange_n(&thread_states, &fresh->next, fresh, false, __ATOMIC_RELEASE,
                                      __ATOMIC_RELAXED)) {
  }
  return fresh;
}

}  // namespace kdsl
