"""Kernels, dims and dtypes go where Python values go: pickles, copies, iteration that ends."""

import copy
import pickle

import pytest

import kdsl
from kdsl import Out, f32

N = kdsl.dims("N")[0]


@kdsl.kernel
def double(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] + x[n]


def test_a_kernel_is_pickled_by_name_and_copied_as_itself(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, __name__, __import__("sys").modules[__name__])
    assert pickle.loads(pickle.dumps(double)) is double
    assert copy.copy(double) is double
    assert copy.deepcopy([double])[0] is double


def test_a_kernel_of_a_function_cannot_be_pickled():
    @kdsl.kernel
    def local(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(N):
            o[n] = x[n]

    with pytest.raises((pickle.PicklingError, AttributeError), match="local"):
        pickle.dumps(local)


@pytest.mark.parametrize("value", [N, N // 2 + 1, kdsl.bf16, kdsl.f32[N, N // 2]], ids=str)
def test_dims_and_dtypes_come_back_equal(value):
    assert pickle.loads(pickle.dumps(value)) == value
    assert copy.deepcopy(value) == value


def test_a_dtype_comes_back_as_itself():
    assert pickle.loads(pickle.dumps(kdsl.f32)) is kdsl.f32


@pytest.mark.parametrize("dtype", [f32, kdsl.dtypes("T", f32)], ids=str)
def test_a_dtype_is_nothing_to_walk_over(dtype):
    with pytest.raises(TypeError, match="not iterable"):
        list(dtype)
    with pytest.raises(TypeError):
        3.0 in dtype  # noqa: B015
