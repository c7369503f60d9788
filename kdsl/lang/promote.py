"""kdsl's one promotion table: what dtype an operation computes in, and what it gives.

The reference run, the frontend and the IR interpreter all ask here. An operand is its dtype and
whether it is weak: Python numbers, dims and indices are weak (i64, f64), take the dtype of what
they meet, and stay weak among themselves.
"""

from __future__ import annotations

from math import inf, nextafter
from typing import NamedTuple

from kdsl.dtypes import DType, boolean, f32, f64, i32, i64, u32


class Operand(NamedTuple):
    """What promotion looks at."""

    dtype: DType
    weak: bool = False

    def __str__(self) -> str:
        if not self.weak:
            return self.dtype.name
        return "a Python float" if self.dtype.is_float else "a Python integer"


class Promoted(NamedTuple):
    """The dtype that operands are converted to, and the result's."""

    compute: DType
    result: DType
    weak: bool = False


class PromotionError(TypeError):
    """Operands that do not go together; the text says how to make them."""


WEAK_INT = Operand(i64, weak=True)
WEAK_FLOAT = Operand(f64, weak=True)


def weak_operand(number: bool | int | float) -> Operand:
    """The operand that a Python number is. A bool is a strong bool."""
    if isinstance(number, bool):
        return Operand(boolean)
    return WEAK_INT if isinstance(number, int) else WEAK_FLOAT


def compute_dtype(dtype: DType) -> DType:
    """f32 for the short floats, which only store; any other dtype computes in itself."""
    return f32 if dtype.is_float and dtype.bits < 32 else dtype


def arithmetic(*operands: Operand) -> Promoted:
    """The table for + - * maximum and their like.

    Raises:
        PromotionError: signed with unsigned integers.
    """
    result = operands[0]
    result = Operand(compute_dtype(result.dtype), result.weak)
    for other in operands[1:]:
        result = _join(result, Operand(compute_dtype(other.dtype), other.weak))
    if result.dtype is boolean:
        result = Operand(i32)
    return Promoted(result.dtype, *result)


def division(a: Operand, b: Operand) -> Promoted:
    """`/`: integers give f32 (Python integers among themselves a weak float)."""
    both = arithmetic(a, b)
    if both.result.is_float:
        return both
    return Promoted(f64, f64, weak=True) if both.weak else Promoted(f32, f32)


def maths(*operands: Operand) -> Promoted:
    """exp, sqrt and their like: floats stay, everything else becomes f32."""
    both = arithmetic(*operands)
    if both.result.is_float:
        return both
    return Promoted(f64, f64, weak=True) if both.weak else Promoted(f32, f32)


def rounding(operand: Operand) -> Promoted:
    """floor, round and their like: numbers keep their dtype, short floats give f32."""
    return arithmetic(operand)


def comparison(a: Operand, b: Operand) -> Promoted:
    """== < and their like compare in the common dtype and give bool."""
    if a.dtype is boolean and b.dtype is boolean:
        return Promoted(boolean, boolean)
    return Promoted(arithmetic(a, b).compute, boolean)


def test(operand: Operand) -> Promoted:
    """isnan and its like look at numbers as they compute and give bool."""
    return Promoted(arithmetic(operand).compute, boolean)


def bits(a: Operand, b: Operand) -> Promoted:
    """& | ^: two bools give bool, two integers the wider.

    Raises:
        PromotionError: a float, or bool with an integer.
    """
    if a.dtype is boolean and b.dtype is boolean:
        return Promoted(boolean, boolean)
    for x in (a, b):
        if not x.dtype.is_int:
            what = "bool with an integer" if x.dtype is boolean else f"{x.dtype}"
            raise PromotionError(f"bits are of integers or of bools, got {what}")
    return arithmetic(a, b)


def shift(a: Operand, b: Operand) -> Promoted:
    """<< >>: integers; the result has the dtype of the left one.

    Raises:
        PromotionError: a float or bool.
    """
    for x in (a, b):
        if not x.dtype.is_int:
            raise PromotionError(f"shifts are of integers, got {x.dtype}")
    if a.weak and not b.weak:
        return Promoted(b.dtype, b.dtype)
    return Promoted(a.dtype, a.dtype, a.weak)


def inversion(a: Operand) -> Promoted:
    """~ and `not`: of bools and integers."""
    if a.dtype.is_float:
        raise PromotionError(f"~ is of integers or bools, got {a.dtype}")
    return Promoted(a.dtype, *a)


def choice(a: Operand, b: Operand) -> Promoted:
    """The two values of `where`: two bools give bool, else as arithmetic."""
    if a.dtype is boolean and b.dtype is boolean:
        return Promoted(boolean, boolean)
    return arithmetic(a, b)


def accumulation(operand: Operand) -> Promoted:
    """sum, prod, cumsum: 32 and 64 bit dtypes stay, narrower integers and bool give i32 (u32)."""
    dtype = compute_dtype(operand.dtype)
    if dtype.bits < 32:
        dtype = u32 if dtype.kind == "uint" else i32
    return Promoted(dtype, dtype)


def extremum(operand: Operand) -> Promoted:
    """max, min: numbers keep their dtype, short floats give f32."""
    return Promoted(*(compute_dtype(operand.dtype),) * 2)


def dot(a: DType, b: DType) -> Promoted:
    """The operands of `dot` keep their dtype; the sum is f32 (f64; i32 of i8 and u8).

    Raises:
        PromotionError: two dtypes, or one that has no `dot`.
    """
    if a != b:
        raise PromotionError("`dot` needs operands of one dtype")
    if a.is_float:
        return Promoted(a, f64 if a is f64 else f32)
    if a.is_int and a.bits == 8:
        return Promoted(a, i32)
    raise PromotionError(f"`dot` is of floats or of 8 bit integers, got {a}")


def int_range(dtype: DType) -> tuple[int, int]:
    """Smallest and largest integer of an integer dtype."""
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def lowest(dtype: DType) -> str:
    """What no number of the dtype is below, as a literal: the max of nothing."""
    if dtype.is_float:
        return "-inf"
    return "False" if dtype is boolean else str(int_range(dtype)[0])


def highest(dtype: DType) -> str:
    """What no number of the dtype is above, as a literal: the min of nothing."""
    if dtype.is_float:
        return "inf"
    return "True" if dtype is boolean else str(int_range(dtype)[1])


#: The largest double that rounds to a finite number; of f64 each finite one does.
_LARGEST = {
    "f32": nextafter(2.0**128 - 2.0**103, 0),
    "bf16": nextafter(2.0**128 - 2.0**119, 0),
    "f16": nextafter(65520, 0),
    "f8e5m2": nextafter(61440, 0),
    "f8e4m3": 464.0,
}


def check_literal(number: bool | int | float, dtype: DType) -> None:
    """A Python number must be one of the dtype it becomes.

    Raises:
        PromotionError: an integer outside the range of an integer dtype, or a number that is
            finite and beyond the floats of a float dtype.
    """
    if dtype.is_float and isinstance(number, int) and abs(number) >= 2**1024:
        raise PromotionError(f"an integer of {number.bit_length()} bits is no {dtype}")
    if dtype.is_float and abs(number) != inf and abs(number) > _LARGEST.get(dtype.name, inf):
        raise PromotionError(f"{number} does not fit {dtype}")
    if dtype.is_int and isinstance(number, int):
        low, high = int_range(dtype)
        if not low <= number <= high:
            raise PromotionError(f"{number} is not a value of {dtype}, which holds {low} to {high}")


def _join(a: Operand, b: Operand) -> Operand:
    """The dtype two operands meet in; neither is a short float."""
    if a.weak != b.weak:
        weak, strong = (a, b) if a.weak else (b, a)
        if strong.dtype is boolean:
            return Operand(f32 if weak.dtype.is_float else i32)
        return Operand(f32) if weak.dtype.is_float and strong.dtype.is_int else strong
    x, y = a.dtype, b.dtype
    if x.is_float or y.is_float:
        if x.is_float and y.is_float:
            return a if x.bits >= y.bits else b
        return a if x.is_float else b
    if x is boolean or y is boolean:
        return b if x is boolean else a
    if x.kind != y.kind:
        raise PromotionError(f"{x} with {y}: signed with unsigned has no common dtype")
    return a if x.bits >= y.bits else b
