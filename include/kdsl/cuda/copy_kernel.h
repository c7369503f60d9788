// kdsl/cuda/copy_kernel.h: the kernel `kdsl_copy` of a module; see copy.h for what it is given.
#pragma once

#include <kdsl/cuda/copy.h>

/// Any grid of any block. No element of `to` lies over one of `from` or another of `to`.
extern "C" __global__ void kdsl_copy(const __grid_constant__ kdsl::CopyArgs a) {
  using kdsl::i64;
  const i64 block = blockIdx.x + (i64)blockIdx.y * gridDim.x;
  const i64 step = (i64)gridDim.x * gridDim.y * blockDim.x;
  for (i64 at = block * blockDim.x + threadIdx.x; at < a.count; at += step) {
    i64 rest = at, to = 0, from = 0;
#pragma unroll 1
    for (int i = a.ndim - 1; i >= 0; i--) {
      const i64 index = i ? rest % a.sizes[i] : rest;
      rest = i ? rest / a.sizes[i] : 0;
      to += index * a.to_strides[i];
      from += index * a.from_strides[i];
    }
    switch (a.element_bytes) {
      case 1:
        ((unsigned char*)a.to)[to] = ((const unsigned char*)a.from)[from];
        break;
      case 2:
        ((unsigned short*)a.to)[to] = ((const unsigned short*)a.from)[from];
        break;
      case 4:
        ((unsigned*)a.to)[to] = ((const unsigned*)a.from)[from];
        break;
      default:
        ((unsigned long*)a.to)[to] = ((const unsigned long*)a.from)[from];
    }
  }
}
