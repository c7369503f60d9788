"""Tiles of shared memory as text: how they are declared, filled and read by products."""

from __future__ import annotations

from kdsl.codegen.cpu.ops import paren
from kdsl.codegen.cpu.scope import Scope
from kdsl.codegen.cuda.fragment import Fragments
from kdsl.ir.nodes import Along, Dot, Let, Load
from kdsl.passes.cuda.maps import Cols, Rows
from kdsl.passes.cuda.tensor_plan import SharedTile, TensorPlan
from kdsl.passes.names import is_temporary


class Tiles:
    """Tiles of a phase.

    Attributes:
        setup: declarations that stand before everything.
        copiers: loads whose copiers are declared by now.
        ends: where the loops around end, by axis.
        rows16: tensors that are copied by 16 bytes.
    """

    def __init__(self, plan: TensorPlan, scope: Scope, fragments: Fragments) -> None:
        self.plan, self.scope, self.fragments = plan, scope, fragments
        self.tiles = {t.value: t for t in plan.tiles}
        self.views: dict[tuple[str, str], str] = {}
        self.setup: list[str] = []
        self.copiers: set[str] = set()
        self.ends: dict[str, str] = {}
        self.rows16: dict[str, None] = {}
        for tile in plan.tiles:
            self.declare(tile)

    def name(self, value: str) -> str:
        """What a tile is called after: its tensor, or the value that is staged."""
        let = self.scope.facts.lets.get(value)
        if let is not None and isinstance(let.op, Load) and is_temporary(value):
            return let.op.tensor
        return value

    def declare(self, tile: SharedTile) -> None:
        rows, cols = tile.shape
        name = self.scope.names.of("tile", tile.value, f"{self.name(tile.value)}_tile")
        offset = f" + {tile.offset}" if tile.offset else ""
        self.setup.append(
            f"const Tile<{tile.dtype}, {rows}, {cols}> {name} = {{smem_base(){offset}}};"
        )

    def view(self, value: str, dot: Let, *, left: bool) -> str:
        """How a product reads a tile: declared once, before everything."""
        key = (value, "left" if left else "right")
        tile = self.tiles[value]
        assert isinstance(dot.op, Dot)
        own = next(a for a in self.scope.facts.axes[value] if a != dot.op.axis)
        to = self.fragments.maps[dot.name, own]
        if left:
            kind = "Left" if tile.rows == own else "LeftTurned"
        else:
            kind = "RightTurned" if tile.rows == own else "Right"
        full = (value, kind)
        if full not in self.views:
            assert isinstance(to, Rows | Cols)
            part = 16 * to.blocks if isinstance(to, Rows) else 8 * to.blocks
            warp = self.fragments.warp_m() if isinstance(to, Rows) else self.fragments.warp_n()
            start = "0" if to.warps == 1 else f"{warp} * {part}"
            name = self.scope.names.fresh(f"{self.name(value)}_{key[1]}")
            tile_name = self.scope.names.of("tile", value)
            self.setup.append(f"const {kind} {name}({tile_name}, {start});")
            self.views[full] = name
        return self.views[full]

    def copier(self, load: Let, loop: tuple[str, int] | None = None) -> str:
        """The copier of a load, declared where the scalars of its index are known.

        Args:
            loop: axis and step of the loop that copies a tile a turn.
        """
        name = self.scope.names.of("copier", load.name, f"{self.name(load.name)}_copy")
        if load.name in self.copiers:
            return name
        self.copiers.add(load.name)
        assert isinstance(load.op, Load)
        tile, op = self.tiles[load.name], load.op
        self.rows16[op.tensor] = None
        parts = [self.scope.names.of("param", op.tensor)]
        row_stride, following = "0", ""
        for k, i in enumerate(op.index):
            stride = self.scope.stride(op.tensor, k, i.step if isinstance(i, Along) else 1)
            if not isinstance(i, Along):
                parts.append(_times(self.scope.point(i.value), stride))
                continue
            if i.axis == tile.rows:
                row_stride = stride
            if loop is not None and i.axis == loop[0]:
                following = f", {_times(str(loop[1]), stride)}"
            if i.offset is not None:
                parts.append(_times(self.scope.point(i.offset), self.scope.stride(op.tensor, k)))
            parts.append(_times(self.scope.start(i.axis), stride))
        pointer = " + ".join(p for p in parts if p != "0")
        self.scope.line(
            f"auto {name} = copier<{self.plan.threads}>({self.scope.names.of('tile', load.name)}, "
            f"{pointer}, {row_stride}{following});"
        )
        return name

    def copy(self, value: str, at: dict[str, str], slot: str, *, clean: bool = False) -> str:
        """The call that copies the next tile; `at`: starts that differ from the loop's own."""
        load = self.scope.facts.lets[value]
        tile = self.tiles[value]
        name = self.copier(load)
        left = [
            self.left_of(axis, at.get(axis, self.scope.start(axis)), size)
            for axis, size in zip((tile.rows, tile.cols), tile.shape, strict=True)
        ]
        whole = f"{name}({slot});"
        if all(n == str(s) for n, s in zip(left, tile.shape, strict=True)):
            return whole
        if left[1] == str(tile.shape[1]):
            left.pop()
        kind = "rows" if len(left) == 1 else "part"
        part = f"{name}.{kind}({', '.join([*left, *([slot] if slot else [])])});"
        return f"if (masked) {part[:-1]}; else {whole}" if clean else part

    def left_of(self, axis: str, start: str, size: int) -> str:
        """How many elements of a slice there are."""
        a = self.plan.func.axis(axis)
        if a.kind == "whole":
            text = self.scope.extent(a.extent)
            return str(size) if text == str(size) else text
        if axis in self.ends:
            return f"{self.ends[axis]} - {paren(start)}"
        return self.scope.length(axis)


def _times(at: str, stride: str) -> str:
    if at == "0":
        return "0"
    return at if stride == "1" else f"{paren(at)} * {stride}"
