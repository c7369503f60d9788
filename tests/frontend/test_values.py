"""Values, places, operations: the reference run and the interpreted IR agree."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from kdsl import lang as kdsl
from kdsl.lang import (
    Out, Static, bf16, boolean, dot, exp2, f16, f32, f64, i8, i32, i64, maximum, u8, where,
)  # fmt: skip
from tests import kernels
from tests.frontend.oracles import agree

T = kdsl.dtypes("T", f32, bf16, f16)
B, H, G, M, N, D, K, L = kdsl.dims("B H G M N D K L")

RNG = np.random.default_rng(7)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def integers(*shape, low=-9, high=10, dtype=np.int32):
    return RNG.integers(low, high, shape).astype(dtype)


# ---- the kernels everybody uses

DTYPES = [np.float32, ml_dtypes.bfloat16, np.float16]
#: f32: sums in another order; the short ones: one rounding more or less of the result.
RTOL = {np.float32: 1e-5, ml_dtypes.bfloat16: 2**-7, np.float16: 2**-9}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 53])
def test_add(dtype, n):
    agree(kernels.add, normal(n, dtype=dtype), normal(n, dtype=dtype), tiles={"n": 16})


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(3, 1), (3, 17), (0, 5), (2, 0)])
def test_rows_of_any_length(dtype, shape):
    x, w = normal(*shape, dtype=dtype), normal(shape[1], dtype=dtype)
    agree(kernels.softmax, x, rtol=RTOL[dtype])
    agree(kernels.scale_rows, x, w, 1.5)
    agree(kernels.rmsnorm, x, w, 1e-5, rtol=RTOL[dtype])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("sizes", [(7, 20, 9), (16, 16, 16), (1, 0, 3), (0, 4, 4)])
def test_matmul_gelu(dtype, sizes):
    m, k, n = sizes
    a, b, bias = normal(m, k, dtype=dtype), normal(k, n, dtype=dtype), normal(n, dtype=dtype)
    tiles = {"m": 4, "n": 5, "k": 7}
    agree(kernels.matmul_gelu, a, b, bias, tiles=tiles, rtol=RTOL[dtype], atol=1e-6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("m_n", [(9, 13), (13, 9), (1, 1), (5, 0)])
def test_attention(dtype, causal, m_n):
    m, n = m_n
    q, k, v = (normal(*s, dtype=dtype) for s in [(2, 4, m, 8), (2, 2, n, 8), (2, 2, n, 8)])
    tiles = {"m": 4, "n": 5}
    agree(kernels.attention, q, k, v, 0.3, causal=causal, tiles=tiles, rtol=RTOL[dtype], atol=1e-5)


def test_mean_of_squares():
    x = normal(5, 9)
    got = agree(kernels.mean_of_squares, x, rtol=1e-6)
    assert got == pytest.approx((x.astype(np.float64) ** 2).mean(), rel=1e-6)


# ---- values and places


def dims_in_the_body(x: f32[N], o: Out[f32[N]]):
    half = N // 2
    for i in kdsl.parallel(N):
        if N % 2 == 0 and i < half:
            o[i] = x[i] / N + x[N - 1 - i] * (N - i)
        else:
            o[i] = 1 / N + -N


@pytest.mark.parametrize("n", [1, 6, 7])
def test_dims_are_integers(n):
    agree(dims_in_the_body, normal(n), rtol=1e-6)


def stencil(x: f32[N], o: Out[f32[N - 2]]):
    kdsl.require(N >= 2)
    for n in kdsl.parallel(kdsl.tiles(N - 2)):
        o[n] = x[n] - 2 * x[n + 1] + x[n + 2]


@pytest.mark.parametrize("n", [2, 3, 20])
def test_tiles_of_a_part_of_a_dim(n):
    agree(stencil, normal(n), tiles={"n": 7}, rtol=1e-5, atol=1e-6)


def rotary(x: f32[M, D], c: f32[M, D // 2], o: Out[f32[M, D]]):
    kdsl.require(D % 2 == 0)
    for i in kdsl.parallel(M):
        a, b = x[i, : D // 2], x[i, D // 2 :]
        o[i, : D // 2] = a * c[i] - b
        o[i, D // 2 :] = b * c[i] + a


def test_halves_of_a_row_go_together_when_the_dim_is_even():
    agree(rotary, normal(3, 8), normal(3, 4))


def interleaved(x: f32[2 * N], y: f32[N], o: Out[f32[2 * N]]):
    for _ in kdsl.parallel(1):
        even, odd = x[0::2], x[1::2]
        o[0::2] = odd * y[:]
        o[1::2] = even + y[:]


def test_slices_with_steps():
    agree(interleaved, normal(14), normal(7))


def from_the_end(x: f32[M, N], o: Out[f32[M]]):
    for i in kdsl.parallel(M):
        o[i] = x[i, -1] + x[-1, 0] + x[i, 1:].sum() + x[i, :-1].sum() + x[..., 0].sum()


def test_literal_indices_count_from_the_end():
    agree(from_the_end, normal(3, 5), rtol=1e-6)


def outer(x: f32[N], o: Out[f32[N, N]], p: Out[f32[N, N]]):
    for _ in kdsl.parallel(1):
        v = x[:]
        o[:, :] = v[:, None] * v + v[None, :]
        p[:] = v[:, None] - 2 * v


def test_one_row_stands_along_two_axes():
    agree(outer, normal(5))


def square(x: f32[M, N], w: f32[N, N], o: Out[f32[M, N]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        h = x[m]
        h = h + dot(h, w[:, :])
        o[m] = h + dot(x[m], w[:].T) - dot(x[m], w[:])


def test_a_square_matrix_keeps_its_two_axes_apart():
    agree(square, normal(5, 6), normal(6, 6), tiles={"m": 2}, rtol=1e-5, atol=1e-5)


def symmetric(x: f32[N, N], o: Out[f32[N, N]]):
    for _ in kdsl.parallel(1):
        a = x[:]
        o[:] = a + a.T


def test_a_matrix_plus_its_transpose():
    agree(symmetric, normal(4, 4))


def matvec(a: T[M, K], x: T[K], o: Out[f32[M]], p: Out[f32[()]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        o[m] = dot(a[m], x[:])
    for _ in kdsl.parallel(1):
        p[()] = dot(x[:], x[:])


@pytest.mark.parametrize("dtype", DTYPES)
def test_dot_of_vectors(dtype):
    agree(matvec, normal(7, 9, dtype=dtype), normal(9, dtype=dtype), tiles={"m": 3}, rtol=1e-5)


def int_dot(a: i8[M, K], b: i8[K, N], o: Out[i32[M, N]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        o[m] = dot(a[m], b[:])


def test_dot_of_bytes_is_exact():
    a, b = integers(4, 5, low=-128, high=128, dtype=np.int8), integers(5, 3, dtype=np.int8)
    assert (agree(int_dot, a, b) == a.astype(np.int32) @ b.astype(np.int32)).all()


def gathered(x: f32[M, N], rows: i32[K], cols: i64[K], o: Out[f32[K]], r: Out[f32[K, N]]):
    for k in kdsl.parallel(kdsl.tiles(K)):
        i = rows[k]
        o[k] = x[i, cols[k]]
        r[k] = x[i]


def test_index_arrays_gather():
    rows, cols = integers(9, low=0, high=5), integers(9, low=0, high=6, dtype=np.int64)
    agree(gathered, normal(5, 6), rows, cols, tiles={"k": 4})


def reductions(x: f32[M, N], o: Out[f32[8, M]], i: Out[i64[2, M]], a: Out[f32[M, N]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        v = x[m]
        o[0, m] = v.sum(axis=1)
        o[1, m] = v.max(axis=-1)
        o[2, m] = v.min(1)
        o[3, m] = v.mean(axis=1)
        o[4, m] = v.prod(axis=1)
        o[5, m] = where((v > 0).any(axis=1), 1.0, 0.0) + kdsl.sum(v, axis=1)
        o[6, m] = where((v > 0).all(axis=1), 1.0, 0.0)
        o[7, m] = v.T.sum(0)
        i[0, m] = v.argmax(axis=1)
        i[1, m] = v.argmin(axis=1)
        a[m] = v - v.mean(axis=1, keepdims=True)


def test_reductions_along_an_axis():
    agree(reductions, normal(5, 7), tiles={"m": 3}, rtol=1e-5, atol=1e-6)


def total(x: f32[M, N], o: Out[f32[()]], p: Out[f32[3]]):
    for _ in kdsl.parallel(1):
        o[()] = x[:].sum() + x[:].mean() + x[:, :].max()
        p[0] = x[0, 0]
        p[1:] = x[:].min()


def test_reductions_of_everything():
    agree(total, normal(3, 4), rtol=1e-6)


def empty_reductions(x: f32[N], y: i32[N], o: Out[f32[4]], j: Out[i32[3]]):
    for _ in kdsl.parallel(1):
        v, w = x[:], y[:]
        o[0], o[1], o[2], o[3] = v.max(), v.min(), v.sum(), v.prod()
        j[0], j[1], j[2] = w.max(), w.min(), w.sum()


def test_reductions_of_nothing():
    floats, ints = agree(empty_reductions, np.empty(0, np.float32), np.empty(0, np.int32))
    assert list(floats) == [-math.inf, math.inf, 0, 1]
    assert list(ints) == [-(2**31), 2**31 - 1, 0]


def integer_maths(x: i32[N], y: i32[N], o: Out[i32[6, N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        a, b = x[n], y[n]
        o[0, n] = a // b
        o[1, n] = a % b
        o[2, n] = (a // b) * b + a % b - a
        o[3, n] = (a & b) | (a ^ 3)
        o[4, n] = (a << 2) + (~b >> 1)
        o[5, n] = abs(a) * 3 - (-b)


def test_integer_division_floors_and_wraps_and_zero_gives_zero():
    values = np.array([-7, -4, -1, 0, 1, 3, 7, -(2**31), 2**31 - 1], np.int32)
    x, y = (g.ravel() for g in np.meshgrid(values, values))
    got = agree(integer_maths, x, y, tiles={"n": 16})
    nonzero = y != 0
    assert (got[2][nonzero] == 0).all()
    assert (got[0][~nonzero] == 0).all()


def weak_literals(x: u8[N], h: f16[N], o: Out[u8[N]], p: Out[f32[N]], d: Out[f64[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] % 2 + 3
        p[n] = h[n] * 0.1 + x[n] / 2
        d[n] = x[n].astype(f64) * 0.1


def test_literals_take_the_dtype_they_meet():
    agree(weak_literals, integers(9, low=0, high=200, dtype=np.uint8), normal(9, dtype=np.float16))


def casts(x: f32[N], o: Out[i8[N]], p: Out[u8[N]], b: Out[boolean[N]], h: Out[bf16[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n]
        p[n] = x[n].astype(u8)
        b[n] = x[n] > 0
        h[n] = x[n].astype(T_BF)


T_BF = bf16


def test_casts_truncate_and_saturate():
    x = np.array([-300, -1.9, -0.5, 0, 0.5, 1.9, 254.9, 300, math.inf, math.nan], np.float32)
    o, p, _, _ = agree(casts, x)
    assert list(o) == [-128, -1, 0, 0, 0, 1, 127, 127, 127, 0]
    assert list(p) == [0, 0, 0, 0, 0, 1, 254, 255, 255, 0]


def nans(x: f32[N], y: f32[N], o: Out[f32[4, N]], r: Out[f32[2]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        a, b = x[n], y[n]
        o[0, n] = maximum(a, b)
        o[1, n] = kdsl.minimum(b, a)
        o[2, n] = kdsl.fmax(a, b)
        o[3, n] = kdsl.fmin(b, a)
    for _ in kdsl.parallel(1):
        r[0], r[1] = x[:].max(), y[:].min()


def test_nan_propagates_but_not_through_fmax():
    x, y = (
        np.array([1, np.nan, 2, np.nan], np.float32),
        np.array([np.nan, 1, 3, np.nan], np.float32),
    )
    o, r = agree(nans, x, y)
    assert np.isnan(o[0]).tolist() == [True, True, False, True]
    assert np.isnan(o[2]).tolist() == [False, False, False, True]
    assert np.isnan(r).all()


def maths(x: f32[N], o: Out[f32[12, N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        v = x[n]
        o[0, n] = kdsl.exp(v) + exp2(v)
        o[1, n] = kdsl.log(v)
        o[2, n] = kdsl.log2(v)
        o[3, n] = kdsl.sqrt(v)
        o[4, n] = kdsl.rsqrt(v)
        o[5, n] = kdsl.tanh(v) + kdsl.sigmoid(v)
        o[6, n] = kdsl.erf(v) + kdsl.sin(v) * kdsl.cos(v)
        o[7, n] = kdsl.floor(v) + kdsl.ceil(v) + kdsl.round(v)
        o[8, n] = kdsl.abs(v) + v**2 + v**3
        o[9, n] = v**0.5
        o[10, n] = v % 0.75 + v // 0.75
        o[11, n] = kdsl.fma(v, 2.0, v) + kdsl.sqrt(2.0) * math.pi


def test_maths():
    x = np.array([-2.5, -1, -0.0, 0, 0.3, 1, 2.5, 100, math.inf, -math.inf, math.nan], np.float32)
    agree(maths, x)


def filled(x: f32[M, N], v: f32, o: Out[f32[M, N]], c: Out[i32[M]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        acc = kdsl.full(m, N, v) + kdsl.ones(m, 1)
        o[m] = acc + x[m] + kdsl.arange(N)
        c[m] = kdsl.zeros(m, dtype=i32) + 3


def test_filled_values():
    agree(filled, normal(5, 3), 0.5, tiles={"m": 2})


def broadcast_columns(x: f32[M, 1], y: f32[1, N], o: Out[f32[M, N]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        o[m] = x[m, 0][:, None] * y[0] + y[:]


def test_axes_of_length_one():
    agree(broadcast_columns, normal(4, 1), normal(1, 3), tiles={"m": 3})


def sized(x: f32[N, K], o: Out[f32[N]], *, K: Static[int]):
    for i in kdsl.parallel(N):
        total = kdsl.zeros(K)
        total = total + x[i]
        o[i] = total.sum() * K


def test_a_static_parameter_binds_a_dim():
    agree(sized, normal(3, 4), K=4, rtol=1e-6)


def with_length(x: f32[N], L: i64, o: Out[f32[L]]):
    for i in kdsl.parallel(L):
        o[i] = x[i % N]


def test_a_scalar_parameter_binds_a_dim():
    got = agree(with_length, normal(3), 7)
    assert got.shape == (7,)


def typed_scalar(x: T[N], alpha: T, o: Out[T[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * alpha


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_scalar_of_a_dtype_variable(dtype):
    agree(typed_scalar, normal(5, dtype=dtype), 0.3)


def scratch_two(x: T[M, N], o: Out[f32[M, N]]):
    row = kdsl.scratch(f32, M, 2)
    for i in kdsl.parallel(M):
        v = x[i]
        row[i, 0] = v.max()
        row[i, 1] = v.sum()
    for i in kdsl.parallel(M):
        for n in kdsl.tiles(N):
            o[i, n] = x[i, n] - row[i, 0] + row[M - 1 - i, 1]


def test_scratch_of_several_phases():
    agree(scratch_two, normal(3, 5), tiles={"n": 2}, rtol=1e-6, atol=1e-6)


def host_scalars(x: f32[N], a: f32, b: f32, o: Out[f32[N]]):
    c = a * 2 + b if N > 3 else b
    kdsl.require(a > 0 and b > 0, N % 2 == 0, 0 < a < 10)
    for i in kdsl.parallel(N):
        o[i] = x[i] * c
    for i in kdsl.parallel(1):
        o[i] = o[i] + c * a


def test_host_scalars_are_made_again_where_phases_use_them():
    agree(host_scalars, normal(4), 0.5, 2.0)


def spreads(x: T[M, N], v: Out[f32[M]], s: Out[f32[M]], u: Out[f32[N]], w: Out[f32[()]]):
    for i in kdsl.parallel(M):
        v[i], s[i] = x[i].var(), kdsl.std(x[i], ddof=1)
    for n in kdsl.parallel(kdsl.tiles(N)):
        u[n] = x[:, n].std(axis=0)
    for _ in kdsl.parallel(1):
        w[()] = kdsl.var(x[:], keepdims=False, ddof=1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_var_and_std_are_those_of_numpy(dtype):
    x = normal(5, 19, dtype=dtype)
    got = agree(spreads, x, tiles={"n": 7}, rtol=1e-5)
    wide = x.astype(np.float64)
    want = (wide.var(axis=1), wide.std(axis=1, ddof=1), wide.std(axis=0), wide.var(ddof=1))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-5)
