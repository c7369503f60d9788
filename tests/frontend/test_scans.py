"""`cumsum`: running sums of rows, tiles and columns."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kdsl import lang as kdsl
from kdsl.frontend import capture, lower
from kdsl.ir.printer import show
from kdsl.lang import Out, bf16, f16, f32, f64, i8, i32
from tests.frontend.oracles import agree

M, N = kdsl.dims("M N")
T = kdsl.dtypes("T", f32, bf16, f16)

RNG = np.random.default_rng(4)


def rows(x: T[M, N], o: Out[T[M, N]]):
    for i in kdsl.parallel(M):
        o[i] = x[i].cumsum()


def both_ways(x: f64[M, N], along: Out[f64[M, N]], down: Out[f64[M, N]]):
    for _ in kdsl.parallel(1):
        along[:] = x[:].cumsum(axis=-1)
        down[:] = kdsl.cumsum(x[:], 0)


def tiles_with_a_carry(x: i32[N], o: Out[i32[N]]):
    for _ in kdsl.parallel(1):
        before = kdsl.zeros(dtype=i32)
        for n in kdsl.tiles(N):
            o[n] = before + x[n].cumsum(axis=0)
            before = before + x[n].sum()


def of_a_mask(x: f32[M, N], o: Out[i32[M, N]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        o[m] = (x[m] > 0).cumsum(axis=1)


def of_bytes(x: i8[N], o: Out[i32[N]]):
    for _ in kdsl.parallel(1):
        o[:] = kdsl.cumsum(x[:], axis=0)


def of_one_column(x: f32[M], o: Out[f32[M]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        o[m] = x[m][:, None].cumsum(axis=1).sum(axis=1)


def of_a_square(x: f32[N], o: Out[f32[N, N]]):
    for _ in kdsl.parallel(1):
        s = x[:].cumsum()
        o[:] = s[:, None] - s


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("shape", [(3, 17), (1, 1), (2, 0), (0, 3)])
def test_rows_of_any_length_and_dtype(dtype, shape):
    x = RNG.standard_normal(shape).astype(dtype)
    got = agree(rows, x)
    want = x.astype(np.float64).cumsum(axis=1).astype(np.float32).astype(dtype)
    np.testing.assert_array_equal(got, want)


def test_along_either_axis():
    x = RNG.standard_normal((4, 5))
    along, down = agree(both_ways, x)
    np.testing.assert_array_equal(along, x.cumsum(axis=1))
    np.testing.assert_array_equal(down, x.cumsum(axis=0))


@pytest.mark.parametrize("n", [0, 1, 8, 9, 31])
def test_of_a_tile_it_starts_anew_in_each_slice(n):
    x = RNG.integers(-9, 9, n).astype(np.int32)
    np.testing.assert_array_equal(agree(tiles_with_a_carry, x, tiles={"n": 8}), x.cumsum())


def test_bools_count_and_narrow_integers_are_summed_in_32_bit():
    x = RNG.standard_normal((5, 9)).astype(np.float32)
    np.testing.assert_array_equal(agree(of_a_mask, x, tiles={"m": 2}), (x > 0).cumsum(axis=1))
    ones = np.full(300, 100, np.int8)
    assert agree(of_bytes, ones)[-1] == 30000


def test_an_axis_of_length_one_is_its_own_running_sum():
    x = RNG.standard_normal(5).astype(np.float32)
    np.testing.assert_array_equal(agree(of_one_column, x), x)


def test_a_running_sum_meets_itself_over_two_axes_of_one_dim():
    x = RNG.integers(-9, 9, 5).astype(np.float32)
    s = x.cumsum()
    np.testing.assert_array_equal(agree(of_a_square, x), s[:, None] - s)


def test_the_ir_says_along_which_axis():
    assert "cumsum(t_2; N)" in show(lower(capture(rows), {"T": bf16}, {}))
