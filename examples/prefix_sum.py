"""Running sums: of each row, and of one long array whose blocks are added up side by side."""

import kdsl
from kdsl import Out, bf16, f16, f32, f64, i32, i64

T = kdsl.dtypes("T", f16, bf16, f32, f64)
S = kdsl.dtypes("S", f32, f64, i32, i64)
M, N = kdsl.dims("M N")

BLOCK = 4096


@kdsl.kernel
def row_prefix_sum(x: T[M, N], o: Out[T[M, N]]):
    """o[m, n] = sum of x[m, : n + 1]."""
    for m in kdsl.parallel(M):
        o[m] = x[m].cumsum()


@kdsl.kernel
def prefix_sum(x: S[N], o: Out[S[N]]):
    """o[n] = sum of x[: n + 1]: sums of blocks, what stands before each, running sums of each."""
    before = kdsl.scratch(S, (N + BLOCK - 1) // BLOCK)
    for n in kdsl.parallel(kdsl.tiles(N, size=BLOCK)):
        before[n.start // BLOCK] = x[n].sum()
    for _ in kdsl.parallel(1):
        total = before[:]
        before[:] = total.cumsum() - total
    for n in kdsl.parallel(kdsl.tiles(N, size=BLOCK)):
        o[n] = before[n.start // BLOCK] + x[n].cumsum()


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 777), dtype=np.float32)
    want = np.cumsum(x, axis=1, dtype=np.float64)
    error = np.abs(row_prefix_sum(x) - want).max() / np.abs(want).max()
    numbers = rng.integers(-1000, 1000, 100_000)
    np.testing.assert_array_equal(prefix_sum(numbers), np.cumsum(numbers))
    print(f"prefix_sum: integers exact, f32 off float64 by {error:.1e} of the largest sum")
    assert error < 4e-6
