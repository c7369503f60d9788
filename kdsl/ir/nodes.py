"""The whole IR. Nodes are frozen, hold nodes, tuples and plain values, and compare structurally.

A function is phases (parallel loops, run in order) of structured statements. Values are named once
(`Let`) and used by name; a name is unique in its function and keeps what the author called it.
Broadcasting, transposition and views are gone: a value is a function of named axes, an operation
aligns its operands by axis name, and an operand that lacks an axis is the same all along it.
Every operand of an elementwise operation has one dtype (conditions of `where` are bool): promotion
is spelled out as `Cast`s by whoever builds the IR.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kdsl.dims import Extent
from kdsl.dtypes import DType, TensorType
from kdsl.errors import NOWHERE, Span
from kdsl.ir.types import Axis, Type


@dataclass(frozen=True, slots=True)
class Node:
    span: Span = field(default=NOWHERE, compare=False, repr=False, kw_only=True)


# ---- operations: the right-hand sides of `Let`. Operands are names of values.


class Op(Node):
    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Const(Op):
    """A literal, in its exact text ("1.4426950408889634", "-inf", "nan", "3", "True")."""

    text: str


@dataclass(frozen=True, slots=True)
class DimSize(Op):
    """The size of a dim (or dim expression), i64."""

    extent: Extent


@dataclass(frozen=True, slots=True)
class Arg(Op):
    """The value of a scalar parameter."""

    param: str


@dataclass(frozen=True, slots=True)
class LoopVar(Op):
    """The integer at which a `range` or integer `parallel` variable is, i64."""

    var: str


@dataclass(frozen=True, slots=True)
class Bound(Op):
    """Where a tile axis starts or stops, or how long its slice is, i64."""

    axis: str
    which: Literal["start", "stop", "len"]


@dataclass(frozen=True, slots=True)
class Iota(Op):
    """i64[axis]: the absolute index at each place of the axis."""

    axis: str


@dataclass(frozen=True, slots=True)
class Point(Node):
    """A place of a load or store: a scalar, or index values over axes of their own (gather)."""

    value: str


@dataclass(frozen=True, slots=True)
class Along(Node):
    """A place of a load or store that follows an axis: index of the axis * step + offset."""

    axis: str
    offset: str | None = None
    step: int = 1


Index = Point | Along


@dataclass(frozen=True, slots=True)
class Load(Op):
    """Elements of a tensor; one index a tensor dimension."""

    tensor: str
    index: tuple[Index, ...]


@dataclass(frozen=True, slots=True)
class Ew(Op):
    """An elementwise operation by its name in `kdsl.lang.ops`; `where` is (condition, a, b)."""

    fn: str
    args: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cast(Op):
    """To the `Let`'s dtype, rounding to nearest even; float to int truncates and saturates."""

    arg: str


@dataclass(frozen=True, slots=True)
class Reduce(Op):
    """`sum prod max min any all argmax argmin` of a value along one of its axes."""

    fn: str
    arg: str
    axis: str


@dataclass(frozen=True, slots=True)
class Scan(Op):
    """The running `sum` of a value along one of its axes; each place includes itself."""

    fn: str
    arg: str
    axis: str


@dataclass(frozen=True, slots=True)
class Dot(Op):
    """acc + sum over `axis` of a * b. Accumulates in the `Let`'s dtype: f32 (f64, i32)."""

    a: str
    b: str
    axis: str
    acc: str | None = None


@dataclass(frozen=True, slots=True)
class Guard(Op):
    """The index `arg` itself, of any integer dtype; where it is not in [0, size of dimension `dim`
    of `tensor`), at any of its places, the call ends with an IndexError."""

    arg: str
    tensor: str
    dim: int


# ---- statements


class Stmt(Node):
    __slots__ = ()


Block = tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Let(Stmt):
    """name: type = op."""

    name: str
    type: Type
    op: Op


@dataclass(frozen=True, slots=True)
class Store(Stmt):
    """tensor[index] = value; the value has the tensor's dtype."""

    tensor: str
    index: tuple[Index, ...]
    value: str


@dataclass(frozen=True, slots=True)
class AtomicAdd(Stmt):
    """tensor[index] += value at each place, one addition after another, also from iterations that
    run at once and where places are equal. The value has the tensor's dtype, which is no bool."""

    tensor: str
    index: tuple[Index, ...]
    value: str


@dataclass(frozen=True, slots=True)
class Carry(Node):
    """A variable that a loop changes: `name` inside an iteration, `init` before the first, `next`
    at the end of each, `result` after the loop."""

    name: str
    type: Type
    init: str
    next: str
    result: str


@dataclass(frozen=True, slots=True)
class ForTiles(Stmt):
    """Over slices of a tile axis in [start, stop), clamped to [0, extent); None: all of it."""

    axis: str
    start: str | None
    stop: str | None
    carries: tuple[Carry, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class ForRange(Stmt):
    """Over integers, as Python's range; an iteration begins only while the bool `going`, one of
    the carries, is true."""

    var: str
    start: str
    stop: str
    step: int
    carries: tuple[Carry, ...]
    body: Block
    going: str | None = None


@dataclass(frozen=True, slots=True)
class Merge(Node):
    """A variable that the branches of an `If` leave with different values."""

    name: str
    type: Type
    then: str
    other: str


@dataclass(frozen=True, slots=True)
class If(Stmt):
    """A branch on a scalar bool."""

    cond: str
    then: Block
    other: Block
    merges: tuple[Merge, ...] = ()


# ---- functions


@dataclass(frozen=True, slots=True)
class Param(Node):
    """A parameter that is still there when statics and dtype variables are chosen."""

    name: str
    kind: Literal["in", "out", "inout", "scalar"]
    type: TensorType | DType


@dataclass(frozen=True, slots=True)
class ScratchBuffer(Node):
    """A tensor that lives as long as one call: `kdsl.scratch(dtype, *dims)`."""

    name: str
    type: TensorType


@dataclass(frozen=True, slots=True)
class Require(Stmt):
    """A condition of the call, checked on the host; a fact for the compiler. `text` is Python."""

    cond: str
    text: str


@dataclass(frozen=True, slots=True)
class Each(Node):
    """A variable of a parallel loop: integers in [0, extent), or the tiles of `axis`."""

    var: str
    extent: Extent
    is_tile: bool


@dataclass(frozen=True, slots=True)
class Parallel(Node):
    """A phase: independent iterations over the product of its variables."""

    vars: tuple[Each, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class Func(Node):
    """One specialisation of a kernel.

    `host` holds scalar `Let`s and `Require`s over dims and scalar arguments. `dims` are in the
    order in which the parameters bind them; those in `fixed` have one value in this
    specialisation.
    """

    name: str
    params: tuple[Param, ...]
    dims: tuple[str, ...]
    axes: tuple[Axis, ...]
    scratch: tuple[ScratchBuffer, ...]
    host: Block
    phases: tuple[Parallel, ...]
    fixed: tuple[tuple[str, int], ...] = ()
    strict: bool = False

    def axis(self, name: str) -> Axis:
        return next(a for a in self.axes if a.name == name)

    def tensor(self, name: str) -> TensorType:
        """Type of a tensor parameter or scratch buffer. Raises KeyError."""
        tensors: tuple[Param | ScratchBuffer, ...] = (*self.params, *self.scratch)
        for p in tensors:
            if p.name == name and isinstance(p.type, TensorType):
                return p.type
        raise KeyError(name)
