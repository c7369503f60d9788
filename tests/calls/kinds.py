"""A kernel of every kind there is, with arguments that are right: what wrong calls start from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import kdsl
from kdsl import InOut, Out, Static, bf16, dot, exp2, f16, f32, i8, i32, i64, inf, maximum, where

T = kdsl.dtypes("T", f32, bf16)
B, H, M, N, D, K, V, G, P = kdsl.dims("B H M N D K V G P")

Arrays = dict[str, np.ndarray]


@kdsl.kernel
def rows(x: T[M, N], w: T[N], o: Out[T[M, N]], s: Out[f32[M]]):
    for m in kdsl.parallel(M):
        row = x[m] * w[:]
        o[m] = row
        s[m] = row.sum()


@kdsl.kernel
def matmul(a: f32[M, K], b: f32[K, N], bias: f32[N], o: Out[f32[M, N]]):
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        acc = kdsl.zeros(m, n)
        for k in kdsl.tiles(K):
            acc += dot(a[m, k], b[k, n])
        o[m, n] = acc + bias[n]


@kdsl.kernel
def attention(q: f32[B, M, D], k: f32[B, N, D], v: f32[B, N, D], scale: f32, o: Out[f32[B, M, D]]):
    kdsl.require(scale > 0)
    for b, m in kdsl.parallel(B, kdsl.tiles(M)):
        acc, den, top = kdsl.zeros(m, D), kdsl.zeros(m), kdsl.full(m, -inf)
        for n in kdsl.tiles(N):
            s = dot(q[b, m], k[b, n].T) * (scale * kdsl.LOG2E)
            new = maximum(top, s.max(axis=1))
            p, fix = exp2(s - new[:, None]), exp2(top - new)
            den = den * fix + p.sum(axis=1)
            acc = acc * fix[:, None] + dot(p, v[b, n])
            top = new
        o[b, m] = acc / den[:, None]


@kdsl.kernel
def gather(ids: i64[M], table: f32[V, D], o: Out[f32[M, D]]):
    for m in kdsl.parallel(M):
        o[m] = table[ids[m]]


@kdsl.kernel
def scatter(ids: i32[M], x: f32[M, D], table: InOut[f32[V, D]]):
    for m in kdsl.parallel(M):
        kdsl.atomic_add(table[ids[m]], x[m])


@kdsl.kernel
def scan(x: f32[M, N], o: Out[f32[M, N]]):
    for m in kdsl.parallel(M):
        o[m] = x[m].cumsum()


@kdsl.kernel
def int8(
    x: f32[M, K], w: i8[K, N], scale: f32[K // G, N], o: Out[f32[M, N]], *, G: Static[int] = 2
):
    kdsl.require(K % G == 0)
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        acc = kdsl.zeros(m, n)
        for k in kdsl.tiles(K, size=G):
            acc += dot(x[m, k], w[k, n].astype(f32)) * scale[k.start // G, n]
        o[m, n] = acc


@kdsl.kernel
def in_place(c: f32[N], x: InOut[f32[M, N]]):
    for m in kdsl.parallel(M):
        x[m] = x[m] * c[:] + 1


@kdsl.kernel
def optional(x: f32[M, N], o: Out[f32[M, N]], bias: f32[N] | None = None):
    for m in kdsl.parallel(M):
        o[m] = x[m] if bias is None else x[m] + bias[:]


@kdsl.kernel
def with_function(x: f32[M, N], w: f32[N], o: Out[f32[M, N]], *, f: Static[Callable]):
    for m in kdsl.parallel(M):
        o[m] = f(x[m], w[:])


def add_twice(a, b):
    return a + b + b


function = with_function.bind(f=add_twice, name="function")


@kdsl.kernel
def zero_d(x: f32[M, N], unit: f32[()], o: Out[f32[()]]):
    part = kdsl.scratch(f32, M)
    for m in kdsl.parallel(M):
        part[m] = x[m].sum()
    for _ in kdsl.parallel(1):
        o[()] = part[:].sum() * unit[()]


@kdsl.kernel
def scalars(
    x: f32[M, N], a: f32, h: f16, i: i32, b: i8, flag: kdsl.boolean, o: Out[f32[M, N]],
    *, twice: Static[bool] = False, power: Static[int] = 1,
):  # fmt: skip
    for m in kdsl.parallel(M):
        row = x[m] * a + h + i + b + where(flag, 100, 0) + power
        o[m] = row + row if twice else row


@kdsl.kernel
def deep(x: f32[B, H, M, N, D, K, V, P], o: Out[f32[B, H, M, N, D, K, V, P]]):
    for b, h, m, n, d, k, v in kdsl.parallel(B, H, M, N, D, K, V):
        o[b, h, m, n, d, k, v] = x[b, h, m, n, d, k, v] + 1


@dataclass(frozen=True)
class Kind:
    """A kernel, a right call, and what NumPy makes of it, output by output in signature order."""

    kernel: kdsl.Kernel
    arguments: Callable[[], dict[str, object]]
    meaning: Callable[..., list[np.ndarray]]

    def __repr__(self) -> str:
        return str(self.kernel.__name__)


def numbers(*shape: int) -> np.ndarray:
    """Small whole numbers, all different as far as they go: sums of them are exact."""
    return (np.arange(np.prod(shape, dtype=int)) % 11 - 5).astype(np.float32).reshape(shape)


def _attended(q, k, v, scale):
    s = q @ k.swapaxes(1, 2) * scale
    p = np.exp(s - s.max(axis=2, keepdims=True))
    return [(p @ v / p.sum(axis=2, keepdims=True)).astype(np.float32)]


def _added(ids, x, table):
    table = table.copy()
    np.add.at(table, ids, x)
    return [table]


def _scaled(x, w, scale, G=2):
    return [x @ (w * np.repeat(scale, G, axis=0)).astype(np.float32)]


def _of_scalars(x, a, h, i, b, flag, twice=False, power=1):
    row = x * np.float32(a) + h + i + b + (100 if flag else 0) + power
    return [row * (2 if twice else 1)]


KINDS = [
    Kind(
        rows,
        lambda: {"x": numbers(3, 5), "w": numbers(5)},
        lambda x, w: [x * w, (x * w).sum(axis=1)],
    ),
    Kind(
        matmul,
        lambda: {"a": numbers(3, 4), "b": numbers(4, 5), "bias": numbers(5)},
        lambda a, b, bias: [a @ b + bias],
    ),
    Kind(
        attention,
        lambda: {"q": numbers(2, 3, 4), "k": numbers(2, 5, 4), "v": numbers(2, 5, 4), "scale": 0.5},
        _attended,
    ),
    Kind(
        gather,
        lambda: {"ids": np.array([4, 0, 2]), "table": numbers(5, 4)},
        lambda ids, table: [table[ids]],
    ),
    Kind(
        scatter,
        lambda: {"ids": np.array([4, 0, 4], "i4"), "x": numbers(3, 2), "table": numbers(5, 2)},
        _added,
    ),
    Kind(scan, lambda: {"x": numbers(3, 5)}, lambda x: [x.cumsum(axis=1)]),
    Kind(
        int8,
        lambda: {"x": numbers(3, 4), "w": numbers(4, 5).astype("i1"), "scale": numbers(2, 5)},
        _scaled,
    ),
    Kind(
        in_place,
        lambda: {"c": numbers(5), "x": numbers(3, 5)},
        lambda c, x: [x * c + 1],
    ),
    Kind(
        optional,
        lambda: {"x": numbers(3, 5), "bias": numbers(5)},
        lambda x, bias: [x + bias],
    ),
    Kind(
        function,
        lambda: {"x": numbers(3, 5), "w": numbers(5)},
        lambda x, w: [x + w + w],
    ),
    Kind(
        zero_d,
        lambda: {"x": numbers(3, 5), "unit": np.array(2, "f4")},
        lambda x, unit: [x.sum() * unit],
    ),
    Kind(
        scalars,
        lambda: {"x": numbers(3, 5), "a": 2.0, "h": 0.5, "i": 3, "b": -4, "flag": True},
        _of_scalars,
    ),
    Kind(deep, lambda: {"x": numbers(1, 2, 1, 2, 1, 2, 1, 3)}, lambda x: [x + 1]),
]
