"""Sums of columns: each task takes some columns and walks down the rows, tile by tile."""

import kdsl
from kdsl import Out, bf16, f16, f32

T = kdsl.dtypes("T", f16, bf16, f32)
M, N = kdsl.dims("M N")


@kdsl.kernel
def column_sum(x: T[M, N], o: Out[T[N]]):
    """o[n] = sum of x[:, n], added in f32."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        total = kdsl.zeros(n, dtype=f32)
        for m in kdsl.tiles(M):
            total += x[m, n].sum(axis=0)
        o[n] = total


if __name__ == "__main__":
    import numpy as np

    x = np.random.default_rng(0).standard_normal((1000, 777), dtype=np.float32)
    want = x.sum(axis=0, dtype=np.float64)
    error = np.abs(column_sum(x) - want).max() / np.abs(want).max()
    print(f"column_sum: largest error against float64 {error:.1e} of the largest sum")
    assert error < 2e-6
