"""Host expressions: their C++, their Python, what must not be zero."""

from __future__ import annotations

import pytest

from kdsl.codegen.hostexpr import HostValues, extent_c, extent_divisions, literal_c
from kdsl.dims import dims
from kdsl.dtypes import boolean, f32, f64, i32, i64
from kdsl.errors import KernelTypeError
from kdsl.ir import nodes as ir
from kdsl.ir.types import Type

M, N, G = dims("M N G")
NAMES = {name: name for name in ("M", "N", "G", "scale", "flag")}


@pytest.mark.parametrize(
    ("extent", "text", "divisors"),
    [
        (7, "7", []),
        (N, "N", []),
        (N + 1, "N + 1", []),
        ((N + 1) * M, "(N + 1) * M", []),
        (N - (M - G), "N - (M - G)", []),
        (N // 2 + 1, "kdsl::floordiv(N, 2) + 1", []),
        (N % G, "kdsl::mod(N, G)", [("G", "N % G")]),
        (N // (M // G), "kdsl::floordiv(N, kdsl::floordiv(M, G))",
         [("G", "M // G"), ("kdsl::floordiv(M, G)", "N // (M // G)")]),
        (N // 0, "kdsl::floordiv(N, 0)", [("0", "N // 0")]),
    ],
    ids=str,
)  # fmt: skip
def test_extents(extent, text, divisors):
    assert extent_c(extent, NAMES) == text
    assert [(d.divisor, d.text) for d in extent_divisions(extent, NAMES)] == divisors


INT, FLAG, F32 = Type(i64), Type(boolean), Type(f32)
LETS = (
    ir.Let("m", INT, ir.DimSize(M)),
    ir.Let("n", INT, ir.DimSize(N - 1)),
    ir.Let("two", INT, ir.Const("2")),
    ir.Let("scale", F32, ir.Arg("scale")),
    ir.Let("half", F32, ir.Const("0.5")),
    ir.Let("flag", FLAG, ir.Arg("flag")),
    ir.Let("sum", INT, ir.Ew("add", ("m", "n"))),
    ir.Let("product", INT, ir.Ew("mul", ("sum", "two"))),
    ir.Let("wide", F32, ir.Cast("m")),
    ir.Let("positive", FLAG, ir.Ew("gt", ("scale", "half"))),
    ir.Let("quotient", INT, ir.Ew("floordiv", ("m", "sum"))),
    ir.Let("ratio", F32, ir.Ew("div", ("scale", "wide"))),
    ir.Let("both", FLAG, ir.Ew("and", ("flag", "positive"))),
    ir.Let("neither", FLAG, ir.Ew("not", ("both",))),
    ir.Let("most", INT, ir.Ew("maximum", ("m", "two"))),
    ir.Let("chosen", INT, ir.Ew("where", ("flag", "m", "product"))),
    ir.Let("power", F32, ir.Ew("exp2", ("scale",))),
    ir.Let("float_rest", F32, ir.Ew("mod", ("scale", "half"))),
    ir.Let("root", F32, ir.Ew("sqrt", ("ratio",))),
    ir.Let("small", Type(i32), ir.Cast("m")),
    ir.Let("line", F32, ir.Ew("fma", ("scale", "half", "wide"))),
)
VALUES = HostValues(ir.Func("f", (), ("M", "N"), (), (), LETS, ()), NAMES)


@pytest.mark.parametrize(
    ("value", "c", "python"),
    [
        ("sum", "M + (N - 1)", "M + (N - 1)"),
        ("product", "(M + (N - 1)) * 2", "(M + (N - 1)) * 2"),
        ("wide", "static_cast<float>(M)", "M"),
        ("positive", "scale > 0.5f", "scale > 0.5"),
        ("quotient", "kdsl::floordiv(M, M + (N - 1))", "M // (M + (N - 1))"),
        ("ratio", "scale / static_cast<float>(M)", "scale / M"),
        ("both", "flag && (scale > 0.5f)", "flag & (scale > 0.5)"),
        ("neither", "!(flag && (scale > 0.5f))", "not(flag & (scale > 0.5))"),
        ("most", "(M > 2 ? M : 2)", "maximum(M, 2)"),
        ("root", "__builtin_sqrtf(scale / static_cast<float>(M))", "sqrt(scale / M)"),
        ("small", "static_cast<int>(M)", "M"),
        ("line", "(scale * 0.5f + static_cast<float>(M))", "fma(scale, 0.5, M)"),
        ("chosen", "(flag ? M : ((M + (N - 1)) * 2))", "where(flag, M, (M + (N - 1)) * 2)"),
    ],
)
def test_values(value, c, python):
    assert (VALUES.c(value), VALUES.python(value)) == (c, python)


def test_names_of_a_value_stand_once_in_order():
    assert VALUES.names("chosen") == ("flag", "M", "N")


def test_divisions_come_inner_ones_first_and_not_for_numbers():
    assert [d.text for d in VALUES.divisions("ratio")] == ["scale / M"]
    assert [d.divisor for d in VALUES.divisions("quotient")] == ["(M + (N - 1))"]
    assert list(VALUES.divisions("product")) == []


@pytest.mark.parametrize(("value", "fn"), [("power", "exp2"), ("float_rest", "mod")])
def test_an_operation_that_the_host_lacks_is_an_error_with_its_name(value, fn):
    with pytest.raises(KernelTypeError) as error:
        VALUES.c(value)
    assert error.value.message == f"`{fn}` of f32 is not available outside parallel loops"


@pytest.mark.parametrize(
    ("text", "dtype", "c"),
    [
        ("0", f32, "0.0f"), ("1e-5", f32, "1e-5f"), ("-3", f64, "-3.0"), ("-inf", f32,
         "-__builtin_inff()"), ("nan", f64, '__builtin_nan("")'), ("True", boolean, "true"),
        ("-7", i64, "-7"),
    ],
)  # fmt: skip
def test_literals(text, dtype, c):
    assert literal_c(text, dtype) == c
