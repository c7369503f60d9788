"""The smallest kernel: two tensors of any shape up to broadcasting rows, added."""

import kdsl
from kdsl import Out, bf16, f16, f32, f64

T = kdsl.dtypes("T", f16, bf16, f32, f64)
M, N = kdsl.dims("M N")


@kdsl.kernel
def add(x: T[M, N], y: T[N], o: Out[T[M, N]]):
    """o = x + y, y once a row."""
    for m in kdsl.parallel(M):
        o[m] = x[m] + y[:]


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((1000, 777), dtype=np.float32)
    y = rng.standard_normal(777, dtype=np.float32)
    np.testing.assert_array_equal(add(x, y), x + y)
    print("add: equal to NumPy, bit for bit")
