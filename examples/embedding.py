"""Rows of a table by number; a number outside the table is an IndexError."""

import kdsl
from kdsl import Out, bf16, f16, f32, f64, i64

T = kdsl.dtypes("T", f16, bf16, f32, f64)
N, V, D = kdsl.dims("N V D")


@kdsl.kernel
def embedding(table: T[V, D], ids: i64[N], o: Out[T[N, D]]):
    """o[n] = table[ids[n]]."""
    for n in kdsl.parallel(N):
        o[n] = table[ids[n]]


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    table = rng.standard_normal((1000, 77), dtype=np.float32)
    ids = rng.integers(0, 1000, 333)
    np.testing.assert_array_equal(embedding(table, ids), table[ids])
    ids[5] = 1000
    try:
        embedding(table, ids)
    except IndexError as error:
        print(f"embedding: equal to NumPy, bit for bit; and {error}")
    else:
        raise AssertionError("an id outside the table went unnoticed")
