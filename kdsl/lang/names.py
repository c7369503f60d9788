"""The functions kernel bodies call. Each is plain Python with a NumPy meaning.

NumPy is imported by the first call, so that importing this module stays cheap: the meanings live
in `kdsl.lang.value` (tiles and operators) and `kdsl.lang.run` (loops, tensors of a run).
The frontend recognises these very objects; the tables at the end say what each one is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from kdsl.dims import Extent
from kdsl.dtypes import DType, DTypeVar, f32

if TYPE_CHECKING:
    from kdsl.lang.run import Tensor, Tile
    from kdsl.lang.value import Value

F = TypeVar("F", bound=Callable[..., Any])

inf = math.inf
nan = math.nan
#: log2(e): `exp(x)` is `exp2(x * LOG2E)`.
LOG2E = 1.4426950408889634


def _reduction(fn: str, x: object, axis: int | None, keepdims: bool) -> Any:
    from kdsl.lang.value import reduction

    return reduction(fn, x, axis, keepdims)


def sum(x: object, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The sum along an axis, or of all elements; 0 of none."""
    return _reduction("sum", x, axis, keepdims)


def prod(x: object, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The product along an axis, or of all elements; 1 of none."""
    return _reduction("prod", x, axis, keepdims)


def max(x: object, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The largest along an axis, or of all; NaN if one is NaN; -inf of none."""
    return _reduction("max", x, axis, keepdims)


def min(x: object, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The smallest along an axis, or of all; NaN if one is NaN; inf of none."""
    return _reduction("min", x, axis, keepdims)


def mean(x: object, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """The mean along an axis, or of all elements; f32 of integers."""
    return _reduction("mean", x, axis, keepdims)


def var(x: object, axis: int | None = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
    """The variance along an axis, or of all elements: the mean square distance from the mean; the
    sum of squares is divided by `ddof` less than the number of elements."""
    from kdsl.lang.value import reduction

    return reduction("var", x, axis, keepdims, ddof)


def std(x: object, axis: int | None = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
    """The standard deviation along an axis, or of all elements: the root of the variance."""
    from kdsl.lang.value import reduction

    return reduction("std", x, axis, keepdims, ddof)


def any(x: object, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Whether one of the bools is true."""
    return _reduction("any", x, axis, keepdims)


def all(x: object, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Whether all of the bools are true."""
    return _reduction("all", x, axis, keepdims)


def argmax(x: object, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Where the largest is, i64; the first of equals; the first NaN if there is one."""
    return _reduction("argmax", x, axis, keepdims)


def argmin(x: object, axis: int | None = None, *, keepdims: bool = False) -> Any:
    """Where the smallest is, i64; the first of equals; the first NaN if there is one."""
    return _reduction("argmin", x, axis, keepdims)


def cumsum(x: object, axis: int | None = None) -> Any:
    """The running sum along an axis: each place takes in itself and all before it. A value of
    several axes says which; of a tile it starts anew in each slice."""
    from kdsl.lang.value import scan

    return scan("sum", x, axis)


def sort(x: object, axis: int = -1) -> Any:
    """The elements along an axis from the smallest to the largest; NaN comes last."""
    from kdsl.lang.value import sort as meaning

    return meaning("sort", x, axis)


def argsort(x: object, axis: int = -1) -> Any:
    """Where the elements along an axis are in order, i64; equal ones keep theirs, NaN is last."""
    from kdsl.lang.value import sort as meaning

    return meaning("argsort", x, axis)


def topk(x: object, k: int, axis: int = -1) -> Any:
    """The k largest elements along an axis in order, and where they are, i64; of equal ones the
    first comes first, NaN is above all numbers."""
    from kdsl.lang.value import topk as meaning

    return meaning(x, k, axis)


def dot(a: Value, b: Value) -> Value:
    """The matrix product of two tiles of one dtype; accumulates in f32 (f64, i32 for i8)."""
    from kdsl.lang.value import dot as meaning

    return meaning(a, b)


def zeros(*shape: object, dtype: DType | DTypeVar = f32) -> Any:
    """A value of zeros; the shape is tiles, dims and integers."""
    return full(*shape, 0, dtype=dtype)


def full(*shape_and_value: object, dtype: DType | DTypeVar = f32) -> Any:
    """A value that is the same everywhere: `full(m, D, -inf)`; the number comes last."""
    from kdsl.lang.run import full as meaning

    return meaning(shape_and_value, dtype)


def ones(*shape: object, dtype: DType | DTypeVar = f32) -> Any:
    """A value of ones; the shape is tiles, dims and integers."""
    return full(*shape, 1, dtype=dtype)


def arange(size: Extent) -> Any:
    """0, 1, ... size - 1."""
    from kdsl.lang.run import arange as meaning

    return meaning(size)


def tiles(
    dim: Extent, *, start: object = None, stop: object = None, size: int | None = None
) -> Iterable[Tile]:
    """Slices of [start, stop) clamped to [0, dim]; the last may be shorter.

    Args:
        dim: the dim that the slices are of.
        start, stop: where to begin and end; all of the dim when left out.
        size: length of a slice, where it is part of the meaning; else the schedule decides.
    """
    from kdsl.lang.run import tiles as meaning

    return meaning(dim, start, stop, size)


def parallel(*over: object) -> Iterator[Any]:
    """Independent iterations over the product of dims and `tiles(...)`."""
    from kdsl.lang.run import parallel as meaning

    return meaning(over)


def scratch(dtype: DType | DTypeVar, *shape: Extent) -> Tensor:
    """A tensor that lives as long as the call; what one phase writes the next may read."""
    from kdsl.lang.run import scratch as meaning

    return meaning(dtype, shape)


def atomic_add(place: Value, value: object, /) -> None:
    """Adds to elements of a tensor that several iterations may add to: `atomic_add(o[i], x)`.

    The order of the additions is not said, so sums of floats may differ by rounding from call to
    call. The tensor is an InOut, or a scratch tensor that has been written.
    """
    from kdsl.lang.run import atomic_add as meaning

    meaning(place, value)


def require(*conditions: object) -> None:
    """Conditions of a call, checked before anything runs. ValueError when one does not hold."""
    from kdsl.lang.run import require as meaning

    meaning(conditions)


def inline(fn: F) -> F:
    """Marks a helper of kernels. Helpers are inlined with or without it; the mark is a note."""
    return fn


#: Functions of this module that reduce, by object.
REDUCTIONS: dict[object, str] = {
    f: f.__name__ for f in (sum, prod, max, min, mean, var, std, any, all, argmax, argmin)
}

#: Functions of this module that order, by object.
SORTS: dict[object, str] = {f: f.__name__ for f in (sort, argsort, topk)}

#: Functions of this module that scan, by object.
SCANS: dict[object, str] = {cumsum: "sum"}
