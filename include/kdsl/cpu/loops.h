// kdsl/cpu/loops.h: how generated loops walk lanes: whole vectors, and a tail that is shorter.
#pragma once

#include <kdsl/cpu/vec.h>

namespace kdsl {

/// How many vectors of a tile of `lanes` (a multiple of 16) a loop keeps in registers at once.
constexpr int unroll(i64 lanes) {
  const i64 v = lanes / W;
  return v % 3 == 0 ? 3 : v % 4 == 0 ? 4 : v % 2 == 0 ? 2 : 1;
}

/// f(lane, u, real): lanes [0, n), U vectors a turn, `u` says which; `real` is All or, last, Some.
template <int U, class F>
static inline KDSL_INLINE void each_lane(i64 n, F f) {
  i64 l = 0;
  for (; l + U * W <= n; l += U * W)
    KDSL_UNROLL for (int u = 0; u < U; u++) f(l + u * W, u, All{});
  for (; l + W <= n; l += W) f(l, 0, All{});
  if (l < n) f(l, 0, Some{n - l});
}

/// x where the lane is real, else what leaves a reduction unchanged.
template <class V>
static inline KDSL_INLINE V keep(All, V x, V) {
  return x;
}
template <class V>
static inline KDSL_INLINE V keep(Some n, V x, V neutral) {
  return where(lanes(n), x, neutral);
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
