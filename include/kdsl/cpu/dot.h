// kdsl/cpu/dot.h: register-blocked matrix product of a block, and packing of its vector operand.
#pragma once

#include <kdsl/cpu/memory.h>

namespace kdsl {

/// Registers of the micro-kernel: `rows` x `vectors` accumulators; `lanes` is a multiple of W.
struct Blocking {
  int rows, vectors;
};
constexpr Blocking blocking(i64 lanes) {
  const i64 v = lanes / W;
#if defined(KDSL_AVX512) || defined(__aarch64__)  // 32 registers
  return v % 4 == 0   ? Blocking{6, 4}
         : v % 3 == 0 ? Blocking{8, 3}
         : v % 2 == 0 ? Blocking{12, 2}
                      : Blocking{16, 1};
#else  // 16 registers
  return v % 2 == 0 ? Blocking{6, 2} : v % 3 == 0 ? Blocking{4, 3} : Blocking{8, 1};
#endif
}

/// Rows r.. of the product, R of them, in lanes l.. of V vectors:
/// out(row, lane, init(row, lane) + sum over k of a[row * a_row + k * a_k] * b[k * b_k + lane]).
/// With `Ragged` only rows before `rows` exist: the last one stands in for those past it.
template <int R, int V, bool Ragged, class A, class B, class L, class Init, class Out>
static inline KDSL_INLINE void dot_block(i64 r, i64 l, i64 rows, i64 depth, const A* a, i64 a_row,
                                         i64 a_k, const B* b, i64 b_k, L n, Init init, Out out) {
  Vec<float> c[R][V];
  const A* row[R];
  KDSL_UNROLL for (int i = 0; i < R; i++) {
    const i64 real = Ragged ? min(r + i, rows - 1) : r + i;
    row[i] = a + real * a_row;
    KDSL_UNROLL for (int j = 0; j < V; j++) c[i][j] = init(real, l + j * W, n);
  }
  b += l;
  _Pragma("GCC unroll 2") for (i64 k = 0; k < depth; k++) {
    Vec<float> x[V];
    KDSL_UNROLL for (int j = 0; j < V; j++) x[j] = ld(b + k * b_k + j * W, n);
    KDSL_UNROLL for (int i = 0; i < R; i++) {
      const Vec<float> y = splat(get(row[i] + k * a_k));
      KDSL_UNROLL for (int j = 0; j < V; j++) c[i][j] = fma(y, x[j], c[i][j]);
    }
  }
  KDSL_UNROLL for (int i = 0; i < R; i++) {
    if (Ragged && r + i >= rows) break;
    KDSL_UNROLL for (int j = 0; j < V; j++) out(r + i, l + j * W, c[i][j], n);
  }
}

/// All rows of the first `lane_blocks` blocks of V vectors.
template <int R, int V, class A, class B, class Init, class Out>
static inline KDSL_INLINE void dot_blocks(i64 rows, i64 lane_blocks, i64 depth, const A* a,
                                          i64 a_row, i64 a_k, const B* b, i64 b_k, Init init,
                                          Out out) {
  const i64 row_blocks = rows / R;
  // What fits in the first-level cache is walked again and again, the other operand once.
  const bool by_row = lane_blocks * V * W * depth * (i64)sizeof(B) <= 24 << 10;
  const i64 outer = by_row ? row_blocks : lane_blocks, inner = by_row ? lane_blocks : row_blocks;
  for (i64 o = 0; o < outer; o++)
    for (i64 i = 0; i < inner; i++)
      dot_block<R, V, false>((by_row ? o : i) * R, (by_row ? i : o) * V * W, rows, depth, a, a_row,
                             a_k, b, b_k, All{}, init, out);
  if (row_blocks * R < rows)
    for (i64 l = 0; l < lane_blocks; l++)
      dot_block<R, V, true>(row_blocks * R, l * V * W, rows, depth, a, a_row, a_k, b, b_k, All{},
                            init, out);
}

/// Vectors of a micro-kernel for one row alone: as many chains of additions as hide their latency.
constexpr int one_row(i64 lanes) {
  const i64 v = lanes / W;
  return v % 8 == 0 ? 8 : v % 4 == 0 ? 4 : v % 3 == 0 ? 3 : v % 2 == 0 ? 2 : 1;
}

/// The product of a block of `rows` x `depth` with one of `depth` x `Lanes`, a multiple of 16.
template <i64 Lanes, class A, class B, class Init, class Out>
static inline KDSL_INLINE void dot(i64 rows, i64 depth, const A* a, i64 a_row, i64 a_k, const B* b,
                                   i64 b_k, Init init, Out out) {
  constexpr Blocking block = blocking(Lanes);
  constexpr int wide = one_row(Lanes);
  // One row is a case of its own (a step of decoding): a block would compute it six times.
  if (rows == 1)
    dot_blocks<1, wide>(1, Lanes / (wide * W), depth, a, a_row, a_k, b, b_k, init, out);
  else
    dot_blocks<block.rows, block.vectors>(rows, Lanes / (block.vectors * W), depth, a, a_row, a_k,
                                          b, b_k, init, out);
}

/// The same for any number of lanes; those past it are neither read nor given to `out` as real.
template <class A, class B, class Init, class Out>
static inline KDSL_INLINE void dot_ragged(i64 rows, i64 lanes, i64 depth, const A* a, i64 a_row,
                                          i64 a_k, const B* b, i64 b_k, Init init, Out out) {
  constexpr Blocking block = blocking(2 * W);
  constexpr int step = block.vectors * W;
  dot_blocks<block.rows, block.vectors>(rows, lanes / step, depth, a, a_row, a_k, b, b_k, init,
                                        out);
  for (i64 l = lanes / step * step; l < lanes; l += W)
    for (i64 r = 0; r < rows; r += block.rows)
      dot_block<block.rows, 1, true>(r, l, rows, depth, a, a_row, a_k, b, b_k, Some{lanes - l},
                                     init, out);
}

/// A product that starts from nothing.
struct Zero {
  template <class L>
  KDSL_INLINE Vec<float> operator()(i64, i64, L) const {
    return Vec<float>{};
  }
};
/// A product that is kept as it is: in `to`, rows `pitch` apart.
struct Into {
  float* to;
  i64 pitch;
  template <class L>
  KDSL_INLINE void operator()(i64 r, i64 l, Vec<float> x, L) const {
    st(to + r * pitch + l, x);
  }
};
static inline KDSL_INLINE Into into(float* to, i64 pitch) { return {to, pitch}; }

/// W x W elements, in registers: lane j of row i becomes lane i of row j.
static inline KDSL_INLINE void transpose(Vec<float> (&r)[W]) {
  const Vec<i32> i = lane_numbers<i32>();
  KDSL_UNROLL for (int s = W / 2; s; s >>= 1) {
    const Vec<i32> low = (i & s) ? i - s + W : i, high = (i & s) ? i + W : i + s;
    KDSL_UNROLL for (int a = 0; a < W; a++) if (!(a & s)) {
      const Vec<float> x = r[a], y = r[a + s];
      r[a] = __builtin_shuffle(x, y, low);
      r[a + s] = __builtin_shuffle(x, y, high);
    }
  }
}

/// to[k * to_k + lane] = from[lane * from_lane + k]; lanes [lanes, room) become 0.
template <class T>
static inline void pack_transposed(float* to, i64 to_k, i64 room, const T* from, i64 from_lane,
                                   i64 lanes, i64 depth) {
  for (i64 l = 0; l < room; l += W)
    for (i64 k = 0; k < depth; k += W) {
      Vec<float> r[W];
      if (k + W <= depth && l + W <= lanes)
        KDSL_UNROLL for (int i = 0; i < W; i++) r[i] = ld(from + (l + i) * from_lane + k);
      else
        for (int i = 0; i < W; i++)
          r[i] = l + i < lanes ? ld(from + (l + i) * from_lane + k, Some{depth - k}) : Vec<float>{};
      transpose(r);
      for (int i = 0; i < W && k + i < depth; i++) st(to + (k + i) * to_k + l, r[i]);
    }
}

/// to[k * to_k + lane] = from[k * from_k + lane]; lanes [lanes, room) become 0.
template <class T>
static inline void pack_rows(float* to, i64 to_k, i64 room, const T* from, i64 from_k, i64 lanes,
                             i64 depth) {
  for (i64 k = 0; k < depth; k++) {
    i64 l = 0;
    for (; l + W <= lanes; l += W) st(to + k * to_k + l, ld(from + k * from_k + l));
    for (; l < room; l += W) st(to + k * to_k + l, ld(from + k * from_k + l, Some{lanes - l}));
  }
}

/// to[k * to_k + lane] = from[lane * from_lane + k * from_k], where neither axis is contiguous.
template <class T>
static inline void pack_strided(float* to, i64 to_k, i64 room, const T* from, i64 from_lane,
                                i64 from_k, i64 lanes, i64 depth) {
  for (i64 k = 0; k < depth; k++)
    for (i64 l = 0; l < room; l++)
      to[k * to_k + l] = l < lanes ? get(from + l * from_lane + k * from_k) : 0.0f;
}

/// to[lane * to_lane + k] = from[k * from_k + lane]: a block stored with its lanes as rows.
template <class T>
static inline void store_transposed(T* to, i64 to_lane, const float* from, i64 from_k, i64 lanes,
                                    i64 depth) {
  for (i64 l = 0; l < lanes; l += W)
    for (i64 k = 0; k < depth; k += W) {
      Vec<float> r[W];
      KDSL_UNROLL for (int i = 0; i < W; i++) r[i] =
          k + i < depth ? ld(from + (k + i) * from_k + l) : Vec<float>{};
      transpose(r);
      for (int i = 0; i < W && l + i < lanes; i++) {
        if (k + W <= depth)
          st(to + (l + i) * to_lane + k, r[i]);
        else
          st(to + (l + i) * to_lane + k, r[i], Some{depth - k});
      }
    }
}

}  // namespace kdsl
