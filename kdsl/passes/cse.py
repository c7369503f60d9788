"""Common subexpressions: an operation that a value in scope has already computed is that value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kdsl.ir import nodes as ir
from kdsl.ir.types import Type
from kdsl.ir.walk import blocks, operands, written
from kdsl.lang.ops import OPS
from kdsl.passes.names import substitute

Key = tuple[Type, ir.Op]


def cse(func: ir.Func) -> ir.Func:
    """Keep the first of equal operations in scope; loads only of what the phase does not write."""
    same: dict[str, str] = {}
    host: dict[Key, str] = {}
    _visit(func.host, host, same, frozenset())
    for phase in func.phases:
        _visit(phase.body, {}, same, written(phase.body))
    return substitute(func, same)


def _visit(
    block: ir.Block, seen: Mapping[Key, str], same: dict[str, str], changing: frozenset[str]
) -> None:
    known = dict(seen)  # what this block adds ends with it
    for s in block:
        if isinstance(s, ir.Let):
            if isinstance(s.op, ir.Load) and s.op.tensor in changing:
                continue
            key = s.type, _canonical(s.op, same)
            first = known.setdefault(key, s.name)
            if first != s.name:
                same[s.name] = first
        for inner in blocks(s):
            _visit(inner, known, same, changing)


def _canonical(op: ir.Op, same: Mapping[str, str]) -> ir.Op:
    """The operation over the values that stay, in one order where order does not matter."""

    def kept(name: str) -> str:
        return same.get(name, name)

    def place(index: ir.Index) -> ir.Index:
        if isinstance(index, ir.Point):
            return replace(index, value=kept(index.value))
        return replace(index, offset=index.offset and kept(index.offset))

    match op:
        case ir.Ew(fn=fn, args=args):
            names = tuple(map(kept, args))
            return replace(op, args=tuple(sorted(names)) if OPS[fn].commutative else names)
        case ir.Cast(arg=arg) | ir.Reduce(arg=arg) | ir.Scan(arg=arg) | ir.Guard(arg=arg):
            return replace(op, arg=kept(arg))
        case ir.Dot(a=a, b=b, acc=acc):
            return replace(op, a=kept(a), b=kept(b), acc=acc and kept(acc))
        case ir.Load(index=index):
            return replace(op, index=tuple(map(place, index)))
    if operands(op):
        raise TypeError(f"cse: no rule for {type(op).__name__}")
    return op
