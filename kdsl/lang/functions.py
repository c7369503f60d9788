"""The elementwise functions of the language, one entry each: type rule and facts in the decorator,
the NumPy meaning as the body. A new one is an entry here and a spelling for each target."""

from __future__ import annotations

import math
from typing import Any

from kdsl.lang.declare import operation, public
from kdsl.lang.operation import np
from kdsl.lang.operators import OPERATORS
from kdsl.lang.promote import arithmetic, choice, maths, rounding

__all__ = [
    "abs", "ceil", "cos", "erf", "exp", "exp2", "floor", "fma", "fmax", "fmin", "log", "log2",
    "maximum", "minimum", "round", "rsqrt", "sigmoid", "sin", "sqrt", "tanh", "where",
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


# ---- signs and whole numbers


@public(OPERATORS["abs"])
def abs(x: Any) -> Any:
    """The absolute value."""


@operation(rounding)
def floor(x: Any) -> Any:
    """The largest integer not above x, in x's dtype."""
    return np.floor(x) if _is_float(x) else x


@operation(rounding)
def ceil(x: Any) -> Any:
    """The smallest integer not below x, in x's dtype."""
    return np.ceil(x) if _is_float(x) else x


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


@operation(maths, cost="function", positive=True)
def sqrt(x: Any) -> Any:
    """The square root; NaN of a negative number."""
    return np.sqrt(x)


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
def log(x: Any) -> Any:
    """The natural logarithm; -inf of 0, NaN of a negative number."""
    return np.log(x)


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
    return 1 / (1 + np.exp(-x))


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
