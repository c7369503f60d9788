"""Roundings that go another way, to see how far they carry the results of a reference run.

Within `moved(seed, sign)` each float that a run rounds is off by a few roundings, at random; what
is exact stays exact, so that equal values compare equal. `sign` -1 moves each the other way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from kdsl.dtypes import DType, f64
from kdsl.lang.arrays import Array, cast, kdsl_dtype
from kdsl.lang.operation import OpInfo
from kdsl.lang.reductions import REDUCTIONS, SCANS

__all__ = ["Moves", "add_at", "converted", "elementwise", "moved", "product", "reduced", "scanned"]

#: The distance from 1 to the next number.
_STEP = {
    "f64": 2.0**-52, "f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7,
    "f8e4m3": 2.0**-3, "f8e5m2": 2.0**-2,
}  # fmt: skip

#: How many steps a function or a sum of f32 and f64 may be off; short floats are rounded once.
_STEPS = 4.0


class Moves:
    """Where the roundings of one run go."""

    def __init__(self, seed: int, sign: int) -> None:
        self._random, self._sign = np.random.default_rng(seed), sign

    def by(self, array: Array, size: Any, where: Any = True, steps: float = 1.0) -> Array:
        """Elements off by about `steps` of a number as large as `size`, where `where` says."""
        dtype = kdsl_dtype(array.dtype)
        assert dtype is not None
        most = steps * _STEP[dtype.name]
        drawn = self._random.uniform(0.5, 1.0, array.shape)
        drawn *= self._sign * self._random.choice((-1.0, 1.0), array.shape)
        with np.errstate(all="ignore"):
            off = np.where(where, drawn * most * size, 0.0)
            off = np.where(np.isfinite(off), off, 0.0)
            wide = array.astype(np.float64) + off
            return np.asarray(wide.astype(array.dtype))


_MOVES: ContextVar[Moves | None] = ContextVar("kdsl_roundings", default=None)


@contextmanager
def moved(seed: int, sign: int = 1) -> Iterator[None]:
    """Within the block, reference runs round another way."""
    token = _MOVES.set(Moves(seed, sign))
    try:
        yield
    finally:
        _MOVES.reset(token)


def elementwise(op: OpInfo, arrays: Sequence[Array]) -> Array:
    """`op.numpy`: the operands have the dtype of computing."""
    result, moves = op.numpy(*arrays), _MOVES.get()
    if moves is None or not _is_float(result):
        return result
    if op.exact:
        # What wider numbers give as well, nobody rounds.
        wide = np.longdouble if result.dtype == np.float64 else np.float64
        with np.errstate(all="ignore"):
            exact = np.asarray(op.meaning(*(a.astype(wide) if _is_float(a) else a for a in arrays)))
        inexact = exact != result.astype(wide)
    else:
        inexact = np.ones(result.shape, bool)
    return moves.by(result, np.abs(result.astype(np.float64)), inexact, _steps(result))


def reduced(fn: str, array: Array, axis: int) -> Array:
    """A reduction along one axis: a sum is off by what its terms are large."""
    result, moves = REDUCTIONS[fn].numpy(array, axis), _MOVES.get()
    if moves is None or fn not in ("sum", "prod") or not _is_float(result):
        return result
    count = array.shape[axis]
    if fn == "prod":
        size: Any = np.abs(result.astype(np.float64))
        return moves.by(result, size, count > 1, _steps(result, count))
    size = np.abs(array.astype(np.float64)).sum(axis)
    return moves.by(result, size, _rounds(size, result, array), _steps(result, count))


def scanned(fn: str, array: Array, axis: int) -> Array:
    """A running total along one axis."""
    result, moves = SCANS[fn].numpy(array, axis), _MOVES.get()
    if moves is None or not _is_float(result):
        return result
    size = np.abs(array.astype(np.float64)).cumsum(axis)
    return moves.by(result, size, _rounds(size, result, array), _steps(result, array.shape[axis]))


def product(a: Array, b: Array, result: Array) -> Array:
    """The matrix product `result` of two arrays."""
    moves = _MOVES.get()
    if moves is None or not _is_float(result):
        return result
    size = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    return moves.by(result, size, _rounds(size, result, a, b), _steps(result, a.shape[-1]))


def converted(array: Array, dtype: DType) -> Array:
    """`cast`: to a shorter float it rounds."""
    result, moves = cast(array, dtype), _MOVES.get()
    if moves is None or result is array or not dtype.is_float:
        return result
    exact = array.astype(np.float64)
    return moves.by(result, np.abs(exact), exact != result.astype(np.float64))


def add_at(array: Array, index: tuple[Any, ...], by: Array) -> None:
    """Add to elements of an array, in an order that nobody knows."""
    moves = _MOVES.get()
    before = None if moves is None or not _is_float(array) else np.array(array[index])
    np.add.at(array, index, by)
    if moves is None or before is None:
        return
    after = np.asarray(array[index])
    size = np.abs(before.astype(np.float64)) + np.abs(by.astype(np.float64))
    array[index] = moves.by(after, size, _rounds(size, after, before, by), _steps(after))


def _is_float(array: Array) -> bool:
    dtype = kdsl_dtype(array.dtype)
    return dtype is not None and dtype.is_float


def _steps(result: Array, count: int = 1) -> float:
    """Roundings of a sum go in both directions: of n of them about the root of n is left."""
    longer = result.dtype in (np.float32, np.float64)
    return max(_STEPS if longer else 1.0, math.sqrt(count))


def _rounds(size: Any, result: Array, *terms: Array) -> Any:
    """Whether sums of terms round: those of whole numbers do only where they become large."""
    dtype = kdsl_dtype(result.dtype) or f64
    whole = all(bool((t.astype(np.float64) % 1 == 0).all()) for t in terms)
    return np.asarray(size) * _STEP[dtype.name] > 2.0 if whole else size != 0
