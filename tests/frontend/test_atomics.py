"""`kdsl.atomic_add`: additions of many iterations to one place, and what is no such addition."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kdsl import lang as kdsl
from kdsl.frontend import capture
from kdsl.frontend.reference import reference
from kdsl.lang import InOut, Out, bf16, f16, f32, i32, i64
from kdsl.lang.run import Race
from tests.frontend.oracles import agree

M, N, D = kdsl.dims("M N D")
T = kdsl.dtypes("T", f32, bf16, f16)

RNG = np.random.default_rng(3)


def whole(*shape, dtype=np.float32):
    """Small whole numbers: their sums are exact in any order."""
    return RNG.integers(-4, 5, shape).astype(dtype)


def histogram(ids: i64[N], count: InOut[i32[M]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        kdsl.atomic_add(count[ids[n]], 1)


def scatter_rows(ids: i32[N], x: T[N, D], table: InOut[T[M, D]]):
    for i in kdsl.parallel(N):
        kdsl.atomic_add(table[ids[i]], x[i] * 2)


def total(x: f32[M, N], o: InOut[f32[()]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        kdsl.atomic_add(o[()], x[m].sum())


def column_sums(x: f32[M, N], o: Out[f32[N]]):
    part = kdsl.scratch(f32, N)
    for n in kdsl.parallel(kdsl.tiles(N)):
        part[n] = kdsl.zeros(n)
    for m in kdsl.parallel(kdsl.tiles(M)):
        kdsl.atomic_add(part[:], x[m].sum(axis=0))
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = part[n]


def through_a_helper(x: f32[N], o: InOut[f32[M]]):
    def put(tensor, at, value):
        kdsl.atomic_add(tensor[at], value)

    for i in kdsl.parallel(N):
        put(o, i % M, x[i])


@pytest.mark.parametrize("n", [0, 1, 16, 40])
def test_a_histogram_counts_each_place_of_a_gather_by_itself(n):
    ids = RNG.integers(0, 5, n)
    count = agree(histogram, ids, np.arange(5, dtype=np.int32), tiles={"n": 16})
    np.testing.assert_array_equal(count, np.arange(5) + np.bincount(ids, minlength=5))


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_rows_are_scattered_into_a_table_of_their_dtype(dtype):
    ids = np.array([2, 0, 2, 2], np.int32)
    x, table = whole(4, 3, dtype=dtype), whole(3, 3, dtype=dtype)
    got = agree(scatter_rows, ids, x, table)
    want = table.astype(np.float64)
    np.add.at(want, ids, 2 * x.astype(np.float64))
    np.testing.assert_array_equal(got.astype(np.float64), want)


@pytest.mark.parametrize("shape", [(0, 3), (5, 4)])
def test_a_whole_sum_goes_into_one_element(shape):
    x = whole(*shape)
    assert agree(total, x, np.float32([3]).reshape(()), tiles={"m": 2}) == 3 + x.sum()


def test_scratch_that_an_earlier_loop_filled_is_added_to():
    x = whole(7, 5)
    np.testing.assert_array_equal(agree(column_sums, x, tiles={"m": 2, "n": 2}), x.sum(axis=0))


def test_a_helper_adds_to_a_tensor_it_is_given():
    got = agree(through_a_helper, whole(7), np.zeros(3, np.float32))
    assert got.shape == (3,)


# ---- iterations are independent

ONES = np.ones(4, np.float32)


def race(kernel):
    with pytest.raises(Race) as caught:
        reference(capture(kernel), [ONES.copy(), ONES.copy()], {})
    return str(caught.value)


READ = (
    "`o`: an iteration of kdsl.parallel reads an element that another one adds to; "
    "read it in a later parallel loop"
)
WRITE = (
    "`o`: an iteration of kdsl.parallel writes an element that another one adds to; "
    "write it in an earlier parallel loop"
)


def test_an_iteration_that_reads_what_an_earlier_one_added_to_is_reported():
    def kernel(x: f32[N], o: InOut[f32[N]]):
        for i in kdsl.parallel(N):
            if i == 0:
                kdsl.atomic_add(o[0], x[i])
            if i == 2:
                o[i] = o[0] + 1

    assert race(kernel) == READ


def test_an_iteration_that_reads_what_a_later_one_adds_to_is_reported():
    def kernel(x: f32[N], o: InOut[f32[N]]):
        for i in kdsl.parallel(N):
            if i == 0:
                o[0] = o[2]
            if i == 1:
                kdsl.atomic_add(o[2], x[i])

    assert race(kernel) == READ


def test_reading_the_element_in_the_added_value_is_a_read():
    def kernel(x: f32[N], o: InOut[f32[N]]):
        for i in kdsl.parallel(N):
            kdsl.atomic_add(o[0], o[0] + x[i])

    assert race(kernel) == READ


READ_WRITTEN = (
    "`o`: an iteration of kdsl.parallel reads an element that another one writes; "
    "write it in an earlier parallel loop"
)


@pytest.mark.parametrize(("first", "message"), [(0, WRITE), (1, READ_WRITTEN)])
def test_an_iteration_that_writes_what_another_one_adds_to_is_reported(first, message):
    def kernel(x: f32[N], o: InOut[f32[N]]):
        for i in kdsl.parallel(N):
            if i == first:
                kdsl.atomic_add(o[0], x[i])
            if i == 1 - first:
                o[0] = x[i]

    assert race(kernel) == message


def test_one_iteration_may_write_an_element_and_then_add_to_it():
    def kernel(x: f32[N], o: InOut[f32[N]]):
        for i in kdsl.parallel(N):
            o[i] = 1.0
            kdsl.atomic_add(o[i], x[i])

    np.testing.assert_array_equal(agree(kernel, ONES, ONES), 2 * ONES)


# ---- what the reference run refuses itself


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (
            lambda x, o: kdsl.atomic_add(x[0], 1),
            "`x` is an input; declare it InOut to write it",
        ),
        (
            lambda x, o: kdsl.atomic_add(o[0], 1),
            "`o` is an Out, whose elements are undefined until they are written; "
            "declare it InOut to add to it",
        ),
        (
            lambda x, o: kdsl.atomic_add(x[0] * 1, 1),
            "`atomic_add` adds to elements of a tensor: atomic_add(tensor[i], value)",
        ),
    ],
)
def test_the_reference_run_says_what_nothing_can_be_added_to(kernel, message):
    def k(x: f32[N], o: Out[f32[N]]):
        for _ in kdsl.parallel(N):
            kernel(x, o)

    with pytest.raises(TypeError) as caught:
        reference(capture(k), [ONES], {})
    assert str(caught.value) == message
