// kdsl/room.h: sizes of memory blocks, computed alike on the host and on a device.
#pragma once

#include <kdsl/args.h>

#if defined(__CUDACC__)
#define KDSL_BOTH __host__ __device__
#else
#define KDSL_BOTH
#endif

namespace kdsl {

/// n rounded up to a multiple of `by`.
KDSL_BOTH constexpr i64 whole(i64 n, i64 by) { return (n + by - 1) / by * by; }
/// Slices of `size` in n.
KDSL_BOTH constexpr i64 blocks(i64 n, i64 size) { return (n + size - 1) / size; }
KDSL_BOTH constexpr i64 at_most(i64 n, i64 most) { return n < most ? n : most; }

/// A factor 1 where indices up to n fit in 32 bits with room for a slice behind, else -1.
KDSL_BOTH constexpr i64 narrow(i64 n) { return n <= 0x7fff0000 ? 1 : -1; }
/// The product of sizes, a number of blocks; -1 where one is negative or there are 2^31 of them.
template <class... Sizes>
KDSL_BOTH constexpr i64 grid(Sizes... sizes) {
  const i64 all[] = {(i64)sizes..., 1};
  i64 count = 1;
  for (i64 n : all) count = n < 0 || count < 0 || count * n > 0x7fffffff ? -1 : count * n;
  return count;
}

/// Bytes of a tensor of T with these sizes, whole cache lines; -1 where one is negative or they do
/// not fit.
template <class T, class... Sizes>
KDSL_BOTH constexpr i64 tensor_room(Sizes... sizes) {
  const i64 all[] = {(i64)sizes..., 1};
  constexpr i64 most = (i64)1 << 60;
  i64 bytes = sizeof(T);
  for (i64 n : all) {
    if (n < 0 || (n > 0 && bytes > most / n)) return -1;
    bytes *= n;
  }
  return whole(bytes, 64);
}
/// The sum of such sizes; -1 where one of them is.
template <class... Bytes>
KDSL_BOTH constexpr i64 total_room(Bytes... bytes) {
  const i64 all[] = {(i64)bytes...};
  i64 total = 0;
  for (i64 n : all) {
    if (n < 0 || total < 0) return -1;
    total += n;
  }
  return total;
}

}  // namespace kdsl
