// kdsl/cpu/kernel.h: what the host part of a module knows of its kernels; data and no code.
#pragma once

#include <kdsl/args.h>

namespace kdsl {

/// Says that `index` is not in [0, size); whoever comes first is heard.
inline void record(Fault* fault, int site, i64 index, i64 size) {
  int none = 0;
  if (!__atomic_compare_exchange_n(&fault->found, &none, 1, false, __ATOMIC_RELAXED,
                                   __ATOMIC_RELAXED)) {
    return;
  }
  fault->site = site;
  fault->index = index;
  fault->size = size;
}

/// One parallel loop. Tasks [begin, end) may run on any thread, each with an arena of its own.
struct Phase {
  /// Number of tasks.
  i64 (*tasks)(const void* args);
  /// Bytes of scratch that one thread needs, aligned to 64.
  i64 (*arena)(const void* args);
  void (*run)(const void* args, char* arena, i64 begin, i64 end);
};

/// One specialisation: its phases run in order, a later one sees all writes of an earlier one.
struct Kernel {
  const Phase* phases;
  int phase_count;
  /// Bytes of the scratch block that lives as long as the call; its address goes to the arguments.
  i64 (*scratch)(const void* args);
};

}  // namespace kdsl

// The name of a symbol in this CPU variant: KDSL_NAME(softmax_f32) is softmax_f32_avx2.
#define KDSL_PASTE_(a, b) a##_##b
#define KDSL_PASTE(a, b) KDSL_PASTE_(a, b)
#ifdef KDSL_VARIANT
#define KDSL_NAME(name) KDSL_PASTE(name, KDSL_VARIANT)
#endif
