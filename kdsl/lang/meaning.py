"""What each operation means, in NumPy: on arrays that already have the dtype of computing.

Elementary functions and sums are computed in double and rounded once, so that a difference to a
compiled kernel is that kernel's own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import wraps

import numpy as np

from kdsl.dtypes import DType, f32, f64
from kdsl.lang.arrays import Array, as_array, kdsl_dtype, numpy_dtype
from kdsl.lang.promote import highest, lowest

Meaning = Callable[..., Array]


def _quiet(fn: Callable[..., object]) -> Meaning:
    """NumPy's function without warnings, giving an array also of 0-d operands."""

    @wraps(fn)
    def call(*arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(fn(*arrays))

    return call


def _in_double(fn: Callable[[Array], object]) -> Meaning:
    def call(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(fn(x.astype(np.float64))).astype(x.dtype)

    return call


def _fma(a: Array, b: Array, c: Array) -> object:
    wide = np.float64 if a.dtype == np.float32 else np.longdouble
    return (a.astype(wide) * b.astype(wide) + c.astype(wide)).astype(a.dtype)


def _integral(fn: Callable[[Array], object]) -> Meaning:
    def call(x: Array) -> Array:
        return x if x.dtype.kind in "iub" else _quiet(fn)(x)

    return call


_ERF = np.frompyfunc(math.erf, 1, 1)


def _erf(x: Array) -> object:
    return np.asarray(_ERF(x)).astype(np.float64)


def _floordiv(a: Array, b: Array) -> object:
    return np.floor_divide(a, b)


#: Elementwise operations by name.
ELEMENTWISE: dict[str, Meaning] = {
    "add": _quiet(np.add),
    "sub": _quiet(np.subtract),
    "mul": _quiet(np.multiply),
    "div": _quiet(np.divide),
    "floordiv": _quiet(_floordiv),
    "mod": _quiet(np.mod),
    "pow": _quiet(np.power),
    "neg": _quiet(np.negative),
    "abs": _quiet(np.abs),
    "eq": _quiet(np.equal),
    "ne": _quiet(np.not_equal),
    "lt": _quiet(np.less),
    "le": _quiet(np.less_equal),
    "gt": _quiet(np.greater),
    "ge": _quiet(np.greater_equal),
    "and": _quiet(np.bitwise_and),
    "or": _quiet(np.bitwise_or),
    "xor": _quiet(np.bitwise_xor),
    "not": _quiet(np.invert),
    "shl": _quiet(np.left_shift),
    "shr": _quiet(np.right_shift),
    "maximum": _quiet(np.maximum),
    "minimum": _quiet(np.minimum),
    "fmax": _quiet(np.fmax),
    "fmin": _quiet(np.fmin),
    "where": _quiet(np.where),
    "fma": _quiet(_fma),
    "floor": _integral(np.floor),
    "ceil": _integral(np.ceil),
    "round": _integral(np.rint),
    "exp": _in_double(np.exp),
    "exp2": _in_double(np.exp2),
    "log": _in_double(np.log),
    "log2": _in_double(np.log2),
    "sqrt": _quiet(np.sqrt),
    "rsqrt": _in_double(lambda x: 1 / np.sqrt(x)),
    "tanh": _in_double(np.tanh),
    "sigmoid": _in_double(lambda x: 1 / (1 + np.exp(-x))),
    "erf": _in_double(_erf),
    "sin": _in_double(np.sin),
    "cos": _in_double(np.cos),
}


def reduce(fn: str, array: Array, axis: int) -> Array:
    """A reduction along one axis.

    Raises:
        ValueError: argmax or argmin of nothing.
    """
    with np.errstate(all="ignore"):
        match fn:
            case "sum" | "prod":
                wide = np.float64 if array.dtype.kind == "f" else array.dtype
                whole = np.sum if fn == "sum" else np.prod
                return np.asarray(whole(array, axis=axis, dtype=wide)).astype(array.dtype)
            case "max" | "min":
                return _extremum(fn, array, axis)
            case "any":
                return np.asarray(np.any(array, axis=axis))
            case "all":
                return np.asarray(np.all(array, axis=axis))
            case "argmax" | "argmin":
                if array.shape[axis] == 0:
                    raise ValueError(f"{fn} of an axis without elements")
                find = np.argmax if fn == "argmax" else np.argmin
                return np.asarray(find(array, axis=axis)).astype(np.int64)
    raise KeyError(fn)


def scan(fn: str, array: Array, axis: int) -> Array:
    """A running total along one axis, as long as the axis."""
    if fn != "sum":
        raise KeyError(fn)
    wide = np.float64 if array.dtype.kind == "f" else array.dtype
    with np.errstate(all="ignore"):
        return np.asarray(np.cumsum(array, axis=axis, dtype=wide)).astype(array.dtype)


def _extremum(fn: str, array: Array, axis: int) -> Array:
    dtype = kdsl_dtype(array.dtype)
    assert dtype is not None
    text = lowest(dtype) if fn == "max" else highest(dtype)
    number = float(text) if dtype.is_float else int(text)
    whole = np.maximum if fn == "max" else np.minimum
    initial = as_array(number, dtype)
    return np.asarray(whole.reduce(array, axis=axis, initial=initial[()])).astype(array.dtype)


def dot(a: Array, b: Array, result: DType) -> Array:
    """The matrix product of arrays with one or two axes."""
    wide = np.float64 if result in (f32, f64) else np.int64
    with np.errstate(all="ignore"):
        return np.asarray(a.astype(wide) @ b.astype(wide)).astype(numpy_dtype(result))
