"""What the planner knows of a function: where values are defined, who reads them, what is free.

Values fall into four kinds. *Scalars* are index arithmetic and host numbers: printed where they
are used. *Inline* values are constants, indices and cheap arithmetic of them: recomputed where they
are used. *Leaves* are loads from tensors that this phase does not write: read where they are used.
The rest are *items*: computed once, at a place the planner chooses.
"""

from __future__ import annotations

from functools import cached_property

from kdsl.ir.nodes import (
    Along,
    Arg,
    Block,
    Bound,
    Carry,
    Cast,
    Const,
    DimSize,
    Dot,
    Ew,
    ForRange,
    ForTiles,
    Func,
    Guard,
    If,
    Iota,
    Let,
    Load,
    LoopVar,
    Parallel,
    Point,
    Reduce,
    Scan,
    Stmt,
)  # fmt: skip
from kdsl.ir.types import Type
from kdsl.ir.walk import lets, operands, users, value_types, written
from kdsl.lang.ops import OPS

#: Operations that cost more than a load and a store.
COSTLY = frozenset(op.name for op in OPS.values() if not op.cheap)


class Facts:
    """Derived facts of one phase of a function."""

    def __init__(self, func: Func, phase: Parallel) -> None:
        self.func, self.phase = func, phase
        self.lets = lets(func)
        self.types: dict[str, Type] = value_types(func)
        self.users: dict[str, list[Stmt]] = users(func)
        self.written = written(phase.body)
        self.carries: dict[str, Carry] = {}
        self.results: dict[str, Carry] = {}
        self.level: dict[str, int] = dict.fromkeys(self.lets, 0)
        self._levels(phase.body, 1)
        self._kinds: dict[str, str] = {}
        self.dot_operands = {
            x for let in self.lets.values() if isinstance(let.op, Dot) for x in (let.op.a, let.op.b)
        }

    def _levels(self, block: Block, depth: int) -> None:
        for s in block:
            match s:
                case Let(name=name):
                    self.level[name] = depth
                case ForTiles(body=body, carries=carries) | ForRange(body=body, carries=carries):
                    for c in carries:
                        self.carries[c.name], self.results[c.result] = c, c
                        self.level[c.name], self.level[c.result] = depth + 1, depth
                    self._levels(body, depth + 1)
                case If(then=then, other=other, merges=merges):
                    self.level.update((m.name, depth) for m in merges)
                    self._levels(then, depth)
                    self._levels(other, depth)

    @cached_property
    def axes(self) -> dict[str, tuple[str, ...]]:
        return {name: t.axes for name, t in self.types.items()}

    def kind(self, name: str) -> str:
        """ "scalar", "inline", "leaf", "item", or "carried" (carries, results and merges)."""
        if name not in self._kinds:
            self._kinds[name] = self._kind(name)
        return self._kinds[name]

    def _kind(self, name: str) -> str:
        let = self.lets.get(name)
        if let is None:
            return "carried"
        match let.op:
            case Const() | DimSize() | Arg() | LoopVar() | Bound():
                if not let.type.axes:
                    return "scalar"
                return "item" if name in self.dot_operands else "inline"
            case Iota():
                return "inline"
            case Load(tensor=tensor) if tensor not in self.written:
                return self._load_kind(let, let.op)
            case Ew(fn=fn) if fn in COSTLY and let.type.axes:
                return "item"
            case Ew() | Cast():
                kinds = {self.kind(a) for a in operands(let.op)}
                if kinds <= {"scalar"}:
                    return "scalar"
                if kinds <= {"scalar", "inline"}:
                    # A dot reads memory: what it multiplies has to be kept.
                    return "item" if name in self.dot_operands else "inline"
        return "item"

    def unguarded(self, name: str) -> str:
        """The value behind guards: once checked, an index is what it was."""
        while isinstance(op := self.op(name), Guard):
            name = op.arg
        return name

    def _load_kind(self, let: Let, load: Load) -> str:
        """A load is read where it is used, if its indices are there; a dot wants plain strides."""
        kinds = {self.kind(self.unguarded(i.value)) for i in load.index if isinstance(i, Point)}
        guarded = any(
            self.unguarded(i.value) != i.value for i in load.index if isinstance(i, Point)
        )
        if not kinds <= {"scalar", "inline", "leaf"}:
            return "item"
        if not let.type.axes and kinds <= {"scalar"}:
            return "item" if guarded else "scalar"  # a scalar may be printed before the check
        return "item" if let.name in self.dot_operands and not self.is_plain(load) else "leaf"

    def is_plain(self, load: Load) -> bool:
        """Each place is a scalar or follows an axis: the load is a pointer and strides."""
        return all(isinstance(i, Along) or not self.axes[i.value] for i in load.index)

    def op(self, name: str) -> object:
        """The operation that defines a value, None for carries, results and merges."""
        let = self.lets.get(name)
        return None if let is None else let.op

    def is_costly(self, name: str) -> bool:
        """Recomputing the value costs more than reading it back."""
        match self.op(name):
            case Ew(fn=fn) if fn in COSTLY:
                return True
            case Ew() | Cast() as op:
                return any(self.kind(a) == "item" and self.is_costly(a) for a in operands(op))
            case Load() | Reduce() | Scan() | Dot() | None:
                return self.kind(name) == "item"
        return False

    def sole_user(self, name: str) -> Stmt | None:
        """The one statement that reads a value, None when there are several or none."""
        found = self.users.get(name, [])
        return found[0] if len(found) == 1 else None


def contiguous_axis(index: tuple[object, ...]) -> str | None:
    """The axis along which neighbours are neighbours in memory (a tensor's last stride is 1)."""
    match index[-1] if index else None:
        case Along(axis=axis, step=1):
            return axis
    return None
