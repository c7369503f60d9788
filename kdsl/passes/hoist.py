"""Loop-invariant values are computed before the loop."""

from __future__ import annotations

from dataclasses import replace

from kdsl.ir import nodes as ir
from kdsl.ir.types import Type
from kdsl.ir.walk import blocks, map_blocks, operands, value_types, walk, written
from kdsl.passes.bounds import unproven


def hoist(func: ir.Func) -> ir.Func:
    """Move what a loop does not change in front of it.

    A loop may run no iteration, so a load moves only if it is in bounds wherever it stands, and
    only from a tensor that its phase does not write; a guard, which may fail, never moves.
    Literals and masks over axes stay: they cost less than the memory to keep them in.
    """
    types = value_types(func)
    stuck = {s.name for s, _ in unproven(func) if isinstance(s, ir.Let)}
    for phase in func.phases:
        changing = written(phase.body)
        for s in walk(phase.body):
            if isinstance(s, ir.Let) and _stays(s, types, changing):
                stuck.add(s.name)
    return map_blocks(func, lambda block: _block(block, stuck))


def _block(block: ir.Block, stuck: set[str]) -> ir.Block:
    """Loops inside have been done already, so what left them may leave this block's loops too."""
    new: list[ir.Stmt] = []
    for s in block:
        if isinstance(s, ir.ForTiles | ir.ForRange):
            moving, body = _invariant(s, stuck)
            new += [*moving, replace(s, body=body)] if moving else [s]
        else:
            new.append(s)
    return block if len(new) == len(block) else tuple(new)


def _invariant(loop: ir.ForTiles | ir.ForRange, stuck: set[str]) -> tuple[list[ir.Let], ir.Block]:
    axis = loop.axis if isinstance(loop, ir.ForTiles) else None
    var = loop.var if isinstance(loop, ir.ForRange) else None
    changing = {c.name for c in loop.carries} | _defined(loop.body)
    moving: list[ir.Let] = []
    rest: list[ir.Stmt] = []
    for s in loop.body:
        if isinstance(s, ir.Let) and s.name not in stuck and not _varies(s, axis, var, changing):
            changing.discard(s.name)
            moving.append(s)
        else:
            rest.append(s)
    return moving, tuple(rest)


def _varies(s: ir.Let, axis: str | None, var: str | None, changing: set[str]) -> bool:
    if axis in s.type.axes or not changing.isdisjoint(operands(s.op)):
        return True
    match s.op:
        case ir.Bound(axis=a) | ir.Iota(axis=a):
            return a == axis
        case ir.LoopVar(var=v):
            return v == var
        case ir.Reduce(axis=a) | ir.Scan(axis=a) | ir.Dot(axis=a):
            return a == axis
    return False


def _stays(s: ir.Let, types: dict[str, Type], changing: frozenset[str]) -> bool:
    match s.op:
        case ir.Load(tensor=tensor):
            return tensor in changing
        case ir.Guard():
            return True
        case ir.Const() | ir.Iota():
            return not s.type.is_scalar
        case ir.Ew() | ir.Cast():
            return not s.type.is_scalar and not s.type.dtype.is_float
    return False


def _defined(block: ir.Block) -> set[str]:
    """Names that a block and the blocks inside it define."""
    found: set[str] = set()
    for s in block:
        match s:
            case ir.Let(name=name):
                found.add(name)
            case ir.ForTiles(carries=carries) | ir.ForRange(carries=carries):
                found |= {n for c in carries for n in (c.name, c.result)}
            case ir.If(merges=merges):
                found |= {m.name for m in merges}
        for inner in blocks(s):
            found |= _defined(inner)
    return found
