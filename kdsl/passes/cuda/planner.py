"""From a laid-out phase to its steps: regions, arrays, copies, waits."""

from __future__ import annotations

from dataclasses import replace

from kdsl.ir.nodes import (
    Along, AtomicAdd, Block, Const, Dot, ForRange, ForTiles, Func, Guard, Let, Load, Store,
)  # fmt: skip
from kdsl.ir.walk import index_operands, operands
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.plan import Check, Define
from kdsl.passes.cuda.arrays import (
    Arrays, Enter, Event, Leave, Make, Read, assign_arrays, check_arrays,
)  # fmt: skip
from kdsl.passes.cuda.layout import Layout, Misfit
from kdsl.passes.cuda.maps import Map, Rows
from kdsl.passes.cuda.partial import partial_sums
from kdsl.passes.cuda.pipeline import Use, pipeline
from kdsl.passes.cuda.regions import Item, Kinds, group_items, plan_region
from kdsl.passes.cuda.segments import made_in, segments, varies
from kdsl.passes.cuda.tensor_plan import (
    AlongColumns, Array, Assign, Await, Columns, Compute, CopyIn, EndGroup, Fill, FinishSums, Fold,
    LoadIn, Loop, Product, Region, SharedTile, StageIn, Step, StoreOut, Sync, TensorPlan,
)  # fmt: skip

#: What an f32 holds exactly.
HELD = frozenset("f32 f16 bf16 f8e4m3 f8e5m2 i8 u8 i16 u16 bool".split())

Plain = tuple[tuple[str, str | None, str, str], ...]


class Planner:
    """Plans the one phase of a function whose layout is known."""

    def __init__(
        self, func: Func, tiles: frozenset[str], layout: Layout, warps: tuple[int, int],
        sites: dict[str, int], slots: int, early: bool | None,
    ) -> None:  # fmt: skip
        self.func, self.layout, self.warps, self.sites = func, layout, warps, sites
        self.phase = func.phases[0]
        self.facts = Facts(func, self.phase)
        self.kinds = Kinds(self.facts, layout, tiles, self.phase.body)
        self.tiles, self.slots, self.early = tiles, slots, early
        self.partial = partial_sums(self.facts)
        self.events: list[Event] = []
        self.members: dict[str, None] = {}
        self.shared: dict[str, SharedTile] = {}
        self.row_values: set[str] = set()

    def plan(self) -> TensorPlan:
        steps = self.block(self.phase.body, inside=False)
        arrays = self._arrays()
        check_arrays(self.events, arrays)
        steps = _Finish(self, arrays).block(steps)
        smem = max((t.offset + t.slots * _bytes(t.shape) for t in self.shared.values()), default=0)
        smem = max([smem, *(self._staging(s) for s in _stores(steps))])
        homes = arrays.homes
        kept = {
            h: Array(h, self.facts.types[h].dtype.name, arrays.shapes[h]) for h in homes.values()
        }
        return TensorPlan(
            self.func, self.phase, self.warps, tuple(self.shared.values()), tuple(kept.values()),
            tuple(homes.items()), tuple(self.layout.maps.items()), steps, smem, self._reverse(),
        )  # fmt: skip

    def _reverse(self) -> bool:
        """Later tiles have longer loops: they go first."""
        outer = {e.var for e in self.phase.vars if e.is_tile}

        def depends(name: str) -> bool:
            let = self.facts.lets.get(name)
            axis = getattr(let.op, "axis", None) if let is not None else None
            return axis in outer or (let is not None and any(map(depends, operands(let.op))))

        return any(
            isinstance(s, ForTiles) and s.stop is not None and depends(s.stop)
            for s in self.phase.body
        )

    # ---- steps of a block, without copies and waits of pipelined loops

    def block(self, block: Block, *, inside: bool) -> tuple[Step, ...]:
        items = group_items(self.kinds, block)
        out: list[Step] = []
        waiting = False  # copies of this block are on their way
        dirty = inside  # warps may still read what a copy would overwrite
        for item in items:
            if self._reads_copies(item, block) and waiting and not isinstance(item.stmt, ForTiles):
                out += [Await(0), Sync()]
                waiting = False
            match item.stmt:
                case Let(name=name, op=Load()) if name in self.tiles:
                    if dirty:
                        out.append(Sync())
                        dirty = False
                    self._tile(name, 1)
                    out += [CopyIn(name), EndGroup()]
                    waiting = True
                case ForTiles() | ForRange() as loop:
                    if waiting and not self._copies(loop):
                        out += [Await(0), Sync()]
                        waiting = False
                    out += self.loop(loop, inside=inside)
                    dirty = True
                case None if item.staged is not None:
                    self._tile(item.staged, 1)
                    self._read(item.staged)
                    out += [*([Sync()] if dirty else []), StageIn(item.staged), Sync()]
                    dirty = True
                case _:
                    out += self.steps(item)
        return tuple(out)

    def _reads_copies(self, item: Item, block: Block) -> bool:
        let = item.stmt
        return (isinstance(let, Let) and isinstance(let.op, Dot)) or isinstance(let, ForRange)

    def _copies(self, loop: ForTiles | ForRange) -> bool:
        """The loop awaits copies of its own, and with them all before."""
        return (
            isinstance(loop, ForTiles)
            and any(isinstance(s, Let) and s.name in self.tiles for s in loop.body)
            and not any(isinstance(s, ForTiles | ForRange) for s in loop.body)
        )

    def steps(self, item: Item) -> list[Step]:
        """Steps of an item that neither copies nor loops."""
        if item.members:
            out: list[Step] = []
            for step in plan_region(self.kinds, item.members):
                out.append(self._region(step))
            return out
        match item.stmt:
            case Let(op=Guard()) as let:
                return [Check(let, self.sites[let.name])]
            case Let(name=name, op=Load()) as let if let.type.axes:
                if let.type.dtype.name not in HELD:
                    raise Misfit(f"{name} is {let.type.dtype}, which fragments do not hold")
                self.members[name] = None
                self.events.append(Make(name))
                return [LoadIn(name)]
            case Let(op=Dot()) as let:
                return [self._product(let)]
            case Let() as let:
                return [Define(let)]
            case Store() | AtomicAdd() as store:
                value = self.kinds.bare(store.value)
                self._read(value)
                return [StoreOut(store, self._is_staged(store))]
        raise Misfit("a statement that has no step")

    def _product(self, let: Let) -> Product:
        dot = let.op
        assert isinstance(dot, Dot)
        left = self.layout.left[let.name]
        right = dot.b if left == dot.a else dot.a
        for name in (left, right):
            if name not in self.tiles and name not in self.layout.staged:
                self._read(self.kinds.bare(name))
        if dot.acc is not None:
            self._read(dot.acc)
        self.members[let.name] = None
        self.events.append(Make(let.name, (dot.acc,) if dot.acc else ()))
        return Product(let, left, right, let.name, dot.acc is None)

    def _read(self, name: str) -> None:
        self.events.append(Read(tuple(self.kinds.sources(self.kinds.bare(name), frozenset()))))

    # ---- regions

    def _region(self, step: Columns | Region) -> Columns | Region:
        if isinstance(step, Columns):
            for value in step.values:
                self._compute(value)
            return step
        late: list[str] = []
        self.row_values = {
            a.reduction if isinstance(a, Fold) else a.value
            for part in step.steps
            for a in (part.actions if isinstance(part, AlongColumns) else (part,))
            if isinstance(a, Fold) or isinstance(part, Compute)
        }
        for part in step.steps:
            for action in part.actions if isinstance(part, AlongColumns) else (part,):
                if isinstance(action, Fold):
                    self._operand_reads(action.reduction)
                    late.append(action.reduction)
                elif isinstance(part, AlongColumns):
                    self._along(action.value, part)
                else:
                    self._operand_reads(action.value)
                    late.append(action.value)
        self.row_values = set()
        # Values of a row are written when the row is done: until then they are constants of it.
        for value in late:
            if self._outlives(value, step):
                self.members[value] = None
                self.events.append(Make(value, self._operands(value)))
        return replace(step, steps=tuple(map(self._whole, step.steps)))

    def _whole(self, part: Compute | AlongColumns) -> Compute | AlongColumns:
        if isinstance(part, Compute):
            return part
        return replace(part, actions=tuple(
            replace(a, whole=a.reduction not in self.partial) if isinstance(a, Fold) else a
            for a in part.actions
        ))  # fmt: skip

    def _operands(self, value: str) -> tuple[str, ...]:
        let = self.facts.lets[value]
        found = (x for o in operands(let.op) for x in self.kinds.sources(o, frozenset()))
        return tuple(dict.fromkeys(found))

    def _operand_reads(self, value: str) -> None:
        # A value of this row is a constant of it: its array is not read here.
        found = tuple(x for x in self._operands(value) if x not in self.row_values)
        self.events.append(Read(found))

    def _compute(self, value: str) -> None:
        self._operand_reads(value)
        self.members[value] = None
        self.events.append(Make(value, self._operands(value)))

    def _along(self, value: str, loop: AlongColumns) -> None:
        """An element that only this loop over columns reads is a constant of it."""
        own = {a.reduction if isinstance(a, Fold) else a.value for a in loop.actions}
        if self._read_outside(value, own):
            self._compute(value)
        else:
            self._operand_reads(value)

    def _outlives(self, value: str, region: Region) -> bool:
        """Someone outside the region reads the value."""
        own = {
            a.reduction if isinstance(a, Fold) else a.value
            for part in region.steps
            for a in (part.actions if isinstance(part, AlongColumns) else (part,))
        }
        return self._read_outside(value, own)

    def _read_outside(self, value: str, own: set[str]) -> bool:
        for user in self.facts.users.get(value, []):
            if not isinstance(user, Let):
                return True
            if user.name in own:
                continue
            if self.kinds.is_member(user) or isinstance(user.op, Dot | Load):
                return True
            if self._read_outside(user.name, own):
                return True
        return False

    # ---- loops

    def loop(self, loop: ForTiles | ForRange, *, inside: bool) -> list[Step]:
        if isinstance(loop, ForRange) and loop.going is not None:
            raise Misfit("a loop ends when a condition of its own says so")
        carried = [c for c in loop.carries if c.type.axes]
        if len(carried) != len(loop.carries):
            raise Misfit("a loop carries a scalar")
        facts = self.facts
        plain: Plain = tuple(
            (c.name, None if isinstance(facts.op(c.init), Const) else c.init, c.result, c.next)
            for c in carried
        )
        for c in carried:
            if isinstance(facts.op(c.next), Const):
                raise Misfit(f"{c.name} becomes a constant")
            self.members[c.name] = self.members[c.result] = None
        out: list[Step] = [
            Fill(c.name, c.init) for c, p in zip(carried, plain, strict=True) if p[1] is None
        ]
        self.events.append(Enter(plain))
        if isinstance(loop, ForTiles) and self._copies(loop):
            out += [*([Sync()] if inside else []), self._pipelined(loop)]
        else:
            out.append(Loop(loop, self.block(loop.body, inside=True)))
        self.events.append(Leave(plain))
        out += [
            FinishSums(c.name)
            for c in carried
            if c.name in self.partial and c.result in facts.users
        ]
        return out

    def _pipelined(self, loop: ForTiles) -> Loop:
        copied = [s.name for s in loop.body if isinstance(s, Let) and s.name in self.tiles]
        for name in copied:
            self._tile(name, self.slots)
        inside = made_in(loop.body)
        for name in copied:
            op = self.facts.lets[name].op
            assert isinstance(op, Load)
            if any(varies(self.facts, inside, x) for x in index_operands(op.index)):
                raise Misfit(f"where {name} lies differs from turn to turn")
        items: list[Item] = []
        checks: list[Check] = []
        for item in group_items(self.kinds, loop.body):
            let = item.stmt
            if (
                isinstance(let, Let)
                and isinstance(let.op, Guard)
                and not varies(self.facts, inside, let.op.arg)
            ):
                checks.append(Check(let, self.sites[let.name]))
            elif not _is_copy(item, copied):
                items.append(item)
        bodies: list[list[Step]] = []
        uses: dict[str, Use] = {}
        for item in items:
            if item.staged is not None:
                self._tile(item.staged, 1)
                self._read(item.staged)
                bodies.append([StageIn(item.staged)])
                uses[item.staged] = Use(-1, -1, len(bodies) - 1)
                continue
            let = item.stmt
            body = self.steps(item)
            # What only defines is no item of its own: it may stand before the point.
            if all(isinstance(s, Define | Check) for s in body) and bodies:
                bodies[-1] += body
                continue
            bodies.append(body)
            if isinstance(let, Let) and isinstance(let.op, Dot):
                for x in (let.op.a, let.op.b):
                    if x in copied or x in uses:
                        at, old = len(bodies) - 1, uses.get(x)
                        first = at if old is None or old.first < 0 else old.first
                        uses[x] = Use(first, at, old.written if old is not None else None)
        found = segments(self.facts, loop)
        early = self.early if self.early is not None else not (found.until or found.since)
        pipe = pipeline(uses, len(bodies), self.slots, early=early)
        steps: list[Step] = []
        for i, body in enumerate([*bodies, []]):
            point = pipe.points.get(i)
            if point is not None:
                steps += _point(point.wait, point.copies)
            steps += body
        return Loop(
            loop, tuple(steps), found.masked, found.until, found.since, pipe.prologue, self.slots,
            pipelined=True, checks=tuple(checks),
        )  # fmt: skip

    # ---- memory

    def _tile(self, name: str, slots: int) -> None:
        if name in self.shared:
            return
        axes = self.facts.axes[name]
        let = self.facts.lets[name]
        if isinstance(let.op, Load) and name in self.tiles:
            last = let.op.index[-1]
            cols = getattr(last, "axis", axes[-1])
        else:
            bare = self.kinds.bare(name)
            cols = next(a for a in axes if not isinstance(self.layout.maps[bare, a], Rows))
        rows = next(a for a in axes if a != cols)
        shape = (self._size(rows), self._size(cols))
        dtype = let.type.dtype.name
        end = max((t.offset + t.slots * _bytes(t.shape) for t in self.shared.values()), default=0)
        self.shared[name] = SharedTile(
            name, dtype, rows, cols, shape, slots, (end + 1023) // 1024 * 1024
        )

    def _size(self, axis: str) -> int:
        a = self.func.axis(axis)
        size = a.size if a.kind == "tile" else a.extent
        if not isinstance(size, int):
            raise Misfit(f"the length of axis {axis} is not known when the kernel is compiled")
        return (size + 15) // 16 * 16

    def _is_staged(self, store: Store | AtomicAdd) -> bool:
        """Blocks of 16-bit elements are written by rows: a fragment has only 4 bytes of one."""
        dtype = self.func.tensor(store.tensor).dtype
        last = store.index[-1] if store.index else None
        value = self.kinds.bare(store.value)
        return (
            isinstance(store, Store) and len(self.facts.axes[value]) == 2
            and getattr(dtype, "bits", 0) == 16 and getattr(dtype, "is_float", False)
            and isinstance(last, Along) and last.step == 1
            and not isinstance(self.layout.maps.get((value, last.axis)), Rows)
        )  # fmt: skip

    def _staging(self, step: StoreOut) -> int:
        if not step.staged:
            return 0
        value = self.kinds.bare(step.store.value)
        rows, cols = (to.size for to in self._maps(value))
        return _bytes((rows, cols))

    def _arrays(self) -> Arrays:
        shapes = {v: self._maps(v) for v in self.members}
        kinds = {v: self.facts.types[v].dtype.name for v in self.members}
        return assign_arrays(self.events, shapes, kinds)

    def _maps(self, value: str) -> tuple[Map, ...]:
        """Maps of a value, rows first."""
        found = [self.layout.maps[value, a] for a in self.facts.axes[value]]
        return tuple(sorted(found, key=lambda m: not isinstance(m, Rows)))


class _Finish:
    """Puts the copies that arrays need among the steps."""

    def __init__(self, planner: Planner, arrays: Arrays) -> None:
        self.planner, self.arrays = planner, arrays

    def block(self, steps: tuple[Step, ...]) -> tuple[Step, ...]:
        out: list[Step] = []
        homes = self.arrays.homes
        for step in steps:
            match step:
                case Fill(array=name):
                    out.append(replace(step, array=homes[name]))
                case FinishSums(array=name):
                    out.append(replace(step, array=homes[name]))
                case Product(dot=let) if isinstance(let.op, Dot):
                    acc = let.op.acc
                    if acc is not None and homes.get(acc) != homes[let.name]:
                        out.append(Assign(homes[let.name], homes[acc]))
                    out.append(replace(step, array=homes[let.name]))
                case Loop(loop=loop, body=body):
                    names = {c.name for c in loop.carries}
                    out += [
                        Assign(homes[n], homes[init])
                        for n, init in self.arrays.starts
                        if n in names
                    ]
                    moves = tuple(
                        Assign(homes[n], homes[next_]) for n, next_ in self.arrays.moves
                        if n in names and n != next_
                    )  # fmt: skip
                    out.append(replace(step, body=(*self.block(body), *moves)))
                case _:
                    out.append(step)
        return tuple(out)


def _point(wait: int | None, copies: tuple[tuple[str, int], ...]) -> list[Step]:
    out: list[Step] = [Await(wait)] if wait is not None else []
    out.append(Sync())
    out += [CopyIn(x, d) for x, d in copies]
    return out + ([EndGroup()] if copies else [])


def _is_copy(item: Item, copied: list[str]) -> bool:
    return isinstance(item.stmt, Let) and item.stmt.name in copied


def _bytes(shape: tuple[int, int]) -> int:
    """Of a tile: panels of 64 columns, or one of 32 or 16."""
    rows, cols = shape
    width = 16 if cols <= 16 else 32 if cols <= 32 else 64
    return (cols + width - 1) // width * width * rows * 2


def _stores(steps: tuple[Step, ...]) -> list[StoreOut]:
    out = []
    for step in steps:
        if isinstance(step, StoreOut):
            out.append(step)
        elif isinstance(step, Loop):
            out += _stores(step.body)
    return out
