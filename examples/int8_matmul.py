"""A product with int8 weights: each group of rows of a column has a scale of its own."""

import kdsl
from kdsl import Out, Static, bf16, dot, f16, f32, i8

T = kdsl.dtypes("T", f16, bf16, f32)
M, N, K, GROUP = kdsl.dims("M N K GROUP")


@kdsl.kernel
def int8_matmul(
    x: T[M, K],
    w: i8[K, N],
    scale: T[K // GROUP, N],
    o: Out[T[M, N]],
    *,
    GROUP: Static[int] = 64,
):
    """o = x @ (w * scale), where row k of w has the scales of row k // GROUP.

    int8 is exact in T; the scales, constant in a group, multiply its part of the sum.
    """
    kdsl.require(K % GROUP == 0)
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        acc = kdsl.zeros(m, n)
        for k in kdsl.tiles(K, size=GROUP):
            part = dot(x[m, k], w[k, n].astype(T))
            acc += part * scale[k.start // GROUP, n]
        o[m, n] = acc


# Wide tiles: int8 rows of 48 elements would leave most of each cache line for a later task.
int8_matmul.tune("cpu", tiles={"n": 512})


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((100, 256), dtype=np.float32)
    w = rng.integers(-128, 128, (256, 333), dtype=np.int8)
    scale = rng.uniform(0.001, 0.02, (4, 333)).astype(np.float32)
    want = x.astype(np.float64) @ (w * np.repeat(scale.astype(np.float64), 64, axis=0))
    error = np.abs(int8_matmul(x, w, scale) - want).max() / np.abs(want).max()
    print(f"int8_matmul: largest error against float64 {error:.1e} of the largest value")
    assert error < 1e-6
