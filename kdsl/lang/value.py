"""Tiles as values: immutable arrays whose operators follow kdsl's promotion table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from kdsl.dims import DimExpr, Size
from kdsl.dtypes import DType, DTypeVar, boolean, f32, f64, i64
from kdsl.lang import meaning, promote, rounding
from kdsl.lang.arrays import Array, as_array, kdsl_dtype
from kdsl.lang.context import chosen_dtype
from kdsl.lang.operation import OpInfo
from kdsl.lang.operators import OPERATORS
from kdsl.lang.power import known_power
from kdsl.lang.promote import Operand, PromotionError
from kdsl.lang.reductions import REDUCTIONS, SCANS

if TYPE_CHECKING:
    from kdsl.lang.run import Tensor


class Value:
    """An array that never changes, with its kdsl dtype.

    Attributes:
        array: the elements; nobody writes to it.
        dtype: the element type.
        weak: takes the dtype of what it meets, as indices do.
        place: the tensor and the index that it is a copy of.
    """

    __slots__ = ("array", "dtype", "place", "weak")
    __hash__ = None  # type: ignore[assignment]
    __iter__ = None
    # NumPy scalars and arrays on the left leave the operation to us
    __array_ufunc__ = None

    def __init__(self, array: Array, dtype: DType | None = None, weak: bool = False) -> None:
        found = kdsl_dtype(array.dtype) if dtype is None else dtype
        if found is None:
            raise TypeError(f"kdsl has no dtype {array.dtype}")
        self.array, self.dtype, self.weak = array, found, weak
        self.place: tuple[Tensor, tuple[Any, ...]] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        shape: tuple[int, ...] = self.array.shape
        return shape

    @property
    def ndim(self) -> int:
        return self.array.ndim

    @property
    def T(self) -> Value:  # noqa: N802
        """The axes in reverse order."""
        return Value(self.array.T, self.dtype, self.weak)

    def __len__(self) -> int:
        return len(self.array)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{self.dtype}[{shape}] {np.array2string(self.array, threshold=64)}"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype)

    def astype(self, dtype: DType | DTypeVar) -> Value:
        """In another dtype, rounded to nearest even."""
        target = chosen_dtype(dtype)
        return Value(rounding.converted(self.array, target), target)

    def __getitem__(self, item: Any) -> Value:
        items = item if isinstance(item, tuple) else (item,)
        axes = iter(self.shape)
        found: tuple[Any, ...] = tuple(self._item(i, axes) for i in items)
        return Value(np.asarray(self.array[found]), self.dtype, self.weak)

    def _item(self, item: object, axes: Iterator[int]) -> object:
        """One part of an index; takes the axis that it is of."""
        if item is None or item is Ellipsis:
            return item  # what stands behind `...` is not checked before NumPy does
        size = next(axes, 0)
        if isinstance(item, slice) and item == slice(None):
            return item
        whole = isinstance(item, (DimExpr, Value)) or type(item) in (int, Size)
        if not whole or (isinstance(item, Value) and (item.ndim or not item.dtype.is_int)):
            raise TypeError(
                "a value is indexed with `:`, `None` and single integers, got "
                f"{item!r}; index the tensor itself, or reduce the value"
            )
        index = item.__index__()  # type: ignore[attr-defined]
        if type(item) is not int and index < 0:
            raise IndexError(f"index {index} is outside an axis of {size} elements")
        return index

    def __setitem__(self, item: object, value: object) -> NoReturn:
        raise TypeError(
            "only tensors have elements to write; a value never changes: "
            "make a new one, e.g. with kdsl.where"
        )

    # ---- one element as a Python number

    def __bool__(self) -> bool:
        self._only_one("a condition must be one value; reduce it with .any() or .all()")
        if self.dtype is not boolean:
            raise TypeError(f"a run-time condition must be a bool, got a scalar {self.dtype}")
        return bool(self.array)

    def __index__(self) -> int:
        self._only_one("an index must be one value")
        if not self.dtype.is_int:
            raise TypeError(f"an index must be an integer, got a scalar {self.dtype}")
        return int(self.array)

    def __float__(self) -> float:
        raise TypeError("a run-time value is converted by .astype(kdsl.f64)")

    def __int__(self) -> int:
        raise TypeError("a run-time value is converted by .astype(kdsl.i64)")

    def _only_one(self, message: str) -> None:
        if self.array.ndim:
            raise TypeError(f"{message}; got {self.dtype}[{', '.join(map(str, self.shape))}]")

    # ---- operators, filled in below

    __add__: Callable[..., Any]
    __sub__: Callable[..., Any]
    __mul__: Callable[..., Any]
    __truediv__: Callable[..., Any]
    __lt__: Callable[..., Any]
    __gt__: Callable[..., Any]

    def __matmul__(self, other: object) -> NoReturn:
        raise TypeError("a kernel cannot use `@`: write kdsl.dot(a, b)")

    def __divmod__(self, other: object) -> tuple[Any, Any]:
        return elementwise(OPERATORS["floordiv"], self, other), elementwise(
            OPERATORS["mod"], self, other
        )

    def __neg__(self) -> Any:
        if self.dtype.kind in ("bool", "uint"):
            raise TypeError(f"`-` is not of {self.dtype}")
        return elementwise(OPERATORS["neg"], self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return elementwise(OPERATORS["abs"], self)

    def __invert__(self) -> Any:
        return elementwise(OPERATORS["not"], self)

    # ---- reductions

    def sum(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduction("sum", self, axis, keepdims)

    def prod(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduction("prod", self, axis, keepdims)

    def max(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduction("max", self, axis, keepdims)

    def min(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduction("min", self, axis, keepdims)

    def mean(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduction("mean", self, axis, keepdims)

    def var(self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
        return reduction("var", self, axis, keepdims, ddof)

    def std(self, axis: Any = None, *, ddof: int = 0, keepdims: bool = False) -> Any:
        return reduction("std", self, axis, keepdims, ddof)

    def any(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduction("any", self, axis, keepdims)

    def all(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduction("all", self, axis, keepdims)

    def argmax(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduction("argmax", self, axis, keepdims)

    def argmin(self, axis: Any = None, *, keepdims: bool = False) -> Any:
        return reduction("argmin", self, axis, keepdims)

    def reshape(self, *lengths: Any) -> Value:
        """The same elements in the same order, as other axes."""
        sizes = lengths[0] if len(lengths) == 1 and isinstance(lengths[0], tuple) else lengths
        return Value(self.array.reshape(sizes), self.dtype, self.weak)

    # ---- scans

    def cumsum(self, axis: Any = None) -> Any:
        return scan("sum", self, axis)


_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv",
    "mod": "mod", "pow": "pow", "and": "and", "or": "or", "xor": "xor", "lshift": "shl",
    "rshift": "shr",
}  # fmt: skip
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _operator(fn: str, swap: bool = False) -> Callable[[Value, object], object]:
    op = OPERATORS[fn]

    def method(self: Value, other: object) -> object:
        return elementwise(op, other, self) if swap else elementwise(op, self, other)

    return method


for _name, _fn in _OPERATORS.items():
    setattr(Value, f"__{_name}__", _operator(_fn))
    setattr(Value, f"__r{_name}__", _operator(_fn, swap=True))
for _name in _COMPARISONS:
    setattr(Value, f"__{_name}__", _operator(_name))


def plain(x: object) -> Value | bool | int | float:
    """An operand as a value or a Python number. Raises TypeError for anything else."""
    if isinstance(x, (Value, bool, int, float)):
        return x
    if isinstance(x, DimExpr):
        return Size(x.__index__())
    if isinstance(x, np.generic):
        number = x.item()
        if isinstance(number, (bool, int, float)):
            return number
    refuse = getattr(type(x), "refuse_arithmetic", None)
    if refuse is not None:
        refuse(x)
    if isinstance(x, np.ndarray):
        raise TypeError("a NumPy array is no value of a kernel: pass it as a parameter")
    raise TypeError(f"this is no number: {type(x).__name__}")


def elementwise(op: OpInfo, *args: object) -> Any:
    """An elementwise operation of values and Python numbers; of numbers alone, a number.

    Raises:
        PromotionError: dtypes without a common one, an integer out of range.
        TypeError: operands that are no values.
    """
    operands = [plain(a) for a in args]
    numbers = [o for o in operands if not isinstance(o, Value)]
    if len(numbers) == len(operands):
        return op.number(*numbers)
    chosen, values = operands[: op.conditions], operands[op.conditions :]
    for condition in chosen:
        if not isinstance(condition, Value):
            return values[0] if condition else values[1]
        if condition.dtype is not boolean:
            raise TypeError(f"the condition of `{op.name}` must be bool, got {condition.dtype}")
    if op.name == "pow":
        known = _known_power(*values)
        if known is not None:
            return known
    dtypes = op.rule(*map(_kind, values))
    arrays = [c.array for c in chosen if isinstance(c, Value)]
    arrays += [_in_dtype(o, dtypes.compute) for o in values]
    return Value(rounding.elementwise(op, arrays), dtypes.result, dtypes.weak)


def _known_power(base: Any, exponent: Any) -> Any:
    def apply(fn: str, *operands: object) -> object:
        return elementwise(OPERATORS[fn], *operands)

    of_int = not _kind(base).dtype.is_float
    result = None
    if not isinstance(exponent, Value):
        result = known_power(apply, base, exponent, of_int)
    elif of_int and not exponent.dtype.is_float:
        raise PromotionError("an integer power needs an exponent known at compile time")
    return result


def _kind(x: Value | bool | int | float) -> Operand:
    return Operand(x.dtype, x.weak) if isinstance(x, Value) else promote.weak_operand(x)


def _in_dtype(x: Value | bool | int | float, dtype: DType) -> Array:
    if isinstance(x, Value):
        return rounding.converted(x.array, dtype)
    promote.check_literal(x, dtype)
    return as_array(x, dtype)


def reduction(fn: str, x: object, axis: Any, keepdims: bool, ddof: int = 0) -> Value:
    """A reduction along one axis, several, or all.

    Raises:
        TypeError: a dtype that has no such reduction.
    """
    value = plain(x)
    if not isinstance(value, Value):
        raise TypeError(f"`{fn}` is of tiles, got the number {value!r}")
    axes = _axes(value.ndim, axis)
    if fn == "mean":
        return _mean(value, axes, keepdims)
    if fn in ("var", "std"):
        return _spread(fn, value, axes, keepdims, ddof)
    if fn in ("any", "all") and value.dtype is not boolean:
        raise TypeError(f"`{fn}` is of bools, got {value.dtype}")
    if fn in ("max", "min", "argmax", "argmin") and value.dtype is boolean:
        raise TypeError(f"`{fn}` is of numbers, got bool; use .any() or .all()")
    if fn in ("argmax", "argmin") and len(axes) != 1:
        raise TypeError(f"`{fn}` needs one axis: say which, axis=...")
    dtypes = REDUCTIONS[fn].rule(Operand(value.dtype, value.weak))
    array = rounding.converted(value.array, dtypes.compute)
    for a in sorted(axes, reverse=True):
        array = rounding.reduced(fn, array, a)
        if keepdims:
            array = np.expand_dims(array, a)
    return Value(array, dtypes.result)


def scan(fn: str, x: object, axis: Any) -> Value:
    """A running total along one axis. Raises TypeError as the frontend does."""
    value = plain(x)
    if not isinstance(value, Value):
        raise TypeError(f"`cum{fn}` is of tiles, got the number {value!r}")
    axes = _axes(value.ndim, axis)
    if len(axes) != 1:
        raise TypeError(f"`cum{fn}` needs one axis: say which, axis=...")
    dtypes = SCANS[fn].rule(Operand(value.dtype, value.weak))
    array = rounding.scanned(fn, rounding.converted(value.array, dtypes.compute), axes[0])
    return Value(array, dtypes.result)


def sort(fn: str, x: object, axis: Any) -> Value:
    """The elements along an axis in order, or where they are. Raises TypeError."""
    value, place = _ordered(fn, x, axis)
    order = np.argsort(value.array, axis=place, kind="stable").astype(np.int64)
    if fn == "argsort":
        return Value(order)
    return Value(np.take_along_axis(value.array, order, place), value.dtype)


def topk(x: object, k: int, axis: Any) -> tuple[Value, Value]:
    """The k largest along an axis, and where they are. Raises TypeError, ValueError."""
    value, place = _ordered("topk", x, axis)
    size = value.shape[place]
    if not 1 <= k <= size:
        raise ValueError(f"`topk` of {k} elements of an axis that has {size}")
    back = np.flip(value.array, place)
    order = size - 1 - np.flip(np.argsort(back, axis=place, kind="stable"), place)
    first = np.take(order, np.arange(k), axis=place).astype(np.int64)
    return Value(np.take_along_axis(value.array, first, place), value.dtype), Value(first)


def _ordered(fn: str, x: object, axis: Any) -> tuple[Value, int]:
    value = plain(x)
    if not isinstance(value, Value) or value.dtype is boolean:
        raise TypeError(f"`{fn}` is of tiles of numbers")
    axes = _axes(value.ndim, axis)
    if len(axes) != 1:
        raise TypeError(f"`{fn}` needs one axis: say which, axis=...")
    return value.astype(promote.extremum(_kind(value)).compute), axes[0]


def _axes(rank: int, axis: Any) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(rank))
    axes = axis if isinstance(axis, tuple) else (axis,)
    for a in axes:
        if not -rank <= a < rank:
            raise TypeError(f"there is no axis {a} of {rank}")
    return tuple(a % rank for a in axes)


def _mean(value: Value, axes: tuple[int, ...], keepdims: bool, less: int = 0) -> Value:
    """The sum over how many there are, `less` fewer."""
    floats = value.astype(f64 if value.dtype is f64 and not value.weak else f32)
    count = int(np.prod([value.shape[a] for a in axes], dtype=np.int64)) - less
    total = reduction("sum", floats, axes, keepdims)
    result: Value = total / Value(as_array(count, i64), i64, weak=True)
    return result


def _spread(fn: str, value: Value, axes: tuple[int, ...], keepdims: bool, ddof: int) -> Value:
    """The mean square of what is left without the mean, or its root."""
    rest = elementwise(OPERATORS["sub"], value, _mean(value, axes, keepdims=True))
    total = _mean(elementwise(OPERATORS["mul"], rest, rest), axes, keepdims, ddof)
    result: Value = elementwise(OPERATORS["sqrt"], total) if fn == "std" else total
    return result


def dot(a: object, b: object) -> Value:
    """The matrix product of values with one or two axes.

    Raises:
        PromotionError: operands of two dtypes.
        TypeError: operands of other ranks, whose inner axes differ.
    """
    x, y = plain(a), plain(b)
    if not isinstance(x, Value) or not isinstance(y, Value):
        raise TypeError("`dot` is of tiles")
    for v in (x, y):
        if not 1 <= v.ndim <= 2:
            raise TypeError(f"`dot` is of values with one or two axes, got {v.ndim}")
    dtypes = promote.dot(x.dtype, y.dtype)
    if x.shape[-1] != y.shape[0]:
        raise TypeError(f"the inner axes of `dot` differ: {x.shape[-1]} and {y.shape[0]}")
    array = meaning.dot(x.array, y.array, dtypes.result)
    return Value(rounding.product(x.array, y.array, array), dtypes.result)
