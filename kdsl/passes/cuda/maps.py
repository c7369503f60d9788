"""Where the elements of a value lie: one map per axis, from an index to warp, lane and register.

A value with two axes is a product of two maps, as are the operands and the result of a tensor-core
product (PTX ISA, matrix fragments of mma.m16n8k16): fragments of the result, of its rows alone and
of its columns alone need no rules of their own, and a result is the left operand of the next
product where the maps are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rows:
    """Index = 16 * blocks of a warp * warp + 16 * m + 8 * h + lane / 4; registers [m][h]. The four
    lanes of a quad have the same rows."""

    warps: int
    size: int

    @property
    def blocks(self) -> int:
        return self.size // (16 * self.warps)

    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """(index, warp, lane, register) of each element; a register is 2 * m + h."""
        for warp in range(self.warps):
            for lane in range(32):
                for register in range(2 * self.blocks):
                    m, h = divmod(register, 2)
                    index = 16 * (self.blocks * warp + m) + 8 * h + lane // 4
                    yield index, warp, lane, register


@dataclass(frozen=True, slots=True)
class Cols:
    """Index = 8 * blocks of a warp * warp + 8 * c + 2 * (lane % 4) + e; registers [c][e]. The eight
    lanes with one lane % 4 have the same columns."""

    warps: int
    size: int

    @property
    def blocks(self) -> int:
        return self.size // (8 * self.warps)

    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """(index, warp, lane, register) of each element; a register is 2 * c + e."""
        for warp in range(self.warps):
            for lane in range(32):
                for register in range(2 * self.blocks):
                    c, e = divmod(register, 2)
                    index = 8 * (self.blocks * warp + c) + 2 * (lane % 4) + e
                    yield index, warp, lane, register


Map = Rows | Cols
