"""A matrix product split over its inner dimension: for small outputs of long sums."""

import kdsl
from kdsl import Out, Static, bf16, dot, f16, f32

T = kdsl.dtypes("T", f16, bf16, f32)
M, N, K, PARTS = kdsl.dims("M N K PARTS")


@kdsl.kernel
def splitk_matmul(x: T[M, K], w: T[K, N], o: Out[T[M, N]], *, PARTS: Static[int] = 4):
    """o = x @ w: `PARTS` partial products side by side, then their sum."""
    partial = kdsl.scratch(f32, PARTS, M, N)
    for p, m, n in kdsl.parallel(PARTS, kdsl.tiles(M), kdsl.tiles(N)):
        acc = kdsl.zeros(m, n)
        for k in kdsl.tiles(K, start=K * p // PARTS, stop=K * (p + 1) // PARTS):
            acc += dot(x[m, k], w[k, n])
        partial[p, m, n] = acc
    for row in kdsl.parallel(M):
        o[row] = partial[:, row].sum(axis=0)


# Outputs are small here: few of them should fall between two tiles.
splitk_matmul.tune("cpu", tiles={"m": 64, "n": 64})


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 5000), dtype=np.float32)
    w = rng.standard_normal((5000, 40), dtype=np.float32)
    want = x.astype(np.float64) @ w
    error = np.abs(splitk_matmul(x, w) - want).max() / np.abs(want).max()
    print(f"splitk_matmul: largest error against float64 {error:.1e} of the largest value")
    assert error < 2e-6
