"""A wrong call is told the same by the compiled kernel and by the reference run."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

import kdsl
from kdsl import KernelError, Out, Static, f32, i32

M, N = kdsl.dims("M N")
TEXT = "scaled(x: f32[M, N, N], by: f32, add: i32, o: Out[f32[M, N, N]], *, flag: bool = False)"


@kdsl.kernel
def scaled(x: f32[M, N, N], by: f32, add: i32, o: Out[f32[M, N, N]], *, flag: Static[bool] = False):
    for m in kdsl.parallel(M):
        o[m] = x[m] * by + add if flag else x[m]


X = np.ones((2, 3, 3), np.float32)
F = np.ones((5, 7), np.float32)
WRONG = [
    ((np.ones((2, 5, 7), np.float32), 1.0, 1), {}, ValueError,
     "argument 0 `x`: expected f32[M, N=5, N=5], got f32[2, 5, 7]"),
    ((F, 1.0, 1), {}, TypeError, "argument 0 `x`: expected f32[M, N, N], got f32[5, 7]"),
    ((X, 1.0, 1, np.ones((2, 3, 4), np.float32)), {}, ValueError,
     "argument 3 `o`: expected f32[M=2, N=3, N=3], got f32[2, 3, 4]"),
    ((X, np.array(1.0, np.float32), 1), {}, TypeError,
     "argument 1 `by`: expected a number (f32), got the tensor f32[()]; pass by.item()"),
    ((X, 1.0, np.array(1)), {}, TypeError,
     "argument 2 `add`: expected a number (i32), got the tensor i64[()]; pass add.item()"),
    ((X, torch.tensor(1.0), 1), {}, TypeError,
     "argument 1 `by`: expected a number (f32), got the tensor f32[()]; pass by.item()"),
    ((X, X, 1), {}, TypeError, "argument 1 `by`: expected f32, got f32[2, 3, 3]"),
    ((X, 1e300, 1), {}, ValueError,
     "argument 1 `by`: expected f32, got float 1e+300, which is out of range"),
    ((X, 2**2000, 1), {}, ValueError,
     "argument 1 `by`: expected f32, got int of 2001 bits, which is out of range"),
    ((X, 1.0, 2**31), {}, ValueError,
     "argument 2 `add`: expected i32, got int 2147483648, which is out of range"),
    ((X, 1.0, 1), {"flag": F}, TypeError, "argument 4 `flag`: expected bool, got f32[5, 7]"),
    ((X, 1.0, 1), {"flag": 1}, TypeError, "argument 4 `flag`: expected bool, got int 1"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "kwargs", "kind", "text"), WRONG)
@pytest.mark.parametrize("call", [scaled, scaled.reference], ids=["compiled", "reference"])
def test_a_wrong_call_is_told_the_same(call, args, kwargs, kind, text):
    with pytest.raises(kind) as caught:
        call(*args, **kwargs)
    assert str(caught.value) == f"{TEXT}: {text}"


@pytest.mark.parametrize("by", [np.float32(2), np.float64(2), np.int64(2), 2, 2.0])
@pytest.mark.parametrize("flag", [True, np.True_])
def test_numbers_of_numpy_are_numbers(by, flag):
    got = scaled(X, by, np.int32(1), flag=flag)
    want = scaled.reference(X, by, np.int32(1), flag=flag)
    assert (got == want).all()
    assert (got == 3).all()


def test_a_float_takes_an_integer_of_any_size():
    got = scaled(X, 2**80, 0, flag=True)
    assert (got == np.float32(2.0**80)).all()
    assert (scaled.reference(X, 2**80, 0, flag=True) == got).all()


def test_arrays_of_ctypes_are_tensors():
    x = (ctypes.c_float * 3 * 3 * 2)()
    x[1][2][0] = 5.0
    got = np.from_dlpack(scaled(x, 1.0, 1))
    assert got[1, 2, 0] == 5
    assert got.sum() == 5
    o = (ctypes.c_float * 3 * 3 * 2)()
    assert scaled(x, 1.0, 1, o) is None
    assert o[1][2][0] == 5.0
    with pytest.raises(TypeError, match=r"expected f32\[M, N, N\], got f64\[4\]"):
        scaled((ctypes.c_double * 4)(), 1.0, 1)


@kdsl.kernel
def one_name(x: f32[M, N], o: Out[f32[M, N]]):
    for m in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        o[m] = x[m]


@kdsl.kernel
def two_names(x: f32[M, N], o: Out[f32[M, N]]):
    for m, _n in kdsl.parallel(M):
        o[m] = x[m]


@kdsl.kernel
def a_comma(x: f32[M, N], o: Out[f32[M, N]]):
    for (m,) in kdsl.parallel(M):
        o[m] = x[m]


@pytest.mark.parametrize("kernel", [one_name, two_names, a_comma])
def test_loop_variables_that_do_not_fit_are_refused_by_both(kernel):
    texts = []
    for call in (kernel, kernel.reference):
        with pytest.raises(KernelError) as caught:
            call(F)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
