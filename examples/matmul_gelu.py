"""Matrix product with a bias and GELU as its epilogue: one pass over the output."""

import kdsl
from kdsl import Out, bf16, dot, erf, f16, f32

T = kdsl.dtypes("T", f16, bf16, f32)
M, N, K = kdsl.dims("M N K")

SQRT_HALF = 0.7071067811865476


@kdsl.inline
def gelu(x):
    """x times the normal distribution's cumulative function."""
    return 0.5 * x * (1 + erf(x * SQRT_HALF))


@kdsl.kernel
def matmul_gelu(x: T[M, K], w: T[K, N], bias: T[N], o: Out[T[M, N]]):
    """o = gelu(x @ w + bias), accumulated in f32."""
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        acc = kdsl.zeros(m, n)
        for k in kdsl.tiles(K):
            acc += dot(x[m, k], w[k, n])
        o[m, n] = gelu(acc + bias[n])


if __name__ == "__main__":
    import math

    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 500), dtype=np.float32)
    w = rng.standard_normal((500, 400), dtype=np.float32)
    bias = rng.standard_normal(400, dtype=np.float32)
    y = x.astype(np.float64) @ w + bias
    want = 0.5 * y * (1 + np.vectorize(math.erf)(y * SQRT_HALF))
    error = np.abs(matmul_gelu(x, w, bias) - want).max() / np.abs(want).max()
    print(f"matmul_gelu: largest error against float64 {error:.1e} of the largest value")
    assert error < 1e-6
