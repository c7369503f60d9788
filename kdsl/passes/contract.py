"""Products that are only added to something become one fused multiply-add."""

from __future__ import annotations

from dataclasses import replace

from kdsl.ir import nodes as ir
from kdsl.ir.walk import map_blocks, users, value_types
from kdsl.passes.names import Names


def contract(func: ir.Func) -> ir.Func:
    """`a * b + c` rounds once: an `fma`, so that no C++ compiler has to decide it.

    Only where nothing else reads the product, the addition stands in its block and is over the
    same axes. A strict function keeps both roundings.
    """
    if func.strict:
        return func
    readers, types, names = users(func), value_types(func), Names(func)

    def block(stmts: ir.Block) -> ir.Block:
        if stmts is func.host:
            return stmts  # the caller's arithmetic, checked as it is written
        products = {
            s.name: s.op
            for s in stmts
            if isinstance(s, ir.Let)
            and isinstance(s.op, ir.Ew)
            and s.op.fn == "mul"
            and s.type.dtype.is_float
            and len(readers.get(s.name, ())) == 1
        }
        gone: set[str] = set()
        new: list[ir.Stmt] = []
        for s in stmts:
            match s:
                case ir.Let(op=ir.Ew(fn="add" | "sub", args=(a, b))) if a != b:
                    name = next((n for n in (a, b) if n in products and types[n] == s.type), None)
                    if name is not None:
                        gone.add(name)
                        new += _fused(s, name, products[name])
                        continue
            new.append(s)
        return tuple(s for s in new if _name(s) not in gone) if gone else stmts

    def _fused(s: ir.Let, product: str, mul: ir.Ew) -> list[ir.Let]:
        """The sum or difference `s`, of which one operand is the product, as an fma."""
        x, y = mul.args
        op = s.op
        assert isinstance(op, ir.Ew)
        first, other = op.args[0] == product, op.args[1 if op.args[0] == product else 0]
        if op.fn == "add":
            return [replace(s, op=replace(op, fn="fma", args=(x, y, other)))]
        gives = other if first else x  # what a difference takes the negative of
        minus = ir.Let(names.new(), types[gives], ir.Ew("neg", (gives,)), span=s.span)
        args = (x, y, minus.name) if first else (minus.name, y, other)
        return [minus, replace(s, op=replace(op, fn="fma", args=args))]

    return map_blocks(func, block)


def _name(s: ir.Stmt) -> str:
    return s.name if isinstance(s, ir.Let) else ""
