"""Tiles of a part of an axis: halves side by side, as packed weights and gates have them."""

from __future__ import annotations

import numpy as np
import pytest

import kdsl
from kdsl import Out, dot, exp, f16, f32

M, N, K, V = kdsl.dims("M N K V")


@kdsl.kernel
def glu(x: f32[M, V], o: Out[f32[M, V // 2]]):
    """The first half times the second; of an odd number of columns the last is left out."""
    for m in kdsl.parallel(M):
        for n in kdsl.tiles(V // 2):
            o[m, n] = x[m, n] * x[m, n + V // 2]


@kdsl.kernel
def thirds(x: f32[M, V], o: Out[f32[M, V // 3]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        for n in kdsl.tiles(V // 3):
            o[m, n] = x[m, n] + x[m, n + V // 3] - x[m, n + 2 * (V // 3)]


@kdsl.kernel
def side_by_side(a: f32[M, K], b: f32[M, N], o: Out[f32[M, K + N]]):
    for m in kdsl.parallel(M):
        for k in kdsl.tiles(K):
            o[m, k] = a[m, k]
        for n in kdsl.tiles(N):
            o[m, n + K] = b[m, n]


@kdsl.kernel
def swiglu(x: f16[M, K], w: f16[K, V], o: Out[f16[M, V // 2]]):
    """Two products of one pass over x, with the columns of both in one tensor."""
    kdsl.require(V % 2 == 0)
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(V // 2)):
        left, gate = kdsl.zeros(m, n), kdsl.zeros(m, n)
        for k in kdsl.tiles(K):
            part = x[m, k]
            left += dot(part, w[k, n])
            gate += dot(part, w[k, n + V // 2])
        o[m, n] = left * gate / (1 + exp(-gate))


def rows(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("size", [0, 1, 2, 9, 64, 131])
def test_tiles_of_a_fraction_of_an_axis_are_what_numpy_slices(size):
    x, half, third = rows(3, size), size // 2, size // 3
    np.testing.assert_array_equal(glu(x), x[:, :half] * x[:, half : 2 * half])
    parts = [x[:, third * i : third * (i + 1)] for i in range(3)]
    np.testing.assert_array_equal(thirds(x), parts[0] + parts[1] - parts[2])
    assert glu.check(x).ok and thirds.check(x).ok


def test_tiles_of_each_summand_fill_an_axis_of_the_sum():
    for k, n in ((3, 40), (0, 5), (17, 0)):
        a, b = rows(2, k), rows(2, n)
        np.testing.assert_array_equal(side_by_side(a, b), np.concatenate([a, b], axis=1))
        np.testing.assert_array_equal(side_by_side.reference(a, b), np.concatenate([a, b], axis=1))


@pytest.mark.parametrize("half", [32, 35, 36])
def test_packed_products_are_right_on_both_targets(half):
    # 35 and 36: the second half begins where 16 bytes at a time cannot be read.
    x, w = rows(20, 48, dtype=np.float16) / 4, rows(48, 2 * half, dtype=np.float16)
    left, gate = np.split(x.astype(np.float64) @ w, 2, axis=1)
    # f16 results of sums of 48 products of f16, kept in f32.
    np.testing.assert_allclose(swiglu(x, w), left * gate / (1 + np.exp(-gate)), 2e-3, 2e-3)
    assert "mma.sync" in swiglu.show("ptx:sm_80")
    assert swiglu.check_cuda(x, w).ok and glu.check_cuda(rows(3, 2 * half)).ok
