"""What reductions, scans and `dot` mean, in NumPy: of arrays that have the dtype of computing.

Sums are computed in double and rounded once, so that a difference to a compiled kernel is that
kernel's own.
"""

from __future__ import annotations

import numpy as np

from kdsl.dtypes import DType, f32, f64
from kdsl.lang.arrays import Array, as_array, kdsl_dtype, numpy_dtype
from kdsl.lang.promote import highest, lowest


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
