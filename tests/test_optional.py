"""Optional tensors, compiled: a specialisation with and one without, chosen by each call."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import kdsl
from kdsl import Out, f32, i32

M, N = kdsl.dims("M N")


@kdsl.kernel
def shifted(x: f32[M, N], length: i32[M] | None, o: Out[f32[M, N]], bias: f32[N] | None = None):
    for i in kdsl.parallel(M):
        row = x[i]
        if length is not None:
            row = kdsl.where(kdsl.arange(N) < length[i], row, 0)
        o[i] = row if bias is None else row + bias[:]


TEXT = "shifted(x: f32[M, N], length: i32[M] | None, o: Out[f32[M, N]], bias: f32[N] | None = None)"
X = np.arange(6, dtype=np.float32).reshape(2, 3)
LENGTH = np.array([1, 2], np.int32)
BIAS = np.float32([10, 20, 30])


def want(length, bias):
    rows = X if length is None else np.where(np.arange(3) < length[:, None], X, 0)
    return rows if bias is None else rows + bias


CALLS = [(None, None), (LENGTH, None), (None, BIAS), (LENGTH, BIAS)]


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    path = tmp_path_factory.mktemp("optional") / "shifted.so"
    shifted.export(path)
    return kdsl.load_module(path).shifted


@pytest.mark.parametrize(("length", "bias"), CALLS)
def test_one_module_holds_all_and_each_call_chooses(exported, length, bias):
    np.testing.assert_array_equal(exported(X, length, bias=bias), want(length, bias))
    out = np.empty_like(X)
    assert exported(X, length, out, bias) is None
    np.testing.assert_array_equal(out, want(length, bias))


def test_a_call_of_the_kernel_compiles_what_it_needs():
    np.testing.assert_array_equal(shifted(X, None), X)
    np.testing.assert_array_equal(shifted(X, LENGTH, bias=BIAS), want(LENGTH, BIAS))
    np.testing.assert_array_equal(shifted(X, None), X)
    assert shifted.check(X, LENGTH, bias=BIAS).ok


def test_a_tensor_without_gaps_is_made_of_one_with(exported):
    wide = np.repeat(BIAS, 2)[::2]
    np.testing.assert_array_equal(exported(X, None, bias=wide), X + BIAS)


WRONG = [
    ((X, None, None, np.ones(4, "f4")), ValueError, "3 `bias`: expected f32[N=3], got f32[4]"),
    ((X, X), TypeError, "1 `length`: expected i32[M=2], got f32[2, 3]"),
    ((X, 3), TypeError, "1 `length`: expected i32[M=2], got int 3"),
    ((None, None), TypeError, "0 `x`: expected f32[M, N], got None"),
]  # fmt: skip


@pytest.mark.parametrize(("args", "kind", "message"), WRONG)
def test_wrong_ones_are_told_alike_by_module_and_reference(exported, args, kind, message):
    for call in (exported, shifted, shifted.reference):
        with pytest.raises(kind) as caught:
            call(*args)
        assert str(caught.value) == f"{TEXT}: argument {message}"


def test_an_output_over_an_optional_input_is_refused(exported):
    out = X.copy()
    with pytest.raises(ValueError, match="shares memory with argument 3 `bias`"):
        exported(X, None, out, out[0])


def test_only_the_listed_ones_are_compiled(tmp_path):
    shifted.export(tmp_path / "one.so", statics={"length": [False], "bias": [True]})
    one = kdsl.load_module(tmp_path / "one.so").shifted
    np.testing.assert_array_equal(one(X, None, bias=BIAS), X + BIAS)
    with pytest.raises(ValueError) as caught:
        one(X, LENGTH)
    assert str(caught.value) == (
        f"{TEXT}: not compiled for length=True, bias=False; compiled: length=False, bias=True"
    )
    with pytest.raises(ValueError, match="the static `bias` is a bool, got 3"):
        shifted.export(tmp_path / "one.so", statics={"bias": [3]})
    with pytest.raises(TypeError) as caught:
        shifted.bind(bias=None)
    assert str(caught.value) == (
        "shifted: `bias` is no static parameter; there are: none. An export without `bias` is "
        'export(..., statics={"bias": [False]})'
    )


def test_the_metadata_and_the_signature_say_so(exported):
    parameters = {p["name"]: p for p in exported.metadata["params"]}
    assert parameters["length"] == {
        "name": "length", "kind": "in", "type": "tensor", "dtype": "i32", "shape": ["M"],
        "optional": True,
    }  # fmt: skip
    assert parameters["bias"]["default"] is None
    schema = json.loads(exported.metadata["type_schema"])
    assert [a["type"] for a in schema["args"][1:]] == ["DLTensor*", *["Optional"] * 3]
    assert str(inspect.signature(exported)) == (
        "(x: 'f32[M, N]', length: 'i32[M] | None', o: 'Out[f32[M, N]]' = None, "
        "bias: 'f32[N] | None' = None)"
    )
