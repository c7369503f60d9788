"""Rewrites that bring a function into the form the CPU planner takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kdsl.dtypes import boolean, f32, i64
from kdsl.ir.nodes import (
    Block, Carry, Cast, Const, Dot, Ew, ForRange, ForTiles, Func, Iota, Let, Load, Op, Reduce, Stmt,
)  # fmt: skip
from kdsl.ir.types import Axis, Type
from kdsl.ir.walk import carries, lets, map_blocks, statements, value_types

#: Default tile sizes, multiples of every register blocking in use.
LANES, ROWS, DEPTH = 48, 96, 256
#: Rows of a task: what it packs serves more of them.
TASK_ROWS = 192
#: Where nothing is multiplied: long runs along memory, few rows; blocks of two sliced axes.
RUN, FEW, SIDE = 1024, 8, 64


def set_tiles(func: Func, tiles: Mapping[str, int], lane_axes: frozenset[str]) -> Func:
    """Give each tile axis its size: what the schedule says, else a default by its role."""
    roles: dict[str, set[str]] = {}
    for s in statements(func):
        if isinstance(s, Let) and isinstance(s.op, Dot):
            roles.setdefault(s.op.axis, set()).add("depth")
            for axis in s.type.axes:
                roles.setdefault(axis, set()).add("lane" if axis in lane_axes else "row")
    has_dot = bool(roles)
    kinds = {a.name: a.kind for a in func.axes}
    looped = {s.axis for s in statements(func) if isinstance(s, ForTiles)}
    #: Sliced axes that some value has together with another one.
    sides = {
        axis
        for type_ in value_types(func).values()
        if sum(kinds[a] == "tile" for a in type_.axes) > 1
        for axis in type_.axes
    }

    def size(axis: Axis) -> int | None:
        if axis.kind == "whole" or axis.size is not None:
            return axis.size
        if axis.name in tiles:
            return tiles[axis.name]
        if not has_dot:
            if axis.name in sides or axis.name in looped:
                return RUN if axis.name in lane_axes - sides else SIDE
            return RUN if axis.name in lane_axes else FEW
        role = roles.get(axis.name, {"row"})
        rows = ROWS if axis.name in looped else TASK_ROWS
        return LANES if "lane" in role else rows if "row" in role else DEPTH

    return replace(func, axes=tuple(replace(a, size=size(a)) for a in func.axes))


def widen_operands(func: Func) -> Func:
    """A dot reads 16-bit floats as they lie in memory: drop casts to f32 before it."""
    known = lets(func)

    def narrow(name: str) -> str:
        let = known.get(name)
        if let is not None and isinstance(let.op, Cast) and let.type.dtype is f32:
            source = known.get(let.op.arg)
            if source is not None and isinstance(source.op, Load):
                if source.type.dtype.is_float and source.type.dtype.bits <= 16:
                    return source.name
        return name

    def stmt(s: Stmt) -> Stmt:
        if isinstance(s, Let) and isinstance(s.op, Dot):
            return replace(s, op=replace(s.op, a=narrow(s.op.a), b=narrow(s.op.b)))
        return s

    return map_blocks(func, lambda block: tuple(map(stmt, block)))


def plain_dots(func: Func) -> Func:
    """Dots without a row and a lane axis, or of other numbers than f32, become a product and a
    sum."""
    types = value_types(func)
    fresh = _Fresh(set(types))

    def expand(s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, Let) or not isinstance(s.op, Dot):
            return (s,)
        dot = s.op
        shared = set(types[dot.a].axes) & set(types[dot.b].axes) - {dot.axis}
        if len(s.type.axes) == 2 and not shared and s.type.dtype is f32:
            return (s,)
        axes = tuple(
            a.name for a in func.axes
            if a.name in {*types[dot.a].axes, *types[dot.b].axes}
        )  # fmt: skip
        out: list[Stmt] = []
        args = []
        for name in (dot.a, dot.b):
            if types[name].dtype is s.type.dtype:
                args.append(name)
            else:
                args.append(fresh(name))
                out.append(Let(args[-1], Type(s.type.dtype, types[name].axes), Cast(name)))
        product, total = fresh(s.name), s.name if dot.acc is None else fresh(s.name)
        out.append(Let(product, Type(s.type.dtype, axes), Ew("mul", tuple(args)), span=s.span))
        out.append(Let(total, s.type, Reduce("sum", product, dot.axis), span=s.span))
        if dot.acc is not None:
            out.append(Let(s.name, s.type, Ew("add", (dot.acc, total)), span=s.span))
        return tuple(out)

    return map_blocks(func, lambda block: tuple(t for s in block for t in expand(s)))


def plain_reductions(func: Func) -> Func:
    """argmax is the first place where the maximum stands, or where a NaN does; argmin likewise."""
    types = value_types(func)
    fresh = _Fresh(set(types))

    def expand(s: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(s, Let) or not isinstance(s.op, Reduce):
            return (s,)
        if s.op.fn not in ("argmax", "argmin"):
            return (s,)
        x, axis, kind = s.op.arg, s.op.axis, types[s.op.arg]
        out: list[Stmt] = []

        def let(type_: Type, op: Op) -> str:
            name = fresh(s.name)
            out.append(Let(name, type_, op, span=s.span))
            return name

        here = Type(boolean, kind.axes)
        best = let(Type(kind.dtype, s.type.axes), Reduce(s.op.fn.removeprefix("arg"), x, axis))
        found = let(here, Ew("eq", (x, best)))
        if kind.dtype.is_float:
            found = let(here, Ew("or", (found, let(here, Ew("ne", (x, x))))))
        index = let(Type(i64, (axis,)), Iota(axis))
        never = let(Type(i64), Const(str(2**63 - 1)))
        place = let(Type(i64, kind.axes), Ew("where", (found, index, never)))
        if s.type.dtype is i64:
            return (*out, replace(s, op=Reduce("min", place, axis)))
        first = let(Type(i64, s.type.axes), Reduce("min", place, axis))
        return (*out, replace(s, op=Cast(first)))

    return map_blocks(func, lambda block: tuple(t for s in block for t in expand(s)))


def own_carries(func: Func) -> Func:
    """No carry takes over another carry's value as it is: such a value is copied first, so that
    the order in which carries are written does not matter."""
    names = {c.name for c in carries(func)}
    types = value_types(func)
    fresh = _Fresh(set(types))

    def loop(s: Stmt) -> Stmt:
        if not isinstance(s, (ForTiles, ForRange)):
            return s
        copies: list[Let] = []

        def own(c: Carry) -> Carry:
            if c.next == c.name or c.next not in names:
                return c
            copies.append(Let(fresh(c.next), c.type, Cast(c.next), span=c.span))
            return replace(c, next=copies[-1].name)

        changed = tuple(map(own, s.carries))
        return replace(s, carries=changed, body=s.body + tuple(copies)) if copies else s

    def block(b: Block) -> Block:
        new = tuple(map(loop, b))
        return b if all(x is y for x, y in zip(new, b, strict=True)) else new

    return map_blocks(func, block)


class _Fresh:
    """New names from old ones: s gives s_v, s_v2 ..."""

    def __init__(self, taken: set[str]) -> None:
        self.taken = taken

    def __call__(self, hint: str) -> str:
        name, i = f"{hint}_v", 1
        while name in self.taken:
            i += 1
            name = f"{hint}_v{i}"
        self.taken.add(name)
        return name


def prepare(func: Func) -> Func:
    """All rewrites but tile sizes, which need the lane axes."""
    return own_carries(plain_reductions(plain_dots(widen_operands(func))))
