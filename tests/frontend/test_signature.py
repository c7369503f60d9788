"""Signatures: kinds, binding order, text, and what a call's arguments are told."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from kdsl import lang as kdsl
from kdsl.dtypes import DType, boolean, f32, i64
from kdsl.frontend import MISSING, capture, lower
from kdsl.frontend.reference import reference
from kdsl.lang import InOut, Out, Static
from tests import kernels
from tests.frontend.refusal import NAMES, define

T = kdsl.dtypes("T", f32, kdsl.bf16)
U = kdsl.dtypes("U", f32, kdsl.f16)
M, N, K = kdsl.dims("M N K")


def everything(
    x: T[M, N], y: InOut[f32[N, 3]], n: i64, a: T, flag: boolean, z: f32[M + 1], o: Out[T[N // 2]],
    s: Out[f32[()]], low: f32 = -1.5, *, causal: Static[bool] = False, K: Static[int] = 4,
    U: Static[U],
):  # fmt: skip
    """The first line.

    More.
    """
    for i in kdsl.parallel(N // 2):
        o[i] = x[0, i] * a
    for _ in kdsl.parallel(1):
        s[()] = low


def test_every_kind_of_parameter():
    source = capture(everything)
    signature = source.signature
    assert signature.text == (
        "everything(x: T[M, N], y: InOut[f32[N, 3]], n: i64, a: T, flag: bool, z: f32[M + 1], "
        "o: Out[T[N // 2]], s: Out[f32[()]], low: f32 = -1.5, *, causal: bool = False, "
        "K: int = 4, U: dtype)"
    )
    assert [p.kind for p in signature] == [
        "in", "inout", "scalar", "scalar", "scalar", "in", "out", "out", "scalar", "static",
        "static", "static",
    ]  # fmt: skip
    assert signature.dims == ("M", "N")
    assert [v.name for v in signature.dtype_vars] == ["T"]
    assert signature["x"].default is MISSING
    assert signature["K"].default == 4
    assert signature["K"].keyword_only
    assert signature["U"].type is DType
    assert source.doc == "The first line.\n\nMore."
    assert source.name == "everything"
    func = lower(source, {"T": f32}, {"causal": True, "U": f32})
    assert func.name == "everything_f32_causal_K4"
    assert [p.name for p in func.params] == ["x", "y", "n", "a", "flag", "z", "o", "s", "low"]


def test_dims_are_in_the_order_in_which_parameters_bind_them():
    assert capture(kernels.attention).signature.dims == ("B", "H", "M", "D", "G", "N")


@pytest.mark.parametrize(
    ("dtypes", "statics", "name"),
    [
        ({"T": "f32"}, {}, "attention_f32"),
        ({"T": "bf16"}, {"causal": True}, "attention_bf16_causal"),
        ({"T": "f16"}, {"causal": False}, "attention_f16"),
    ],
)
def test_a_specialisation_is_named_after_its_choices(dtypes, statics, name):
    chosen = {n: getattr(kdsl, d) for n, d in dtypes.items()}
    assert lower(capture(kernels.attention), chosen, statics).name == name


def test_missing_choices_are_errors():
    source = capture(kernels.attention)
    with pytest.raises(ValueError, match="dtype variable T is one of f32, bf16, f16, got None"):
        lower(source, {}, {})
    text = "def k(x: f32[N], *, n: Static[int]):\n    pass\n"
    with pytest.raises(ValueError, match="k: static parameter `n` has no value"):
        lower(capture(define(text), source=text), {}, {})


# ---- arguments of a call

Q = np.zeros((1, 4, 5, 8), np.float32)
KV = np.zeros((1, 2, 7, 8), np.float32)
TEXT = capture(kernels.attention).signature.text
OUT, LSE = np.zeros((1, 4, 5, 8), np.float32), np.zeros((1, 4, 5), np.float32)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        ((Q, KV, KV), {}, TypeError, "expected 4 to 7 arguments, got 3"),
        ((Q, KV), {"v": KV}, TypeError, "argument 3 `scale`: expected f32, got nothing"),
        ((Q, KV, KV, 1.0, OUT, LSE, True, None), {}, TypeError,
         "expected 4 to 7 arguments, got 8"),
        ((Q, KV, KV, 1.0), {"causl": True}, TypeError,
         "got unknown keyword `causl`; the parameters are q, k, v, scale, o, lse, causal"),
        ((Q, KV, KV, 1.0), {"q": Q}, TypeError, "argument 0 `q`: got two values for it"),
        ((Q, KV, KV, 1.0, OUT), {}, TypeError,
         "argument 5 `lse`: expected f32[B=1, H=4, M=5], got None; "
         "outputs are given all or omitted all"),
        ((Q, KV, KV, 1.0), {"lse": LSE}, TypeError,
         "argument 4 `o`: expected f32[B=1, H=4, M=5, D=8], got None; "
         "outputs are given all or omitted all"),
        ((None, KV, KV, 1.0), {}, TypeError,
         "argument 0 `q`: expected T[B, H, M, D] with T one of f32, bf16, f16, got None"),
        ((3, KV, KV, 1.0), {}, TypeError,
         "argument 0 `q`: expected T[B, H, M, D] with T one of f32, bf16, f16, got int 3"),
        (("a", KV, KV, 1.0), {}, TypeError,
         "argument 0 `q`: expected T[B, H, M, D] with T one of f32, bf16, f16, got str"),
        (([1], KV, KV, 1.0), {}, TypeError,
         "argument 0 `q`: expected T[B, H, M, D] with T one of f32, bf16, f16, got list"),
        ((Q.astype(np.int32), KV, KV, 1.0), {}, TypeError,
         "argument 0 `q`: expected T[B, H, M, D] with T one of f32, bf16, f16, "
         "got i32[1, 4, 5, 8]"),
        ((Q.astype(np.complex64), KV, KV, 1.0), {}, TypeError,
         "argument 0 `q`: expected T[B, H, M, D] with T one of f32, bf16, f16, "
         "got complex64[1, 4, 5, 8]"),
        ((Q, KV.astype(ml_dtypes.bfloat16), KV, 1.0), {}, TypeError,
         "argument 1 `k`: expected f32[B=1, G, N, D=8], got bf16[1, 2, 7, 8]"),
        ((Q, KV[0], KV, 1.0), {}, TypeError,
         "argument 1 `k`: expected f32[B=1, G, N, D=8], got f32[2, 7, 8]"),
        ((Q, KV, KV[:, :, 1:], 1.0), {}, ValueError,
         "argument 2 `v`: expected f32[B=1, G=2, N=7, D=8], got f32[1, 2, 6, 8]"),
        ((Q, KV, KV, "1"), {}, TypeError, "argument 3 `scale`: expected f32, got str"),
        ((Q, KV, KV, True), {}, TypeError, "argument 3 `scale`: expected f32, got bool True"),
        ((Q, KV, KV, 1.0), {"causal": 1}, TypeError,
         "argument 6 `causal`: expected bool, got int 1"),
        ((Q, KV, KV, 1.0, OUT[:, :, 1:], LSE), {}, ValueError,
         "argument 4 `o`: expected f32[B=1, H=4, M=5, D=8], got f32[1, 4, 4, 8]"),
        ((Q, KV, KV, -1.0), {}, ValueError, "require scale > 0 failed: scale=-1.0"),
        ((Q[:, :3], KV, KV, 1.0), {}, ValueError, "require H % G == 0 failed: H=3, G=2"),
        ((Q, KV[:, :0], KV[:, :0], 1.0), {}, ValueError, "division by zero in H % G: H=4, G=0"),
    ],
)  # fmt: skip
def test_what_a_wrong_call_is_told(args, kwargs, error, message):
    with pytest.raises(error) as caught:
        reference(capture(kernels.attention), args, kwargs)
    assert str(caught.value) == f"{TEXT}: {message}"


def test_none_means_omitted():
    o, lse = reference(capture(kernels.attention), (Q, KV, KV, 1.0, None, None), {"causal": None})
    assert o.shape == Q.shape
    assert lse.shape == (1, 4, 5)


def test_given_outs_are_filled():
    o, lse = OUT.copy(), LSE.copy()
    assert reference(capture(kernels.attention), (Q, KV, KV + 1, 1.0, o, lse), {}) is None
    assert (o == 1).all()


def test_a_read_only_out_is_refused():
    o = OUT.copy()
    o.flags.writeable = False
    with pytest.raises(ValueError, match=r"argument 4 `o`: .* that may be written, got read-only"):
        reference(capture(kernels.attention), (Q, KV, KV, 1.0, o, LSE), {})


def test_integer_scalars_have_a_range():
    text = (
        "def k(x: f32[N], n: u8, o: Out[f32[N]]):\n"
        "    for i in kdsl.parallel(N):\n        o[i] = x[i] * n\n"
    )
    source = capture(define(text), source=text)
    with pytest.raises(ValueError, match="`n`: expected u8, got int 256, which is out of range"):
        reference(source, (np.zeros(2, np.float32), 256), {})


def test_a_size_that_two_parameters_bind_must_agree():
    text = "def k(x: f32[N], *, N: Static[int], o: Out[f32[N]]):\n    pass\n"
    names = dict(NAMES)
    names["N"] = N
    text = (
        "def k(x: f32[N], o: Out[f32[N]], *, N: Static[int]):\n"
        "    for i in kdsl.parallel(N):\n        o[i] = x[i]\n"
    )
    source = capture(define(text, names), source=text)
    with pytest.raises(ValueError, match="argument 2 `N`: expected N=2, got int 3"):
        reference(source, (np.zeros(2, np.float32),), {"N": 3})


def test_sizes_that_are_expressions_are_checked_on_inputs():
    text = (
        "def k(x: f32[N], y: f32[2 * N + 1], o: Out[f32[N]]):\n"
        "    for i in kdsl.parallel(N):\n        o[i] = y[2 * i]\n"
    )
    source = capture(define(text), source=text)
    with pytest.raises(ValueError) as caught:
        reference(source, (np.zeros(2, np.float32), np.zeros(4, np.float32)), {})
    assert str(caught.value).endswith("argument 1 `y`: expected f32[2 * N + 1=5], got f32[4]")
