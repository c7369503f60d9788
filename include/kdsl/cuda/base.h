// kdsl/cuda/base.h: threads of a block as one team: who a thread is, barriers, shared memory.
#pragma once

#include <kdsl/args.h>

#define KDSL_DEV static __device__ __forceinline__
#define KDSL_FN __device__ __forceinline__
#define KDSL_INLINE
#define KDSL_UNROLL _Pragma("unroll")

namespace kdsl {

typedef signed char i8;
typedef short i16;
typedef int i32;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long u64;

constexpr float inf = __builtin_bit_cast(float, 0x7f800000);
constexpr float nan = inf - inf;

template <class A, class B>
struct Same {
  static constexpr bool value = false;
};
template <class A>
struct Same<A, A> {
  static constexpr bool value = true;
};

constexpr u32 kAll = 0xffffffff;

/// Threads of the block, and which of them this is.
KDSL_DEV int team() { return (int)blockDim.x; }
KDSL_DEV int member() { return (int)threadIdx.x; }
KDSL_DEV int lane() { return (int)threadIdx.x & 31; }
KDSL_DEV int warp() { return (int)threadIdx.x >> 5; }

/// What every thread wrote before is seen by every thread behind it.
KDSL_DEV void sync() { __syncthreads(); }

/// Number of this block in a grid that the host may have folded, and of blocks.
KDSL_DEV i64 block_number() { return blockIdx.x + (i64)blockIdx.y * gridDim.x; }
KDSL_DEV i64 block_count() { return (i64)gridDim.x * gridDim.y; }

KDSL_FN constexpr i64 min(i64 a, i64 b) { return a < b ? a : b; }
KDSL_FN constexpr i64 max(i64 a, i64 b) { return a > b ? a : b; }
/// A number to compare indices inside a tile with: as an int it is on the same side of all of them.
KDSL_FN constexpr int near(i64 x) { return (int)min(max(x, -1), 1 << 30); }
/// A value that is computed here, and not again wherever it is read: it keeps its register.
template <class T>
KDSL_DEV T once(T x) {
  if constexpr (sizeof(T) == 8)
    asm volatile("" : "+l"(x));
  else
    asm volatile("" : "+r"(x));
  return x;
}
/// Slices of `size` in n.
KDSL_FN constexpr i64 tiles(i64 n, i64 size) { return (n + size - 1) / size; }

/// The block's dynamic shared memory.
KDSL_DEV char* shared_memory() {
  extern __shared__ __align__(1024) char kdsl_shared[];
  return kdsl_shared;
}

template <class T>
KDSL_DEV T shuffle_xor(T x, int mask) {
  if constexpr (sizeof(T) == 8) {
    return __builtin_bit_cast(T, __shfl_xor_sync(kAll, __builtin_bit_cast(long long, x), mask));
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, __shfl_xor_sync(kAll, __builtin_bit_cast(int, x), mask));
  } else {
    return (T)__shfl_xor_sync(kAll, (int)x, mask);
  }
}
template <class T>
KDSL_DEV T shuffle_up(T x, int by) {
  if constexpr (sizeof(T) == 8) {
    return __builtin_bit_cast(T, __shfl_up_sync(kAll, __builtin_bit_cast(long long, x), by));
  } else if constexpr (sizeof(T) == 4) {
    return __builtin_bit_cast(T, __shfl_up_sync(kAll, __builtin_bit_cast(int, x), by));
  } else {
    return (T)__shfl_up_sync(kAll, (int)x, by);
  }
}

/// Remembers the first index of a call that was outside its tensor.
KDSL_DEV void record(Fault* fault, int site, i64 index, i64 size) {
  if (atomicCAS_system(&fault->found, 0, 1) != 0) return;
  fault->site = site;
  fault->index = index;
  fault->size = size;
}

}  // namespace kdsl
