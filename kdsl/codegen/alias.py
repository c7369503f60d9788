"""Which inputs may be the very memory of an output: those read, each element, before written.

`y[i] = f(x[i])` may run with y over x; a matmul may not. What cannot be shown here counts as no.
"""

from __future__ import annotations

from collections.abc import Iterable

from kdsl.dims import Extent
from kdsl.dtypes import TensorType
from kdsl.ir import nodes as ir
from kdsl.ir.walk import walk

Write = ir.Store | ir.AtomicAdd
#: A place of an index with values replaced by what they are.
Place = tuple[object, ...]


def replaceable(funcs: Iterable[ir.Func], output: str) -> tuple[str, ...]:
    """Inputs whose very view `output` may be, in all of these specialisations."""
    choices: list[tuple[str, ...]] = [
        tuple(p.name for p in f.params if p.kind == "in" and _may_replace(f, p.name, output))
        for f in funcs
    ]
    first = choices[0] if choices else ()
    return tuple(name for name in first if all(name in c for c in choices))


def _may_replace(func: ir.Func, source: str, output: str) -> bool:
    if not isinstance(_param(func, source).type, TensorType):
        return False
    a, b = func.tensor(source), func.tensor(output)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    loads = [_reads(phase, source) for phase in func.phases]
    stores = [_writes(phase, output) for phase in func.phases]
    for phase, reads, writes in zip(func.phases, loads, stores, strict=True):
        if reads and not _reads_before_writing(func, phase, reads, writes):
            return False
    # A later phase would read what an earlier one has written.
    written = [i for i, writes in enumerate(stores) if writes]
    read = [i for i, reads in enumerate(loads) if reads]
    return bool(written) and (not read or max(read) <= min(written))


def _reads_before_writing(
    func: ir.Func, phase: ir.Parallel, reads: list[ir.Load], writes: list[Write]
) -> bool:
    """One store of the output, last in the phase and not in a loop, where each load reads."""
    if not writes:
        return True
    if len(writes) > 1 or phase.body[-1] is not writes[0] or isinstance(writes[0], ir.AtomicAdd):
        return False
    # The first columns of a product may be stored while later ones still read whole rows.
    if any(isinstance(s, ir.Let) and isinstance(s.op, ir.Dot) for s in walk(phase.body)):
        return False
    places = _Places(func, phase)
    target = places.of(writes[0].index)
    return target is not None and all(places.of(load.index) == target for load in reads)


class _Places:
    """Indices as something that is equal only for equal elements."""

    def __init__(self, func: ir.Func, phase: ir.Parallel) -> None:
        self._ops = {
            s.name: s.op
            for block in (func.host, phase.body)
            for s in walk(block)
            if isinstance(s, ir.Let)
        }
        self._extents: dict[str, Extent] = {a.name: a.extent for a in func.axes}
        self._loops = {each.var for each in phase.vars}
        self._whole = {a.name for a in func.axes if a.kind == "whole"}

    def of(self, index: tuple[ir.Index, ...]) -> Place | None:
        """None where an element depends on more than the iteration and a whole axis."""
        places: list[object] = []
        for i in index:
            place = self._point(i.value) if isinstance(i, ir.Point) else self._along(i)
            if place is None:
                return None
            places.append(place)
        return tuple(places)

    def _along(self, along: ir.Along) -> object:
        if along.offset is not None or along.step != 1:
            return None
        if along.axis in self._whole:
            return ("whole", str(self._extents[along.axis]))
        return ("tile", along.axis) if along.axis in self._loops else None

    def _point(self, value: str) -> object:
        match self._ops.get(value):
            case ir.LoopVar(var=var) if var in self._loops:
                return ("loop", var)
            case ir.Const(text=text):
                return ("number", text)
        return None


def _reads(phase: ir.Parallel, tensor: str) -> list[ir.Load]:
    lets = (s for s in walk(phase.body) if isinstance(s, ir.Let))
    return [s.op for s in lets if isinstance(s.op, ir.Load) and s.op.tensor == tensor]


def _writes(phase: ir.Parallel, tensor: str) -> list[Write]:
    return [s for s in walk(phase.body) if isinstance(s, Write) and s.tensor == tensor]


def _param(func: ir.Func, name: str) -> ir.Param:
    return next(p for p in func.params if p.name == name)
