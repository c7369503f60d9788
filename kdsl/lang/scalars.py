"""The language's functions of Python numbers: they give Python numbers, computed in double.

`math` raises where NumPy gives inf or NaN; these give inf and NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Number = bool | int | float


def _total(fn: Callable[[float], float], outside: Callable[[float], float]) -> Callable[..., float]:
    def call(x: Number) -> float:
        try:
            return fn(float(x))
        except (ValueError, OverflowError):
            return outside(float(x))

    return call


def _log_outside(x: float) -> float:
    return -math.inf if x == 0 else math.nan


def _reciprocal_root(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / math.sqrt(x)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _propagating(pick: Callable[[Number, Number], Number]) -> Callable[..., Number]:
    def call(a: Number, b: Number) -> Number:
        return math.nan if a != a or b != b else pick(a, b)

    return call


def _ignoring(pick: Callable[[Number, Number], Number]) -> Callable[..., Number]:
    def call(a: Number, b: Number) -> Number:
        return b if a != a else a if b != b else pick(a, b)

    return call


def _integral(fn: Callable[[float], int]) -> Callable[..., Number]:
    def call(x: Number) -> Number:
        return x if isinstance(x, int) or not math.isfinite(x) else float(fn(x))

    return call


def _nan(x: float) -> float:
    return math.nan


def _inf(x: float) -> float:
    return math.inf


#: Functions by name of the operation.
SCALARS: dict[str, Callable[..., Number]] = {
    "exp": _total(math.exp, _inf),
    "exp2": _total(lambda x: 2.0**x, _inf),
    "log": _total(math.log, _log_outside),
    "log2": _total(math.log2, _log_outside),
    "sqrt": _total(math.sqrt, _nan),
    "rsqrt": _total(_reciprocal_root, _nan),
    "tanh": _total(math.tanh, _nan),
    "sigmoid": _total(_sigmoid, lambda x: 0.0),
    "erf": _total(math.erf, _nan),
    "sin": _total(math.sin, _nan),
    "cos": _total(math.cos, _nan),
    "abs": abs,
    "floor": _integral(math.floor),
    "ceil": _integral(math.ceil),
    "round": _integral(round),
    "fma": lambda a, b, c: a * b + c,
    "where": lambda c, a, b: a if c else b,
    "maximum": _propagating(max),
    "minimum": _propagating(min),
    "fmax": _ignoring(max),
    "fmin": _ignoring(min),
}
