"""`x + dot(a, b)` is one dot that starts from x."""

from __future__ import annotations

from dataclasses import replace

from kdsl.ir import nodes as ir
from kdsl.ir.walk import map_blocks, users, value_types


def accumulate(func: ir.Func) -> ir.Func:
    """Fuse an addition into the dot that only it reads, where both stand in one block.

    The sum is the same up to the order of its terms, so a strict function keeps float dots as
    they are; integers are exact.
    """
    readers, types = users(func), value_types(func)

    def alone(s: ir.Let, dot: ir.Dot) -> bool:
        exact = not (func.strict and s.type.dtype.is_float)
        return exact and dot.acc is None and len(readers.get(s.name, ())) == 1

    def block(stmts: ir.Block) -> ir.Block:
        dots = {
            s.name: s.op
            for s in stmts
            if isinstance(s, ir.Let) and isinstance(s.op, ir.Dot) and alone(s, s.op)
        }
        gone: set[str] = set()
        new: list[ir.Stmt] = []
        for s in stmts:
            match s:
                case ir.Let(type=type_, op=ir.Ew(fn="add", args=(a, b))) if a != b:
                    name = next((n for n in (b, a) if n in dots), None)
                    if name is not None and types[a] == types[b] == type_:
                        gone.add(name)
                        s = replace(s, op=replace(dots[name], acc=a if name == b else b))
            new.append(s)
        if not gone:
            return stmts
        return tuple(s for s in new if not (isinstance(s, ir.Let) and s.name in gone))

    return map_blocks(func, block)
