"""One element or row out of a value; what may be read again for it, and what not."""

from __future__ import annotations

import numpy as np
import pytest
from kdsl import lang as kdsl
from kdsl.errors import KernelTypeError
from kdsl.frontend import capture, lower
from kdsl.frontend.reference import reference
from kdsl.lang import InOut, Out, exp, f32, i64
from tests.cpu.harness import Compiled
from tests.frontend.oracles import agree

M, N, K = kdsl.dims("M N K")
X = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)


def elements(x: f32[M, N], ids: i64[M], o: Out[f32[M, 6]], p: Out[f32[N]], q: Out[f32[M]]):
    kdsl.require(N > 2)
    for m in kdsl.parallel(M):
        row, at = x[m], ids[:]
        e = exp(row - row.max())
        o[m, 0], o[m, 1], o[m, 2] = row[0], row[-1], e[2]
        o[m, 3] = e[at[m]] / e.sum()
        o[m, 4] = x[:].max(axis=1)[m] + x[:][m][1]
        o[m, 5] = row.max(keepdims=True)[0]
        j = at[m]
        q[m] = (row[:, None] * row)[j, 1]
    for n in kdsl.parallel(kdsl.tiles(N)):
        both = x[:, n]
        p[n] = both[0] + both[-1, :] + x[0, n][0] - x[1, n][-1]


def test_elements_of_loaded_and_of_computed_values():
    ids = np.array([3, 0, 4, 1])
    o, p, q = agree(elements, X, ids, tiles={"n": 3}, rtol=1e-6)
    e = np.exp(X - X.max(axis=1, keepdims=True))
    rows = np.arange(4)
    np.testing.assert_array_equal(o[:, :2], X[:, [0, -1]])
    np.testing.assert_allclose(o[:, 3], e[rows, ids] / e.sum(axis=1), rtol=1e-6)
    np.testing.assert_allclose(o[:, 4], X.max(axis=1) + X[:, 1], rtol=1e-6)
    np.testing.assert_allclose(q, X[rows, ids] * X[:, 1], rtol=1e-6)
    np.testing.assert_allclose(p[:2], X[0, :2] + X[-1, :2] + X[0, 0] - X[1, 2], rtol=1e-6)


def test_compiled_code_takes_the_same_elements():
    kernel = Compiled(lower(capture(elements), {}, {}))
    ids, wide = np.array([3, 0, 4, 1]), np.empty((8, 5), np.float32)[::2]
    wide[:] = X
    outs = {"o": (4, 6), "p": (5,), "q": (4,)}
    got = {name: np.empty(shape, np.float32) for name, shape in outs.items()}
    kernel(x=wide, ids=ids, **got)
    want = reference(capture(elements), [X, ids], {})
    for name, w in zip(outs, want, strict=True):
        np.testing.assert_allclose(got[name], w, rtol=1e-6)
    with pytest.raises(IndexError):
        kernel(x=wide, ids=np.array([3, 0, 4, 5]), **got)


def dimensions(x: f32[N, 3], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n][:, 2] + x[:][N - 1, 0]


def test_sizes_are_indices_of_values():
    x = X[:, :3].copy()
    np.testing.assert_array_equal(agree(dimensions, x), x[:, 2] + x[-1, 0])


def outside(x: f32[M, N], at: i64[M], o: Out[f32[M]]):
    for m in kdsl.parallel(M):
        o[m] = (2 * x[m])[at[m]]


@pytest.mark.parametrize("index", [5, -1])
def test_an_index_outside_is_an_error_in_both_runs(index):
    with pytest.raises(IndexError):
        agree(outside, X, np.array([0, 1, 2, index]))


def swapped(x: InOut[f32[N]], o: Out[f32[N]]):
    for _ in kdsl.parallel(1):
        row = x[:]
        o[:] = row + row[0]
        x[:] = o[:] * 2


def test_a_tensor_that_is_written_afterwards_may_be_read_again():
    agree(swapped, X[0])


def refused(fn):
    with pytest.raises(KernelTypeError) as caught:
        lower(capture(fn), {}, {})
    lines = str(caught.value).splitlines()
    return lines[0], lines[-1]


def test_what_has_no_single_elements_says_the_way_out():
    def changed(x: InOut[f32[N]], o: Out[f32[N]]):
        for _ in kdsl.parallel(1):
            row = x[:]
            x[:] = row * 2
            o[:] = row[0]

    def in_a_loop(x: InOut[f32[N]]):
        for _ in kdsl.parallel(1):
            row = x[:]
            for i in range(3):
                x[i] = row[i] + 1

    def carried(x: f32[M, N], o: Out[f32[N]]):
        for _ in kdsl.parallel(1):
            total = kdsl.zeros(N)
            for m in range(M):
                total += x[m]
            o[:] = total[0]

    def of_a_tile(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] + x[n][1]

    def of_a_part(x: f32[N], at: i64[1], o: Out[f32[N]]):
        kdsl.require(N > 4)
        for _ in kdsl.parallel(1):
            j = at[0]
            o[:] = x[2:][j]

    def running(x: f32[N], o: Out[f32[N]]):
        for _ in kdsl.parallel(1):
            o[:] = x[:].cumsum()[2]

    reading = "this would read `x` again, which has been written"
    scratch = "use it before the tensor is written, or write it to a scratch tensor first"
    assert refused(changed) == (reading, f"help: {scratch}")
    assert refused(in_a_loop) == (reading, f"help: {scratch}")
    assert refused(carried)[1] == (
        "help: write it to a scratch tensor first, or index the tensor itself"
    )
    assert refused(of_a_tile) == (
        "of a tile, only the first and the last element are known to be there",
        "help: index the tensor: its element is `n.start + i`",
    )
    assert refused(of_a_part) == (
        "nothing would check this index",
        "help: write it to a scratch tensor first, or index the tensor itself",
    )
    assert refused(running)[1] == "help: write it to a scratch tensor first"
