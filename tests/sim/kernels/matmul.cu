// c = a b in f16 with f32 sums: 64 x 64 tiles, two slots of shared memory filled by cp.async, rows
// past the end filled with zeros, the result written through shared memory. A kernel to check the
// simulator with: tests remove its waits and barriers one by one.
typedef unsigned int u32;
typedef unsigned short u16;

constexpr int kM = 64, kN = 64, kK = 32, kThreads = 128;

/// Bytes of (row, column) in a tile of `columns` halves: 16-byte chunks XORed by the row.
__device__ __forceinline__ u32 at(int row, int column, int columns) {
  const int chunks = columns / 8, mask = chunks < 8 ? chunks - 1 : 7;
  const int key = chunks < 8 ? row / (8 / chunks) : row;
  return (row * columns + (((column / 8) ^ (key & mask)) * 8) + column % 8) * 2;
}

__device__ __forceinline__ void copy16(u32 to, const u16* from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ __forceinline__ void load_tiles(u32 slot, const u16* a, const u16* b, int m0, int n0,
                                           int k0, int m, int n, int k) {
  for (int i = threadIdx.x; i < kM * kK / 8; i += kThreads) {
    const int row = i / (kK / 8), column = i % (kK / 8) * 8;
    const bool inside = m0 + row < m && k0 + column < k;
    copy16(slot + at(row, column, kK), inside ? a + (long)(m0 + row) * k + k0 + column : a,
           inside ? 16 : 0);
  }
  for (int i = threadIdx.x; i < kK * kN / 8; i += kThreads) {
    const int row = i / (kN / 8), column = i % (kN / 8) * 8;
    const bool inside = k0 + row < k && n0 + column < n;
    copy16(slot + kM * kK * 2 + at(row, column, kN),
           inside ? b + (long)(k0 + row) * n + n0 + column : b, inside ? 16 : 0);
  }
  asm volatile("cp.async.commit_group;");
}

extern "C" __global__ void __launch_bounds__(kThreads)
    matmul(const u16* a, const u16* b, u16* c, int m, int n, int k) {
  __shared__ __align__(128) unsigned char smem[2 * (kM * kK + kK * kN) * 2];
  const u32 base = (u32)__cvta_generic_to_shared(smem), slot_bytes = (kM * kK + kK * kN) * 2;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int m0 = blockIdx.y * kM, n0 = blockIdx.x * kN;
  float sum[8][4] = {};

  load_tiles(base, a, b, m0, n0, 0, m, n, k);
  int slot = 0;
  for (int k0 = 0; k0 < k; k0 += kK, slot ^= 1) {
    load_tiles(base + (slot ^ 1) * slot_bytes, a, b, m0, n0, k0 + kK, m, n, k);
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();
    const u32 tile_a = base + slot * slot_bytes, tile_b = tile_a + kM * kK * 2;
#pragma unroll
    for (int kk = 0; kk < kK; kk += 16) {
      u32 x[4], y[4];
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                   : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                   : "r"(tile_a + at(16 * warp + lane % 16, kk + lane / 16 * 8, kK)));
#pragma unroll
      for (int j = 0; j < kN; j += 16) {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(y[0]), "=r"(y[1]), "=r"(y[2]), "=r"(y[3])
                     : "r"(tile_b + at(kk + lane % 16, j + lane / 16 * 8, kN)));
#pragma unroll
        for (int h = 0; h < 2; h++) {
          float* s = sum[j / 8 + h];
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
              "{%8,%9}, {%0,%1,%2,%3};"
              : "+f"(s[0]), "+f"(s[1]), "+f"(s[2]), "+f"(s[3])
              : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * h]), "r"(y[2 * h + 1]));
        }
      }
    }
    __syncthreads();
  }

  asm volatile("cp.async.wait_all;");
  __syncthreads();
#pragma unroll
  for (int j = 0; j < 8; j++) {
#pragma unroll
    for (int h = 0; h < 2; h++) {
      u32 pair;
      asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(sum[j][2 * h + 1]), "f"(sum[j][2 * h]));
      const int row = 16 * warp + 8 * h + lane / 4, column = 8 * j + lane % 4 * 2;
      asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + at(row, column, kN)), "r"(pair));
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < kM * kN / 8; i += kThreads) {
    const int row = i / (kN / 8), column = i % (kN / 8) * 8;
    if (m0 + row >= m || n0 + column >= n) continue;
    u32 v[4];
    asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
                 : "r"(base + at(row, column, kN)));
    u16* to = c + (long)(m0 + row) * n + n0 + column;
    asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(v[0]), "r"(v[1]), "r"(v[2]),
                 "r"(v[3]));
  }
}
