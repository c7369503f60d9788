"""Order one block: fuse what can share loops into nests, between dots and inner loops.

List scheduling: take every ready item that fits the current nest, then emit it; when none is ready,
emit the next ready dot, pack, sweep or inner loop. This alone puts a softmax update between two
dots into a single nest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kdsl.errors import InternalError
from kdsl.ir.nodes import (
    Along, AtomicAdd, Block, Dot, Ew, ForRange, ForTiles, Guard, If, Let, Load, Stmt, Store,
)  # fmt: skip
from kdsl.ir.walk import operands, reads, walk
from kdsl.passes.cpu import dots
from kdsl.passes.cpu.context import Context
from kdsl.passes.cpu.facts import contiguous_axis
from kdsl.passes.cpu.items import (
    CheckItem,
    DotItem,
    Inner,
    Item,
    PackItem,
    Put,
    Sweep,
    Update,
    Value,
)
from kdsl.passes.cpu.masks import always
from kdsl.passes.cpu.nests import Draft, finish
from kdsl.passes.cpu.plan import (
    Branch, Buffer, Check, Define, Hold, Loop, Nest, Pack, Product, Stage, Step, Transpose,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Old:
    """What a buffer holds when a block begins that writes it at its end: the name of the value,
    and the statements of other paths of the branches around, which may read it."""

    name: str
    elsewhere: tuple[Stmt, ...] = ()


Updates = tuple[tuple[Buffer, str], ...]


def plan_block(
    cx: Context, block: Block, updates: Updates = (), old: Mapping[str, Old] | None = None
) -> tuple[Step, ...]:
    """Steps of a block; `updates` are (buffer, value) pairs to write at its end, `old` what those
    buffers hold before, by the buffer's name."""
    return _BlockPlanner(cx, block, updates, old or {}).plan()


class _BlockPlanner:
    def __init__(self, cx: Context, block: Block, updates: Updates, old: Mapping[str, Old]) -> None:
        self.cx, self.block = cx, block
        self.wanted = {value: buffer for buffer, value in updates}
        self.old = old
        self.items: list[Item] = []
        self.maker: dict[str, Item] = {}  # value -> the item of this block that makes it
        self.updates: list[Update] = []
        self.defines: list[Let] = []
        self.known_makers: dict[str, set[Item]] = {}
        self.known_leaves: dict[str, set[str]] = {}
        self._collect(updates)
        self._connect()

    # ---- collecting items

    def _collect(self, updates: tuple[tuple[Buffer, str], ...]) -> None:
        cx = self.cx
        absorbed = dots.absorb(cx, self.block)
        for s in self.block:
            match s:
                case Let(name=name) if cx.facts.kind(name) == "scalar":
                    self.defines.append(s)
                case Let(name=name, op=Guard()):
                    self._add(CheckItem(s), name)
                case Let(name=name) if name in cx.inside_dot:
                    pass
                case Let(name=name, op=Load()) if name in cx.pack_at_load:
                    self._pack(name)
                case Let(name=name, op=Dot()):
                    self._dot(s, absorbed[name])
                case Let(name=name) if cx.facts.kind(name) == "item":
                    self._add(self._value(s), name)
                case Store() | AtomicAdd():
                    self._add(Put(s))
                case ForTiles() | ForRange():
                    self._loop(s)
                case If():
                    self._branch(s)
        for buffer, value in updates:
            if cx.homes.get(value) != buffer.name:
                self._update(buffer, value)

    def _add(self, item: Item, *values: str) -> None:
        self.items.append(item)
        for v in values:
            self.maker[v] = item

    def _value(self, let: Let) -> Item:
        """A sweep where a mask can be applied in place and skipped, else a plain value."""
        cx, op = self.cx, let.op
        if isinstance(op, Ew) and op.fn == "where" and len(let.type.axes) == 2:
            cond, held, other = op.args
            maker = self.maker.get(held)
            if (
                isinstance(maker, DotItem) and cx.facts.sole_user(held) is let
                and cx.facts.kind(other) in ("scalar", "inline")
                and cx.facts.kind(cond) == "inline"
            ):  # fmt: skip
                unless = always(cx.facts, cond)
                if unless is not None:
                    cx.homes[let.name] = cx.homes[held]
                    return Sweep(let, held, unless)
        return Value(let)

    def _pack(self, load: str) -> None:
        lane, depth = self.cx.pack_at_load[load]
        let = self.cx.facts.lets[load]
        assert isinstance(let.op, Load)
        turned = contiguous_axis(let.op.index) != lane
        self._add(PackItem(load, lane, depth, turned), load)
        self.cx.packs[load] = self.cx.new_buffer(f"{load}_pack", "f32", depth, lane).name

    def _dot(self, let: Let, chain: dots.Chain) -> None:
        cx, op = self.cx, let.op
        assert isinstance(op, Dot)
        lane = cx.lane(let.name)
        row = next(a for a in let.type.axes if a != lane)
        vectors, scalars = (op.a, op.b) if lane in cx.facts.axes[op.a] else (op.b, op.a)
        if cx.is_held(vectors) and cx.lane(vectors) != lane and vectors not in cx.packs:
            pack = PackItem(vectors, lane, op.axis, True)
            self._add(pack)
            cx.packs[vectors] = cx.new_buffer(f"{vectors}_pack", "f32", op.axis, lane).name
            self.maker[f"pack of {vectors}"] = pack
        item = DotItem(let, lane, row, scalars, vectors, chain.value, chain.reads)
        self._add(item, chain.value)
        cx.homes[chain.value] = cx.new_buffer(chain.value, "f32", row, lane).name

    def _loop(self, s: ForTiles | ForRange) -> None:
        cx = self.cx
        for c in s.carries:
            old = self._in_place_of(c.result)
            if old is not None and old.name == c.init and self._read_by(old, [s]):
                cx.homes[c.name] = cx.homes[c.result] = self.wanted[c.result].name
                continue
            buffer = cx.new_buffer(c.name, cx.buffer_dtype(c.name), *cx.row_lane(c.name))
            cx.homes[c.name] = cx.homes[c.result] = buffer.name
            self._update(buffer, c.init)
        self._add(Inner(s), *(c.result for c in s.carries))

    def _branch(self, s: If) -> None:
        cx = self.cx
        for m in s.merges:
            old = self._in_place_of(m.name)
            if old is not None and self._only_inside(old, s, (m.then, m.other)):
                cx.homes[m.name] = self.wanted[m.name].name
                continue
            buffer = cx.new_buffer(m.name, cx.buffer_dtype(m.name), *cx.row_lane(m.name))
            cx.homes[m.name] = buffer.name
        self._add(Inner(s), *(m.name for m in s.merges))

    def _in_place_of(self, value: str) -> Old | None:
        """The old value of the buffer that a result of a loop or branch is to go to in the end,
        where it can be made there from the beginning: a row that has this form."""
        buffer = self.wanted.get(value)
        if buffer is None or buffer.lane is None or buffer.name not in self.old:
            return None
        form = self.cx.buffer_dtype(value), *self.cx.row_lane(value)
        return self.old[buffer.name] if form == (buffer.dtype, buffer.row, buffer.lane) else None

    def _only_inside(self, old: Old, s: If, sides: tuple[str, str]) -> bool:
        """Whether nothing outside of a branch reads an old value, and no side hands on what
        another carry was."""
        inside = list(walk((s,)))
        made = {m.name for t in inside if isinstance(t, If) for m in t.merges}
        made |= {c.result for t in inside if isinstance(t, (ForTiles, ForRange)) for c in t.carries}
        for side in sides:
            if self.cx.facts.kind(side) == "carried" and side != old.name and side not in made:
                return False
        return self._read_by(old, inside)

    def _read_by(self, old: Old, stmts: Sequence[Stmt]) -> bool:
        """Whether nothing but these statements, and other paths, reads an old value."""
        allowed = {id(t) for t in (*stmts, *old.elsewhere)}
        return all(id(user) in allowed for user in self.cx.facts.users.get(old.name, ()))

    def _update(self, buffer: Buffer, value: str) -> None:
        update = Update(buffer, value)
        self.updates.append(update)
        self._add(update)

    # ---- dependencies

    def _connect(self) -> None:
        for item in self.items:
            for name in self._reads(item):
                item.needs |= self._makers(name)
        self._carry_order()
        self._memory_order()
        for item in self.items:
            item.needs.discard(item)

    def _makers(self, name: str) -> set[Item]:
        """Items of this block that a value comes from, looking through what is recomputed."""
        if name in self.maker:
            return {self.maker[name]}
        let = self.cx.facts.lets.get(name)
        if let is None or self.cx.facts.kind(name) == "item":
            return set()
        if name not in self.known_makers:
            found = {m for a in operands(let.op) for m in self._makers(a)}
            self.known_makers[name] = found
        return self.known_makers[name]

    def _reads(self, item: Item) -> tuple[str, ...]:
        match item:
            case Value(let=let) | Sweep(let=let) | CheckItem(let=let):
                return operands(let.op)
            case Put(store=store):
                return reads(store)
            case Update(value=value):
                return (value,)
            case PackItem(source=source):
                if self.cx.facts.kind(source) != "leaf":
                    return (source,)
                return operands(self.cx.facts.lets[source].op)
            case DotItem():
                packed = f"pack of {item.vectors}"
                extra = (packed,) if packed in self.maker else ()
                return (item.scalars, item.vectors, *item.reads, *extra)
            case Inner(stmt=stmt):
                return _reads_inside(stmt)
        raise InternalError(f"schedule: no rule for {type(item).__name__}")

    def _leaves(self, name: str) -> set[str]:
        """Carried values that a name is recomputed from."""
        facts = self.cx.facts
        name = facts.unguarded(name)
        kind = facts.kind(name)
        if kind == "carried":
            return {name}
        if kind == "item":
            return set()
        if name not in self.known_leaves:
            found = {x for a in operands(facts.lets[name].op) for x in self._leaves(a)}
            self.known_leaves[name] = found
        return self.known_leaves[name]

    def _carry_order(self) -> None:
        """A carry is written after everyone has read its old value; the loop that the first
        values are for comes after them."""
        homes = self.cx.homes
        for update in self.updates:
            for item in self.items:
                if item is update:
                    continue
                leaves = {x for n in self._reads(item) for x in self._leaves(n)}
                old = {x for x in leaves if homes.get(x) == update.buffer.name}
                if not old:
                    continue
                if isinstance(item, Inner) and self._starts(item, update):
                    continue
                if old <= set(self.maker):  # results: read after the loop, which is after this
                    continue
                update.needs.add(item)
            for item in self.items:
                if isinstance(item, Inner) and self._starts(item, update):
                    item.needs.add(update)
        for item in self.items:
            if isinstance(item, DotItem):
                self._in_place(item)

    def _starts(self, item: Inner, update: Update) -> bool:
        loop = item.stmt
        if isinstance(loop, If):
            return False
        homes = self.cx.homes
        return any(homes[c.name] == update.buffer.name for c in loop.carries)

    def _in_place(self, dot: DotItem) -> None:
        """A dot that makes a carry's next value writes it where the carry lies, unless someone
        needs the old value after it."""
        for update in self.updates:
            buffer = update.buffer
            if update.value != dot.value or (buffer.row, buffer.lane) != (dot.row, dot.lane):
                continue
            before = update.needs - {dot}
            if any(dot in _closure(i) for i in before):
                continue
            dot.needs |= before
            self.cx.homes[dot.value] = buffer.name
            self.items.remove(update)
            self.updates.remove(update)
            for item in self.items:
                if update in item.needs:
                    item.needs = item.needs - {update} | {dot}
            return

    def _memory_order(self) -> None:
        """Loads and stores of a tensor that this phase writes keep their order."""
        touched: dict[str, list[tuple[Item, bool]]] = {}
        for item in self.items:
            for tensor, writes in _accesses(item):
                if tensor not in self.cx.facts.written:
                    continue
                for other, other_writes in touched.get(tensor, []):
                    if (writes or other_writes) and other is not item:
                        item.needs.add(other)
                        item.ordered.add(other)
                touched.setdefault(tensor, []).append((item, writes))

    # ---- emitting

    def plan(self) -> tuple[Step, ...]:
        steps: list[Step] = [Define(s) for s in self.defines]
        done: set[Item] = set()
        left = list(self.items)
        while left:
            # A check that can be made is made, so that it does not part a nest later.
            for item in left:
                if isinstance(item, CheckItem) and item.needs <= done:
                    steps.append(self._emit(item))
                    done.add(item)
            left = [i for i in left if i not in done]
            draft = Draft(self.cx)
            for item in left:
                fits = isinstance(item, (Value, Put, Update)) and not self._turned(item)
                fits = fits and not self._too_early(item, draft)
                if fits and item.needs <= done | draft.members and draft.take(item):
                    continue
            if draft.members:
                steps += finish(self.cx, draft)
                done |= draft.members
            elif left:
                ready = next((i for i in left if i.needs <= done), None)
                if ready is None:
                    raise InternalError("the block has no order", repr(left))
                steps.append(self._emit(ready))
                done.add(ready)
            left = [i for i in left if i not in done]
        return tuple(steps)

    def _too_early(self, item: Item, draft: Draft) -> bool:
        """A scalar carry is written in front of the loops of a nest: not while something in them
        reads its old value."""
        if not isinstance(item, Update) or item.buffer.lane is not None or not draft.axes:
            return False
        return not (item.needs - self._makers(item.value)).isdisjoint(draft.members)

    def _turned(self, item: Item) -> bool:
        """A store whose rows are contiguous in the tensor: a block transposition of its own."""
        if not isinstance(item, Put) or isinstance(item.store, AtomicAdd):
            return False
        cx, store = self.cx, item.store
        along = contiguous_axis(store.index)
        return (
            len(cx.facts.axes[store.value]) == 2 and cx.facts.kind(store.value) != "leaf"
            and cx.is_kept(store.value) and along is not None and cx.lane(store.value) != along
            and all(isinstance(i, Along) or not cx.facts.axes[i.value] for i in store.index)
            and cx.facts.types[store.value].dtype.is_float
            and cx.facts.types[store.value].dtype.bits <= 32
        )  # fmt: skip

    def _emit(self, item: Item) -> Step:
        cx = self.cx
        match item:
            case CheckItem(let=let):
                return Check(let, cx.sites[let.name])
            case Put(store=Store() as store):
                return Transpose(store, cx.homes[store.value])
            case PackItem(source=source, depth=depth, transposed=transposed):
                return Pack(source, cx.packs[source], depth, transposed)
            case DotItem(let=let):
                assert isinstance(let.op, Dot)
                return Product(
                    let, item.row, item.lane, item.scalars, item.vectors, let.op.acc, item.value,
                    cx.homes[item.value],
                )  # fmt: skip
            case Sweep(let=let, unless=unless):
                buffer = cx.buffers[cx.homes[let.name]]
                stage = Stage(within=(Hold(let.name, buffer.name),))
                return Nest((), buffer.row, buffer.lane, buffer.lane, (stage,), unless)
            case Inner(stmt=ForTiles() | ForRange() as loop):
                updates = tuple(
                    (cx.buffers[cx.homes[c.name]], c.next) for c in loop.carries if c.next != c.name
                )
                old = {cx.homes[c.name]: Old(c.name) for c in loop.carries}
                return Loop(loop, plan_block(cx, loop.body, updates, old))
            case Inner(stmt=If() as branch):
                sides = []
                paths = [(m.name, m.then, m.other) for m in branch.merges]
                for body, other, side in (
                    (branch.then, branch.other, 1), (branch.other, branch.then, 2),
                ):  # fmt: skip
                    results = {path[0]: path[side] for path in paths}
                    updates = tuple((cx.buffers[cx.homes[m]], v) for m, v in results.items())
                    sides.append(plan_block(cx, body, updates, self._kept(branch, other, results)))
                merged = tuple(m.name for m in branch.merges)
                return Branch(branch.cond, sides[0], sides[1], merged)
        raise InternalError(f"schedule: cannot emit {type(item).__name__}")

    def _kept(self, branch: If, other: Block, results: Mapping[str, str]) -> dict[str, Old]:
        """Old values that lie in the buffers of a branch's results as a side of it begins, and
        that no other result is; `other` is the other side, `results` what this one gives."""
        kept, homes = {}, self.cx.homes
        for m in branch.merges:
            home = homes[m.name]
            old = self.old.get(home) if m.name in self.wanted else None
            if old is None or any(v == old.name and homes[n] != home for n, v in results.items()):
                continue
            kept[home] = Old(old.name, (*old.elsewhere, branch, *walk(other)))
        return kept


def _reads_inside(stmt: Stmt) -> tuple[str, ...]:
    """All names that a loop or branch reads, at any depth."""
    names = list(reads(stmt))
    for s in walk((stmt,)):
        names += reads(s)
        if isinstance(s, (ForTiles, ForRange)):
            names += [c.next for c in s.carries]
        elif isinstance(s, If):
            names += [n for m in s.merges for n in (m.then, m.other)]
    return tuple(dict.fromkeys(names))


def _accesses(item: Item) -> list[tuple[str, bool]]:
    """(tensor, writes) of each access to memory in an item."""
    match item:
        case Value(let=Let(op=Load(tensor=tensor))):
            return [(tensor, False)]
        case Put(store=store):
            return [(store.tensor, True)]
        case Inner(stmt=stmt):
            found = []
            for s in walk((stmt,)):
                if isinstance(s, (Store, AtomicAdd)):
                    found.append((s.tensor, True))
                elif isinstance(s, Let) and isinstance(s.op, Load):
                    found.append((s.op.tensor, False))
            return list(dict.fromkeys(found))
    return []


def _closure(item: Item) -> set[Item]:
    """Everything an item comes after."""
    seen: set[Item] = set()
    stack = list(item.needs)
    while stack:
        i = stack.pop()
        if i not in seen:
            seen.add(i)
            stack += i.needs
    return seen
