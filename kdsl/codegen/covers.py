"""Which outputs a kernel writes as a whole: nothing of what they held before can stay.

What cannot be shown here counts as no.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kdsl.dims import Extent
from kdsl.ir import nodes as ir
from kdsl.ir.types import Axis
from kdsl.ir.walk import guards, walk


def covers(func: ir.Func, output: str) -> bool:
    """Whether every element of `output` is written, whatever the sizes are."""
    # A store whose index is out of range is left out.
    if guards(func):
        return False
    shape = func.tensor(output).shape
    return any(
        _is_whole(func, phase, loops, store, shape)
        for phase in func.phases
        for loops, store in _stores(phase.body, output, ())
    )


def _stores(
    block: ir.Block, output: str, loops: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], ir.Store]]:
    """Stores that no condition and no bound keeps from elements, with the tile loops around."""
    for s in block:
        match s:
            case ir.Store(tensor=tensor) if tensor == output:
                yield loops, s
            case ir.ForTiles(axis=axis, start=None, stop=None, body=body):
                yield from _stores(body, output, (*loops, axis))


def _is_whole(
    func: ir.Func,
    phase: ir.Parallel,
    loops: tuple[str, ...],
    store: ir.Store,
    shape: tuple[Extent, ...],
) -> bool:
    axes = {a.name: a for a in func.axes}
    ranges = {each.var: each for each in phase.vars}
    tiles = {each.var for each in phase.vars if each.is_tile} | set(loops)
    ops = {s.name: s.op for s in walk(phase.body) if isinstance(s, ir.Let)}
    found = [
        _walks(i, e, axes, ranges, tiles, ops) for i, e in zip(store.index, shape, strict=True)
    ]
    # One loop for two axes writes a diagonal; a loop for none may have no turn.
    names = [name for name in found if name is not None]
    walked = {*loops, *(v for v, each in ranges.items() if not _has_turn(each.extent))}
    return len(set(names)) == len(shape) and walked <= set(names)


def _has_turn(extent: Extent) -> bool:
    return isinstance(extent, int) and extent > 0


def _walks(
    index: ir.Index,
    extent: Extent,
    axes: Mapping[str, Axis],
    ranges: Mapping[str, ir.Each],
    tiles: set[str],
    ops: Mapping[str, ir.Op],
) -> str | None:
    """What runs over all of one axis of a tensor; None where nothing does."""
    if isinstance(index, ir.Along):
        axis = axes[index.axis]
        plain = index.offset is None and index.step == 1 and str(axis.extent) == str(extent)
        return axis.name if plain and (axis.kind == "whole" or axis.name in tiles) else None
    op = ops.get(index.value)
    if isinstance(op, ir.LoopVar) and (each := ranges.get(op.var)) is not None:
        return each.var if not each.is_tile and str(each.extent) == str(extent) else None
    return None
