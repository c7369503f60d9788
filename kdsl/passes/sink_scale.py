"""A positive factor moves down, past maxima and masks, to where it costs less."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from kdsl.ir import nodes as ir
from kdsl.ir.literals import literal
from kdsl.ir.types import Type
from kdsl.ir.walk import lets, map_blocks, users, value_types
from kdsl.passes.names import Names, substitute
from kdsl.passes.signs import Signs


@dataclass
class _Sink:
    """Where one product x * factor goes: nothing reads the product itself any more."""

    product: ir.Let
    x: str
    factor: str
    #: `where(_, product, ±inf or 0)`: the same of x, to be scaled in turn.
    masks: list[ir.Let] = field(default_factory=list)
    #: Row maxima and minima: scaled after the reduction.
    rows: list[ir.Let] = field(default_factory=list)
    #: Sums and differences: x * factor ± y in one rounding.
    sums: list[ir.Let] = field(default_factory=list)


def sink_scale(func: ir.Func) -> ir.Func:
    """`max(x * c)` is `max(x) * c` for c > 0, to the bit; `x * c - y` is one multiply-add.

    A scalar factor of a tile leaves the tile when every reader can take it over: masks that
    select between the product and ±inf or 0, maxima and minima along an axis, sums. Not in strict
    functions, whose sums round twice.
    """
    while not func.strict:
        sink = _find(func)
        if sink is None:
            break
        func = _apply(func, sink)
    return func


def _find(func: ir.Func) -> _Sink | None:
    """The first product whose factor can move."""
    known, readers, signs = lets(func), users(func), Signs(func)
    for let in known.values():
        match let.op:
            case ir.Ew(fn="mul", args=(a, b)) if let.type.dtype.is_float:
                for x, factor in ((a, b), (b, a)):
                    scalar = factor in known and known[factor].type.is_scalar
                    if scalar and _has_type(known, x, let.type) and signs.positive(factor):
                        sink = _Sink(let, x, factor)
                        if _absorbed(known, readers, sink) and sink.rows:
                            return sink
    return None


def _has_type(known: dict[str, ir.Let], name: str, type_: Type) -> bool:
    return name in known and known[name].type == type_ and not type_.is_scalar


def _absorbed(known: dict[str, ir.Let], readers: dict[str, list[ir.Stmt]], sink: _Sink) -> bool:
    """Whether every reader of a scaled value takes the factor over; collects them."""
    todo = [sink.product.name]
    while todo:
        value = todo.pop()
        for s in readers.get(value, ()):
            if not isinstance(s, ir.Let):
                return False
            match s.op:
                case ir.Ew(fn="where", args=(_, a, b)) if (a == value) != (b == value):
                    if not _unscaled(known.get(b if a == value else a)):
                        return False
                    sink.masks.append(s)
                    todo.append(s.name)
                case ir.Reduce(fn="max" | "min"):
                    sink.rows.append(s)
                case ir.Ew(fn="add" | "sub", args=(a, b)) if (
                    a != b and s.type == sink.product.type and (a == value or s.op.fn == "add")
                ):
                    sink.sums.append(s)
                case _:
                    return False
    return True


def _unscaled(let: ir.Let | None) -> bool:
    """A literal that a positive factor leaves as it is."""
    if let is None or not isinstance(let.op, ir.Const):
        return False
    return literal(let.op.text, let.type.dtype) in (0, float("inf"), float("-inf"))


def _apply(func: ir.Func, sink: _Sink) -> ir.Func:
    names, types = Names(func), value_types(func)
    scaled = {sink.product.name, *(s.name for s in sink.masks)}
    ends = {s.name: names.new() for s in sink.rows}
    sums = {s.name for s in sink.sums}

    def fused(s: ir.Let, op: ir.Ew) -> tuple[ir.Stmt, ...]:
        a, b = op.args
        if op.fn == "add":
            x, y = (a, b) if a in scaled else (b, a)
            return (replace(s, op=ir.Ew("fma", (x, sink.factor, y), span=op.span)),)
        minus = ir.Let(names.new(), types[b], ir.Ew("neg", (b,), span=op.span), span=s.span)
        return minus, replace(s, op=ir.Ew("fma", (a, sink.factor, minus.name), span=op.span))

    def stmt(s: ir.Stmt) -> tuple[ir.Stmt, ...]:
        match s:
            case ir.Let(name=name, op=ir.Reduce() as op) if name in ends:
                scale = ir.Ew("mul", (ends[name], sink.factor), span=op.span)
                return replace(s, name=ends[name]), replace(s, op=scale)
            case ir.Let(name=name, op=ir.Ew() as op) if name in sums:
                return fused(s, op)
        return (s,)

    changed = map_blocks(func, lambda block: tuple(new for s in block for new in stmt(s)))
    return substitute(changed, {sink.product.name: sink.x})
