"""The promotion table, whole, for arithmetic; its neighbours by example."""

from __future__ import annotations

import numpy as np
import pytest

from kdsl.dtypes import (
    DTYPES, bf16, boolean, f8e4m3, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64,
)  # fmt: skip
from kdsl.lang import promote
from kdsl.lang.arrays import numpy_dtype
from kdsl.lang.promote import WEAK_FLOAT, WEAK_INT, Operand, PromotionError

#: What `a + b` gives; rows and columns in the order of ORDER, - where there is none.
ORDER = "bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64".split()
TABLE = """\
i32 i8  i16 i32 i64 u8  u16 u32 u64 f32 f32 f32 f64
i8  i8  i16 i32 i64 -   -   -   -   f32 f32 f32 f64
i16 i16 i16 i32 i64 -   -   -   -   f32 f32 f32 f64
i32 i32 i32 i32 i64 -   -   -   -   f32 f32 f32 f64
i64 i64 i64 i64 i64 -   -   -   -   f32 f32 f32 f64
u8  -   -   -   -   u8  u16 u32 u64 f32 f32 f32 f64
u16 -   -   -   -   u16 u16 u32 u64 f32 f32 f32 f64
u32 -   -   -   -   u32 u32 u32 u64 f32 f32 f32 f64
u64 -   -   -   -   u64 u64 u64 u64 f32 f32 f32 f64
f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64
f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64
f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f32 f64
f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64 f64
"""


@pytest.mark.parametrize("row", range(len(ORDER)))
def test_arithmetic_of_two_dtypes(row):
    wanted = TABLE.splitlines()[row].split()
    a = Operand(DTYPES[ORDER[row]])
    for name, expected in zip(ORDER, wanted, strict=True):
        b = Operand(DTYPES[name])
        if expected == "-":
            with pytest.raises(PromotionError, match="signed with unsigned"):
                promote.arithmetic(a, b)
            continue
        result = DTYPES[expected]
        assert promote.arithmetic(a, b) == (result, result, False), (a, b)


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_python_numbers_take_the_dtype_they_meet(dtype):
    x = Operand(dtype)
    integer = {"bool": i32, "float": promote.compute_dtype(dtype)}.get(dtype.kind, dtype)
    real = promote.compute_dtype(dtype) if dtype.is_float else f32
    assert promote.arithmetic(x, WEAK_INT) == (integer, integer, False)
    assert promote.arithmetic(WEAK_INT, x) == (integer, integer, False)
    assert promote.arithmetic(x, WEAK_FLOAT) == (real, real, False)


def test_python_numbers_stay_weak_among_themselves():
    assert promote.arithmetic(WEAK_INT, WEAK_INT) == (i64, i64, True)
    assert promote.arithmetic(WEAK_INT, WEAK_FLOAT) == (f64, f64, True)
    assert promote.division(WEAK_INT, WEAK_INT) == (f64, f64, True)
    assert promote.maths(WEAK_INT) == (f64, f64, True)


@pytest.mark.parametrize(
    ("rule", "operands", "compute", "result"),
    [
        (promote.division, (i32, i32), f32, f32),
        (promote.division, (i64, i64), f32, f32),
        (promote.division, (u8, f64), f64, f64),
        (promote.division, (bf16, bf16), f32, f32),
        (promote.comparison, (bf16, f16), f32, boolean),
        (promote.comparison, (boolean, boolean), boolean, boolean),
        (promote.comparison, (i8, i64), i64, boolean),
        (promote.maths, (i32,), f32, f32),
        (promote.maths, (f8e4m3,), f32, f32),
        (promote.maths, (f64,), f64, f64),
        (promote.rounding, (i16,), i16, i16),
        (promote.rounding, (f16,), f32, f32),
        (promote.choice, (boolean, boolean), boolean, boolean),
        (promote.choice, (bf16, bf16), f32, f32),
        (promote.bits, (i8, i32), i32, i32),
        (promote.bits, (boolean, boolean), boolean, boolean),
        (promote.shift, (u8, i32), u8, u8),
        (promote.inversion, (boolean,), boolean, boolean),
        (promote.accumulation, (boolean,), i32, i32),
        (promote.accumulation, (i16,), i32, i32),
        (promote.accumulation, (u8,), u32, u32),
        (promote.accumulation, (i64,), i64, i64),
        (promote.accumulation, (bf16,), f32, f32),
        (promote.accumulation, (f64,), f64, f64),
        (promote.extremum, (i8,), i8, i8),
        (promote.extremum, (f16,), f32, f32),
    ],
)
def test_rules(rule, operands, compute, result):
    assert rule(*map(Operand, operands))[:2] == (compute, result)


@pytest.mark.parametrize(
    ("rule", "operands", "message"),
    [
        (promote.bits, (f32, f32), "bits are of integers or of bools, got f32"),
        (
            promote.bits,
            (boolean, i32),
            "bits are of integers or of bools, got bool with an integer",
        ),
        (promote.shift, (f32, i32), "shifts are of integers, got f32"),
        (promote.inversion, (f32,), "~ is of integers or bools, got f32"),
        (promote.comparison, (i32, u32), "i32 with u32: signed with unsigned has no common dtype"),
    ],
)
def test_what_does_not_go_together_says_so(rule, operands, message):
    with pytest.raises(PromotionError) as caught:
        rule(*map(Operand, operands))
    assert str(caught.value) == message


def test_dot_takes_one_dtype_and_accumulates_wider():
    assert [promote.dot(d, d).result for d in (bf16, f16, f32, f64, i8, u8)] == [
        f32, f32, f32, f64, i32, i32,
    ]  # fmt: skip
    for a, b in [(f32, bf16), (i32, i32), (i16, i16), (boolean, boolean)]:
        with pytest.raises(PromotionError):
            promote.dot(a, b)


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_float])
@pytest.mark.filterwarnings("ignore:overflow")
def test_float_literals_must_not_round_to_infinity(dtype):
    kind = numpy_dtype(dtype)
    numbers = [m * 2.0**e for e in range(-5, 1024) for m in (1, 1.5, 1.75, 1.8125, 1.984375)]
    numbers += [65519.99, 65520.0, 464.0, 464.1, 61439.0, 2.0**128 - 2.0**103, 1.7e308]
    numbers += [np.nextafter(2.0**128 - 2.0**103, 0).item(), 0.0]
    for number in numbers:
        fits = bool(np.isfinite(np.array(number).astype(kind).astype(np.float64)))
        for signed in (number, -number):
            if fits:
                promote.check_literal(signed, dtype)
            else:
                with pytest.raises(PromotionError, match=f" does not fit {dtype}"):
                    promote.check_literal(signed, dtype)
    for allowed in (float("inf"), float("-inf"), float("nan")):
        promote.check_literal(allowed, dtype)


@pytest.mark.parametrize(("dtype", "low", "high"), [(i8, -128, 127), (u16, 0, 65535)])
def test_integer_literals_must_fit(dtype, low, high):
    promote.check_literal(low, dtype)
    promote.check_literal(high, dtype)
    for number in (low - 1, high + 1):
        with pytest.raises(PromotionError) as caught:
            promote.check_literal(number, dtype)
        assert str(caught.value) == (
            f"{number} is not a value of {dtype}, which holds {low} to {high}"
        )
    promote.check_literal(10**30, f32)
    with pytest.raises(PromotionError, match="an integer of 1025 bits is no f64"):
        promote.check_literal(2**1024, f64)
    assert promote.int_range(u64)[1] == 2**64 - 1
    assert promote.int_range(u32)[0] == 0
