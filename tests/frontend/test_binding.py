"""Static functions as parameters, and parameters fixed by `bind`: both ways agree."""

from __future__ import annotations

import re
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from kdsl import lang as kdsl
from kdsl.errors import KernelError
from kdsl.frontend import bind, capture, lower
from kdsl.frontend.reference import reference
from kdsl.ir import interp
from kdsl.ir.verify import verify
from kdsl.lang import Out, Static, bf16, f16, f32

B, H, M, N, K = kdsl.dims("B H M N K")
T = kdsl.dtypes("T", f32, bf16)
U = kdsl.dtypes("U", f32, f16)

RNG = np.random.default_rng(5)


def scores(
    x: f32[H, M, N], slope: f32[H], scale: f32, o: Out[f32[H, M, N]], *,
    score_mod: Static[Callable] = None,
):  # fmt: skip
    for h, m in kdsl.parallel(H, kdsl.tiles(M)):
        for n in kdsl.tiles(N):
            s = x[h, m, n] * scale
            if score_mod is not None:
                s = score_mod(s, h, m, n)
            o[h, m, n] = s


def alibi(s, h, m, n, slope):
    return s - slope[h] * abs(m.index[:, None] - n.index)


def by_name(s, h, m, n, *, scale, slope):
    return s * scale + slope[h]


SIZES = (3, 5, 7)


def inputs():
    x = RNG.integers(-4, 5, SIZES).astype(np.float32)
    return x, np.float32([1, 2, 3]), 2.0


def both(source, *args, statics=None, dtypes=None):
    """The reference's only output, which the interpreted IR gives too."""
    expected = reference(source, args, statics or {}, {"m": 2, "n": 3})
    func = lower(source, dtypes or {}, statics or {})
    verify(func)
    got = np.full_like(expected, 99)
    interp.run(func, dict(zip((p.name for p in func.params), (*args, got), strict=True)))
    np.testing.assert_array_equal(got, expected)
    return expected


def distance():
    return abs(np.arange(SIZES[1])[:, None] - np.arange(SIZES[2]))


def test_without_a_function_the_branch_for_it_is_gone():
    x, slope, scale = inputs()
    source = capture(scores)
    np.testing.assert_array_equal(both(source, x, slope, scale), x * 2)
    assert source.signature.text == (
        "scores(x: f32[H, M, N], slope: f32[H], scale: f32, o: Out[f32[H, M, N]])"
    )


def test_a_bound_function_is_inlined_and_gets_parameters_of_the_kernel_by_name():
    x, slope, scale = inputs()
    source = bind(capture(scores), {"score_mod": alibi}, "scores_alibi")
    want = x * 2 - slope[:, None, None] * distance()
    np.testing.assert_array_equal(both(source, x, slope, scale), want)
    assert lower(source, {}, {}).name == "scores_alibi"
    assert source.signature.text.startswith("scores_alibi(x: f32[H, M, N], slope: f32[H]")


def test_scalars_and_keyword_only_arguments_come_from_the_kernel_too():
    x, slope, scale = inputs()
    source = bind(capture(scores), {"score_mod": by_name}, None)
    want = x * 4 + slope[:, None, None]
    np.testing.assert_array_equal(both(source, x, slope, scale), want)


def test_a_lambda_with_a_closure_and_a_function_of_the_language():
    x, slope, scale = inputs()
    by = 3.0
    source = bind(capture(scores), {"score_mod": lambda s, h, m, n: s + by}, None)
    np.testing.assert_array_equal(both(source, x, slope, scale), x * 2 + 3)

    def activated(x: f32[N], o: Out[f32[N]], activation: Static[Callable] = kdsl.abs):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = activation(x[n])

    row = np.float32([-1, 2])
    np.testing.assert_array_equal(both(capture(activated), row), [1, 2])
    bound = bind(capture(activated), {"activation": kdsl.floor}, None)
    np.testing.assert_array_equal(both(bound, row + 0.5), [-1, 2])


def test_a_bound_function_can_be_bound_anew():
    x, slope, scale = inputs()
    source = bind(capture(scores), {"score_mod": alibi}, "a")
    again = bind(source, {"score_mod": None}, "b")
    np.testing.assert_array_equal(both(again, x, slope, scale), x * 2)
    assert again.signature.fixed == ("score_mod",)


def test_the_cache_key_has_the_functions_text_and_what_it_captures():
    def texts(by):
        def shifted(s, h, m, n):
            return s + by

        return bind(capture(scores), {"score_mod": shifted}, None).captured()

    assert texts(1) == texts(1)
    assert texts(1) != texts(2)
    plain, bound = capture(scores), bind(capture(scores), {"score_mod": alibi}, None)
    assert dict(plain.captured())["score_mod"] == "None"
    assert "slope" in dict(bound.captured())["score_mod"]


# ---- other statics


def powers(x: U[N], o: Out[f32[N, K]], *, K: Static[int], causal: Static[bool] = False):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n][:, None] * (kdsl.arange(K) + (1 if causal else 0))


def filled(x: f32[N], T: Static[T], o: Out[T[N]], n_more: Static[int] = 1):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = (x[n] + n_more).astype(T)


def test_a_bound_integer_is_the_dim_that_it_binds():
    x = np.float16([1, 2])
    source = bind(capture(powers), {"K": 3}, "powers3")
    assert source.signature.text == ("powers3(x: U[N], o: Out[f32[N, 3]], *, causal: bool = False)")
    assert source.signature.dims == ("N",)
    got = both(source, x, dtypes={"U": f16})
    np.testing.assert_array_equal(got, x[:, None].astype(np.float32) * [0, 1, 2])
    all_ = bind(source, {"causal": True}, None)
    got = both(all_, x, dtypes={"U": f16})
    np.testing.assert_array_equal(got, x[:, None].astype(np.float32) * [1, 2, 3])


def test_a_bound_dtype_is_the_variable_that_it_binds():
    source = bind(capture(filled), {"T": bf16, "n_more": 2}, None)
    assert source.signature.text == "filled(x: f32[N], o: Out[bf16[N]])"
    assert source.signature.dtype_vars == ()
    got = both(source, np.float32([1, 257]))
    assert got.dtype == ml_dtypes.bfloat16
    assert got.astype(np.float32).tolist() == [3, 260]


# ---- refused

BIND = [
    (
        scores, {"score_mod": 3},
        "TypeError: scores: `score_mod` is a function written in Python or None, got 3",
    ),
    (
        scores, {"scale": 2.0},
        "TypeError: scores: `scale` is no static parameter; there are: score_mod",
    ),
    (scores, {"mod": alibi}, "TypeError: scores: `mod` is no parameter; there are: score_mod"),
    (powers, {"K": True}, "TypeError: powers: `K` is of type int, got True"),
    (powers, {"K": -1}, "ValueError: powers: `K` is a size, got -1"),
    (powers, {"causal": 1}, "TypeError: powers: `causal` is of type bool, got 1"),
    (filled, {"T": 1}, "TypeError: filled: `T` is of type dtype, got 1"),
    (filled, {"T": f16}, "ValueError: filled: `T` is one of f32, bf16, got f16"),
]  # fmt: skip


@pytest.mark.parametrize(("kernel", "statics", "message"), BIND)
def test_what_cannot_be_bound(kernel, statics, message):
    with pytest.raises((TypeError, ValueError)) as caught:
        bind(capture(kernel), statics, None)
    assert f"{type(caught.value).__name__}: {caught.value}" == message


def test_what_is_bound_cannot_be_bound_again_or_called_otherwise():
    source = bind(capture(powers), {"K": 3}, None)
    with pytest.raises(TypeError, match=r"^powers: `K` is fixed already, to 3$"):
        bind(source, {"K": 4}, None)
    with pytest.raises(
        ValueError, match=re.escape("powers: a kernel's name is an identifier, got 'a b'")
    ):
        bind(source, {}, "a b")
    text = "scores(x: f32[H, M, N], slope: f32[H], scale: f32, o: Out[f32[H, M, N]])"
    with pytest.raises(TypeError) as caught:
        reference(capture(scores), inputs(), {"score_mod": alibi})
    assert str(caught.value) == (
        f"{text}: `score_mod` is fixed when a kernel is compiled, no call passes it; "
        "`scores.bind(score_mod=...)` is a kernel with another value"
    )


def test_a_function_without_default_must_be_bound_first():
    def k(x: f32[N], f: Static[Callable], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = f(x[n])

    source, row = capture(k), np.float32([4, 9])
    message = r"^k: the static function `f` has no value; `k.bind\(f=...\)` gives it one$"
    with pytest.raises(ValueError, match=message):
        lower(source, {}, {})
    with pytest.raises(ValueError, match=message):
        reference(source, [row], {})
    np.testing.assert_array_equal(both(bind(source, {"f": kdsl.sqrt}, None), row), [2, 3])


def needs_bias(s, h, m, n, bias):
    return s + bias[h]


def test_an_extra_argument_that_is_no_parameter_of_the_kernel():
    source = bind(capture(scores), {"score_mod": needs_bias}, None)
    with pytest.raises(KernelError) as caught:
        lower(source, {}, {})
    call = "score_mod(s, h, m, n)"
    message = str(caught.value)
    assert message.startswith("`score_mod` needs `bias`\n")
    assert f"{'^' * len(call)} neither the call nor `scores` has a `bias`" in message
    assert message.endswith(
        "help: further arguments of a static function are named like parameters of the kernel"
    )


def test_calling_a_function_that_is_none():
    def k(x: f32[N], o: Out[f32[N]], f: Static[Callable | None] = None):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = f(x[n])

    with pytest.raises(KernelError, match="`f` is no function"):
        lower(capture(k), {}, {})
