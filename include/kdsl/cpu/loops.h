// kdsl/cpu/loops.h: how generated loops walk lanes: whole vectors, and a tail that is shorter.
#pragma once

#include <kdsl/cpu/vec.h>

namespace kdsl {

/// Slices of `size` in n.
constexpr i64 tiles(i64 n, i64 size) { return (n + size - 1) / size; }

/// Bytes of n elements in an arena, whole cache lines.
template <class T>
constexpr i64 room(i64 n) {
  return (n * (i64)sizeof(T) + 63) & ~63L;
}
/// Bytes of a tensor of T with these sizes, whole cache lines; -1 where one is negative or they do
/// not fit.
template <class T, class... Sizes>
static inline i64 scratch_room(Sizes... sizes) {
  const i64 all[] = {(i64)sizes..., 1};
  i64 bytes = sizeof(T);
  for (i64 n : all)
    if (n < 0 || __builtin_mul_overflow(bytes, n, &bytes)) return -1;
  return bytes > (i64)1 << 60 ? -1 : (bytes + 63) & ~63L;
}
/// The sum of such sizes; -1 where one of them is.
template <class... Bytes>
static inline i64 scratch_total(Bytes... bytes) {
  const i64 all[] = {(i64)bytes...};
  i64 total = 0;
  for (i64 n : all)
    if (n < 0 || __builtin_add_overflow(total, n, &total)) return -1;
  return total;
}
template <class T>
static inline T* take(char*& arena, i64 n) {
  T* p = (T*)arena;
  arena += room<T>(n);
  return p;
}

/// How many vectors of a tile of `lanes` (a multiple of 16) a loop keeps in registers at once.
constexpr int unroll(i64 lanes) {
  const i64 v = lanes / W;
  return v % 3 == 0 ? 3 : v % 4 == 0 ? 4 : v % 2 == 0 ? 2 : 1;
}

/// f(lane, real): lanes [0, n) vector by vector; `real` is All or, for the last, Some.
template <class F>
static inline KDSL_INLINE void each_vector(i64 n, F f) {
  i64 l = 0;
  for (; l + W <= n; l += W) f(l, All{});
  if (l < n) f(l, Some{n - l});
}

/// f(lane, u, real): the same, U vectors a turn; `u` says which of them this is.
template <int U, class F>
static inline KDSL_INLINE void each_turn(i64 n, F f) {
  i64 l = 0;
  for (; l + U * W <= n; l += U * W) KDSL_UNROLL for (int u = 0; u < U; u++) f(l + u * W, u, All{});
  for (; l + W <= n; l += W) f(l, 0, All{});
  if (l < n) f(l, 0, Some{n - l});
}

/// x where the lane is real, else what leaves a reduction unchanged.
template <class V, class T>
static inline KDSL_INLINE V keep(All, V x, T) {
  return x;
}
template <class V, class T>
static inline KDSL_INLINE V keep(Some n, V x, T neutral) {
  return where(lanes(n), x, splat_as<V>(neutral));
}

/// Every vector of an array becomes x in all lanes.
template <class V, class T, int U>
static inline KDSL_INLINE void fill(V (&v)[U], T x) {
  KDSL_UNROLL for (int u = 0; u < U; u++) v[u] = splat_as<V>(x);
}

/// Whether an index is not in [0, size); if so, `fault` remembers it.
static inline bool outside(Fault* fault, int site, i64 index, i64 size) {
  if ((u64)index < (u64)size) return false;
  record(fault, site, index, size);
  return true;
}

/// While it lives, subnormal numbers count as zero: they cost tens of cycles each.
struct FlushSubnormals {
#if defined(__x86_64__)
  unsigned saved = __builtin_ia32_stmxcsr();
  FlushSubnormals() { __builtin_ia32_ldmxcsr(saved | 0x8040); }
  ~FlushSubnormals() { __builtin_ia32_ldmxcsr(saved); }
#endif
};

}  // namespace kdsl
