"""Solve where values lie: union-find over (value, axis), pinned by tensor-core products.

Elementwise operations, loop carries and accumulators have one map for an axis; a product pins the
rows and columns of its result. Which operand is the left one is free: all choices are tried, and
the one with the fewest operands that have to go through shared memory is kept. `S` or its transpose
is nothing but this choice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

from kdsl.ir.nodes import (
    Cast, Dot, Ew, ForRange, ForTiles, Func, Let, Parallel, Reduce, Stmt,
)  # fmt: skip
from kdsl.ir.types import Type
from kdsl.ir.walk import value_types, walk
from kdsl.passes.cuda.maps import Cols, Map, Rows

#: Products of a phase whose orientations are tried in all combinations.
MOST = 6


class Misfit(Exception):
    """The values of a phase have no layout of this kind; the text says why."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Maps of the values of a phase.

    Attributes:
        maps: by value and axis; scalars and values in shared memory have none.
        left: the left operand of each product, by the name of its result.
        staged: operands that have to be written to shared memory first.
    """

    maps: dict[tuple[str, str], Map]
    left: dict[str, str]
    staged: frozenset[str]

    def map(self, value: str, axis: str) -> Map:
        return self.maps[value, axis]


def solve(func: Func, phase: Parallel, tiles: frozenset[str], warps: tuple[int, int]) -> Layout:
    """The layout with the fewest staged operands.

    Args:
        tiles: loads that lie in shared memory.
        warps: of a block along rows and along columns.

    Raises:
        Misfit: no choice gives each value one layout.
    """
    solver = _Solver(func, phase, tiles, warps)
    dots = [s for s in walk(phase.body) if isinstance(s, Let) and isinstance(s.op, Dot)]
    free = [d.name for d in dots[:MOST]]
    best: Layout | None = None
    reason = "there is no product"
    for turned in sorted(product((False, True), repeat=len(free)), key=sum):
        try:
            found = solver.attempt(frozenset(n for n, t in zip(free, turned, strict=True) if t))
        except Misfit as error:
            reason = str(error)
            continue
        if best is None or len(found.staged) < len(best.staged):
            best = found
    if best is None:
        raise Misfit(reason)
    return best


class _Solver:
    def __init__(
        self, func: Func, phase: Parallel, tiles: frozenset[str], warps: tuple[int, int]
    ) -> None:
        self.func, self.phase, self.tiles, self.warps = func, phase, tiles, warps
        self.types: dict[str, Type] = value_types(func)
        self.stmts = tuple(walk(phase.body))
        self.sizes = {
            a.name: a.size if a.kind == "tile" else a.extent if isinstance(a.extent, int) else None
            for a in func.axes
        }
        self.pairs = tuple(self._pairs())

    def size(self, axis: str) -> int:
        size = self.sizes[axis]
        if size is None:
            raise Misfit(f"the length of axis {axis} is not known when the kernel is compiled")
        return (size + 15) // 16 * 16

    def rows(self, axis: str) -> Rows:
        size, unit = self.size(axis), 16 * self.warps[0]
        if size % unit:
            raise Misfit(f"{size} rows along {axis} are no multiple of {unit}")
        return Rows(self.warps[0], size)

    def cols(self, axis: str, warps: int | None = None) -> Cols:
        warps = self.warps[1] if warps is None else warps
        size, unit = self.size(axis), 16 * warps
        if size % unit:
            raise Misfit(f"{size} columns along {axis} are no multiple of {unit}")
        return Cols(warps, size)

    def _pairs(self) -> Iterable[tuple[str, str]]:
        """Values that have one map for an axis they share."""
        for s in self.stmts:
            match s:
                case Let(name=name, op=Ew(args=args)):
                    yield from ((name, a) for a in args)
                case Let(name=name, op=Cast(arg=arg) | Reduce(arg=arg)):
                    yield name, arg
                case Let(name=name, op=Dot(acc=acc)) if acc is not None:
                    yield name, acc
                case ForTiles(carries=carries) | ForRange(carries=carries):
                    for c in carries:
                        yield c.name, c.init
                        yield c.name, c.next
                        yield c.name, c.result

    def attempt(self, turned: frozenset[str]) -> Layout:
        parent: dict[tuple[str, str], tuple[str, str]] = {}

        def find(key: tuple[str, str]) -> tuple[str, str]:
            while parent.get(key, key) != key:
                key = parent[key]
            return key

        for a, b in self.pairs:
            if a in self.tiles or b in self.tiles:
                continue
            for axis in set(self.types[a].axes) & set(self.types[b].axes):
                parent[find((a, axis))] = find((b, axis))

        pinned: dict[tuple[str, str], Map] = {}

        def pin(value: str, axis: str, to: Map) -> None:
            found = pinned.setdefault(find((value, axis)), to)
            if found != to:
                raise Misfit(f"axis {axis} of {value} would lie along rows and columns")

        left: dict[str, str] = {}
        dots = [s for s in self.stmts if isinstance(s, Let) and isinstance(s.op, Dot)]
        for s in dots:
            assert isinstance(s.op, Dot)
            a, b = (s.op.b, s.op.a) if s.name in turned else (s.op.a, s.op.b)
            row, col = self._result(s, a, b)
            left[s.name] = a
            pin(s.name, row, self.rows(row))
            pin(s.name, col, self.cols(col))
        staged: set[str] = set()
        for s in dots:
            assert isinstance(s.op, Dot)
            a = left[s.name]
            b = s.op.b if a == s.op.a else s.op.a
            row = next(x for x in self.types[a].axes if x != s.op.axis)
            if b not in self.tiles:
                staged.add(b)
            if a in self.tiles or a in staged:
                continue
            want: dict[str, Map] = {row: self.rows(row), s.op.axis: self.cols(s.op.axis, 1)}
            if any(pinned.get(find((a, x)), m) != m for x, m in want.items()):
                staged.add(a)
                continue
            for x, m in want.items():
                pin(a, x, m)
        self._settle(find, pinned)
        maps = {
            (value, axis): pinned[find((value, axis))]
            for value, type_ in self.types.items()
            for axis in type_.axes
            if find((value, axis)) in pinned
        }
        self._check(maps)
        return Layout(maps, left, frozenset(staged))

    def _result(self, dot: Let, a: str, b: str) -> tuple[str, str]:
        assert isinstance(dot.op, Dot)
        row, col = (next(x for x in self.types[n].axes if x != dot.op.axis) for n in (a, b))
        return row, col

    def _settle(
        self, find: Callable[[tuple[str, str]], tuple[str, str]], pinned: dict[tuple[str, str], Map]
    ) -> None:
        """Axes that no product decides: one axis alone is rows, a second one columns."""
        for value, type_ in self.types.items():
            if value in self.tiles:
                continue
            taken: list[Map | None] = [pinned.get(find((value, a))) for a in type_.axes]
            for i, axis in enumerate(type_.axes):
                if taken[i] is None and len(type_.axes) <= 2:
                    has_rows = any(isinstance(m, Rows) for m in taken)
                    to: Map = self.cols(axis) if has_rows else self.rows(axis)
                    pinned[find((value, axis))] = taken[i] = to

    def _check(self, maps: dict[tuple[str, str], Map]) -> None:
        for s in self.stmts:
            for name in _made(s):
                if name in self.tiles:
                    continue
                axes = self.types[name].axes
                kinds = [type(maps[name, a]) for a in axes if (name, a) in maps]
                if len(axes) > 2 or len(set(kinds)) != len(axes):
                    raise Misfit(f"{name} has {len(axes)} axes, or two of one kind")
            if isinstance(s, Let) and isinstance(s.op, Reduce):
                there = maps[s.op.arg, s.op.axis]
                if not isinstance(there, Cols) or there.warps != 1:
                    raise Misfit(f"{s.name} reduces along an axis that several warps share")


def _made(s: Stmt) -> tuple[str, ...]:
    match s:
        case Let(name=name):
            return (name,)
        case ForTiles(carries=carries) | ForRange(carries=carries):
            return tuple(n for c in carries for n in (c.name, c.result))
    return ()
