"""`kernel.check`: what roundings may do is no difference, and what a mistake does is one."""

from __future__ import annotations

import numpy as np
import pytest

import kdsl
from kdsl import InOut, Out, boolean, dot, exp, f16, f32, f64, i64, log
from kdsl.lang import rounding

M, N, V, G, D = kdsl.dims("M N V G D")
T = kdsl.dtypes("T", f32, boolean)
F = kdsl.dtypes("F", f32, f64)


@kdsl.kernel
def turned(x: T[M, N], o: Out[T[N, M]]):
    for m in kdsl.parallel(M):
        o[:, m] = x[m]


@kdsl.kernel
def smoothed(x: f32[M, V], label: i64[M], loss: Out[f32[M]]):
    for m in kdsl.parallel(M):
        row = x[m]
        top = row.max()
        lse = log(exp(row - top).sum()) + top
        loss[m] = lse - 0.9 * x[m, label[m]] - 0.1 * row.mean()


@kdsl.kernel
def spread(x: F[M, N], o: Out[F[M]]):
    """Where the mean is large, a small difference of large numbers."""
    for m in kdsl.parallel(M):
        o[m] = (x[m] * x[m]).mean() - x[m].mean() * x[m].mean()


@kdsl.kernel
def widened(a: f32[G, D, D], b: f32[G, D, D], o: Out[f64[G, D, D]]):
    for g in kdsl.parallel(G):
        o[g] = dot(a[g], b[g])


@kdsl.kernel
def shortened(x: f32[M, N], o: Out[f32[M]]):
    for m in kdsl.parallel(M):
        o[m] = exp(x[m] * 3).astype(f16).sum() - exp(x[m] * 3).sum()


@kdsl.kernel
def stepped(x: InOut[f32[M, N]], o: Out[i64[M, N]]):
    for m in kdsl.parallel(M):
        x[m] = x[m] / 3.0
        o[m] = kdsl.floor(x[m] * 3.0).astype(i64)


def random(*shape, dtype=np.float32):
    return np.random.default_rng(5).standard_normal(shape).astype(dtype)


CASES = {
    "bools": (turned, (np.eye(4, 7, dtype=bool),)),
    "nothing left of a loss": (smoothed, (random(64, 1), np.zeros(64, np.int64))),
    "a small difference": (spread, (random(64, 100) + 1000,)),
    "the same of doubles": (spread, (random(64, 100, dtype=np.float64) + 1e7,)),
    "doubles of floats": (widened, (random(3, 65, 65), random(3, 65, 65))),
    "halves on the way": (shortened, (random(20, 30),)),
    "integers at an edge": (stepped, (np.arange(300, dtype=np.float32).reshape(3, 100),)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_kernel_that_is_right_is_found_right_however_a_value_was_computed(case):
    kernel, args = CASES[case]
    assert kernel.check(*args).ok


def test_outputs_that_are_given_are_compared_and_stay_as_they_are():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    steps = np.full((3, 4), 7, np.int64)
    assert [o.name for o in stepped.check(x, steps).outputs] == ["x", "o"]
    assert (steps == 7).all() and (x == np.arange(12).reshape(3, 4)).all()


WRONG = {
    "a bool": ("bools", lambda got: np.logical_xor(got, np.eye(7, 4, dtype=bool))),
    "a loss": ("nothing left of a loss", lambda got: got + np.float32(1e-4)),
    "another row": ("a small difference", lambda got: got + np.arange(64, dtype=np.float32)),
    "doubles": ("the same of doubles", lambda got: got + 10),
    "one product too few": ("doubles of floats", lambda got: got * (1 - 1e-3)),
    "an element": ("doubles of floats", lambda got: np.where(got == got.max(), 0.0, got)),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_result_that_is_wrong_is_found_whatever_roundings_may_do(mistake, monkeypatch):
    case, change = WRONG[mistake]
    kernel, args = CASES[case]
    right = type(kernel).__call__
    monkeypatch.setattr(
        type(kernel), "__call__", lambda self, *a, **k: change(right(self, *a, **k))
    )
    with pytest.raises(AssertionError, match="DIFFERS"):
        kernel.check(*args)


def test_a_masked_place_leaves_no_room_for_mistakes(monkeypatch):
    """Numbers that are large but do not count, as -1e30 before exp, excuse nothing."""

    @kdsl.kernel
    def masked(x: f32[M, N], o: Out[f32[M, N]]):
        for m in kdsl.parallel(M):
            s = kdsl.where(kdsl.arange(N) <= m, x[m], -1e30)
            e = exp(s - s.max())
            o[m] = e / e.sum()

    x = random(9, 9)
    assert masked.check(x).ok
    right = type(masked).__call__
    monkeypatch.setattr(type(masked), "__call__", lambda self, x: right(self, x) * 1.001)
    with pytest.raises(AssertionError, match="DIFFERS"):
        masked.check(x)


def test_what_is_exact_is_not_moved():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)

    @kdsl.kernel
    def exact(x: f32[M, N], o: Out[f32[M, N]], c: Out[f32[M]]):
        for m in kdsl.parallel(M):
            o[m] = kdsl.where(x[m] * 0.5 + 1 > 2, x[m] - 3, kdsl.maximum(x[m], 2.0))
            c[m] = x[m].sum() + dot(x[m], x[m])

    plain = exact.reference(x)
    with rounding.moved(1):
        for there, here in zip(exact.reference(x), plain, strict=True):
            np.testing.assert_array_equal(there, here)


def test_reversed_roundings_move_a_value_to_the_other_side():
    a = random(2, 9, 9)
    plain = widened.reference(a, a)
    moves = []
    for sign in (1, -1):
        with rounding.moved(2, sign):
            moves.append(widened.reference(a, a) - plain)
    assert all(move.all() for move in moves) and (moves[0] * moves[1] < 0).all()
    np.testing.assert_array_equal(widened.reference(a, a), plain)
