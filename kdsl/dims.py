"""Symbolic sizes: `B, H = kdsl.dims("B H")`, and integer expressions of them.

A dim is its name: two dims of one name are one dim. Inside a reference run a dim stands for the
number bound to it (`binding`), so helpers and closures that use dims work as plain Python: it
computes, compares and converts as that number does. Outside a run only `+ - * // %` mean
something, and `==` compares the expressions.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Union

_BOUND: ContextVar[Mapping[str, int] | None] = ContextVar("kdsl_dims", default=None)

_FLOATS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}

#: An extent: a number, a dim, or an expression of dims.
Extent = Union[int, "DimExpr"]


class Size(int):
    """An integer of a run that was computed from sizes and positions; so are results of it.

    It tells `x[i - 1]` at i = 0 from the literal `x[-1]`, which counts from the end.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return int.__repr__(self)

    def __neg__(self) -> Size:
        return Size(-int(self))


def _closed(name: str) -> Callable[..., object]:
    plain = getattr(int, name)
    divides = name in ("__floordiv__", "__mod__", "__rfloordiv__", "__rmod__")

    def method(self: Size, other: object) -> object:
        divisor = self if name.startswith("__r") else other
        if divides and isinstance(other, int) and divisor == 0:
            return Size(0)  # as integers of tiles do
        result = plain(self, other)
        return Size(result) if type(result) is int else result

    method.__name__ = name
    return method


for _op in ("add", "sub", "mul", "floordiv", "mod"):
    setattr(Size, f"__{_op}__", _closed(f"__{_op}__"))
    setattr(Size, f"__r{_op}__", _closed(f"__r{_op}__"))


class DimExpr:
    """An integer expression over dims; `str()` gives its source text. Immutable."""

    __slots__ = ()

    def _op(self, op: str, other: object, swap: bool = False) -> Extent:
        bound = _BOUND.get()
        if isinstance(other, float) and bound is not None:
            a, b = (other, float(self)) if swap else (float(self), other)
            return _FLOATS[op](a, b)  # type: ignore[return-value]
        if not isinstance(other, (int, DimExpr)) or (isinstance(other, bool) and bound is None):
            return NotImplemented  # type: ignore[no-any-return]
        x, y = (other, self) if swap else (self, other)
        if bound is not None:
            return Size(evaluate(DimOp(op, x, y), bound))
        return DimOp(op, x, y)

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

    # ---- as the number it is in a run

    def __index__(self) -> int:
        bound = _BOUND.get()
        if bound is None:
            raise TypeError(f"the dim {self} has a number only inside a run of its kernel")
        return evaluate(self, bound)

    def __int__(self) -> int:
        return self.__index__()

    def __float__(self) -> float:
        return float(self.__index__())

    def __bool__(self) -> bool:
        return self.__index__() != 0

    def __eq__(self, other: object) -> bool:
        if _BOUND.get() is not None and isinstance(other, (int, float, DimExpr)):
            return int(self) == (int(other) if isinstance(other, DimExpr) else other)
        return self._same(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def _same(self, other: object) -> bool:
        """Whether two expressions are the same, whatever the dims are."""
        raise NotImplementedError


def _as_number(name: str) -> Callable[..., object]:
    """An operation that a dim only has inside a run, where it is that of its number."""

    def method(self: DimExpr, *others: object) -> object:
        if _BOUND.get() is None:
            return NotImplemented
        numbers = [int(o) if isinstance(o, DimExpr) else o for o in others]
        if not all(isinstance(n, (int, float)) for n in numbers):
            return NotImplemented
        number: object = self.__index__()
        if any(isinstance(n, float) for n in numbers):
            number = float(self)
        return getattr(number, name)(*numbers)

    method.__name__ = name
    return method


for _name in (
    "lt", "le", "gt", "ge", "truediv", "rtruediv", "pow", "rpow", "divmod", "rdivmod", "and",
    "rand", "or", "ror", "xor", "rxor", "lshift", "rlshift", "rshift", "rrshift",
):  # fmt: skip
    setattr(DimExpr, f"__{_name}__", _as_number(f"__{_name}__"))


def _unary(name: str) -> Callable[..., object]:
    def method(self: DimExpr) -> object:
        return Size(getattr(self.__index__(), name)())

    method.__name__ = name
    return method


for _name in ("neg", "pos", "abs", "invert"):
    setattr(DimExpr, f"__{_name}__", _unary(f"__{_name}__"))


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

    def __reduce__(self) -> tuple[type[Dim], tuple[str]]:
        return Dim, (self.name,)

    def _same(self, other: object) -> bool:
        return isinstance(other, Dim) and other.name == self.name

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

    def __reduce__(self) -> tuple[type[DimOp], tuple[str, Extent, Extent]]:
        return DimOp, (self.op, self.a, self.b)

    def _same(self, other: object) -> bool:
        return isinstance(other, DimOp) and str(self) == str(other)

    def __str__(self) -> str:
        strong = self.op in _PRODUCTS
        left = f"({self.a})" if strong and _is_sum(self.a) else str(self.a)
        right = f"({self.b})" if _is_sum(self.b) or (strong and _is_op(self.b)) else str(self.b)
        return f"{left} {self.op} {right}"

    __repr__ = __str__


def dims(names: str) -> tuple[Dim, ...]:
    """Symbolic sizes from a string of names: `B, H = dims("B H")`. Commas may separate them."""
    return tuple(Dim(name) for name in names.replace(",", " ").split())


class ZeroDivision(ValueError):
    """A dim expression that divides by zero; `expression` is the division."""

    def __init__(self, expression: DimOp) -> None:
        super().__init__(f"division by zero in {expression}")
        self.expression = expression


def evaluate(extent: Extent, sizes: Mapping[str, int]) -> int:
    """The number that `extent` is when dims have the given sizes.

    Raises:
        ZeroDivision: a division by zero, a ValueError.
        KeyError: a dim without a size.
    """
    match extent:
        case int():
            return extent
        case Dim():
            return sizes[extent.name]
        case DimOp():
            a, b = evaluate(extent.a, sizes), evaluate(extent.b, sizes)
            if b == 0 and extent.op in ("//", "%"):
                raise ZeroDivision(extent)
            return _apply(extent.op, a, b)
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


_PRODUCTS = ("*", "//", "%")


def _is_op(extent: Extent) -> bool:
    return isinstance(extent, DimOp)


def _is_sum(extent: Extent) -> bool:
    return isinstance(extent, DimOp) and extent.op not in _PRODUCTS
