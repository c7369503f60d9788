"""IR -> text, the inverse of `kdsl.ir.parser`: `parse(show(f)) == f`.

`show` also gives the parts of a function one by one, for messages and for what plans print.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator

from kdsl.ir.nodes import (
    Along,
    Arg,
    AtomicAdd,
    Block,
    Bound,
    Carry,
    Cast,
    Const,
    DimSize,
    Dot,
    Each,
    Ew,
    ForRange,
    ForTiles,
    Func,
    Guard,
    If,
    Index,
    Iota,
    Let,
    Load,
    LoopVar,
    Op,
    Parallel,
    Param,
    Point,
    Reduce,
    Require,
    Scan,
    Stmt,
    Store,
)
from kdsl.ir.types import Axis

_WIDTH = 100
_INDENT = "  "


def show(func: Func) -> str:
    """The function as text, one statement a line; `.kdsl` files hold exactly this."""
    lines = [_head(func), *(_INDENT + line for line in _declarations(func))]
    axes = {a.name for a in func.axes}
    if func.host:
        lines += _indented(["host {", *_block(func.host, axes), "}"])
    for phase in func.phases:
        lines += _indented([show_phase_head(phase) + " {", *_block(phase.body, axes), "}"])
    return "\n".join([*lines, "}"]) + "\n"


def show_op(op: Op, axes: Collection[str]) -> str:
    """The right-hand side of a `Let`; `axes` are the names of the function's axes."""
    match op:
        case Const(text=text):
            return text
        case DimSize(extent=extent):
            return f"size({extent})"
        case Arg(param=name):
            return f"arg({name})"
        case LoopVar(var=name):
            return f"var({name})"
        case Bound(axis=axis, which=which):
            return f"{axis}.{which}"
        case Iota(axis=axis):
            return f"{axis}.index"
        case Load(tensor=tensor, index=index):
            return tensor + _place(index, axes)
        case Ew(fn=fn, args=args):
            return f"{fn}({', '.join(args)})"
        case Cast(arg=arg):
            return f"cast({arg})"
        case Reduce(fn=fn, arg=arg, axis=axis):
            return f"{fn}({arg}; {axis})"
        case Scan(fn=fn, arg=arg, axis=axis):
            return f"cum{fn}({arg}; {axis})"
        case Dot(a=a, b=b, axis=axis, acc=acc):
            return (f"{acc} + " if acc else "") + f"dot({a}, {b}; {axis})"
        case Guard(arg=arg, tensor=tensor, dim=dim):
            return f"guard({arg}; {tensor}, {dim})"
    raise TypeError(f"show_op: no rule for {type(op).__name__}")


def show_stmt(stmt: Stmt, axes: Collection[str]) -> str:
    """A statement with the statements inside it; lines are not indented as a whole."""
    return "\n".join(_stmt(stmt, axes))


def show_phase_head(phase: Parallel) -> str:
    return " ".join(["parallel", ", ".join(map(_each, phase.vars))]).rstrip()


def show_axis(axis: Axis) -> str:
    size = "" if axis.size is None else f", {axis.size}"
    return f"{axis.name} = {'tiles' if axis.kind == 'tile' else 'whole'}({axis.extent}{size})"


def _head(func: Func) -> str:
    words = "strict kernel" if func.strict else "kernel"
    params = [_param(p) for p in func.params]
    line = f"{words} {func.name}({', '.join(params)}) {{"
    if len(line) <= _WIDTH:
        return line
    return "\n".join([f"{words} {func.name}(", *_commas(params, _INDENT * 2, ") {")])


def _commas(items: list[str], indent: str, end: str) -> list[str]:
    """One item a line, a comma after each but the last."""
    return [f"{indent}{item}{',' if i + 1 < len(items) else end}" for i, item in enumerate(items)]


def _declarations(func: Func) -> Iterator[str]:
    if func.dims:
        yield "dims " + ", ".join(func.dims)
    if func.fixed:
        yield "fixed " + ", ".join(f"{name} = {size}" for name, size in func.fixed)
    for axis in func.axes:
        yield "axis " + show_axis(axis)
    for buffer in func.scratch:
        yield f"scratch {buffer.name}: {buffer.type}"


def _param(param: Param) -> str:
    match param.kind:
        case "in" | "scalar":
            return f"{param.name}: {param.type}"
        case "out":
            return f"{param.name}: Out[{param.type}]"
        case "inout":
            return f"{param.name}: InOut[{param.type}]"


def _each(each: Each) -> str:
    return f"{each.var} in tiles({each.extent})" if each.is_tile else f"{each.var} in {each.extent}"


def _indented(lines: Iterable[str]) -> list[str]:
    return [_INDENT + line for line in lines]


def _block(block: Block, axes: Collection[str], *last: str) -> list[str]:
    return _indented([line for s in block for line in _stmt(s, axes)] + list(last))


def _stmt(stmt: Stmt, axes: Collection[str]) -> list[str]:
    match stmt:
        case Let(name=name, type=type_, op=op):
            return [f"{name}: {type_} = {show_op(op, axes)}"]
        case Store(tensor=tensor, index=index, value=value):
            return [f"{tensor}{_place(index, axes)} = {value}"]
        case AtomicAdd(tensor=tensor, index=index, value=value):
            return [f"{tensor}{_place(index, axes)} += {value}"]
        case Require(cond=cond, text=text):
            return [f"assert {cond}, {json.dumps(text, ensure_ascii=False)}"]
        case ForTiles(axis=axis, start=start, stop=stop, carries=carries, body=body):
            given = [f"{k}={v}" for k, v in (("start", start), ("stop", stop)) if v is not None]
            return _loop(f"for {axis} in tiles({', '.join(given)})", carries, body, axes)
        case ForRange(var=var, start=start, stop=stop, step=step, carries=carries, body=body):
            by = "" if step == 1 else f", {step}"
            going = "" if stmt.going is None else f" while {stmt.going}"
            return _loop(f"for {var} in range({start}, {stop}{by}){going}", carries, body, axes)
        case If():
            return _branch(stmt, axes)
    raise TypeError(f"show: no rule for {type(stmt).__name__}")


def _loop(head: str, carries: tuple[Carry, ...], body: Block, axes: Collection[str]) -> list[str]:
    if not carries:
        return [head + " {", *_block(body, axes), "}"]
    begin = [f"{c.name}: {c.type} = {c.init} as {c.result}" for c in carries]
    end = "yield " + ", ".join(f"{c.name}={c.next}" for c in carries)
    return [head + " with", *_commas(begin, _INDENT * 2, " {"), *_block(body, axes, end), "}"]


def _branch(stmt: If, axes: Collection[str]) -> list[str]:
    merges = stmt.merges
    names = ", ".join(f"{m.name}: {m.type}" for m in merges)
    head = f"if {stmt.cond} as {names} {{" if merges else f"if {stmt.cond} {{"
    then = ["yield " + ", ".join(f"{m.name}={m.then}" for m in merges)] if merges else []
    other = ["yield " + ", ".join(f"{m.name}={m.other}" for m in merges)] if merges else []
    lines = [head, *_block(stmt.then, axes, *then)]
    if stmt.other or merges:
        lines += ["} else {", *_block(stmt.other, axes, *other)]
    return [*lines, "}"]


def _place(index: tuple[Index, ...], axes: Collection[str]) -> str:
    return f"[{', '.join(_index(i, axes) for i in index) or '()'}]"


def _index(index: Index, axes: Collection[str]) -> str:
    match index:
        case Point(value=value):
            return f"({value})" if value in axes else value
        case Along(axis=axis, offset=offset, step=step):
            times = "" if step == 1 else f" * {step}"
            return axis + times + ("" if offset is None else f" + {offset}")
