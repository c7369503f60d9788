"""What an expression of a kernel can be while it is lowered.

Either a run-time value (`Val`), a tensor, a tile, or any Python object known at compile time:
numbers, dims and expressions of them, dtypes, functions, modules, tuples.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from types import FunctionType
from typing import NamedTuple

from kdsl.dims import DimExpr, Extent
from kdsl.dtypes import DType, TensorType
from kdsl.errors import Span
from kdsl.frontend.source import FunctionSource
from kdsl.ir.types import Type
from kdsl.lang.promote import Operand as Promotable


@dataclass(frozen=True, slots=True)
class Val:
    """A value in the IR as the author sees it.

    Attributes:
        name: of its `Let`, carry or merge.
        type: dtype and axes.
        shape: the axes in NumPy's order; None is a length of 1.
        weak: takes the dtype of what it meets, as Python numbers do.
    """

    name: str
    type: Type
    shape: tuple[str | None, ...] = ()
    weak: bool = False

    @property
    def dtype(self) -> DType:
        return self.type.dtype

    @property
    def promotable(self) -> Promotable:
        return Promotable(self.type.dtype, self.weak)

    @property
    def is_scalar(self) -> bool:
        return not self.shape


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A tensor parameter or a scratch buffer, by its bare name."""

    name: str
    type: TensorType
    kind: str

    @property
    def dtype(self) -> DType:
        assert isinstance(self.type.dtype, DType)
        return self.type.dtype


@dataclass(frozen=True, slots=True)
class ScalarRef:
    """A scalar parameter; its `Arg` is made where it is used."""

    name: str
    dtype: DType


@dataclass(frozen=True, slots=True)
class TileRef:
    """A tile: the slice that an axis is at, moved by `offset`."""

    axis: str
    dim: Extent
    offset: Val | int = 0


@dataclass(frozen=True, slots=True)
class Method:
    """`x.max` before it is called."""

    name: str
    owner: object
    span: Span


@dataclass(frozen=True)
class Closure:
    """A function defined inside a kernel or helper, with the names around it."""

    source: FunctionSource
    names: dict[str, object] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Undefined:
    """What a name is after code that may not have assigned it."""

    why: str
    span: Span


@dataclass(frozen=True, slots=True)
class Slice:
    """`a:b:c` in an index."""

    start: object
    stop: object
    step: object
    span: Span


class Operand(NamedTuple):
    """An evaluated expression and where it stands."""

    value: object
    span: Span

    @property
    def text(self) -> str:
        """Source text of the expression."""
        return self.span.text[self.span.column : self.span.end]


def is_number(value: object) -> bool:
    """A Python number known at compile time."""
    return isinstance(value, (bool, int, float))


def is_valuelike(value: object) -> bool:
    """Something that arithmetic takes."""
    return isinstance(value, (Val, DimExpr, bool, int, float))


def _axis_text(axis: str | None) -> str:
    """An axis as the author knows it: a number where it has no name."""
    if axis is None:
        return "1"
    number = re.fullmatch(r"n(\d+)(_\d+)?", axis)
    return number[1] if number else axis


def describe(value: object) -> str:
    """A value for a message: `f32[m, D]`, `a tile`, `the number 3`."""
    match value:
        case Val(type=type_, shape=shape, weak=weak):
            if not shape:
                kind = "float" if type_.dtype.is_float else "integer"
                return f"a run-time {kind}" if weak else f"a scalar {type_.dtype}"
            return f"{type_.dtype}[{', '.join(map(_axis_text, shape))}]"
        case TensorRef(type=type_):
            return f"the tensor {type_}"
        case TileRef():
            return "a tile"
        case bool():
            return repr(value)
        case int() | float():
            return f"the number {value!r}"
        case DimExpr():
            return f"the size {value}"
        case str():
            return f"the string {value!r}"
        case None:
            return "None"
        case tuple():
            return "a tuple"
        case FunctionType() | Method():
            return "a function"
        case Closure():
            return "a function"
        case DType():
            return f"the dtype {value}"
    return f"a Python {type(value).__name__}"
