// kdsl/cuda/dot.h: product of a block by plain multiplications, and packing of its operands.
#pragma once

#include <kdsl/cuda/memory.h>

namespace kdsl {

/// out(row, lane, init(row, lane) + sum over k of a[row * a_row + k * a_k] * b[k * b_k + lane]) for
/// all rows and lanes. A warp takes 4 rows x 128 lanes at a time, a thread 4 x 4 of them.
template <class A, class B, class Init, class Out>
KDSL_DEV void dot_ragged(i64 rows, i64 lanes, i64 depth, const A* a, i64 a_row, i64 a_k, const B* b,
                         i64 b_k, Init init, Out out) {
  constexpr int R = 4, V = 4;
  const i64 row_blocks = (rows + R - 1) / R;
  const i64 blocks = row_blocks * ((lanes + 32 * V - 1) / (32 * V));
  for (i64 block = warp(); block < blocks; block += team() / 32) {
    const i64 r = block % row_blocks * R, l = block / row_blocks * (32 * V) + lane();
    float c[R][V];
    KDSL_UNROLL for (int i = 0; i < R; i++) KDSL_UNROLL for (int j = 0; j < V; j++) {
      const i64 at = l + 32 * j - member();  // where this thread's lane of a vector is column l
      c[i][j] = l + 32 * j < lanes ? init(min(r + i, rows - 1), at, Some{lanes - at}).x : 0;
    }
    for (i64 k = 0; k < depth; k++) {
      float y[V];
      KDSL_UNROLL for (int j = 0; j < V; j++) {
        y[j] = l + 32 * j < lanes ? get(b + k * b_k + l + 32 * j) : 0;
      }
      KDSL_UNROLL for (int i = 0; i < R; i++) {
        const float x = get(a + min(r + i, rows - 1) * a_row + k * a_k);
        KDSL_UNROLL for (int j = 0; j < V; j++) c[i][j] = fmaf(x, y[j], c[i][j]);
      }
    }
    KDSL_UNROLL for (int i = 0; i < R; i++) KDSL_UNROLL for (int j = 0; j < V; j++) {
      const i64 at = l + 32 * j - member();
      if (r + i < rows && l + 32 * j < lanes) out(r + i, at, Vec<float>{c[i][j]}, Some{lanes - at});
    }
  }
}

/// The same where all `Lanes` are computed.
template <i64 Lanes, class A, class B, class Init, class Out>
KDSL_DEV void dot(i64 rows, i64 depth, const A* a, i64 a_row, i64 a_k, const B* b, i64 b_k,
                  Init init, Out out) {
  dot_ragged(rows, Lanes, depth, a, a_row, a_k, b, b_k, init, out);
}

/// A product that starts from nothing.
struct Zero {
  template <class L>
  KDSL_FN Vec<float> operator()(i64, i64, L) const {
    return {0};
  }
};
/// A product that is kept as it is: in `to`, rows `pitch` apart.
struct Into {
  float* to;
  i64 pitch;
  template <class L>
  KDSL_FN void operator()(i64 r, i64 l, Vec<float> x, L) const {
    st(to + r * pitch + l, x);
  }
};
KDSL_DEV Into into(float* to, i64 pitch) { return {to, pitch}; }

/// to[k * to_k + lane] = from[lane * from_lane + k * from_k]; lanes [lanes, room) become 0.
template <class T>
KDSL_DEV void pack_strided(float* to, i64 to_k, i64 room, const T* from, i64 from_lane, i64 from_k,
                           i64 lanes, i64 depth) {
  // Neighbours in the source are read by neighbours in the team.
  const bool along = from_k == 1;
  const i64 inner = along ? depth : room;
  for (i64 i = member(); i < room * depth; i += team()) {
    const i64 l = along ? i / inner : i % inner, k = along ? i % inner : i / inner;
    to[k * to_k + l] = l < lanes ? get(from + l * from_lane + k * from_k) : 0.0f;
  }
}
template <class T>
KDSL_DEV void pack_transposed(float* to, i64 to_k, i64 room, const T* from, i64 from_lane,
                              i64 lanes, i64 depth) {
  pack_strided(to, to_k, room, from, from_lane, 1, lanes, depth);
}
template <class T>
KDSL_DEV void pack_rows(float* to, i64 to_k, i64 room, const T* from, i64 from_k, i64 lanes,
                        i64 depth) {
  pack_strided(to, to_k, room, from, 1, from_k, lanes, depth);
}

/// to[lane * to_lane + k] = from[k * from_k + lane]: a block stored with its lanes as rows.
template <class T>
KDSL_DEV void store_transposed(T* to, i64 to_lane, const float* from, i64 from_k, i64 lanes,
                               i64 depth) {
  for (i64 i = member(); i < lanes * depth; i += team()) {
    const i64 l = i / depth, k = i % depth;
    to[l * to_lane + k] = Encode<T>::of(from[k * from_k + l]);
  }
}

}  // namespace kdsl
