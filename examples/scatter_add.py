"""Rows added to a table at given places, several to one place: the gradient of an embedding."""

import kdsl
from kdsl import InOut, bf16, f16, f32, i64

T = kdsl.dtypes("T", f16, bf16, f32)
N, V, D = kdsl.dims("N V D")


@kdsl.kernel
def scatter_add(ids: i64[N], x: T[N, D], table: InOut[f32[V, D]]):
    """table[ids[n]] += x[n] for every n; an id outside the table is an IndexError."""
    for n in kdsl.parallel(N):
        kdsl.atomic_add(table[ids[n]], x[n])


@kdsl.kernel
def scatter_add_in_order(ids: i64[N], x: T[N, D], table: InOut[f32[V, D]]):
    """The same, one addition after another in columns that a task owns: equal bits every time."""
    for d in kdsl.parallel(kdsl.tiles(D)):
        for n in range(N):
            table[ids[n], d] = table[ids[n], d] + x[n, d]


# Whole rows of a usual table; what one column costs is mostly the way to its row.
scatter_add_in_order.tune("cpu", tiles={"d": 512})


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    ids, x = rng.integers(0, 50, 1000), rng.standard_normal((1000, 77), dtype=np.float32)
    table, ordered = np.zeros((2, 50, 77), np.float32)
    want = np.zeros((50, 77))
    np.add.at(want, ids, x)
    scatter_add(ids, x, table)
    scatter_add_in_order(ids, x, ordered)
    np.testing.assert_allclose(ordered, table, atol=1e-4)
    error = np.abs(table - want).max() / np.abs(want).max()
    print(f"scatter_add: largest error against float64 {error:.1e} of the largest sum")
    assert error < 2e-6
