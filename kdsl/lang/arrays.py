"""kdsl dtypes as NumPy arrays. The only module that asks ml_dtypes for the short floats."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeAlias

import numpy as np

from kdsl.dtypes import DTYPES, DType, boolean

Array: TypeAlias = np.ndarray[Any, Any]


@cache
def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """NumPy's dtype, or ml_dtypes', where NumPy has none."""
    found: Any = getattr(np, dtype.numpy, None)
    if found is None:
        import ml_dtypes

        found = getattr(ml_dtypes, dtype.numpy)
    made: np.dtype[Any] = np.dtype(found)
    return made


@cache
def kdsl_dtype(dtype: np.dtype[Any]) -> DType | None:
    """The kdsl dtype of a NumPy one; None for dtypes kdsl does not have."""
    if dtype.byteorder not in "=|" and not dtype.isnative:
        return None
    if dtype.kind == "b":
        return boolean
    return next((d for d in DTYPES.values() if d.numpy == dtype.name), None)


def as_array(number: object, dtype: DType) -> Array:
    """A Python number as a 0-d array."""
    with np.errstate(all="ignore"):
        return np.asarray(number).astype(numpy_dtype(dtype))


def cast(array: Array, dtype: DType) -> Array:
    """To another dtype: to nearest even; floats to integers truncate and saturate, NaN gives 0."""
    target = numpy_dtype(dtype)
    if array.dtype == target:
        return array
    with np.errstate(all="ignore"):
        source = kdsl_dtype(array.dtype)
        if dtype is boolean:
            result: Array = array != 0
            return result
        if source is not None and source.is_float and dtype.is_int:
            return _truncated(array.astype(np.float64), dtype, target)
        return array.astype(target)


def _truncated(array: Array, dtype: DType, target: np.dtype[Any]) -> Array:
    info = np.iinfo(target)
    whole = np.trunc(np.nan_to_num(array, nan=0.0, posinf=np.inf, neginf=-np.inf))
    # the largest integers of 64 bits are no doubles: compare before converting
    high = whole >= float(info.max)
    low = whole <= float(info.min)
    inside = np.where(high | low, 0.0, whole).astype(target)
    result: Array = np.where(
        high, target.type(info.max), np.where(low, target.type(info.min), inside)
    )
    return result.astype(target)
