// kdsl/cuda/loops.h: how generated loops walk lanes, and what crosses them: reductions, scans.
#pragma once

#include <kdsl/cuda/memory.h>

namespace kdsl {

/// Bytes of n elements in the block's memory, whole cache lines.
template <class T>
KDSL_FN constexpr i64 room(i64 n) {
  return (n * (i64)sizeof(T) + 63) & ~63L;
}
template <class T>
KDSL_DEV T* take(char*& arena, i64 n) {
  T* p = (T*)arena;
  arena += room<T>(n);
  return p;
}

/// Vectors of a tile that a loop keeps in registers at once.
KDSL_FN constexpr int unroll(i64) { return 1; }

/// f(lane, real): lanes [0, n), a team's worth at a time.
template <class F>
KDSL_DEV void each_vector(i64 n, F f) {
  KDSL_UNROLL for (i64 l = 0; l < n; l += team()) f(l, Some{n - l});
}

/// f(lane, u, real): the same, U vectors a turn; `u` says which of them this is.
template <int U, class F>
KDSL_DEV void each_turn(i64 n, F f) {
  i64 l = 0;
  for (; l + U * team() <= n; l += U * team())
    KDSL_UNROLL for (int u = 0; u < U; u++) f(l + u * team(), u, All{});
  for (; l < n; l += team()) f(l, 0, Some{n - l});
}

/// x where the lane is real, else what leaves a reduction unchanged.
template <class V, class T>
KDSL_DEV V keep(All, V x, T) {
  return x;
}
template <class V, class T>
KDSL_DEV V keep(Some n, V x, T neutral) {
  return is_real(n) ? x : splat_as<V>(neutral);
}

/// Every vector of an array becomes x in all lanes.
template <class V, class T, int U>
KDSL_DEV void fill(V (&v)[U], T x) {
  KDSL_UNROLL for (int u = 0; u < U; u++) v[u] = splat_as<V>(x);
}

/// f over the values of all threads, in every thread.
template <class F, class T>
KDSL_DEV T across_team(F f, T x) {
  KDSL_UNROLL for (int mask = 16; mask; mask >>= 1) x = f(x, shuffle_xor(x, mask));
  if (team() == 32) return x;
  __shared__ T parts[32];
  sync();  // the parts of the reduction before this one are read
  if (lane() == 0) parts[warp()] = x;
  sync();
  x = parts[0];
  for (int i = 1; i < team() / 32; i++) x = f(x, parts[i]);
  return x;
}
/// f over all lanes of an array of vectors.
template <class F, class V, int U>
KDSL_DEV auto across(F f, V (&v)[U]) {
  KDSL_UNROLL for (int u = 1; u < U; u++) v[0] = f(v[0], v[u]);
  return across_team(f, v[0].x);
}

/// In each lane the sum up to and with it, behind what was summed so far.
template <class T>
KDSL_DEV Vec<T> running_sum(Vec<T> v, T& so_far) {
  T x = v.x;
  KDSL_UNROLL for (int by = 1; by < 32; by <<= 1) {
    const T below = shuffle_up(x, by);
    if (lane() >= by) x = below + x;
  }
  __shared__ T ends[32];
  sync();
  if (lane() == 31) ends[warp()] = x;
  sync();
  T before = so_far;
  for (int i = 0; i < team() / 32; i++) {
    if (i == warp()) x = before + x;
    before = before + ends[i];
  }
  so_far = before;
  return {x};
}

/// Whether an index is not in [0, size); if so, `fault` remembers it.
KDSL_DEV bool outside(Fault* fault, int site, i64 index, i64 size) {
  if ((u64)index < (u64)size) return false;
  if (member() == 0) record(fault, site, index, size);
  return true;
}

}  // namespace kdsl
