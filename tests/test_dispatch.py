"""Which specialisation a call runs, read off its arguments."""

from __future__ import annotations

from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from kdsl import lang as kdsl
from kdsl.dispatch import Dispatch
from kdsl.driver import Specialisation
from kdsl.dtypes import bf16, f16, f32
from kdsl.frontend.source import capture
from kdsl.lang import Out, Static

T = kdsl.dtypes("T", f16, bf16, f32)
M, N, D = kdsl.dims("M N D")

config = SimpleNamespace(eps=1e-6)
table = [1, 2]


def rows(x: T[M, D], scale: f32, o: Out[T[M, D]], *, causal: Static[bool] = False):
    for m in kdsl.parallel(M):
        o[m] = x[m] * scale


class Compiler:
    """Stands for the real one; each function returns the specialisation it is for."""

    def __init__(self, function, fixed=("D",)):
        self.source = capture(function)
        self.fixed = fixed
        self.compiled = []

    def fixed_dims(self, spec, first):
        return self.fixed

    def function(self, spec, first):
        first()
        self.compiled.append(spec)
        return lambda *args, **kwargs: spec

    def any_function(self):
        return lambda *args, **kwargs: "no choice"

    def forget(self):
        self.compiled.append("forgotten")


@pytest.fixture
def compiler():
    return Compiler(rows)


@pytest.fixture
def call(compiler):
    dispatch = Dispatch(compiler)
    return lambda *args, **kwargs: dispatch(args, kwargs)


def spec(dtype, *, causal=False, **sizes):
    return Specialisation((("T", dtype),), (("causal", causal),), tuple(sizes.items()))


def test_dtype_static_and_size_choose_the_function(call):
    x = np.zeros((3, 64), np.float32)
    assert call(x, 1.0) == spec(f32, D=64)
    assert call(x, 1.0, causal=True) == spec(f32, causal=True, D=64)
    assert call(x[:, :32], 1.0, None) == spec(f32, D=32)
    assert call(x.astype(ml_dtypes.bfloat16), 1.0, None, True) == spec(bf16, causal=True, D=64)
    assert call(scale=1.0, x=x.astype(np.float16)) == spec(f16, D=64)


def test_a_second_call_with_the_same_choice_compiles_nothing(call, compiler):
    for rows in (1, 2, 3):
        call(np.zeros((rows, 8), np.float32), 1.0)
        call(np.zeros((rows, 8), np.float32), 1.0, causal=False)
        call(np.zeros((rows, 8), np.float32), 1.0, None, np.bool_(False))
    assert len(compiler.compiled) == 1


def test_torch_tensors_choose_as_numpy_arrays_do(call):
    torch = pytest.importorskip("torch")
    assert call(torch.zeros(3, 8, dtype=torch.bfloat16), 1.0) == spec(bf16, D=8)


@pytest.mark.parametrize("size", [0, 1025])
def test_sizes_that_make_no_code_of_their_own_run_the_general_variant(call, size):
    assert call(np.zeros((2, size), np.float32), 1.0) == spec(f32)


X = np.zeros((2, 8), np.float32)


ROWS = "rows(x: T[M, D], scale: f32, o: Out[T[M, D]], *, causal: bool = False): "
CHOICES = "argument 0 `x`: expected T[M, D] with T one of f16, bf16, f32, got "


@pytest.mark.parametrize(
    ("args", "kwargs", "text"),
    [
        ((), {}, "expected 2 to 4 arguments, got 0"),
        ((None, 1.0), {}, CHOICES + "None"),
        (([1.0], 1.0), {}, CHOICES + "list"),
        (("x", 1.0), {}, CHOICES + "str"),
        ((X.astype(np.float64), 1.0), {}, CHOICES + "f64[2, 8]"),
        ((X.astype("S1"), 1.0), {}, CHOICES + "bytes8[2, 8]"),
        ((X[0], 1.0), {}, CHOICES + "f32[8]"),
        ((X, "1"), {}, "argument 1 `scale`: expected f32, got str"),
        ((X, 1.0), {"causal": 2}, "argument 3 `causal`: expected bool, got int 2"),
        ((X, 1.0), {"causal": [True]}, "argument 3 `causal`: expected bool, got list"),
        ((X, 1.0), {"causal": X}, "argument 3 `causal`: expected bool, got f32[2, 8]"),
        ((X, 1.0), {"strict": True},
         "got unknown keyword `strict`; the parameters are x, scale, o, causal"),
        ((X, 1.0), {"x": X}, "argument 0 `x`: got two values for it"),
        ((X, 1.0, None, False, None), {}, "expected 2 to 4 arguments, got 5"),
        ((X, 1.0, X.astype(np.float16)), {},
         "argument 2 `o`: expected f32[M=2, D=8], got f16[2, 8]"),
    ],
    ids=str,
)  # fmt: skip
def test_what_the_signature_alone_refuses_is_told_before_anything_compiles(
    call, compiler, args, kwargs, text
):
    with pytest.raises(TypeError) as caught:
        call(*args, **kwargs)
    assert str(caught.value) == ROWS + text
    assert compiler.compiled == []


def test_what_only_a_module_can_read_goes_to_whichever_function_there_is(call):
    assert call(bytearray(64), 1.0) == "no choice"


def make_scaled(factor):
    def scaled(x: T[M, D], o: Out[T[M, D]]):
        for m in kdsl.parallel(M):
            o[m] = x[m] * factor * config.eps

    def change(value):
        nonlocal factor
        factor = value

    return scaled, change


def test_a_closure_variable_or_attribute_bound_anew_makes_the_next_call_look_again(monkeypatch):
    scaled, change = make_scaled(2.0)
    compiler = Compiler(scaled)
    dispatch = Dispatch(compiler)
    dispatch((X,), {})
    dispatch((X,), {})
    assert compiler.compiled.count("forgotten") == 0
    change(3.0)
    dispatch((X,), {})
    dispatch((X,), {})
    assert compiler.compiled.count("forgotten") == 1
    monkeypatch.setattr(config, "eps", 1e-5)
    dispatch((X,), {})
    assert compiler.compiled.count("forgotten") == 2


def listed(x: T[M, D], o: Out[T[M, D]]):
    for m in kdsl.parallel(M):
        o[m] = x[m] * table[0]


def test_a_captured_list_is_looked_into_at_every_call():
    compiler = Compiler(listed)
    dispatch = Dispatch(compiler)
    dispatch((X,), {})
    dispatch((X,), {})
    assert compiler.compiled.count("forgotten") == 0
    table[0] += 1
    dispatch((X,), {})
    assert compiler.compiled.count("forgotten") == 1


def powered(x: f32[M], o: Out[f32[M]], *, power: Static[int]):
    for m in kdsl.parallel(M):
        o[m] = x[m] ** power


def test_a_wrong_call_of_a_kernel_that_has_no_default_is_told_without_compiling():
    compiler = Compiler(powered, fixed=())

    def any_function():
        raise ValueError("no default")

    compiler.any_function = any_function
    dispatch = Dispatch(compiler)
    head = "powered(x: f32[M], o: Out[f32[M]], *, power: int): "
    text = head + "argument "
    with pytest.raises(TypeError) as caught:
        dispatch((X[0],), {})
    assert str(caught.value) == head + "expected 3 arguments, got 1"
    with pytest.raises(TypeError) as caught:
        dispatch((), {"x": X[0]})
    assert str(caught.value) == text + "2 `power`: expected int, got nothing"
    with pytest.raises(TypeError) as caught:
        dispatch((X,), {"power": "two"})
    assert str(caught.value) == text + "0 `x`: expected f32[M], got f32[2, 8]"
    with pytest.raises(TypeError) as caught:
        dispatch((X[0],), {"power": "two"})
    assert str(caught.value) == text + "2 `power`: expected int, got str"
    assert compiler.compiled == []
