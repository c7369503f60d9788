"""An argmax has no answer on an axis without elements: the call is told, before it runs."""

from __future__ import annotations

from dataclasses import replace

from kdsl.dims import Extent
from kdsl.dtypes import boolean, i64
from kdsl.ir import nodes as ir
from kdsl.ir.types import Type
from kdsl.ir.walk import statements
from kdsl.passes.names import Names


def nonempty(func: ir.Func) -> ir.Func:
    """With a requirement for each extent along which an argmax or argmin looks; slices of tile
    loops have elements whenever they are there."""
    known = {s.text for s in func.host if isinstance(s, ir.Require)}
    wanted: dict[str, tuple[Extent, ir.Let]] = {}
    for s in statements(func):
        if isinstance(s, ir.Let) and isinstance(s.op, ir.Reduce) and s.op.fn.startswith("arg"):
            axis = func.axis(s.op.axis)
            text = f"{axis.extent} > 0"
            if axis.kind == "whole" and not isinstance(axis.extent, int) and text not in known:
                wanted[text] = (axis.extent, s)
    if not wanted:
        return func
    names, host = Names(func), list(func.host)
    for text, (extent, let) in wanted.items():
        size, zero, holds = names.new("size"), names.new(), names.new()
        host += [
            ir.Let(size, Type(i64), ir.DimSize(extent), span=let.span),
            ir.Let(zero, Type(i64), ir.Const("0"), span=let.span),
            ir.Let(holds, Type(boolean), ir.Ew("gt", (size, zero)), span=let.span),
            ir.Require(holds, text, span=let.span),
        ]
    return replace(func, host=tuple(host))
