"""The frozen plan of a phase on tensor cores: what lies where, what is copied, awaited, computed.

A block takes one iteration. Operands of products come from tiles in shared memory or from
registers; everything else lives in registers, an array of fragments for each value that outlives
the statement that makes it. Values keep the names they have in the IR.
"""

from __future__ import annotations

from dataclasses import dataclass

from kdsl.ir.nodes import AtomicAdd, ForRange, ForTiles, Func, Let, Parallel, Store
from kdsl.passes.cpu.plan import Check, Comparison, Define
from kdsl.passes.cuda.maps import Map


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile in shared memory: of a load, or of a value that registers are staged from.

    Attributes:
        rows, cols: axes as they lie; a row is contiguous.
        shape: in elements, multiples of 16.
        slots: how many iterations it holds at once.
        offset: bytes from the start of shared memory.
    """

    value: str
    dtype: str
    rows: str
    cols: str
    shape: tuple[int, int]
    slots: int
    offset: int


@dataclass(frozen=True, slots=True)
class Array:
    """Fragments in registers: [blocks][2] along one axis, [row blocks][column blocks][4] for two.
    Without maps it is a variable."""

    name: str
    dtype: str
    maps: tuple[Map, ...]


# ---- inside a region


@dataclass(frozen=True, slots=True)
class Compute:
    """An elementwise value; into its array too where it has one. `late`: only when the whole row
    is done, because something of the row still reads what the array holds."""

    value: str
    late: bool = False


@dataclass(frozen=True, slots=True)
class Fold:
    """One more element into a reduction. `whole`: the lanes of a quad come together behind it."""

    reduction: str
    whole: bool = True


@dataclass(frozen=True, slots=True)
class AlongColumns:
    """A loop over the columns of a row."""

    axis: str
    actions: tuple[Compute | Fold, ...]


# ---- steps of a block


@dataclass(frozen=True, slots=True)
class Fill:
    """An array gets one value everywhere."""

    array: str
    value: str


@dataclass(frozen=True, slots=True)
class Assign:
    array: str
    source: str


@dataclass(frozen=True, slots=True)
class LoadIn:
    """A load into registers, where its readers want it."""

    load: str


@dataclass(frozen=True, slots=True)
class Columns:
    """Values along columns alone, once for all rows."""

    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Region:
    """Row by row: statements of the row, and loops over its columns."""

    axis: str
    steps: tuple[Compute | AlongColumns, ...]


@dataclass(frozen=True, slots=True)
class FinishSums:
    """Sums that stayed apart in the lanes of a quad come together."""

    array: str


@dataclass(frozen=True, slots=True)
class Product:
    """A product on tensor cores, added to what its array holds; `fresh`: to nothing."""

    dot: Let
    left: str
    right: str
    array: str
    fresh: bool


@dataclass(frozen=True, slots=True)
class StageIn:
    """An array into the tile that a product reads."""

    value: str


@dataclass(frozen=True, slots=True)
class StoreOut:
    """A store from registers; `staged`: by way of a tile at the start of shared memory."""

    store: Store | AtomicAdd
    staged: bool


@dataclass(frozen=True, slots=True)
class CopyIn:
    """Start the copy of a load, `ahead` iterations before its readers."""

    load: str
    ahead: int = 0


@dataclass(frozen=True, slots=True)
class EndGroup:
    """The copies since the last group are a group."""


@dataclass(frozen=True, slots=True)
class Await:
    """All groups but the latest `but` have landed; a barrier makes that so for the block."""

    but: int


@dataclass(frozen=True, slots=True)
class Sync:
    """A barrier of the block."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the kernel.

    Attributes:
        masked: `where`s that change nothing in clean turns.
        until: clean turns end before any of these fails; (comparison, ...) on the loop's axis.
        since: clean turns start when all of these hold.
        prologue: copies before the first turn, group by group, each (load, turn).
        slots: of the tiles that the body copies.
        pipelined: copies of the body run ahead of its turns.
        checks: of the body's indices, made before the first copy if there is a turn.
    """

    loop: ForTiles | ForRange
    body: tuple[Step, ...]
    masked: frozenset[str] = frozenset()
    until: tuple[Comparison, ...] = ()
    since: tuple[Comparison, ...] = ()
    prologue: tuple[tuple[tuple[str, int], ...], ...] = ()
    slots: int = 1
    pipelined: bool = False
    checks: tuple[Check, ...] = ()


Step = (
    Define | Check | Fill | Assign | LoadIn | Columns | Region | FinishSums | Product | StageIn
    | StoreOut | CopyIn | EndGroup | Await | Sync | Loop
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorPlan:
    """A phase with its steps.

    Attributes:
        warps: of a block, along rows and along columns.
        homes: array of a value, by value.
        maps: by (value, axis).
        smem: bytes of shared memory.
        reverse: blocks with the largest numbers of tiles go first.
    """

    func: Func
    phase: Parallel
    warps: tuple[int, int]
    tiles: tuple[SharedTile, ...]
    arrays: tuple[Array, ...]
    homes: tuple[tuple[str, str], ...]
    maps: tuple[tuple[tuple[str, str], Map], ...]
    steps: tuple[Step, ...]
    smem: int
    reverse: bool = False

    @property
    def threads(self) -> int:
        return 32 * self.warps[0] * self.warps[1]

    @property
    def registers(self) -> int:
        """Registers of a thread that hold fragments with rows and columns."""
        shapes = [tuple(m.blocks for m in a.maps) for a in self.arrays]
        return sum(4 * shape[0] * shape[1] for shape in shapes if len(shape) == 2)

    def tile(self, value: str) -> SharedTile | None:
        return next((t for t in self.tiles if t.value == value), None)
