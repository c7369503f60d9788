"""`f32[N] | None`: tensors that a call may leave out; a kernel has a specialisation for each."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from kdsl import lang as kdsl
from kdsl.errors import KernelError
from kdsl.frontend import capture, lower
from kdsl.frontend.reference import reference
from kdsl.ir.printer import show
from kdsl.lang import Out, Static, bf16, f32, i32
from tests.frontend.oracles import agree

M, N = kdsl.dims("M N")
T = kdsl.dtypes("T", f32, bf16)

RNG = np.random.default_rng(6)


def affine(x: T[M, N], o: Out[T[M, N]], weight: T[N] | None = None, bias: f32[N] | None = None):
    for i in kdsl.parallel(M):
        row = x[i].astype(f32)
        if weight is not None:
            row = row * weight[:]
        o[i] = row if bias is None else row + bias[:]


def lengths(x: f32[M, N], length: i32[M] | None, o: Out[f32[M]]):
    for i in kdsl.parallel(M):
        if length is None:
            o[i] = x[i].sum()
        else:
            o[i] = kdsl.where(kdsl.arange(N) < length[i], x[i], 0).sum()


def whole(*shape, dtype=np.float32):
    return RNG.integers(-4, 5, shape).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("with_weight", [False, True])
@pytest.mark.parametrize("with_bias", [False, True])
def test_what_is_left_out_leaves_no_trace(dtype, with_weight, with_bias):
    x, w, b = whole(3, 5, dtype=dtype), whole(5, dtype=dtype), whole(5)
    given = {"weight": w} if with_weight else {}
    given |= {"bias": b} if with_bias else {}
    got = agree(affine, x, **given)
    want = x.astype(np.float64) * (w.astype(np.float64) if with_weight else 1)
    np.testing.assert_array_equal(got.astype(np.float64), want + (b if with_bias else 0))


def test_none_may_stand_in_the_middle_of_the_arguments():
    x = whole(3, 5)
    np.testing.assert_array_equal(agree(lengths, x, None), x.sum(axis=1))
    some = np.array([0, 2, 5], np.int32)
    want = [x[i, :n].sum() for i, n in enumerate(some)]
    np.testing.assert_array_equal(agree(lengths, x, some), want)


def test_a_specialisation_has_the_parameters_that_are_there():
    source = capture(affine)
    assert source.signature.text == (
        "affine(x: T[M, N], o: Out[T[M, N]], weight: T[N] | None = None, "
        "bias: f32[N] | None = None)"
    )
    both = lower(source, {"T": f32}, {"weight": True, "bias": True})
    bare = lower(source, {"T": f32}, {})
    assert both.name == "affine_f32_weight_bias"
    assert [p.name for p in both.params] == ["x", "o", "weight", "bias"]
    assert bare.name == "affine_f32"
    assert [p.name for p in bare.params] == ["x", "o"]
    assert "add" not in show(bare)


def test_a_static_function_may_name_an_optional_tensor():
    def shifted(s, bias):
        return s if bias is None else s + bias[:]

    def k(x: f32[M, N], o: Out[f32[M, N]], bias: f32[N] | None = None,
          mod: Static[Callable] = shifted):  # fmt: skip
        for i in kdsl.parallel(M):
            o[i] = mod(x[i])

    x, b = whole(2, 3), whole(3)
    np.testing.assert_array_equal(agree(k, x), x)
    np.testing.assert_array_equal(agree(k, x, bias=b), x + b)


X = "affine(x: T[M, N], o: Out[T[M, N]], weight: T[N] | None = None, bias: f32[N] | None = None)"
WRONG = [
    ({"bias": np.zeros(3, np.float32)}, ValueError, "3 `bias`: expected f32[N=5], got f32[3]"),
    ({"bias": np.zeros(5)}, TypeError, "3 `bias`: expected f32[N=5], got f64[5]"),
    ({"bias": 1.0}, TypeError, "3 `bias`: expected f32[N=5], got float 1.0"),
    (
        {"weight": np.zeros(5, ml_dtypes.bfloat16)}, TypeError,
        "2 `weight`: expected f32[N=5], got bf16[5]",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "kind", "message"), WRONG)
def test_one_that_is_given_is_checked_as_any_other(given, kind, message):
    with pytest.raises(kind) as caught:
        reference(capture(affine), [whole(2, 5)], given)
    assert str(caught.value) == f"{X}: argument {message}"


def test_without_a_default_it_must_be_passed():
    with pytest.raises(TypeError) as caught:
        reference(capture(lengths), [], {"x": whole(2, 5)})
    assert str(caught.value) == (
        "lengths(x: f32[M, N], length: i32[M] | None, o: Out[f32[M]]): "
        "argument 1 `length`: expected i32[M], got nothing"
    )


def test_using_what_is_left_out_is_an_error_of_that_specialisation():
    def k(x: f32[N], o: Out[f32[N]], bias: f32[N] | None = None):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] + bias[n]

    lower(capture(k), {}, {"bias": True})
    with pytest.raises(KernelError, match="this is not indexed"):
        lower(capture(k), {}, {})
