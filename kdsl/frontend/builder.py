"""Collects the statements, names and axes of the function being built."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kdsl.dims import Extent
from kdsl.dtypes import DType, i64
from kdsl.errors import NOWHERE, Span
from kdsl.frontend.values import Val
from kdsl.ir.nodes import (
    Arg,
    Block,
    Bound,
    Cast,
    DimSize,
    Ew,
    Iota,
    Let,
    LoopVar,
    Op,
    Parallel,
    Param,
    ScratchBuffer,
    Stmt,
)  # fmt: skip
from kdsl.ir.types import Axis, Type
from kdsl.ir.walk import operands, written

#: Words a value cannot be called in C++.
_RESERVED = frozenset(
    "alignas alignof and and_eq asm auto bitand bitor bool break case catch char class compl const "
    "constexpr continue decltype default delete do double dynamic_cast else enum explicit export "
    "extern false final float for friend goto if inline int long mutable namespace new noexcept "
    "not not_eq nullptr operator or or_eq override private protected public register "
    "reinterpret_cast return short signed sizeof static static_assert static_cast struct switch "
    "template this thread_local throw true try typedef typeid typename union unsigned using "
    "virtual void volatile wchar_t while xor xor_eq args arena begin end main".split()
)


@dataclass(slots=True)
class Scope:
    """A block being filled. Leaves such as dim sizes stand at its head, each once."""

    head: list[Stmt] = field(default_factory=list)
    body: list[Stmt] = field(default_factory=list)
    leaves: dict[Op, Val] = field(default_factory=dict)
    #: Axes and loop variables that this block's loop binds.
    binds: frozenset[str] = frozenset()

    def block(self) -> Block:
        return (*self.head, *self.body)


@dataclass(slots=True)
class Mark:
    """A place to go back to."""

    used: set[str]
    counts: dict[str, int]
    localised: dict[str, str]
    axes: int
    scopes: list[tuple[int, int, int]]


class Builder:
    """Statements go to the innermost scope; names and axes are unique in the function."""

    def __init__(self, params: tuple[Param, ...], dims: tuple[str, ...]) -> None:
        self.params = params
        self.axes: list[Axis] = []
        self.axis_order: dict[str, int] = {}
        self.scratch: list[ScratchBuffer] = []
        self.phases: list[Parallel] = []
        self.host = Scope()
        self.scopes = [self.host]
        self._phase: Scope | None = None
        self.types: dict[str, Val] = {}
        self.lets: dict[str, Let] = {}
        self._used = {*(p.name for p in params), *dims}
        self._counts: dict[str, int] = {}
        self._temporaries: set[str] = set()
        self._host_names: set[str] = set()
        self._localised: dict[str, str] = {}

    # ---- names and axes

    def unique(self, wanted: str) -> str:
        """A name nobody has yet: the wanted one, or with `_2`, `_3` at its end."""
        base = wanted if wanted.isascii() else _ascii(wanted)
        if not base.strip("_"):
            base = "i"
        elif base.startswith("__"):
            base = f"v{base}"
        if base in _RESERVED:
            base += "_"
        name, count = base, self._counts.get(base, 1)
        while name in self._used:
            count += 1
            name = f"{base}_{count}"
        self._counts[base] = count
        self._used.add(name)
        return name

    def tile_axis(self, name: str, extent: Extent, size: int | None) -> str:
        """A new axis for a tile loop over variable `name`."""
        return self._add(Axis(self.unique(name), "tile", extent, size))

    def whole_axis(self, extent: Extent, taken: tuple[str | None, ...] = ()) -> str:
        """The axis over all of `extent` that is not among `taken`; one axis serves a function."""
        base, count = _axis_name(extent), 0
        while True:
            name = base if not count else f"{base}_{count}"
            known = self.axis_order.get(name)
            if known is None:
                self._used.add(name)
                return self._add(Axis(name, "whole", extent))
            axis = self.axes[known]
            if name not in taken and axis.kind == "whole" and axis.extent == extent:
                return name
            count += 1

    def axis(self, name: str) -> Axis:
        return self.axes[self.axis_order[name]]

    def _add(self, axis: Axis) -> str:
        self.axis_order[axis.name] = len(self.axes)
        self.axes.append(axis)
        return axis.name

    def ordered(self, axes: set[str]) -> tuple[str, ...]:
        """Axes in the order of `Func.axes`."""
        return tuple(sorted(axes, key=self.axis_order.__getitem__))

    # ---- scopes

    @property
    def scope(self) -> Scope:
        return self.scopes[-1]

    @property
    def in_phase(self) -> bool:
        """Inside a parallel loop, not in host code."""
        return self._phase is not None

    def open(self, binds: frozenset[str] = frozenset()) -> Scope:
        self.scopes.append(Scope(binds=binds))
        return self.scope

    def open_phase(self, binds: frozenset[str]) -> None:
        """Begins a parallel loop's body."""
        self._localised.clear()
        self._phase = self.open(binds)

    def close_phase(self, phase: Callable[[Block], Parallel]) -> None:
        """Ends it and adds the phase."""
        self._phase = None
        self.phases.append(phase(self.close()))

    def close(self) -> Block:
        return self.scopes.pop().block()

    def mark(self) -> Mark:
        """Remembers the state, to lower a loop's body again."""
        sizes = [(len(s.head), len(s.body), len(s.leaves)) for s in self.scopes]
        return Mark(
            set(self._used), dict(self._counts), dict(self._localised), len(self.axes), sizes
        )

    def rewind(self, mark: Mark) -> None:
        """Forgets everything since `mark`."""
        self._used, self._counts = set(mark.used), dict(mark.counts)
        self._localised = dict(mark.localised)
        # whole axes stay: what was learnt of a loop's variables may name them
        whole = [a for a in self.axes[mark.axes :] if a.kind == "whole"]
        self.axes[mark.axes :] = whole
        self._used.update(a.name for a in whole)
        self.axis_order = {a.name: i for i, a in enumerate(self.axes)}
        del self.scopes[len(mark.scopes) :]
        for scope, (head, body, leaves) in zip(self.scopes, mark.scopes, strict=True):
            del scope.head[head:], scope.body[body:]
            for op in list(scope.leaves)[leaves:]:
                del scope.leaves[op]

    # ---- statements

    def emit(self, stmt: Stmt) -> None:
        self.scope.body.append(stmt)

    def let(
        self, op: Op, dtype: DType, shape: tuple[str | None, ...] = (), *, name: str = "",
        span: Span = NOWHERE, weak: bool = False, axes: set[str] | None = None,
    ) -> Val:  # fmt: skip
        """Appends a `Let`; axes are those of the shape unless given."""
        names = self.ordered({a for a in shape if a} if axes is None else axes)
        let = Let(self.unique(name or "t"), Type(dtype, names), op, span=span)
        if not name:
            self._temporaries.add(let.name)
        self.scope.body.append(let)
        return self._define(let, shape, weak)

    def leaf(self, op: Op, dtype: DType, shape: tuple[str | None, ...], name: str) -> Val:
        """A value that only depends on the call or on a loop's position: one `Let` a scope, at
        the head of the block whose loop binds it."""
        scope = self._home(op)
        found = scope.leaves.get(op)
        if found is None:
            type_ = Type(dtype, self.ordered({a for a in shape if a}))
            let = Let(self.unique(name), type_, op)
            scope.head.append(let)
            weak = dtype is i64 and not isinstance(op, Arg)
            found = scope.leaves[op] = self._define(let, shape, weak)
        return found

    def _home(self, op: Op) -> Scope:
        match op:
            case LoopVar(var=bound) | Bound(axis=bound):
                pass
            case Iota(axis=bound) if self.axis(bound).kind == "tile":
                pass
            case _:
                return self.host if self._phase is None else self._phase
        return next((s for s in reversed(self.scopes) if bound in s.binds), self.scope)

    def _define(self, let: Let, shape: tuple[str | None, ...], weak: bool) -> Val:
        self.lets[let.name] = let
        if self._phase is None:
            self._host_names.add(let.name)
        val = Val(let.name, let.type, shape, weak)
        self.types[let.name] = val
        return val

    def mark_host(self, name: str) -> None:
        """Says that a value was made by host code."""
        self._host_names.add(name)

    def name_last(self, val: Val, wanted: str) -> Val:
        """Calls the value `wanted` if it is the statement just appended and has no name yet."""
        body = self.scope.body
        if not body or not isinstance(body[-1], Let) or body[-1].name != val.name:
            return val
        if val.name not in self._temporaries:
            return val
        old = body[-1]
        self._give_back(old.name)
        new = replace(old, name=self.unique(wanted))
        body[-1] = new
        del self.lets[old.name]
        self.types.pop(old.name)
        self._host_names.discard(old.name)
        return self._define(new, val.shape, val.weak)

    def _give_back(self, name: str) -> None:
        """Frees the name of a temporary, so that the next one gets it."""
        self._used.discard(name)
        self._temporaries.discard(name)
        count = int(name.rpartition("_")[2]) if "_" in name else 1
        if self._counts.get("t") == count:
            self._counts["t"] = max(count - 1, 1)

    # ---- leaves

    def size(self, extent: Extent) -> Val:
        """The number that a dim expression is, a weak i64."""
        name = f"{extent}_size" if str(extent).isidentifier() else "size"
        return self.leaf(DimSize(extent), i64, (), name)

    def argument(self, param: str, dtype: DType) -> Val:
        return self.leaf(Arg(param), dtype, (), f"{param}_arg")

    def loop_var(self, var: str) -> Val:
        return self.leaf(LoopVar(var), i64, (), f"{var}_at")

    def bound(self, axis: str, which: str) -> Val:
        assert which in ("start", "stop", "len")
        return self.leaf(Bound(axis, which), i64, (), f"{axis}_{which}")  # type: ignore[arg-type]

    def iota(self, axis: str) -> Val:
        return self.leaf(Iota(axis), i64, (axis,), f"{axis}_index")

    def may_have_changed(self, tensor: str, load: Let) -> bool:
        """Whether a tensor may have been written since a value was loaded from it."""
        if any(p.name == tensor and p.kind == "in" for p in self.params):
            return False
        at = next((i for i, s in enumerate(self.scopes) if load in s.body), None)
        if at is None or any(s.binds for s in self.scopes[at + 1 :]):
            return True  # a loop that may write it further down
        first = self.scopes[at].body.index(load)
        since = [*self.scopes[at].body[first:], *(t for s in self.scopes[at + 1 :] for t in s.body)]
        return tensor in written(tuple(since))

    # ---- host values inside a phase

    def local(self, val: Val) -> Val:
        """A host value made again in the phase that uses it; any other value as it is."""
        if self._phase is None or val.name not in self._host_names:
            return val
        name = self._localised.get(val.name)
        if name is not None:
            return replace(val, name=name)
        let = self.lets[val.name]
        match let.op:
            case DimSize() | Arg():
                made = self.leaf(let.op, val.dtype, (), let.name)
            case op:
                from_host = {n: self.local(self.types[n]).name for n in operands(op)}
                moved = _with_operands(op, from_host)
                new = Let(self.unique(let.name), let.type, moved, span=let.span)
                self._phase.head.append(new)
                made = self._define(new, val.shape, val.weak)
        self._localised[val.name] = made.name
        return replace(val, name=made.name)


def _with_operands(op: Op, names: dict[str, str]) -> Op:
    match op:
        case Ew(args=args):
            return replace(op, args=tuple(names[a] for a in args))
        case Cast(arg=arg):
            return replace(op, arg=names[arg])
    return op


def _ascii(name: str) -> str:
    return "".join(c if c.isascii() else f"u{ord(c):04x}" for c in name)


_WORDS = {"+": "plus", "-": "minus", "*": "times", "//": "over", "%": "mod"}


def _axis_name(extent: Extent) -> str:
    """`D`, `D_over_2`, `n128`."""
    if isinstance(extent, int):
        return f"n{extent}"
    text = str(extent)
    if text.isidentifier():
        return text if text.isascii() else _ascii(text)
    words = [_WORDS.get(w, w) for w in re.findall(r"\w+|//|[-+*%]", text)]
    name = _ascii("_".join(words))
    return f"n{name}" if name[0].isdigit() else name
