"""`break`: what an iteration after it would have done is not done."""

from __future__ import annotations

import numpy as np
import pytest

from kdsl import lang as kdsl
from kdsl.errors import KernelError
from kdsl.frontend import capture, lower
from kdsl.lang import Out, f32, i64
from tests.frontend.oracles import agree

M, N = kdsl.dims("M N")


def first_above(x: f32[M, N], limit: f32, o: Out[i64[M]]):
    for i in kdsl.parallel(M):
        found = N - N - 1
        for j in range(N):
            if x[i, j] > limit:
                found = j
                break
        o[i] = found


def sum_until(x: f32[N], limit: f32, o: Out[f32[2]]):
    for _ in kdsl.parallel(1):
        total, count = kdsl.zeros(), kdsl.zeros()
        for n in kdsl.tiles(N, size=4):
            more = x[n].sum()
            if total + more > limit:
                break
            total = total + more
            if more == 0:
                continue
            count += 1
        o[0] = total
        o[1] = count


def nested(x: f32[M, N], o: Out[f32[M]]):
    for i in kdsl.parallel(M):
        going = kdsl.zeros()
        for j in range(N):
            for k in range(j, N):
                if x[i, k] < 0:
                    break
                going = going + x[i, k]
            if going > 20:
                break
        o[i] = going


def always(x: f32[N], o: Out[f32[()]]):
    for _ in kdsl.parallel(1):
        last = kdsl.zeros()
        for j in range(N):
            last = x[j]
            break
        o[()] = last


RNG = np.random.default_rng(8)


@pytest.mark.parametrize("shape", [(4, 9), (3, 1), (2, 0)])
def test_a_search_ends_with_the_first_that_it_finds(shape):
    x = RNG.standard_normal(shape).astype(np.float32)
    got = agree(first_above, x, 0.7)
    want = [next((j for j, v in enumerate(row) if v > np.float32(0.7)), -1) for row in x]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("limit", [-1.0, 3.0, 9.0, 99.0])
def test_a_loop_over_tiles_ends_too_and_may_continue(limit):
    x = np.float32([1, 0, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0, 1, 1, 1, 1, 5])
    agree(sum_until, x, limit)


def test_of_nested_loops_the_inner_one_ends():
    agree(nested, RNG.integers(-2, 9, (5, 7)).astype(np.float32))


def test_a_loop_that_always_ends_runs_once():
    assert agree(always, np.float32([3, 4])) == 3
    assert agree(always, np.float32([])) == 0


def test_the_variable_is_not_known_after_a_loop_that_may_end_early():
    def k(x: f32[N], o: Out[i64[N]]):
        for i in kdsl.parallel(N):
            for j in range(3):
                if x[i] > j:
                    break
            o[i] = j

    with pytest.raises(KernelError, match="`j` may have no value here") as caught:
        lower(capture(k), {}, {})
    assert "its loop may end early" in str(caught.value)


def test_a_loop_over_a_tuple_cannot_break():
    def k(x: f32[N], o: Out[f32[N]]):
        for i in kdsl.parallel(N):
            for by in (1, 2):
                if x[i] > by:
                    break
            o[i] = x[i]

    with pytest.raises(KernelError, match="a loop over a tuple cannot `break`"):
        lower(capture(k), {}, {})
