"""Group the statements of a block: products, copies and loops by themselves, the rest in regions.

A region runs row by row. Loops over the columns of a row are fused until one of them needs what
another adds up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kdsl.ir.nodes import (
    AtomicAdd, Block, Cast, Const, Dot, Ew, ForRange, ForTiles, Guard, Iota, Let, Load, Point,
    Reduce, Stmt, Store,
)  # fmt: skip
from kdsl.ir.walk import operands, walk
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cuda.layout import Layout, Misfit
from kdsl.passes.cuda.maps import Cols
from kdsl.passes.cuda.tensor_plan import AlongColumns, Columns, Compute, Fold, Region
from kdsl.passes.names import is_temporary


@dataclass(eq=False)
class Item:
    """What a block does at one place: a statement that stands alone, or a region's members."""

    stmt: Stmt | None = None
    #: Value that is staged into shared memory here.
    staged: str | None = None
    members: tuple[Let, ...] = ()


class Kinds:
    """What becomes of each value of a phase: a scalar, a tile, an expression, something kept."""

    def __init__(self, facts: Facts, layout: Layout, tiles: frozenset[str], block: Block) -> None:
        self.facts, self.layout, self.tiles = facts, layout, tiles
        #: Values that a product, a store or a loop reads as they lie in registers.
        self.needed: set[str] = set()
        for s in walk(block):
            match s:
                case Let(op=Dot(a=a, b=b, acc=acc)):
                    found = [self.bare(x) for x in (a, b) if x not in tiles]
                    self.needed |= {*found, *([acc] if acc else [])}
                case Store(value=value) | AtomicAdd(value=value):
                    self.needed.add(self.bare(value))
                case ForTiles(carries=carries) | ForRange(carries=carries):
                    self.needed |= {n for c in carries for n in (c.init, c.next)}
        self.needed = {n for n in self.needed if facts.axes[n]}

    def bare(self, name: str) -> str:
        """The value behind casts that a store or a product does itself."""
        while True:
            let = self.facts.lets.get(name)
            if let is None or not isinstance(let.op, Cast) or not let.type.axes:
                return name
            source = self.facts.types[let.op.arg].dtype
            if not (let.type.dtype.is_float and source.name == "f32" and let.type.dtype.bits <= 16):
                return name
            name = let.op.arg

    def is_member(self, let: Let) -> bool:
        """A value that a region computes."""
        if not let.type.axes or let.name in self.tiles:
            return False
        match let.op:
            case Reduce():
                return True
            case Ew():
                return let.name in self.needed or not self._is_passing(let)
            case Cast():
                return let.name in self.needed
            case Const() | Iota():
                return let.name in self.needed and not self._starts_only(let.name)
        return False

    def _starts_only(self, name: str) -> bool:
        """A constant whose readers are loops that start from it: they fill their array."""
        return isinstance(self.facts.op(name), Const) and all(
            isinstance(s, ForTiles | ForRange) for s in self.facts.users.get(name, [])
        )

    def _is_passing(self, let: Let) -> bool:
        """An expression: it stands where it is read."""
        if let.type.dtype.kind == "bool" or self.facts.kind(let.name) in ("scalar", "inline"):
            return True
        users = self.facts.users.get(let.name, [])
        return (
            is_temporary(let.name)
            and len(users) == 1
            and isinstance(users[0], Let)
            and (
                isinstance(users[0].op, Ew | Cast | Reduce)
                and self.facts.axes[let.name] == self._axes_of(users[0])
            )
        )

    def _axes_of(self, let: Let) -> tuple[str, ...]:
        if isinstance(let.op, Reduce):
            return self.facts.axes[let.op.arg]
        return let.type.axes

    def column(self, let: Let) -> str | None:
        """The axis along columns that a value, or what it reduces, has."""
        value = let.op.arg if isinstance(let.op, Reduce) else let.name
        for axis in self.facts.axes[value]:
            if isinstance(self.layout.maps.get((value, axis)), Cols):
                return axis
        return None

    def row(self, value: str) -> str | None:
        """The axis along rows."""
        for axis in self.facts.axes[value]:
            if not isinstance(self.layout.maps.get((value, axis)), Cols):
                return axis
        return None

    def sources(self, name: str, members: frozenset[str]) -> Iterator[str]:
        """Members that an expression reads, and values from elsewhere in registers."""
        let = self.facts.lets.get(name)
        if name in members or let is None or isinstance(let.op, Load | Dot):
            if self.facts.axes[name]:
                yield name
            return
        if self.is_member(let):
            yield name
            return
        for x in operands(let.op):
            yield from self.sources(x, members)


def group_items(kinds: Kinds, block: Block) -> list[Item]:
    """Items of a block in order.

    Raises:
        Misfit: a statement that no phase on tensor cores has.
    """
    items: list[Item] = []
    run: list[Let] = []

    def flush() -> None:
        if run:
            items.append(Item(members=tuple(run)))
            run.clear()

    for s in block:
        match s:
            case Let() if kinds.is_member(s):
                if not isinstance(s.op, Reduce) and kinds.facts.types[s.name].dtype.bits > 32:
                    raise Misfit(f"{s.name} is {s.type.dtype}, which fragments do not hold")
                run.append(s)
                continue
            case Let(op=Dot(a=a, b=b)):
                flush()
                items += [
                    Item(staged=x) for x in (a, b)
                    if x in kinds.layout.staged and x not in kinds.tiles
                ]  # fmt: skip
                items.append(Item(stmt=s))
            case Let(op=Load(index=index)) if s.type.axes and s.name not in kinds.tiles:
                if any(kinds.facts.axes[i.value] for i in index if isinstance(i, Point)):
                    raise Misfit("each element has an index of its own")
                items.append(Item(stmt=s))
            case Let(op=Guard()):
                if s.type.axes:
                    raise Misfit("an index of its own for each element is checked")
                items.append(Item(stmt=s))
            case Let() if not s.type.axes or s.name in kinds.tiles:
                items.append(Item(stmt=s))
            case Let(op=Ew() | Cast() | Const() | Iota()):
                pass  # stands where it is read
            case Store(index=index) | AtomicAdd(index=index) if any(
                kinds.facts.axes[i.value] for i in index if isinstance(i, Point)
            ):
                raise Misfit("each element has an index of its own")
            case Store() | AtomicAdd() | ForTiles() | ForRange():
                flush()
                items.append(Item(stmt=s))
            case _:
                raise Misfit(f"a {type(s).__name__} is not for tensor cores")
    flush()
    return items


def plan_region(kinds: Kinds, members: tuple[Let, ...]) -> list[Columns | Region]:
    """The steps of a region: values of columns alone, then the rows."""
    names = frozenset(m.name for m in members)
    columns = tuple(
        m.name for m in members if not isinstance(m.op, Reduce) and kinds.row(m.name) is None
    )
    rest = [m for m in members if m.name not in columns]
    out: list[Columns | Region] = [Columns(columns)] if columns else []
    if not rest:
        return out
    rows = {kinds.row(_whole(m)) for m in rest}
    if len(rows) != 1 or None in rows:
        raise Misfit("a region has rows of two axes")
    (axis,) = rows
    assert axis is not None
    out.append(Region(axis, tuple(_fuse(kinds, rest, names))))
    return out


def _whole(let: Let) -> str:
    return let.op.arg if isinstance(let.op, Reduce) else let.name


def _fuse(
    kinds: Kinds, rest: Iterable[Let], names: frozenset[str]
) -> Iterator[Compute | AlongColumns]:
    """Statements of a row, and fused loops over columns."""
    column: str | None = None
    group: list[Let] = []
    for m in rest:
        along = kinds.column(m)
        needs = {x for o in operands(m.op) for x in kinds.sources(o, names)}
        waits = any(isinstance(g.op, Reduce) and g.name in needs for g in group)
        held = along is None and any(g.name in needs for g in group)
        if group and (waits or held or (along is not None and along != column)):
            yield AlongColumns(column or "", tuple(map(_action, group)))
            group = []
        if along is None:
            yield Compute(m.name)
        else:
            column = along
            group.append(m)
    if group:
        yield AlongColumns(column or "", tuple(map(_action, group)))


def _action(let: Let) -> Compute | Fold:
    return Fold(let.name) if isinstance(let.op, Reduce) else Compute(let.name)
