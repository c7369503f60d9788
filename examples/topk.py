"""The K largest of each row in order: a pass over the row for each."""

import kdsl
from kdsl import Out, Static, bf16, f16, f32, f64, i32, i64, inf, where

T = kdsl.dtypes("T", f16, bf16, f32, f64)
M, N, K = kdsl.dims("M N K")


@kdsl.kernel
def topk(x: T[M, N], values: Out[T[M, K]], indices: Out[i64[M, K]], *, K: Static[int]):
    """values[m, i] = x[m, indices[m, i]] is the i-th largest; of equal ones the first comes first.

    NaN has no place in the order; a row holds none.
    """
    kdsl.require(K <= N, N < 2**31)
    for m in kdsl.parallel(M):
        value, at = x[m].max(), -1
        for i in range(K):
            row, index = x[m], kdsl.arange(N).astype(i32)
            # One pass finds where the value is next, whether that is its last place, and the
            # largest value below it.
            same = row == value
            place = where(same & (index > at), index, N).min()
            final = where(same, index, -1).max()
            below = where(row < value, row, -inf).max()
            values[m, i] = value
            indices[m, i] = place
            more = place < final
            value, at = where(more, value, below), where(more, place, -1)


if __name__ == "__main__":
    import numpy as np

    x = np.random.default_rng(0).integers(0, 300, (200, 777)).astype(np.float32)
    values, indices = topk(x, K=8)
    want = np.argsort(-x, axis=1, kind="stable")[:, :8]
    np.testing.assert_array_equal(indices, want)
    np.testing.assert_array_equal(values, np.take_along_axis(x, want, axis=1))
    print("topk: equal to a stable sort of NumPy")
