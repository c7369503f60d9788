"""Every access is inside its tensor: proven here, or guarded where the index is computed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kdsl.dims import Extent
from kdsl.errors import KernelTypeError, Span
from kdsl.ir import nodes as ir
from kdsl.ir.walk import walk
from kdsl.passes.indices import Indices
from kdsl.passes.names import Names
from kdsl.passes.poly import Poly

#: A statement with an access.
Accessing = ir.Let | ir.Store | ir.AtomicAdd
#: An access: the tensor and where in it.
Access = tuple[str, tuple[ir.Index, ...]]
#: Guarded names by the value that they guard and the extent that it is in.
Guarded = dict[tuple[str, Extent], str]


def bounds(func: ir.Func) -> ir.Func:
    """With a `Guard` in front of each access by a value that is not proven inside its tensor.

    The function itself where all is proven.

    Raises:
        KernelTypeError: a place along an axis that is not proven, or a constant that is outside in
            every call; it says which, and what to require.
    """
    guards = _Guards(func)
    phases = []
    for phase in func.phases:
        guards.runs = _runs(guards.indices, phase)
        body = guards.block(phase.body, {}, always=True)
        phases.append(phase if body is phase.body else replace(phase, body=body))
    same = all(a is b for a, b in zip(phases, func.phases, strict=True))
    return func if same else replace(func, phases=tuple(phases))


def unproven(func: ir.Func) -> Iterator[tuple[Accessing, int]]:
    """Loads and writes with a dimension that they may leave, wherever in a phase they stood."""
    indices = Indices(func)
    for phase in func.phases:
        runs = _runs(indices, phase)
        for s in walk(phase.body):
            access = _access(s)
            if access is not None:
                facts = (*indices.facts, *runs, *_elements(indices, access[1]))
                for dimension, (i, size) in enumerate(_places(func, access)):
                    if not _inside(indices, i, size, facts):
                        assert isinstance(s, Accessing)
                        yield s, dimension


class _Guards:
    """Puts guards into the blocks of a function."""

    def __init__(self, func: ir.Func) -> None:
        self.func, self.indices, self.names = func, Indices(func), Names(func)
        #: Facts of the phase that is at hand.
        self.runs: tuple[Poly, ...] = ()

    def block(self, block: ir.Block, guarded: Guarded, always: bool) -> ir.Block:
        """`always`: the block stands in no branch."""
        known = dict(guarded)  # what this block guards ends with it
        new: list[ir.Stmt] = []
        for s in block:
            match s:
                case ir.ForTiles(body=body) | ir.ForRange(body=body):
                    inner = self.block(body, known, always)
                    new.append(s if inner is body else replace(s, body=inner))
                case ir.If(then=then, other=other):
                    a, b = (self.block(side, known, always=False) for side in (then, other))
                    same = a is then and b is other
                    new.append(s if same else replace(s, then=a, other=b))
                case _:
                    new += self.statement(s, known, always)
        same = len(new) == len(block) and all(a is b for a, b in zip(new, block, strict=True))
        return block if same else tuple(new)

    def statement(self, s: ir.Stmt, known: Guarded, always: bool) -> Iterator[ir.Stmt]:
        """A statement without a block, after the guards that it needs."""
        access = _access(s)
        if access is None:
            yield s
            return
        tensor, index = access
        facts = (*self.indices.facts, *self.runs, *_elements(self.indices, index))
        places = list(index)
        for dimension, (i, size) in enumerate(_places(self.func, access)):
            if _inside(self.indices, i, size, facts):
                continue
            span = i.span if i.span.line else s.span
            if isinstance(i, ir.Along):
                raise _unproven_error(tensor, dimension, size, span)
            if always and _outside(self.indices, i, size, facts):
                raise _outside_error(tensor, dimension, size, span)
            key = i.value, size
            if key not in known:
                known[key] = self.names.new(i.value)
                op = ir.Guard(i.value, tensor, dimension, span=span)
                yield ir.Let(known[key], self.indices.types[i.value], op, span=span)
            places[dimension] = replace(i, value=known[key])
        yield s if tuple(places) == index else _at(s, tuple(places))


def _at(s: ir.Stmt, index: tuple[ir.Index, ...]) -> ir.Stmt:
    """The load or write `s` at another place."""
    match s:
        case ir.Store() | ir.AtomicAdd():
            return replace(s, index=index)
        case ir.Let(op=ir.Load() as load):
            return replace(s, op=replace(load, index=index))
    raise TypeError(f"bounds: no rule for {type(s).__name__}")


def _runs(indices: Indices, phase: ir.Parallel) -> tuple[Poly, ...]:
    """A phase that runs has an iteration."""
    return tuple(indices.extent(e.extent) - 1 for e in phase.vars)


def _access(s: ir.Stmt) -> Access | None:
    match s:
        case ir.Let(op=ir.Load(tensor=tensor, index=index)):
            return tensor, index
        case ir.Store(tensor=tensor, index=index) | ir.AtomicAdd(tensor=tensor, index=index):
            return tensor, index
    return None


def _places(func: ir.Func, access: Access) -> Iterator[tuple[ir.Index, Extent]]:
    """Each index with the size of its dimension."""
    tensor, index = access
    return zip(index, func.tensor(tensor).shape, strict=True)


def _elements(indices: Indices, index: tuple[ir.Index, ...]) -> Iterator[Poly]:
    """An access along an empty axis touches nothing, so its axes have an element each."""
    for i in index:
        if isinstance(i, ir.Along):
            yield indices.extent(indices.axes[i.axis].extent) - 1


def _inside(indices: Indices, index: ir.Index, size: Extent, facts: tuple[Poly, ...]) -> bool:
    match index:
        case ir.Along(axis=axis, offset=None, step=1) if indices.axes[axis].extent == size:
            return True
    place = indices.index(index)
    return indices.holds(place, facts) and indices.holds(indices.extent(size) - 1 - place, facts)


def _outside(indices: Indices, index: ir.Point, size: Extent, facts: tuple[Poly, ...]) -> bool:
    """Whether a constant of the call, a number or made of dims, is never inside.

    A loop's variable does not count: the loop may run no iteration.
    """
    place = indices.index(index)
    if not place.is_plain:
        return False
    return indices.holds(-place - 1, facts) or indices.holds(place - indices.extent(size), facts)


def _unproven_error(tensor: str, dimension: int, size: Extent, span: Span) -> KernelTypeError:
    return KernelTypeError(
        f"an index of `{tensor}` may be outside its dimension {dimension}",
        span,
        label=f"cannot show that it stays in [0, {size})",
        help="kdsl.require(...) what makes it fit, or clamp it with minimum and maximum",
    )


def _outside_error(tensor: str, dimension: int, size: Extent, span: Span) -> KernelTypeError:
    return KernelTypeError(
        f"an index of `{tensor}` is outside its dimension {dimension}",
        span,
        label=f"this is never in [0, {size})",
    )
