// kdsl/cpu/atomic.h: additions to memory that other threads may be adding to as well.
#pragma once

#include <kdsl/cpu/memory.h>

namespace kdsl {

/// *p += x. `alone`: no other thread runs this phase, so plain additions do.
template <class T, class V>
static inline KDSL_INLINE void add_one(T* p, V x, bool alone) {
  if (alone) return put(p, get(p) + x);
  T old, sum;
  __atomic_load(p, &old, __ATOMIC_RELAXED);
  do {
    put(&sum, get(&old) + x);
  } while (!__atomic_compare_exchange(p, &old, &sum, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}

/// Each lane to an offset of its own; equal ones add up.
template <class T, class V, class L = All>
static inline void add_at(T* p, Vec<i64> offsets, V v, L n, bool alone) {
  for (int i = 0; i < W && i < count(n); i++) add_one(p + offsets[i], v[i], alone);
}

/// Lanes that lie next to each other.
template <class T, class V, class L>
static inline void add_apart(T* p, V v, L n) {
  for (int i = 0; i < W && i < count(n); i++) add_one(p + i, v[i], false);
}
#if defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
/// Four floats at an address of 16 bytes at once: an exchange costs the same for all.
static inline void add_four(float* p, const float* x) {
  typedef unsigned __int128 Bits __attribute__((may_alias));
  Bits seen = *(Bits*)p, old;
  do {
    old = seen;
    float sum[4];
    __builtin_memcpy(sum, &old, 16);
    for (int i = 0; i < 4; i++) sum[i] += x[i];
    Bits next;
    __builtin_memcpy(&next, sum, 16);
    seen = __sync_val_compare_and_swap((Bits*)p, old, next);
  } while (seen != old);
}
template <class L>
static inline void add_apart(float* p, Vec<float> v, L n) {
  float x[W];
  st(x, v);
  const int real = (int)min(count(n), W);
  for (int i = 0; i < real;) {
    if (((u64)(p + i) & 15) == 0 && i + 4 <= real) {
      add_four(p + i, x + i);
      i += 4;
    } else {
      add_one(p + i, x[i], false);
      i++;
    }
  }
}
#endif
template <class T, class V, class L>
static inline KDSL_INLINE void add_run(T* p, V v, L n, bool alone) {
  if (alone)
    st(p, ld(p, n) + v, n);
  else
    add_apart(p, v, n);
}

}  // namespace kdsl
