"""Softmax over the last axis, whatever its length: no loop over a row, no block size."""

import kdsl
from kdsl import Out, bf16, exp, f16, f32, f64

T = kdsl.dtypes("T", f16, bf16, f32, f64)
M, N = kdsl.dims("M N")


@kdsl.kernel
def softmax(x: T[M, N], o: Out[T[M, N]]):
    """o[m] = exp(x[m]) / sum(exp(x[m])), without overflow."""
    for m in kdsl.parallel(M):
        row = x[m]
        e = exp(row - row.max())
        o[m] = e / e.sum()


if __name__ == "__main__":
    import numpy as np

    x = np.random.default_rng(0).standard_normal((1000, 777), dtype=np.float32)
    e = np.exp(x - x.max(axis=1, keepdims=True), dtype=np.float64)
    want = e / e.sum(axis=1, keepdims=True)
    error = np.abs(softmax(x) / want - 1).max()
    print(f"softmax: largest relative error against float64 {error:.1e}")
    assert error < 2e-6
