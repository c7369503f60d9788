"""Constants and identities go, and nothing that would change a bit."""

import pytest

from kdsl.dtypes import DTYPES
from kdsl.passes.fold import fold, holds
from tests.passes.bodies import after, text

HEAD = """
    a: f32[n] = x[n]
    i: i64 = var(i)
    one: f32 = 1
    zero: f32 = 0.0
    low: f32 = -0.0
    i1: i64 = 1
    i0: i64 = 0
    yes_2: bool = True
    c: bool = gt(i, i1)
"""
KEPT = [
    "add(a, zero)",  # -0.0 + 0.0 is 0.0
    "sub(a, low)",
    "mul(a, zero)",
    "sub(a, a)",  # inf - inf
    "div(one, a)",
    "maximum(a, a)",
    "exp(zero)",  # each target has its own exp
]
GONE = ["mul(a, one)", "mul(one, a)", "div(a, one)", "sub(a, zero)", "add(a, low)",
        "add(low, a)", "where(yes_2, a, zero)", "where(c, a, a)"]  # fmt: skip


@pytest.mark.parametrize("op", KEPT)
def test_what_could_change_a_bit_stays(op):
    axes = "" if op == "exp(zero)" else "[n]"
    assert f"r: f32{axes} = {op}\n" in after(fold, HEAD + f"    r: f32{axes} = {op}\n    o[n] = r")


@pytest.mark.parametrize("op", GONE)
def test_an_identity_is_its_operand(op):
    assert after(fold, HEAD + f"    t: f32[n] = {op}\n    o[n] = t").endswith("o[n] = a\n")


@pytest.mark.parametrize(
    ("op", "want"),
    [("add(i, i0)", "i"), ("mul(i1, i)", "i"), ("floordiv(i, i1)", "i"), ("sub(i, i0)", "i"),
     ("shl(i, i0)", "i")],
)  # fmt: skip
def test_integer_identities(op, want):
    assert after(
        fold, HEAD + f"    t: i64 = {op}\n    t_2: f32 = cast(t)\n    o[i] = t_2"
    ).endswith(f"t_2: f32 = cast({want})\no[i] = t_2\n")


def test_constants_are_computed_in_their_dtype():
    body = """
        a: f32 = 0.1
        b: f32 = 0.2
        c: f32 = add(a, b)
        d: i32 = 7
        e: i32 = -2
        f: i32 = floordiv(d, e)
        g: bool = lt(f, e)
        h: f64 = cast(a)
    """
    assert after(fold, body) == text("""
        a: f32 = 0.1
        b: f32 = 0.2
        c: f32 = 0.30000001192092896
        d: i32 = 7
        e: i32 = -2
        f: i32 = -4
        g: bool = True
        h: f64 = 0.10000000149011612
    """)


def test_a_division_by_zero_is_left_to_report():
    body = "    a: i64 = 1\n    b: i64 = 0\n    c: i64 = mod(a, b)"
    assert "c: i64 = mod(a, b)" in after(fold, body)


def test_a_cast_of_an_exact_cast_is_one_cast():
    body = """
        a: bf16[n] = h[n]
        t: f32[n] = cast(a)
        t_2: bf16[n] = cast(t)
        t_3: f64[n] = cast(t)
        t_4: f32[n] = cast(t_2)
        o[n] = t_4
        t_5: f32[n] = cast(t_3)
        o[n] = t_5
    """
    assert after(fold, body) == text("""
        a: bf16[n] = h[n]
        t: f32[n] = cast(a)
        t_3: f64[n] = cast(a)
        t_4: f32[n] = cast(a)
        o[n] = t_4
        t_5: f32[n] = cast(a)
        o[n] = t_5
    """)


def test_a_rounding_cast_stays():
    body = (
        "    a: f32[n] = x[n]\n    t: bf16[n] = cast(a)\n    t_2: f32[n] = cast(t)\n    o[n] = t_2"
    )
    assert "t_2: f32[n] = cast(t)" in after(fold, body)


def test_a_branch_that_is_always_taken_is_its_block():
    body = """
        a: f32[n] = x[n]
        b: f32[n] = y[n]
        c: bool = False
        if c as d: f32[n] {
          yield d=a
        } else {
          t: f32[n] = exp(b)
          yield d=t
        }
        o[n] = d
    """
    assert after(fold, body) == text("""
        a: f32[n] = x[n]
        b: f32[n] = y[n]
        c: bool = False
        d: f32[n] = exp(b)
        o[n] = d
    """)


def test_a_carry_that_never_changes_is_its_first_value():
    body = """
        a: f32[n] = x[n]
        t: f32 = 1
        for k in tiles() with b: f32[n] = a as c, e: f32 = t as f {
          t_2: f32[n] = mul(b, e)
          o[n] = t_2
          yield b=t_2, e=e
        }
    """
    assert after(fold, body) == text("""
        a: f32[n] = x[n]
        e: f32 = 1
        for k in tiles() {
          o[n] = a
        }
    """)


def test_the_name_of_the_author_survives():
    body = "    t: f32[n] = x[n]\n    one: f32 = 1\n    mine: f32[n] = mul(t, one)\n    o[n] = mine"
    assert after(fold, body) == text("""
        mine: f32[n] = x[n]
        one: f32 = 1
        o[n] = mine
    """)


@pytest.mark.parametrize(
    "pair",
    [
        "f32 f16",
        "f32 bf16",
        "f64 f32",
        "f64 i32",
        "f32 i16",
        "f32 u16",
        "i64 u32",
        "i32 i8",
        "f64 bool",
        "f16 f8e4m3",
        "bf16 i8",
        "u16 u8",
        "i8 bool",
    ],
)
def test_a_wide_dtype_holds_a_narrow_one(pair):
    wide, narrow = (DTYPES[name] for name in pair.split())
    assert holds(wide, narrow)
    assert wide == narrow or not holds(narrow, wide)


@pytest.mark.parametrize(
    "pair",
    ["f16 bf16", "bf16 f16", "f32 i32", "f64 i64", "u64 i8", "i32 u32", "f16 i16", "f8e4m3 f8e5m2"],
)
def test_a_dtype_does_not_hold_one_with_more_digits_or_range(pair):
    assert not holds(*(DTYPES[name] for name in pair.split()))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("number", ["1e+300", "-1e+300", "inf", "nan"])
def test_a_number_beyond_a_dtype_is_folded_without_a_warning(number):
    body = (
        f"    t: f32 = {number}\n    u: f32 = add(t, one)\n    v: f32[n] = add(a, u)\n    o[n] = v"
    )
    assert "add(a, u)" in after(fold, HEAD + body)
