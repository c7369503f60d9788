// Rows in f32, a block each: softmax with two reductions over the block, and a histogram. A kernel
// to check the simulator with.
constexpr int kThreads = 128;

template <class F>
__device__ __forceinline__ float over_warp(float v, F f) {
  for (int step = 16; step > 0; step /= 2) v = f(v, __shfl_xor_sync(0xffffffffu, v, step));
  return v;
}

template <class F>
__device__ __forceinline__ float over_block(float v, float* shared, F f) {
  v = over_warp(v, f);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = v;
  __syncthreads();
  v = f(f(shared[0], shared[1]), f(shared[2], shared[3]));
  __syncthreads();
  return v;
}

extern "C" __global__ void __launch_bounds__(kThreads)
    softmax(const float* x, float* y, int columns) {
  __shared__ float shared[4];
  x += (long)blockIdx.x * columns;
  y += (long)blockIdx.x * columns;
  float top = -INFINITY;
  for (int j = threadIdx.x; j < columns; j += kThreads) top = fmaxf(top, x[j]);
  top = over_block(top, shared, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int j = threadIdx.x; j < columns; j += kThreads) sum += expf(x[j] - top);
  sum = over_block(sum, shared, [](float a, float b) { return a + b; });
  for (int j = threadIdx.x; j < columns; j += kThreads) y[j] = expf(x[j] - top) / sum;
}

extern "C" __global__ void histogram(const int* x, int* counts, int n, int bins) {
  extern __shared__ int local[];
  for (int j = threadIdx.x; j < bins; j += blockDim.x) local[j] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    atomicAdd(&local[x[i]], 1);
  }
  __syncthreads();
  for (int j = threadIdx.x; j < bins; j += blockDim.x) {
    if (local[j]) atomicAdd(&counts[j], local[j]);
  }
}
