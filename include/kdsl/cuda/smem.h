// kdsl/cuda/smem.h: tiles of 16-bit elements in shared memory, swizzled, and copies into them.
#pragma once

#include <kdsl/cuda/memory.h>

namespace kdsl {

/// Addresses of shared memory are 32-bit numbers: generic pointers would cost twice the registers.
KDSL_DEV u32 smem_base() { return (u32)__cvta_generic_to_shared(shared_memory()); }

KDSL_DEV void lds16(u32 at, u32 (&x)[4]) {
  asm volatile("ld.shared.v4.b32 {%0,%1,%2,%3}, [%4];"
               : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
               : "r"(at)
               : "memory");
}
KDSL_DEV u16 lds2(u32 at) {
  u16 x;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(x) : "r"(at) : "memory");
  return x;
}
KDSL_DEV void sts4(u32 at, u32 x) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(x) : "memory");
}
/// 16 bytes at once, or nothing: nvcc would split a plain store of a struct, and branch around it.
KDSL_DEV void stg16(void* p, const u32 (&x)[4], bool real) {
  asm volatile(
      "{\n\t.reg .pred real;\n\tsetp.ne.s32 real, %5, 0;\n\t"
      "@real st.global.v4.b32 [%0], {%1,%2,%3,%4};\n\t}" ::"l"(p),
      "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"((int)real)
      : "memory");
}

/// Copies of 16 bytes from global memory that run on their own; groups end in order.
KDSL_DEV void copy16(u32 to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}
/// The first `bytes` of them; the rest becomes 0.
KDSL_DEV void copy16(u32 to, const void* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes)
               : "memory");
}
KDSL_DEV void copies_end_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// All but the latest N groups of this thread have landed.
template <int N>
KDSL_DEV void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// R x C elements: panels of 64 columns (or one of 32 or 16), a row of a panel behind the other,
/// its 16-byte chunks XORed by the row so that 8 rows of one chunk lie in 8 different sets of
/// banks.
template <class H, int R, int C>
struct Tile {
  static_assert(C % 16 == 0 && R % 8 == 0 && sizeof(H) == 2);
  typedef H Element;
  static constexpr int kRows = R, kCols = C;
  static constexpr int kWidth = C <= 16 ? 16 : C <= 32 ? 32 : 64;  // columns of a panel
  static constexpr int kChunks = kWidth / 8, kRowBytes = kWidth * 2;
  static constexpr int kPanel = R * kRowBytes, kBytes = (C + kWidth - 1) / kWidth * kPanel;
  u32 base;
  /// Address of 8 elements: columns 8 * chunk... of a row.
  KDSL_FN u32 at(int row, int chunk) const {
    const int turn = row / (8 / kChunks) % kChunks;
    return base + chunk / kChunks * kPanel + row * kRowBytes + ((chunk ^ turn) % kChunks) * 16;
  }
  KDSL_FN Tile slot(int i) const { return {base + i * kBytes}; }
};

/// A number of the compiler's, or of the call.
template <int N>
struct Fixed {
  KDSL_FN constexpr operator i64() const { return N; }
};

/// The team copies row-major tiles, one after the other: each is `next` elements behind the last.
/// What of the addresses is this thread's is computed once.
template <int Threads, class T, class Stride, class Next>
struct Copier {
  static constexpr int kPerRow = T::kCols / 8, kAll = T::kRows * kPerRow;
  static constexpr int kSteps = (kAll + Threads - 1) / Threads, kRowStep = Threads / kPerRow;
  /// Each step is the same chunk of a row farther down, at the same turn of the swizzle.
  static constexpr bool kSimple =
      Threads % kPerRow == 0 && kRowStep % 8 == 0 && T::kRows % kRowStep == 0;
  const typename T::Element* from;
  Stride stride;
  Next next;
  T tile;
  u32 to;
  KDSL_FN Copier(T tile, const typename T::Element* from, Stride stride, Next next)
      : from(from + row(0) * (i64)stride + col(0)),
        stride(stride),
        next(next),
        tile(tile),
        to(tile.at(row(0), col(0) / 8)) {}
  KDSL_FN static int row(int i) {
    if constexpr (kSimple) return member() / kPerRow + i * kRowStep;
    return (member() + i * Threads) / kPerRow;
  }
  KDSL_FN static int col(int i) {
    return (kSimple ? member() : member() + i * Threads) % kPerRow * 8;
  }
  /// Rows from this thread's first chunk to its i-th.
  KDSL_FN static int down(int i) { return kSimple ? i * kRowStep : row(i) - row(0); }
  KDSL_FN bool has(int i) const { return kAll % Threads == 0 || member() + i * Threads < kAll; }
  KDSL_FN u32 target(int i, int slot) const {
    if constexpr (kSimple) return to + slot * T::kBytes + i * kRowStep * T::kRowBytes;
    return tile.at(row(i), col(i) / 8) + slot * T::kBytes;
  }
  /// Calls f(target, source, i) for each chunk, and goes on to the next tile.
  template <class F>
  KDSL_FN void each(int slot, F f) {
    const typename T::Element* at = from;  // a chain of sums is shorter than as many products
    KDSL_UNROLL for (int i = 0; i < kSteps; i++) {
      if (!kSimple) at = from + (i64)stride * down(i) + (col(i) - col(0));
      if (has(i)) f(target(i, slot), at, i);
      if (kSimple) at = once(at + (i64)stride * kRowStep);
    }
    from += (i64)next;
  }
  /// The next tile, of which all is there.
  KDSL_FN void operator()(int slot = 0) {
    each(slot, [](u32 to, const void* from, int) { copy16(to, from); });
  }
  /// One of which `rows` are left; behind them are zeros. Nothing is read for those.
  KDSL_FN void rows(int rows, int slot = 0) {
    const int left = rows - row(0);
    each(slot, [&](u32 to, const void* from, int i) { copy16(to, from, down(i) < left ? 16 : 0); });
  }
  /// One of which `rows` and `cols` are left.
  KDSL_FN void part(int rows, int cols, int slot = 0) {
    each(slot, [&](u32 to, const void* from, int i) {
      const int left = row(i) < rows ? min_of(max_of(cols - col(i), 0), 8) : 0;
      copy16(to, from, left * 2);
    });
  }
  KDSL_FN static int min_of(int a, int b) { return a < b ? a : b; }
  KDSL_FN static int max_of(int a, int b) { return a > b ? a : b; }
};
template <int Threads, class T, class Stride, class Next = Fixed<0>>
KDSL_DEV Copier<Threads, T, Stride, Next> copier(T tile, const typename T::Element* from,
                                                 Stride stride, Next next = {}) {
  return {tile, from, stride, next};
}

}  // namespace kdsl
