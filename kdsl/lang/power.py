"""`x ** n` with an exponent that is known, by products where that says the same: one rule for the
reference run and the frontend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

#: Makes an operation of operands: its name, then values or Python numbers.
Apply = Callable[..., Any]


class PowerError(TypeError):
    """An exponent that integers do not have."""


def known_power(apply: Apply, base: Any, exponent: object, of_int: bool) -> Any:
    """base ** exponent by products, a root or a quotient; None where it takes a `pow`.

    Args:
        apply: `apply("mul", a, b)` makes a product, and so on.
        of_int: the base is of integers or bools.

    Raises:
        PowerError: integers to a power that is negative or not known.
    """
    if isinstance(exponent, float) and exponent.is_integer() and not of_int:
        exponent = int(exponent)
    if isinstance(exponent, bool) or not isinstance(exponent, int):
        if exponent == 0.5:
            return apply("sqrt", base)
        return None
    if of_int:
        if exponent < 0:
            raise PowerError("integers have no negative powers")
        return _squared(apply, base, exponent)
    if exponent == -1:
        return apply("div", 1, base)
    if 1 <= exponent <= 4:
        return _squared(apply, base, exponent)
    return None


def _squared(apply: Apply, base: Any, exponent: int) -> Any:
    """By repeated squaring; up to four factors one after the other."""
    if exponent == 0:
        return apply("add", apply("mul", base, 0), 1)
    if exponent <= 4:
        result = apply("mul", base, 1) if exponent == 1 else base
        for _ in range(exponent - 1):
            result = apply("mul", result, base)
        return result
    half = _squared(apply, base, exponent // 2)
    square = apply("mul", half, half)
    return apply("mul", square, base) if exponent % 2 else square
