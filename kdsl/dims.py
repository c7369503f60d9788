"""Symbolic sizes: `B, H = kdsl.dims("B H")`, and integer expressions of them.

A dim is its name: two dims of one name are one dim. Inside a reference run a dim stands for the
number bound to it (`binding`), so helpers and closures that use dims work as plain Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Union

_BOUND: ContextVar[Mapping[str, int] | None] = ContextVar("kdsl_dims", default=None)

#: An extent: a number, a dim, or an expression of dims.
Extent = Union[int, "DimExpr"]


class DimExpr:
    """An integer expression over dims; `str()` gives its source text. Immutable."""

    __slots__ = ()

    def _op(self, op: str, other: object, swap: bool = False) -> Extent:
        if not isinstance(other, (int, DimExpr)) or isinstance(other, bool):
            return NotImplemented
        a, b = (other, self) if swap else (self, other)
        bound = _BOUND.get()
        if bound is not None:
            return _apply(op, evaluate(a, bound), evaluate(b, bound))
        return DimOp(op, a, b)

    def __add__(self, other: object) -> Extent:
        return self._op("+", other)

    def __radd__(self, other: object) -> Extent:
        return self._op("+", other, swap=True)

    def __sub__(self, other: object) -> Extent:
        return self._op("-", other)

    def __rsub__(self, other: object) -> Extent:
        return self._op("-", other, swap=True)

    def __mul__(self, other: object) -> Extent:
        return self._op("*", other)

    def __rmul__(self, other: object) -> Extent:
        return self._op("*", other, swap=True)

    def __floordiv__(self, other: object) -> Extent:
        return self._op("//", other)

    def __rfloordiv__(self, other: object) -> Extent:
        return self._op("//", other, swap=True)

    def __mod__(self, other: object) -> Extent:
        return self._op("%", other)

    def __rmod__(self, other: object) -> Extent:
        return self._op("%", other, swap=True)


class Dim(DimExpr):
    """One named size."""

    __slots__ = ("name",)
    name: str

    def __init__(self, name: str) -> None:
        if not name.isidentifier():
            raise ValueError(f"a dim needs a Python identifier as its name, got {name!r}")
        object.__setattr__(self, "name", name)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a dim is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and other.name == self.name

    def __hash__(self) -> int:
        return hash((Dim, self.name))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Dim({self.name!r})"


class DimOp(DimExpr):
    """`a op b` with op one of + - * // %."""

    __slots__ = ("a", "b", "op")
    op: str
    a: Extent
    b: Extent

    def __init__(self, op: str, a: Extent, b: Extent) -> None:
        for name, value in (("op", op), ("a", a), ("b", b)):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a dim expression is immutable")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimOp) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[str, Extent, Extent]:
        return self.op, self.a, self.b

    def __str__(self) -> str:
        return f"{_paren(self.a)} {self.op} {_paren(self.b)}"

    __repr__ = __str__


def dims(names: str) -> tuple[Dim, ...]:
    """Symbolic sizes from a string of names: `B, H = dims("B H")`. Commas may separate them."""
    return tuple(Dim(name) for name in names.replace(",", " ").split())


def evaluate(extent: Extent, sizes: Mapping[str, int]) -> int:
    """The number that `extent` is when dims have the given sizes.

    Raises:
        ValueError: a division by zero.
        KeyError: a dim without a size.
    """
    match extent:
        case int():
            return extent
        case Dim():
            return sizes[extent.name]
        case DimOp():
            return _apply(extent.op, evaluate(extent.a, sizes), evaluate(extent.b, sizes))
    raise TypeError(f"evaluate: not an extent: {extent!r}")


def dim_names(extent: Extent) -> Iterator[str]:
    """Names of the dims in an extent, each as often as it stands there."""
    match extent:
        case Dim():
            yield extent.name
        case DimOp():
            yield from dim_names(extent.a)
            yield from dim_names(extent.b)


@contextmanager
def binding(sizes: Mapping[str, int]) -> Iterator[None]:
    """Within the block, dims stand for these numbers (in this thread and its tasks)."""
    token = _BOUND.set(sizes)
    try:
        yield
    finally:
        _BOUND.reset(token)


def _apply(op: str, a: int, b: int) -> int:
    if op in ("//", "%") and b == 0:
        raise ValueError(f"division by zero: {a} {op} {b}")
    match op:
        case "+":
            return a + b
        case "-":
            return a - b
        case "*":
            return a * b
        case "//":
            return a // b
        case "%":
            return a % b
    raise TypeError(f"no dim operator {op!r}")


def _paren(extent: Extent) -> str:
    return f"({extent})" if isinstance(extent, DimOp) else str(extent)
