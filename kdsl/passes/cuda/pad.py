"""Neutral elements behind the end of a slice, only where a reduction or product meets them.

Registers and tiles hold whole slices: behind the end of a shorter one there is something. Nothing
of it is ever stored, but a reduction along the axis would see it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kdsl.dtypes import DType, boolean, i64
from kdsl.ir.nodes import (
    Along, Block, Bound, Cast, Const, Dot, Ew, ForRange, ForTiles, Func, If, Iota, Let, Load, Op,
    Reduce, Stmt,
)  # fmt: skip
from kdsl.ir.types import Type
from kdsl.ir.walk import lets, statements, value_types
from kdsl.passes.names import Names


def pad(func: Func, in_tiles: frozenset[str]) -> Func:
    """Put `where(index < stop, x, neutral)` before reductions and products over ragged axes.

    Args:
        in_tiles: loads whose copies into shared memory end in zeros.
    """
    return _Padder(func, in_tiles).run()


def neutral(fn: str, dtype: DType) -> str | None:
    """Text of the constant that leaves a reduction as it is; None: no rule."""
    match fn:
        case "sum":
            return "0.0" if dtype.is_float else "0"
        case "prod":
            return "1.0" if dtype.is_float else "1"
        case "max" | "min" if dtype.is_float:
            return "-inf" if fn == "max" else "inf"
        case "any":
            return "False"
        case "all":
            return "True"
    return None


class _Padder:
    def __init__(self, func: Func, in_tiles: frozenset[str]) -> None:
        self.func, self.in_tiles = func, in_tiles
        self.types, self.lets, self.names = value_types(func), lets(func), Names(func)
        #: New lets behind the definition of a value, and what stands for it per (axis, neutral).
        self.behind: dict[str, list[Let]] = {}
        self.known: dict[tuple[str, str, str], str] = {}

    def run(self) -> Func:
        phases = tuple(replace(p, body=self._block(p.body)) for p in self.func.phases)
        placed = tuple(replace(p, body=self._place(p.body)) for p in phases)
        return replace(self.func, phases=placed)

    def is_ragged(self, axis: str) -> bool:
        a = self.func.axis(axis)
        return a.kind == "tile" or not isinstance(a.extent, int) or a.extent % 16 != 0

    # ---- consumers

    def _block(self, block: Block) -> Block:
        out: list[Stmt] = []
        for s in block:
            match s:
                case ForTiles(body=body) | ForRange(body=body):
                    out.append(replace(s, body=self._block(body)))
                case If(then=then, other=other):
                    out.append(replace(s, then=self._block(then), other=self._block(other)))
                case Let(op=Reduce(fn=fn, arg=arg, axis=axis) as op) if self.is_ragged(axis):
                    text = neutral(fn, self.types[arg].dtype)
                    if text is None:
                        out.append(s)
                        continue
                    out.append(replace(s, op=replace(op, arg=self._padded(arg, axis, text, out))))
                case Let(op=Dot(a=a, b=b, axis=axis) as op) if self.is_ragged(axis):
                    a, b = (self._operand(x, axis, out) for x in (a, b))
                    out.append(replace(s, op=replace(op, a=a, b=b)))
                case _:
                    out.append(s)
        return tuple(out)

    def _operand(self, name: str, axis: str, out: list[Stmt]) -> str:
        let = self.lets.get(name)
        if name in self.in_tiles:
            return name
        if let is not None and isinstance(let.op, Cast) and self.types[let.op.arg].dtype.is_float:
            key = (name, axis, "cast")
            if key not in self.known:
                inner = self._padded(let.op.arg, axis, "0.0", out)
                self.known[key] = self.names.new(name)
                self._add(name, Let(self.known[key], let.type, Cast(inner), span=let.span), out)
            return self.known[key]
        return self._padded(name, axis, "0.0", out)

    def _padded(self, name: str, axis: str, text: str, out: list[Stmt]) -> str:
        key = (name, axis, text)
        if key in self.known and name in self.lets:
            return self.known[key]
        type_ = self.types[name]
        span = self.lets[name].span if name in self.lets else None

        def let(wish: str, t: Type, op: Op) -> str:
            new = self.names.new(wish)
            made = Let(new, t, op) if span is None else Let(new, t, op, span=span)
            self._add(name, made, out)
            return new

        a = self.func.axis(axis)
        index = let("t", Type(i64, (axis,)), Iota(axis))
        if a.kind == "tile":
            stop = let("t", Type(i64), Bound(axis, "stop"))
        else:
            stop = let("t", Type(i64), Const(str(a.extent)))
        real = let("t", Type(boolean, (axis,)), Ew("lt", (index, stop)))
        other = let("t", Type(type_.dtype), Const(text))
        self.known[key] = let("t", type_, Ew("where", (real, name, other)))
        return self.known[key]

    def _add(self, name: str, made: Let, out: list[Stmt]) -> None:
        """Behind the value's definition, or here where it is carried by a loop."""
        if name in self.lets:
            self.behind.setdefault(name, []).append(made)
        else:
            out.append(made)

    # ---- definitions

    def _place(self, block: Block) -> Block:
        out: list[Stmt] = []
        for s in block:
            match s:
                case ForTiles(body=body) | ForRange(body=body):
                    out.append(replace(s, body=self._place(body)))
                case If(then=then, other=other):
                    out.append(replace(s, then=self._place(then), other=self._place(other)))
                case _:
                    out.append(s)
            if isinstance(s, Let):
                out += self.behind.get(s.name, [])
        return tuple(out)


def tile_loads(func: Func) -> frozenset[str]:
    """Loads of 16-bit floats that products read as they lie in memory: rows along one axis,
    contiguous along another, from an element whose address is a multiple of 16 bytes."""
    known = lets(func)
    loops = {s.axis: s for s in statements(func) if isinstance(s, ForTiles)}

    def starts_aligned(place: Along) -> bool:
        axis = func.axis(place.axis)
        if place.offset is not None:
            shift = known[place.offset].op
            if not isinstance(shift, Const) or int(shift.text) % 8:
                return False
        if axis.kind == "whole":
            return True
        loop = loops.get(axis.name)
        return loop is None or loop.start is None

    found = set[str]()
    for let in known.values():
        if not isinstance(let.op, Dot):
            continue
        for name in (let.op.a, let.op.b):
            load = known.get(name)
            if load is None or not isinstance(load.op, Load) or len(load.type.axes) != 2:
                continue
            index = load.op.index
            last = index[-1]
            plain = all(isinstance(i, Along) or not value_axes(known, i.value) for i in index)
            small = load.type.dtype.name in ("f16", "bf16")
            if plain and small and isinstance(last, Along) and last.step == 1:
                if starts_aligned(last):
                    found.add(name)
    return frozenset(found)


def value_axes(known: Mapping[str, Let], name: str) -> tuple[str, ...]:
    return known[name].type.axes if name in known else ()
