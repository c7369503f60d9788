"""Sums of columns: partial sums of some rows each, then one sum of those."""

import kdsl
from kdsl import Out, bf16, f16, f32

T = kdsl.dtypes("T", f16, bf16, f32)
M, N = kdsl.dims("M N")

PARTS = 16


@kdsl.kernel
def column_sum(x: T[M, N], o: Out[T[N]]):
    """o[n] = sum of x[:, n], added in f32."""
    partial = kdsl.scratch(f32, PARTS, N)
    for p in kdsl.parallel(PARTS):
        total = kdsl.zeros(N)
        for m in range(M * p // PARTS, M * (p + 1) // PARTS):
            total += x[m]
        partial[p] = total
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = partial[:, n].sum(axis=0)


if __name__ == "__main__":
    import numpy as np

    x = np.random.default_rng(0).standard_normal((1000, 777), dtype=np.float32)
    want = x.sum(axis=0, dtype=np.float64)
    error = np.abs(column_sum(x) - want).max() / np.abs(want).max()
    print(f"column_sum: largest error against float64 {error:.1e} of the largest sum")
    assert error < 2e-6
