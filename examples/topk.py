"""The K largest of each row in order: the largest, then the largest after it, and so on."""

import kdsl
from kdsl import Out, Static, bf16, f16, f32, i64, inf, where

T = kdsl.dtypes("T", f16, bf16, f32)
M, N, K = kdsl.dims("M N K")


@kdsl.kernel
def topk(x: T[M, N], values: Out[T[M, K]], indices: Out[i64[M, K]], *, K: Static[int]):
    """values[m, i] = x[m, indices[m, i]] is the i-th largest; of equal ones the first comes first.

    NaN has no place in the order; a row holds none.
    """
    kdsl.require(K <= N)
    for m in kdsl.parallel(M):
        last, at = x[m].max(), -1
        for i in range(K):
            row, index = x[m], kdsl.arange(N)
            later = (row < last) | (row == last) & (index > at)
            best = where(later, row, -inf).max()
            at = where(later & (row == best), index, N).min()
            last = best
            values[m, i] = best
            indices[m, i] = at


if __name__ == "__main__":
    import numpy as np

    x = np.random.default_rng(0).integers(0, 300, (200, 777)).astype(np.float32)
    values, indices = topk(x, K=8)
    want = np.argsort(-x, axis=1, kind="stable")[:, :8]
    np.testing.assert_array_equal(indices, want)
    np.testing.assert_array_equal(values, np.take_along_axis(x, want, axis=1))
    print("topk: equal to a stable sort of NumPy")
