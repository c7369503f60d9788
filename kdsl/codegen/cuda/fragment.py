"""Registers of a phase: which array holds a value, and where in a tile its elements lie."""

from __future__ import annotations

from collections.abc import Mapping

from kdsl.codegen.cpu.scope import Scope
from kdsl.errors import InternalError
from kdsl.ir.nodes import Cast
from kdsl.passes.cuda.maps import Map, Rows
from kdsl.passes.cuda.tensor_plan import TensorPlan

#: An element's row and column, less those of the lane's first.
ROW, COLUMN = "16 * mi + 8 * hi", "8 * ci + ei"


class Fragments:
    """What a phase knows of its registers: names of arrays, where each value lies."""

    def __init__(self, plan: TensorPlan, scope: Scope) -> None:
        self.plan, self.scope = plan, scope
        self.maps: Mapping[tuple[str, str], Map] = dict(plan.maps)
        self.homes = dict(plan.homes)
        self.declared: set[str] = set()
        self.bases: dict[Map, str] = {}

    def array(self, value: str) -> str | None:
        """The array in which a value lies by now."""
        home = self.homes.get(value)
        if home is None or home not in self.declared:
            return None
        return self.scope.names.of("array", home)

    def shape(self, home: str) -> str:
        array = next(a for a in self.plan.arrays if a.name == home)
        if len(array.maps) == 2:
            return f"[{array.maps[0].blocks}][{array.maps[1].blocks}][4]"
        return f"[{array.maps[0].blocks}][2]"

    def index(self, value: str) -> str:
        """The element of an array that a lane is at."""
        kinds = [self.maps[value, a] for a in self.scope.facts.axes[value]]
        if len(kinds) == 2:
            return "[mi][ci][2 * hi + ei]"
        return "[mi][hi]" if isinstance(kinds[0], Rows) else "[ci][ei]"

    def base(self, to: Map) -> str:
        """The lane's first index of a map: `row`, `col`, or one more where maps differ."""
        kind = "row" if isinstance(to, Rows) else "col"
        alike = next((m for m in self.bases if _starts_alike(m, to)), to)
        if alike not in self.bases:
            self.bases[alike] = self.scope.names.fresh(kind)
        return self.bases[alike]

    def position(self, value: str, axis: str) -> str:
        """Index along the axis, relative to the slice."""
        to = self.maps[value, axis]
        return f"{self.base(to)} + {ROW if isinstance(to, Rows) else COLUMN}"

    def name_of(self, home: str) -> str:
        return self.scope.names.of("array", home)

    def declare(self, home: str, init: str = "") -> None:
        if home in self.declared:
            return
        self.declared.add(home)
        kind = next(a.dtype for a in self.plan.arrays if a.name == home)
        ctype = "int" if kind in ("i32", "u32") else "float"
        self.scope.line(f"{ctype} {self.name_of(home)}{self.shape(home)}{init};")

    def fill(self, home: str, text: str) -> None:
        zero = text in ("0.0f", "0")
        if home not in self.declared and zero:
            self.declare(home, " = {}")
            return
        self.declare(home)
        self.scope.line(f"set_all({self.name_of(home)}, {text});")

    def bare(self, value: str) -> str:
        """The value in registers behind casts that a store or product does itself."""
        facts = self.scope.facts
        while value not in self.homes:
            op = facts.op(value)
            if not isinstance(op, Cast):
                raise InternalError(f"print: `{value}` is in no register")
            value = op.arg
        return value

    def axes(self, value: str) -> tuple[str, ...]:
        """Axes, that along rows first."""
        axes = self.scope.facts.axes[value]
        maps = self.maps
        return tuple(sorted(axes, key=lambda a: not isinstance(maps[value, a], Rows)))

    def bases_of(self, value: str) -> str:
        bases = (self.base(self.maps[value, a]) for a in self.axes(value))
        return ", ".join(bases)

    def limit(self, axis: str) -> str:
        a = self.plan.func.axis(axis)
        return self.scope.extent(a.extent) if a.kind == "whole" else self.scope.length(axis)

    def size(self, axis: str) -> int:
        a = self.plan.func.axis(axis)
        size = a.size if a.kind == "tile" else a.extent
        assert isinstance(size, int)
        return (size + 15) // 16 * 16

    def warp_m(self) -> str:
        along = self.plan.warps[1]
        return "warp()" if along == 1 else f"(warp() / {along})"

    def warp_n(self) -> str:
        along = self.plan.warps[1]
        return "0" if along == 1 else f"(warp() % {along})"


def _starts_alike(a: Map, b: Map) -> bool:
    """Each lane has the same first index in both."""
    return type(a) is type(b) and a.warps == b.warps and (a.warps == 1 or a.blocks == b.blocks)
