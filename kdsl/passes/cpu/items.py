"""The units that the scheduler of one block orders: what each computes, and after what."""

from __future__ import annotations

from dataclasses import dataclass, field

from kdsl.ir.nodes import AtomicAdd, ForRange, ForTiles, If, Let, Store
from kdsl.passes.cpu.plan import Buffer, Comparison


@dataclass(eq=False, slots=True)
class Item:
    """Something to schedule; `needs` are the items of the same block that come before it, and
    `ordered` those of them that touch the same memory, so that no loop may hold both."""

    needs: set[Item] = field(default_factory=set, kw_only=True)
    ordered: set[Item] = field(default_factory=set, kw_only=True)


@dataclass(eq=False, slots=True)
class Value(Item):
    """An elementwise operation, reduction, cast or load that is computed in a nest."""

    let: Let


@dataclass(eq=False, slots=True)
class CheckItem(Item):
    """A guard: its index values are looked at before anyone uses them."""

    let: Let


@dataclass(eq=False, slots=True)
class Put(Item):
    """A store into a tensor, or an atomic addition."""

    store: Store | AtomicAdd


@dataclass(eq=False, slots=True)
class Update(Item):
    """buffer = value: a carry's first or next value, a branch's result."""

    buffer: Buffer
    value: str


@dataclass(eq=False, slots=True)
class Sweep(Item):
    """where(affine, held, constant) in place, skipped where the predicate holds everywhere."""

    let: Let
    held: str
    unless: tuple[Comparison, ...]


@dataclass(eq=False, slots=True)
class PackItem(Item):
    """Packing of a dot's vector operand: a load, or a value held the other way round."""

    source: str
    lane: str
    depth: str
    transposed: bool


@dataclass(eq=False, slots=True)
class DotItem(Item):
    """A dot with the chains before and behind it that it computes on the way."""

    let: Let
    lane: str
    row: str
    scalars: str
    vectors: str
    value: str
    #: Values the chains read: operands of absorbed operations that are not absorbed themselves.
    reads: tuple[str, ...]


@dataclass(eq=False, slots=True)
class Inner(Item):
    """A loop or a branch."""

    stmt: ForTiles | ForRange | If
