"""Two phases and a scratch buffer: partial sums in parallel, then one sum of them."""

import kdsl
from kdsl import Out, bf16, f16, f32

T = kdsl.dtypes("T", f16, bf16, f32)
M, N = kdsl.dims("M N")


@kdsl.kernel
def mean_of_squares(x: T[M, N], o: Out[f32[()]]):
    """o = mean of x squared over all elements; the mean of none is 0."""
    partial = kdsl.scratch(f32, M)
    for m in kdsl.parallel(M):
        row = x[m]
        partial[m] = (row * row).sum()
    for _ in kdsl.parallel(1):
        total = partial[:].sum()
        o[()] = total / kdsl.maximum(M * N, 1)


if __name__ == "__main__":
    import numpy as np

    x = np.random.default_rng(0).standard_normal((1000, 777), dtype=np.float32)
    want = (x.astype(np.float64) ** 2).mean()
    error = abs(float(mean_of_squares(x)) / want - 1)
    print(f"mean_of_squares: relative error against float64 {error:.1e}")
    assert error < 1e-6
