"""sort, argsort, topk, reshape and masked gathers: three ways, and what is refused."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from kdsl import lang as kdsl
from kdsl.errors import KernelTypeError
from kdsl.frontend import capture, lower
from kdsl.frontend.reference import reference
from kdsl.lang import Out, Static, bf16, f32, f64, i32, i64
from tests.cpu.harness import Compiled
from tests.frontend.oracles import agree

T = kdsl.dtypes("T", f32, f64, bf16, i32)
M, N, K = kdsl.dims("M N K")
RNG = np.random.default_rng(0)
DTYPES = {"f32": np.float32, "f64": np.float64, "bf16": ml_dtypes.bfloat16, "i32": np.int32}


def equal(got, want):
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.astype(np.float64), w.astype(np.float64))


def compiled(fn, args, outs, **dtypes):
    kernel = Compiled(lower(capture(fn), dtypes, {}))
    made = {name: np.zeros(w.shape, w.dtype) for name, w in outs.items()}
    kernel(**args, **made)
    return tuple(made.values())


def ordered(
    x: T[M, N], s: Out[T[M, N]], a: Out[i64[M, N]], v: Out[T[M, 3]], i: Out[i64[M, 3]],
    top: Out[T[N]], at: Out[i64[N]],
):  # fmt: skip
    for m in kdsl.parallel(M):
        s[m], a[m] = kdsl.sort(x[m]), kdsl.argsort(x[m] * 1)
        v[m], i[m] = kdsl.topk(x[m], 3)
    for n in kdsl.parallel(N):
        most, place = kdsl.topk(x[:, n], 1)
        top[n], at[n] = most[0], place[0]


def rows(dtype, m, n):
    x = RNG.integers(-3, 4, (m, n)).astype(dtype)
    if np.dtype(dtype).kind != "i" and x.size > 6:
        x.flat[::5], x.flat[3] = np.nan, -np.inf
    return x


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(4, 7), (2, 3), (1, 33)])
def test_order_is_that_of_a_stable_sort(name, shape):
    x = rows(DTYPES[name], *shape)
    got = agree(ordered, x, tiles={"n": 4})
    wide = x.astype(np.float64)
    s, a, v, i, _, at = got
    np.testing.assert_array_equal(a, np.argsort(wide, axis=1, kind="stable"))
    np.testing.assert_array_equal(s.astype(np.float64), np.sort(wide, axis=1))
    down = shape[1] - 1 - np.argsort(wide[:, ::-1], axis=1, kind="stable")[:, ::-1]
    np.testing.assert_array_equal(i, down[:, :3])
    np.testing.assert_array_equal(v.astype(np.float64), np.take_along_axis(wide, i, 1))
    np.testing.assert_array_equal(at, np.argmax(wide, axis=0))
    if shape == (4, 7) and name in ("f32", "i32"):
        outs = dict(zip(("s", "a", "v", "i", "top", "at"), got, strict=True))
        equal(compiled(ordered, {"x": x}, outs, T=getattr(kdsl, name)), got)


def test_more_than_there_are_is_an_error_of_the_call():
    x = np.zeros((2, 2), np.float32)
    with pytest.raises(ValueError, match="`topk` of 3 elements of an axis that has 2"):
        reference(capture(ordered), [x], {})
    func = lower(capture(ordered), {"T": f32}, {})
    assert [s.text for s in func.host if hasattr(s, "text")] == ["N >= 3", "M >= 1"]


def reshaped(x: T[M, 12], w: T[3, 4], o: Out[T[M, 4]], p: Out[T[M, 2, 6]], q: Out[T[12]]):
    for m in kdsl.parallel(M):
        grid = x[m].reshape(3, 4)
        o[m] = (grid * w[:]).sum(axis=0)
        p[m] = (x[m] * 2).reshape((2, -1))
    for _ in kdsl.parallel(1):
        q[:] = w[:].T.reshape(-1)


@pytest.mark.parametrize("name", ["f32", "bf16", "i32"])
def test_reshape_keeps_the_order_of_elements(name):
    x, w = (RNG.integers(-4, 5, s).astype(DTYPES[name]) for s in ((5, 12), (3, 4)))
    got = agree(reshaped, x, w)
    np.testing.assert_array_equal(got[0], (x.reshape(5, 3, 4) * w).sum(axis=1).astype(x.dtype))
    np.testing.assert_array_equal(got[1], (x * 2).reshape(5, 2, 6))
    np.testing.assert_array_equal(got[2], w.T.reshape(-1))
    if name == "f32":
        outs = dict(zip("opq", got, strict=True))
        equal(compiled(reshaped, {"x": x, "w": w}, outs, T=f32), got)


def taken(table: T[N, K], ids: i64[M], left: i64[()], o: Out[T[M, K]], p: Out[T[M]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        here = m.index < left[()]
        o[m] = table.take(ids[m], mask=here)
        p[m] = table.take((ids[m], 1), mask=here & (ids[m] > 0), other=-1)


@pytest.mark.parametrize("name", ["f32", "bf16", "i32"])
def test_what_is_not_taken_is_not_read(name):
    table = RNG.integers(-9, 9, (4, 3)).astype(DTYPES[name])
    ids, left = np.array([3, 0, 2, -7, 1000]), np.array(3)
    got = agree(taken, table, ids, left, tiles={"m": 2})
    o, p = (g.astype(np.float64) for g in got)
    wide = table.astype(np.float64)
    np.testing.assert_array_equal(o, np.concatenate([wide[ids[:3]], np.zeros((2, 3))]))
    np.testing.assert_array_equal(p, [wide[3, 1], -1, wide[2, 1], -1, -1])
    if name == "f32":
        outs = dict(zip("op", got, strict=True))
        args = {"table": table, "ids": ids, "left": left}
        equal(compiled(taken, args, outs, T=f32), got)
        with pytest.raises(IndexError):
            compiled(taken, args | {"left": np.array(4)}, outs, T=f32)


def refused(fn, statics=None):
    with pytest.raises(KernelTypeError) as caught:
        lower(capture(fn), {}, statics or {})
    lines = str(caught.value).splitlines()
    return lines[0], lines[-1]


def test_what_does_not_fit_is_refused_with_the_way_out():
    def sorted_tile(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = kdsl.sort(x[n])

    def too_many(x: f32[4], o: Out[f32[5]]):
        for _ in kdsl.parallel(1):
            o[:] = kdsl.topk(x[:], 5)[0]

    def of_any_length(x: f32[N], o: Out[f32[N]]):
        for _ in kdsl.parallel(1):
            o[:] = x[:].reshape(2, -1).reshape(-1)

    def wrong_count(x: f32[6], o: Out[f32[4]], *, n: Static[int]):
        for _ in kdsl.parallel(1):
            o[:] = x[:].reshape(n)

    def mask_of_a_tile(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x.take(n, mask=n.index > 2)

    assert refused(sorted_tile) == (
        "`sort` of the tile `n`, whose length is not known",
        "help: take a whole axis: `x[:]`, or slices of known size",
    )
    assert refused(too_many) == ("`topk` of 5 elements", "help: k is from 1 to its length")
    assert refused(of_any_length) == (
        "the axis `N` has no fixed length",
        "help: reshape is of axes whose lengths are numbers in the annotation or Static[int]",
    )
    assert refused(wrong_count, {"n": 4}) == (
        "6 elements do not go into (4,)",
        "help: the lengths multiply to the number of elements; one may be -1",
    )
    assert refused(mask_of_a_tile) == (
        "a mask is for indices that are computed",
        "help: choose of what is read: kdsl.where(mask, x[...], other)",
    )
