// kdsl/cuda/mma.h: products of 16-bit tiles on tensor cores, their fragments in registers.
//
// A fragment is the part of a 16 x 8 block of results that one lane has: rows lane / 4 and that +
// 8, columns 2 * (lane % 4) and that + 1. x[m][c][2 * h + e] is row 16 * m + 8 * h + lane / 4,
// column 8 * c + 2 * (lane % 4) + e of the warp's part (PTX ISA, matrix fragments of mma.m16n8k16).
#pragma once

#include <kdsl/cuda/smem.h>

namespace kdsl {

template <class H>
KDSL_DEV u32 pack(float low, float high) {
  u32 x;
  if constexpr (Same<H, f16>::value)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(x) : "f"(high), "f"(low));
  return x;
}

template <class H>
KDSL_DEV void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
  if constexpr (Same<H, f16>::value)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

KDSL_DEV void load_matrices(u32 (&r)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}
KDSL_DEV void load_matrices_turned(u32 (&r)[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at)
               : "memory");
}

/// Where a lane reads 16 x 16 blocks of a tile. Rows start at multiples of their size, so blocks
/// along one differ in the bits that the swizzle turns; everything else is an immediate offset.
template <class T>
struct Blocks {
  static constexpr int kBlocks = T::kWidth / 16;
  u32 first;
  KDSL_FN Blocks(T tile, int row, int chunk) : first(tile.at(row, chunk)) {}
  KDSL_FN u32 at(int down, int along) const {
    return (first ^ (u32)(along % kBlocks * 32)) + down * 16 * T::kRowBytes +
           along / kBlocks * T::kPanel;
  }
  KDSL_FN void move(int slot) { first += slot * T::kBytes; }
};

/// Operands of a product. `load` gives rows 16 m... and depths 16 k... of the left one, or columns
/// 16 c... of the right one, as the tensor core takes them.
template <class T>
struct Left : Blocks<T> {  // stored [row][depth]
  typedef typename T::Element Element;
  KDSL_FN Left(T tile, int row) : Blocks<T>(tile, row + lane() % 16, lane() / 16) {}
  KDSL_FN void load(u32 (&r)[4], int m, int k) const { load_matrices(r, this->at(m, k)); }
};
template <class T>
struct LeftTurned : Blocks<T> {  // stored [depth][row]
  typedef typename T::Element Element;
  KDSL_FN LeftTurned(T tile, int row)
      : Blocks<T>(first(tile, row), lane() % 8 + lane() / 16 * 8,
                  lane() / 8 % 2 + row % T::kWidth / 8) {}
  KDSL_FN static T first(T tile, int row) { return {tile.base + row / T::kWidth * T::kPanel}; }
  KDSL_FN void load(u32 (&r)[4], int m, int k) const { load_matrices_turned(r, this->at(k, m)); }
};
template <class T>
struct RightTurned : Blocks<T> {  // stored [column][depth]
  typedef typename T::Element Element;
  KDSL_FN RightTurned(T tile, int col)
      : Blocks<T>(tile, col + lane() % 8 + lane() / 16 * 8, lane() / 8 % 2) {}
  KDSL_FN void load(u32 (&r)[4], int c, int k) const { load_matrices(r, this->at(c, k)); }
};
template <class T>
struct Right : Blocks<T> {  // stored [depth][column]
  typedef typename T::Element Element;
  KDSL_FN Right(T tile, int col)
      : Blocks<T>(first(tile, col), lane() % 16, lane() / 16 + col % T::kWidth / 8) {}
  KDSL_FN static T first(T tile, int col) { return {tile.base + col / T::kWidth * T::kPanel}; }
  KDSL_FN void load(u32 (&r)[4], int c, int k) const { load_matrices_turned(r, this->at(k, c)); }
};
template <class V>
KDSL_DEV V in_slot(V view, int slot) {
  view.move(slot);
  return view;
}

/// Results of a product as the left operand of the next: the same elements in the same lanes.
template <class H, int M, int N>
struct Kept {
  typedef H Element;
  const float (&x)[M][N][4];
  KDSL_FN void load(u32 (&r)[4], int m, int k) const {
    KDSL_UNROLL for (int i = 0; i < 4; i++) {
      const float (&f)[4] = x[m][2 * k + i / 2];
      r[i] = pack<H>(f[2 * (i % 2)], f[2 * (i % 2) + 1]);
    }
  }
};
template <class H, int M, int N>
KDSL_DEV Kept<H, M, N> kept(const float (&x)[M][N][4]) {
  return {x};
}

/// d += a * b, over Depth / 16 blocks.
template <int Depth, int M, int N, class A, class B>
KDSL_DEV void product(float (&d)[M][N][4], const A& a, const B& b) {
  KDSL_UNROLL for (int k = 0; k < Depth / 16; k++) {
    u32 left[M][4];
    KDSL_UNROLL for (int m = 0; m < M; m++) a.load(left[m], m, k);
    KDSL_UNROLL for (int c = 0; c < N / 2; c++) {
      u32 right[4];
      b.load(right, c, k);
      KDSL_UNROLL for (int m = 0; m < M; m++) {
        mma<typename B::Element>(d[m][2 * c], left[m], right[0], right[1]);
        mma<typename B::Element>(d[m][2 * c + 1], left[m], right[2], right[3]);
      }
    }
  }
}

// ---- reductions: four lanes share a row of a fragment

template <class F>
KDSL_DEV float across_quad(F f, float x) {
  x = f(x, shuffle_xor(x, 1));
  return f(x, shuffle_xor(x, 2));
}
template <class F, int M>
KDSL_DEV void across_quad(F f, float (&x)[M][2]) {
  KDSL_UNROLL for (int m = 0; m < M; m++) KDSL_UNROLL for (int h = 0; h < 2; h++) {
    x[m][h] = across_quad(f, x[m][h]);
  }
}
/// One step of a reduction; `first` is known once loops are unrolled and saves the neutral element.
template <class F>
KDSL_DEV void fold(F f, float& so_far, float x, bool first) {
  so_far = first ? x : f(so_far, x);
}

// ---- fragments from and to memory; `row` and `col` are this lane's first of the tile

template <int M, int N>
KDSL_DEV void set_all(float (&x)[M][N], float v) {
  KDSL_UNROLL for (int m = 0; m < M; m++) KDSL_UNROLL for (int n = 0; n < N; n++) x[m][n] = v;
}
template <int M, int N>
KDSL_DEV void set_all(float (&x)[M][N][4], float v) {
  KDSL_UNROLL for (int m = 0; m < M; m++) set_all(x[m], v);
}
template <class A>
KDSL_DEV void assign(A& to, const A& from) {
  constexpr int n = sizeof(A) / 4;
  KDSL_UNROLL for (int i = 0; i < n; i++)((float*)&to)[i] = ((const float*)&from)[i];
}

/// One value a row.
template <class T, int M>
KDSL_DEV void load_rows(float (&x)[M][2], const T* from, i64 step, int row, int rows) {
  KDSL_UNROLL for (int m = 0; m < M; m++) KDSL_UNROLL for (int h = 0; h < 2; h++) {
    const int r = row + 16 * m + 8 * h;
    x[m][h] = r < rows ? (float)get(from + r * step) : 0;
  }
}
template <class T, int M>
KDSL_DEV void store_rows(const float (&x)[M][2], T* to, i64 step, int row, int rows, bool mine) {
  KDSL_UNROLL for (int m = 0; m < M; m++) KDSL_UNROLL for (int h = 0; h < 2; h++) {
    const int r = row + 16 * m + 8 * h;
    if (mine && lane() % 4 == 0 && r < rows) to[r * step] = Encode<T>::of(x[m][h]);
  }
}
/// One value a column.
template <class T, int N>
KDSL_DEV void load_cols(float (&x)[N][2], const T* from, i64 step, int col, int cols) {
  KDSL_UNROLL for (int n = 0; n < N; n++) KDSL_UNROLL for (int e = 0; e < 2; e++) {
    const int c = col + 8 * n + e;
    x[n][e] = c < cols ? (float)get(from + c * step) : 0;
  }
}
template <class T, int N>
KDSL_DEV void store_cols(const float (&x)[N][2], T* to, i64 step, int col, int cols, bool mine) {
  KDSL_UNROLL for (int n = 0; n < N; n++) KDSL_UNROLL for (int e = 0; e < 2; e++) {
    const int c = col + 8 * n + e;
    if (mine && lane() / 4 == 0 && c < cols) to[c * step] = Encode<T>::of(x[n][e]);
  }
}
/// f(m, n, i, r, c) for each element that exists.
template <int M, int N, class F>
KDSL_DEV void each_element(int row, int col, int rows, int cols, F f) {
  KDSL_UNROLL for (int m = 0; m < M; m++) KDSL_UNROLL for (int n = 0; n < N; n++) {
    KDSL_UNROLL for (int i = 0; i < 4; i++) {
      const int r = row + 16 * m + i / 2 * 8, c = col + 8 * n + i % 2;
      if (r < rows && c < cols) f(m, n, i, r, c);
    }
  }
}
template <class T, int M, int N>
KDSL_DEV void load_block(float (&x)[M][N][4], const T* from, i64 row_step, i64 col_step, int row,
                         int col, int rows, int cols) {
  set_all(x, 0);
  each_element<M, N>(row, col, rows, cols, [&](int m, int n, int i, int r, int c) {
    x[m][n][i] = (float)get(from + r * row_step + c * col_step);
  });
}
template <class T, int M, int N>
KDSL_DEV void store_block(const float (&x)[M][N][4], T* to, i64 row_step, i64 col_step, int row,
                          int col, int rows, int cols) {
  each_element<M, N>(row, col, rows, cols, [&](int m, int n, int i, int r, int c) {
    to[r * row_step + c * col_step] = Encode<T>::of(x[m][n][i]);
  });
}
/// Two f32 next to each other at once; `col_step` is 1 and rows start at multiples of 8 bytes.
template <int M, int N>
KDSL_DEV void store_pairs(const float (&x)[M][N][4], float* to, i64 row_step, int row, int col,
                          int rows, int cols) {
  KDSL_UNROLL for (int m = 0; m < M; m++) KDSL_UNROLL for (int h = 0; h < 2; h++) {
    const int r = row + 16 * m + 8 * h;
    KDSL_UNROLL for (int n = 0; n < N; n++) {
      const int c = col + 8 * n;
      float* const p = to + r * row_step + c;
      if (r < rows && c + 1 < cols)
        asm volatile("st.global.v2.f32 [%0], {%1,%2};" ::"l"(p), "f"(x[m][n][2 * h]),
                     "f"(x[m][n][2 * h + 1])
                     : "memory");
      else if (r < rows && c < cols)
        *p = x[m][n][2 * h];
    }
  }
}

/// Fragments into a tile of shared memory. Eight rows farther down the swizzle is the same.
template <class T, int M, int N>
KDSL_DEV void stage(T tile, const float (&x)[M][N][4], int row, int col) {
  KDSL_UNROLL for (int n = 0; n < N; n++) {
    const u32 at = tile.at(row, col / 8 + n) + 2 * (col % 8);
    KDSL_UNROLL for (int m = 0; m < M; m++) KDSL_UNROLL for (int h = 0; h < 2; h++) {
      sts4(at + (16 * m + 8 * h) * T::kRowBytes,
           pack<typename T::Element>(x[m][n][2 * h], x[m][n][2 * h + 1]));
    }
  }
}
/// Fragments to global memory by way of a tile, so that whole rows are written. The team waits
/// before and after the tile is filled.
template <int Threads, class T, int M, int N>
KDSL_DEV void store_staged(T tile, const float (&x)[M][N][4], int row, int col,
                           typename T::Element* to, i64 stride, int rows, int cols) {
  sync();
  stage(tile, x, row, col);
  sync();
  constexpr int per_row = T::kCols / 8, all = T::kRows * per_row, down = Threads / per_row;
  // Where a thread goes down by whole turns of the swizzle, one address serves all its chunks.
  constexpr bool simple = Threads % per_row == 0 && down % 8 == 0;
  const int r0 = member() / per_row, c0 = member() % per_row * 8;
  const u32 first = tile.at(r0, c0 / 8);
  typename T::Element* const start = to + r0 * stride + c0;
  KDSL_UNROLL for (int i = 0; i < (all + Threads - 1) / Threads; i++) {
    const int at = member() + i * Threads;
    const int r = simple ? r0 + i * down : at / per_row, c = simple ? c0 : at % per_row * 8;
    if (all % Threads != 0 && r >= T::kRows) continue;
    u32 chunk[4];
    lds16(simple ? first + i * down * T::kRowBytes : tile.at(r, c / 8), chunk);
    typename T::Element* const p = simple ? start + i * down * stride : to + r * stride + c;
    stg16(p, chunk, r < rows && c + 8 <= cols);
  }
  if (cols >= T::kCols) return;
  // What is less than a chunk at the end of a row.
#pragma unroll 1
  for (int i = member(); i < all; i += Threads) {
    const int r = i / per_row, c = i % per_row * 8;
    if (r >= rows || c + 8 <= cols) continue;
#pragma unroll 1
    for (int e = 0; e < cols - c; e++)
      to[r * stride + c + e].bits = lds2(tile.at(r, c / 8) + 2 * e);
  }
}

// ---- elementary functions of the special function unit, a few ulp

namespace fast {
KDSL_DEV float exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
KDSL_DEV float log2(float x) {
  float y;
  asm("lg2.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
KDSL_DEV float div(float a, float b) {
  float y;
  asm("div.full.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
  return y;
}
KDSL_DEV float exp(float x) { return exp2(x * 1.44269504f); }
KDSL_DEV float log(float x) { return log2(x) * 0.693147181f; }
KDSL_DEV float sigmoid(float x) { return div(1, 1 + exp(-x)); }
KDSL_DEV float tanh(float x) { return 1 - div(2, 1 + exp(2 * x)); }
}  // namespace fast

/// Whether a loop's turn masks, as the type of a lambda's parameter.
struct Masked {
  KDSL_FN constexpr operator bool() const { return true; }
};
struct Clean {
  KDSL_FN constexpr operator bool() const { return false; }
};

}  // namespace kdsl
