"""Rows that loops carry through branches and inner loops: in place where nobody sees it."""

from __future__ import annotations

import numpy as np
import pytest
from kdsl import lang as kdsl
from kdsl.frontend import capture, lower
from kdsl.ir.interp import run
from kdsl.lang import Out, boolean, dot, exp, f32, i64, maximum, minimum
from tests.cpu.harness import Compiled

M, N, K = kdsl.dims("M N K")


def kept(x: f32[M, N], c: boolean[M], k: i64[M], o: Out[f32[N]], p: Out[f32[N]]):
    """A row is added where a condition holds."""
    for _ in kdsl.parallel(1):
        total = kdsl.zeros(N)
        for m in range(M):
            if c[m]:
                total += x[m]
        o[:], p[:] = total, total * 2


def both(x: f32[M, N], c: boolean[M], k: i64[M], o: Out[f32[N]], p: Out[f32[N]]):
    for _ in kdsl.parallel(1):
        total, seen = kdsl.zeros(N), kdsl.full(N, 1.0)
        for m in range(M):
            if c[m]:
                total = total * 0.5 + x[m]
            else:
                total = exp(total * 0.1) - seen
                seen = seen + x[m]
        o[:], p[:] = total, seen


def swapped(x: f32[M, N], c: boolean[M], k: i64[M], o: Out[f32[N]], p: Out[f32[N]]):
    for _ in kdsl.parallel(1):
        a, b = kdsl.zeros(N), kdsl.full(N, 1.0)
        for m in range(M):
            if c[m]:
                a, b = b, a
            else:
                a, b = b + x[m], a - x[m]
        o[:], p[:] = a, b


def read_outside(x: f32[M, N], c: boolean[M], k: i64[M], o: Out[f32[N]], p: Out[f32[N]]):
    """The old row is read beside the branch, before it and after it."""
    for _ in kdsl.parallel(1):
        total, sums = kdsl.zeros(N), kdsl.zeros(N)
        for m in range(M):
            before = total * 3
            old = total
            if c[m]:
                total = total + x[m]
            sums += before - old + total.max() * x[m]
        o[:], p[:] = total, sums


def nested(x: f32[M, N], c: boolean[M], k: i64[M], o: Out[f32[N]], p: Out[f32[N]]):
    for _ in kdsl.parallel(1):
        total, top = kdsl.zeros(N), kdsl.full(N, -10.0)
        for m in range(M):
            if c[m]:
                if k[m] > 1:
                    total += x[m]
                    top = maximum(top, total)
                elif k[m] == 1:
                    total = total - top
            else:
                for j in range(k[m]):
                    if j % 2 == 0:
                        total = total * 0.5 + x[j]
        o[:], p[:] = total, top


def handed_on(x: f32[M, N], c: boolean[M], k: i64[M], o: Out[f32[N]], p: Out[f32[N]]):
    """One variable becomes what the other was, which changes further in."""
    for _ in kdsl.parallel(1):
        total, last = kdsl.zeros(N), kdsl.zeros(N)
        for m in range(M):
            if c[m]:
                last = total
                if k[m] > 1:
                    total = total * 0.5 + x[m]
                else:
                    for j in range(k[m]):
                        total = total + x[j]
        o[:], p[:] = total, last


def broken(x: f32[M, N], c: boolean[M], k: i64[M], o: Out[f32[N]], p: Out[f32[N]]):
    """`break` and `continue`, in a loop in a loop, and `while`."""
    for _ in kdsl.parallel(1):
        total, last = kdsl.zeros(N), kdsl.zeros(N)
        for m in range(M):
            if c[m]:
                continue
            for j in range(M):
                if j == k[m]:
                    break
                total += x[j]
            last = total
        count = 0
        while count < 3:
            count += 1
            if count == 2:
                continue
            total = total + last * 0.5
        o[:], p[:] = total, last


def loops(x: f32[M, N], c: boolean[M], k: i64[M], o: Out[f32[N]], p: Out[f32[N]]):
    """Inner loops that begin with a carried row, which the second one still needs."""
    for _ in kdsl.parallel(1):
        total, other = kdsl.zeros(N), kdsl.zeros(N)
        for m in range(M):
            for j in range(k[m]):
                total = total * 0.5 + x[j]
            shadow = other
            for j in range(k[m]):
                shadow = shadow + x[j] - other
            other = shadow
        o[:], p[:] = total, other


def products(x: f32[M, N], c: boolean[M], k: i64[M], o: Out[f32[N]], p: Out[f32[N]]):
    """Tiles of two axes, with a dot."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        acc, row = kdsl.zeros(n, N), kdsl.zeros(n)
        for m in kdsl.tiles(M):
            if k[m.start] > 0:
                acc = acc * 0.5 + dot(x[m, n].T, x[m, :])
                row = row + acc.sum(axis=1)
        o[n], p[n] = acc.max(axis=1), row


KERNELS = {
    f.__name__: f
    for f in (
        kept, both, swapped, read_outside, nested, handed_on, broken, loops, products,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_compiled_equals_interpreted(name):
    func = lower(capture(KERNELS[name]), {}, {})
    kernel = Compiled(func)
    for seed, (m, n) in enumerate([(7, 19), (1, 1), (0, 5), (9, 33), (6, 8)]):
        rng = np.random.default_rng(seed)
        args = {
            "x": rng.standard_normal((m, n)).astype(np.float32),
            "c": rng.random(m) < 0.5,
            "k": rng.integers(0, max(m, 1), m),
        }
        want = {name: np.zeros(n, np.float32) for name in "op"}
        got = {name: np.zeros(n, np.float32) for name in "op"}
        run(func, args | want)
        kernel(**args, **got)
        for out in "op":
            np.testing.assert_allclose(got[out], want[out], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["kept", "nested"])
def test_a_row_that_is_only_changed_is_not_copied(name):
    text = Compiled(lower(capture(KERNELS[name]), {}, {})).text
    rows = text.count("take<float>(arena, padded(N))")
    assert rows == {"kept": 1, "nested": 2}[name]


def read_late(r: f32[M], c: f32[N], v: f32[N, K], o: Out[f32[M, K]], p: Out[f32[M]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        c0, acc = r[m], kdsl.zeros(m, K)
        for n in kdsl.tiles(N, size=32):
            held = maximum(c[n], c0[:, None])
            acc += dot(abs(held), v[n])
            c0 = maximum(minimum(c0, 2), -1)
        o[m], p[m] = acc, c0


def test_a_carry_is_written_behind_the_pass_that_still_reads_it():
    """What is held of a tile is computed from the old value of a row that changes in its loop."""
    func = lower(capture(read_late), {}, {})
    rng = np.random.default_rng(0)
    c, v = rng.integers(-4, 5, 70).astype(np.float32), rng.integers(-4, 5, (70, 20))
    args = {"r": np.full(50, 3.0, np.float32), "c": c, "v": v.astype(np.float32)}
    outs = [{"o": np.zeros((50, 20), np.float32), "p": np.zeros(50, np.float32)} for _ in range(2)]
    run(func, args | outs[0])
    Compiled(func)(**args, **outs[1])
    for name, want in outs[0].items():
        np.testing.assert_array_equal(outs[1][name], want)
