"""Outputs that a kernel writes as a whole."""

from __future__ import annotations

import pytest

import kdsl
from kdsl import Out, f32, i64
from kdsl.codegen.covers import covers

M, N, K = kdsl.dims("M N K")


@kdsl.kernel
def rows(x: f32[M, N], o: Out[f32[M, N]], top: Out[f32[M]], one: Out[f32[()]]):
    for m in kdsl.parallel(M):
        top[m] = x[m].max()
        o[m] = x[m] - x[m].max()
    for _ in kdsl.parallel(1):
        one[()] = 1


@kdsl.kernel
def tiled(x: f32[M, N], o: Out[f32[M, N]], half: Out[f32[M, N]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        for n in kdsl.tiles(N):
            o[m, n] = x[m, n]
        for n in kdsl.tiles(N, stop=N // 2):
            half[m, n] = x[m, n]


@kdsl.kernel
def partly(x: f32[M, M], diagonal: Out[f32[M, M]], shifted: Out[f32[M, M]], even: Out[f32[M, M]]):
    for m in kdsl.parallel(M):
        diagonal[m, m] = x[m, m]
        shifted[m, 1:] = x[m, 1:]
        if m % 2 == 0:
            even[m] = x[m]


@kdsl.kernel
def gathered(x: f32[M], i: i64[N], o: Out[f32[N]]):
    for n in kdsl.parallel(N):
        o[n] = x[i[n]]


CASES = [
    (rows, "o", True),
    (rows, "top", True),
    (rows, "one", True),
    (tiled, "o", True),
    (tiled, "half", False),
    (partly, "diagonal", False),
    (partly, "shifted", False),
    (partly, "even", False),
    (gathered, "o", False),  # an index out of range leaves its element alone
]


@pytest.mark.parametrize(
    ("kernel", "output", "whole"), CASES, ids=[f"{k.__name__}-{o}" for k, o, _ in CASES]
)
def test_only_what_is_written_whatever_the_sizes_counts_as_covered(kernel, output, whole):
    compiler = kernel.compiler
    assert covers(compiler.func(compiler.default({}, {}, {})), output) is whole
