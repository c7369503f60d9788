"""The elementwise functions of the language, one entry each: type rule and facts in the decorator,
the NumPy meaning as the body. A new one is an entry here and a spelling for each target."""

from __future__ import annotations

import math
from typing import Any

from kdsl.lang.declare import operation, public
from kdsl.lang.operation import np
from kdsl.lang.operators import OPERATORS
from kdsl.lang.promote import arithmetic, choice, maths, rounding, test

__all__ = [
    "abs", "atan", "atan2", "ceil", "clip", "cos", "erf", "exp", "exp2", "expm1", "floor", "fma",
    "fmax", "fmin", "isfinite", "isinf", "isnan", "log", "log1p", "log2", "maximum", "minimum",
    "round", "rsqrt", "sigmoid", "sign", "sin", "sqrt", "tanh", "trunc", "where",
]  # fmt: skip

# ---- choice and order


@operation(choice, conditions=1)
def where(condition: Any, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`, element by element."""
    return np.where(condition, a, b)


@operation(arithmetic, positive=True)
def maximum(a: Any, b: Any) -> Any:
    """The larger of two, element by element; NaN if either is NaN."""
    return np.maximum(a, b)


@operation(arithmetic, positive=True)
def minimum(a: Any, b: Any) -> Any:
    """The smaller of two, element by element; NaN if either is NaN."""
    return np.minimum(a, b)


@operation(arithmetic)
def fmax(a: Any, b: Any) -> Any:
    """The larger of two, element by element; a NaN is ignored if the other is a number."""
    return np.fmax(a, b)


@operation(arithmetic)
def fmin(a: Any, b: Any) -> Any:
    """The smaller of two, element by element; a NaN is ignored if the other is a number."""
    return np.fmin(a, b)


@operation(arithmetic)
def clip(x: Any, low: Any, high: Any) -> Any:
    """x, or the bound that it is beyond; NaN if one of the three is NaN."""
    return np.minimum(np.maximum(x, low), high)


@operation(test)
def isnan(x: Any) -> Any:
    """Whether x is NaN."""
    return np.isnan(x)


@operation(test)
def isinf(x: Any) -> Any:
    """Whether x is infinite."""
    return np.isinf(x)


@operation(test)
def isfinite(x: Any) -> Any:
    """Whether x is neither infinite nor NaN."""
    return np.isfinite(x)


# ---- signs and whole numbers


@public(OPERATORS["abs"])
def abs(x: Any) -> Any:
    """The absolute value."""


@operation(arithmetic)
def sign(x: Any) -> Any:
    """-1, 0 or 1 as x is below, equal to or above 0; NaN of NaN."""
    return np.sign(x)


@operation(rounding)
def floor(x: Any) -> Any:
    """The largest integer not above x, in x's dtype."""
    return np.floor(x) if _is_float(x) else x


@operation(rounding)
def ceil(x: Any) -> Any:
    """The smallest integer not below x, in x's dtype."""
    return np.ceil(x) if _is_float(x) else x


@operation(rounding)
def trunc(x: Any) -> Any:
    """x without its fraction, in x's dtype."""
    return np.trunc(x) if _is_float(x) else x


@operation(rounding)
def round(x: Any) -> Any:
    """The nearest integer, halves to even, in x's dtype."""
    return np.rint(x) if _is_float(x) else x


def _is_float(x: Any) -> bool:
    return x.dtype.kind == "f"  # type: ignore[no-any-return]


# ---- products and roots


@operation(maths, exact=False)
def fma(a: Any, b: Any, c: Any) -> Any:
    """a * b + c, rounded once."""
    return a.astype(np.longdouble) * b + c


@public(OPERATORS["sqrt"])
def sqrt(x: Any) -> Any:
    """The square root; NaN of a negative number."""


@operation(maths, cost="function", exact=False, positive=True)
def rsqrt(x: Any) -> Any:
    """1 / sqrt(x); inf of 0."""
    return 1 / np.sqrt(x)


# ---- elementary functions


@operation(maths, cost="function", exact=False)
def exp(x: Any) -> Any:
    """e**x."""
    return np.exp(x)


@operation(maths, cost="function", exact=False)
def exp2(x: Any) -> Any:
    """2**x."""
    return np.exp2(x)


@operation(maths, cost="function", exact=False)
def expm1(x: Any) -> Any:
    """e**x - 1, without losing digits near 0."""
    return np.expm1(x)


@operation(maths, cost="function", exact=False)
def log(x: Any) -> Any:
    """The natural logarithm; -inf of 0, NaN of a negative number."""
    return np.log(x)


@operation(maths, cost="function", exact=False)
def log1p(x: Any) -> Any:
    """log(1 + x), without losing digits near 0."""
    return np.log1p(x)


@operation(maths, cost="function", exact=False)
def log2(x: Any) -> Any:
    """The binary logarithm; -inf of 0, NaN of a negative number."""
    return np.log2(x)


@operation(maths, cost="function", exact=False)
def tanh(x: Any) -> Any:
    """The hyperbolic tangent."""
    return np.tanh(x)


@operation(maths, cost="function", exact=False)
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


@operation(maths, cost="function", exact=False)
def erf(x: Any) -> Any:
    """The error function."""
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(x)).astype(np.float64)


@operation(maths, cost="function", exact=False)
def sin(x: Any) -> Any:
    """The sine of an angle in radians."""
    return np.sin(x)


@operation(maths, cost="function", exact=False)
def cos(x: Any) -> Any:
    """The cosine of an angle in radians."""
    return np.cos(x)


@operation(maths, cost="function", exact=False)
def atan(x: Any) -> Any:
    """The angle in radians that has this tangent, from -pi/2 to pi/2."""
    return np.arctan(x)


@operation(maths, cost="function", exact=False)
def atan2(y: Any, x: Any) -> Any:
    """The angle in radians of the point (x, y), from -pi to pi."""
    return np.arctan2(y, x)
