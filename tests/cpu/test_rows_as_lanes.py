"""Buffers whose rows are the lanes of a nest: no vector reaches behind their last row."""

from __future__ import annotations

import numpy as np
import pytest
from kdsl import lang as kdsl
from kdsl.frontend import capture, lower
from kdsl.ir.interp import run
from kdsl.lang import Out, dot, i8, i32
from tests.cpu.harness import Compiled

G, M, N, K, D = kdsl.dims("G M N K D")


def square(a: i8[G, D, D], b: i8[G, D, D], o: Out[i32[G, D, D]]):
    for g in kdsl.parallel(G):
        o[g] = dot(a[g], b[g])


def tiled(a: i8[M, K], b: i8[N, K], o: Out[i32[M, N]]):
    for m, n in kdsl.parallel(kdsl.tiles(M, size=5), kdsl.tiles(N)):
        acc = kdsl.zeros(m, n, dtype=i32)
        for k in kdsl.tiles(K):
            acc += dot(a[m, k], b[n, k].T)
        o[m, n] = acc


# The harness looks behind the memory that a kernel asked for.
@pytest.mark.parametrize(("kernel", "a", "b", "o"), [
    (square, (3, 5, 5), (3, 5, 5), (3, 5, 5)),
    (square, (1, 40, 40), (1, 40, 40), (1, 40, 40)),
    (square, (2, 1, 1), (2, 1, 1), (2, 1, 1)),
    (tiled, (13, 60), (70, 60), (13, 70)),
])  # fmt: skip
def test_nothing_behind_the_last_row_is_touched(kernel, a, b, o):
    func = lower(capture(kernel), {}, {})
    rng = np.random.default_rng(0)
    args = {n: rng.integers(-9, 9, s).astype(np.int8) for n, s in (("a", a), ("b", b))}
    want, got = np.zeros(o, np.int32), np.zeros(o, np.int32)
    run(func, args | {"o": want})
    Compiled(func)(**args, o=got)
    np.testing.assert_array_equal(got, want)
