"""RMS normalisation of rows with a weight."""

import kdsl
from kdsl import Out, bf16, f16, f32, rsqrt

T = kdsl.dtypes("T", f16, bf16, f32)
M, N = kdsl.dims("M N")


@kdsl.kernel
def rmsnorm(x: T[M, N], w: T[N], o: Out[T[M, N]], eps: f32 = 1e-6):
    """o[m] = x[m] / sqrt(mean(x[m]**2) + eps) * w."""
    for m in kdsl.parallel(M):
        row = x[m]
        o[m] = row * rsqrt((row * row).sum() / N + eps) * w[:]


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, 777), dtype=np.float32)
    w = rng.standard_normal(777, dtype=np.float32)
    wide = x.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-6) * w
    error = np.abs(rmsnorm(x, w) / want - 1).max()
    print(f"rmsnorm: largest relative error against float64 {error:.1e}")
    assert error < 2e-6
