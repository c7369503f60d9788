"""Fused loop nests: which items share one, and in how many passes it walks its inner axis."""

from __future__ import annotations

from functools import cache

from kdsl.ir.nodes import Along, AtomicAdd, Let, Reduce, Scan, Store
from kdsl.passes.cpu.context import Context
from kdsl.passes.cpu.facts import contiguous_axis
from kdsl.passes.cpu.items import Item, Put, Update, Value
from kdsl.passes.cpu.plan import Action, Compute, Fold, Hold, Nest, Run, Stage, Write
from kdsl.passes.cpu.storage import dying_operand


class Draft:
    """A nest that is being filled. `take` says whether an item fits, and takes it if so."""

    def __init__(self, cx: Context) -> None:
        self.cx = cx
        self.items: list[Item] = []
        self.members: set[Item] = set()
        self.axes: tuple[str, ...] = ()
        self.alone: set[str] = set()  # axes that some item has alone
        self.scalar = False
        self.reduced: str | None = None
        self.lane: str | None = None

    def take(self, item: Item) -> bool:
        axes, reduced, lane = self._shape(item)
        if not self._fits(item, axes, reduced, lane):
            return False
        if len(axes) > len(self.axes):
            self.axes = axes
        if len(axes) == 1:
            self.alone.add(axes[0])
        self.scalar |= not axes
        self.reduced = reduced or self.reduced
        self.lane = lane or self.lane
        self.items.append(item)
        self.members.add(item)
        return True

    def _shape(self, item: Item) -> tuple[tuple[str, ...], str | None, str | None]:
        """(axes it runs over, the axis it reduces, its lane axis when it has several)."""
        cx = self.cx
        reduced, lane = None, None
        match item:
            case Value(let=Let(op=Reduce(arg=arg, axis=axis))):
                axes, reduced = cx.facts.axes[arg], axis
                lane = cx.lane(arg) if axes else None
            case Value(let=let):
                axes = let.type.axes
                lane = cx.lane(let.name) if axes else None
                if isinstance(let.op, Scan):  # in order along its axis
                    reduced = let.op.axis
            case Put(store=store):
                axes = self._store_axes(store)
                kept = len(cx.facts.axes[store.value]) > 1 and cx.is_kept(store.value)
                lane = cx.lane(store.value) if kept else contiguous_axis(store.index)
            case Update(buffer=buffer, value=value):
                axes = self._ordered({*buffer.axes, *cx.facts.axes[value]})
                lane = buffer.lane
            case _:
                raise TypeError(type(item).__name__)
        if len(axes) > 1:
            return axes, reduced, lane if lane in axes else axes[-1]
        return axes, reduced, None

    def _store_axes(self, store: Store | AtomicAdd) -> tuple[str, ...]:
        axes = set(self.cx.facts.axes[store.value])
        for i in store.index:
            axes |= {i.axis} if isinstance(i, Along) else set(self.cx.facts.axes[i.value])
        return self._ordered(axes)

    def _ordered(self, axes: set[str]) -> tuple[str, ...]:
        return tuple(a.name for a in self.cx.facts.func.axes if a.name in axes)

    def _fits(
        self, item: Item, axes: tuple[str, ...], reduced: str | None, lane: str | None
    ) -> bool:
        if item.ordered & self.members:
            return False
        if reduced and self.reduced and reduced != self.reduced:
            return False
        if lane and self.lane and lane != self.lane:
            return False
        inner = reduced or self.reduced
        several = axes if len(axes) > 1 else self.axes if len(self.axes) > 1 else None
        if several is None:  # one axis at most
            return not axes or not self.axes or axes == self.axes
        if self.scalar or not axes:
            return False
        alone = self.alone | ({axes[0]} if len(axes) == 1 else set())
        if len(axes) > 1 and len(self.axes) > 1 and axes != self.axes:
            return False
        if not alone:
            return True
        return (
            len(several) == 2 and len(alone) == 1 and alone < set(several) and (inner not in alone)
        )

    def loops(self) -> tuple[tuple[str, ...], str | None, str | None, str | None]:
        """(around, outer, inner, lane)."""
        if not self.axes:
            return (), None, None, None
        if len(self.axes) == 1:
            return (), None, self.axes[0], self.axes[0]
        lane = self.lane
        assert lane is not None
        rest = [a for a in self.axes if a != lane]
        if self.reduced:
            inner = self.reduced
            outer = lane if inner != lane else rest[-1]
        elif self.alone:
            (outer,) = self.alone
            inner = next(a for a in self.axes if a != outer)
        else:
            inner, outer = lane, rest[-1]
        return tuple(a for a in self.axes if a not in (inner, outer)), outer, inner, lane


def finish(cx: Context, draft: Draft) -> list[Nest]:
    """The nest of a draft: stages, and what is held in buffers (entered in `cx.homes`)."""
    around, outer, inner, lane = draft.loops()
    stages = _Stages(cx, draft, inner).build()
    return [Nest(around, outer, inner, lane, stages)]


class _Stages:
    def __init__(self, cx: Context, draft: Draft, inner: str | None) -> None:
        self.cx, self.draft, self.inner = cx, draft, inner
        self.items = draft.items
        self.stage: dict[Item, int] = {}
        self.makers = {i.let.name: i for i in self.items if isinstance(i, Value)}
        for item in self.items:
            self.stage[item] = self._earliest(item)
        self.last = max(self.stage.values())
        for item in self.items:
            if isinstance(item, Update) and item.needs & draft.members:
                self.stage[item] = self.last + self._is_early(item)
        self.tail = any(self._is_fold(i) and self.stage[i] == self.last for i in self.items)
        self.tail |= self.last < max(self.stage.values())

    def _is_early(self, update: Update) -> bool:
        """Written in front of the last pass, a carry would be lost to what reads it in there,
        maybe by computing again what an earlier pass did."""
        old = {r for r in update.needs & self.draft.members if self._has_inner(r)}

        @cache
        def reads(item: Item) -> bool:
            again = (n for n in item.needs & self.draft.members if not self._is_fold(n))
            return item in old or any(self._has_inner(n) and reads(n) for n in again)

        last = (i for i in self.items if self.stage[i] == self.last and self._has_inner(i))
        return not self._has_inner(update) and any(map(reads, last))

    def _is_fold(self, item: Item) -> bool:
        return isinstance(item, Value) and isinstance(item.let.op, Reduce)

    def _has_inner(self, item: Item) -> bool:
        axes, _, _ = self.draft._shape(item)
        return self.inner is not None and self.inner in axes

    def _earliest(self, item: Item) -> int:
        stage = 0
        for need in item.needs & self.draft.members:
            stage = max(stage, self.stage[need] + (1 if self._is_fold(need) else 0))
        return stage

    def build(self) -> tuple[Stage, ...]:
        self._hold()
        stages = []
        for n in range(self.last + 1 + self.tail):
            before: list[Action] = []
            within: list[Action] = []
            for item in self.items:
                if self._is_fold(item) and self.stage[item] == n - 1:
                    before += self._keep(item)
            for item in self.items:
                if self.stage[item] != n:
                    continue
                if self._is_fold(item):
                    assert isinstance(item, Value)
                    within.append(Fold(item.let.name))
                else:
                    target = within if self._has_inner(item) else before
                    target += self._actions(item, is_inner=target is within)
            stages.append(Stage(tuple(before), tuple(within)))
        return tuple(s for s in stages if s.before or s.within)

    def _actions(self, item: Item, *, is_inner: bool) -> list[Action]:
        match item:
            case Value(let=let):
                held = self._keep(item)
                if isinstance(let.op, Scan):
                    return [Run(let.name), *held]
                return held if is_inner else [Compute(let.name), *held]
            case Put(store=store):
                return [Write(store)]
            case Update(buffer=buffer, value=value):
                return [Hold(value, buffer.name)]
        raise TypeError(type(item).__name__)

    def _keep(self, item: Item) -> list[Action]:
        """The hold of a value that has a buffer, unless an update of this nest does it."""
        assert isinstance(item, Value)
        name = item.let.name
        home = self.cx.homes.get(name)
        if home is None or any(
            isinstance(i, Update) and i.value == name and i.buffer.name == home for i in self.items
        ):
            return []
        return [Hold(name, home)]

    # ---- what is held

    def _hold(self) -> None:
        for item in self.items:
            if not isinstance(item, Value):
                continue
            axes = self.cx.facts.axes[item.let.name]
            if axes and (self._escapes(item) or self._is_read_back(item)):
                self._give_home(item)

    def _users(self, item: Value) -> tuple[list[Item], bool]:
        """Members that read a value, and whether anything outside the nest does."""
        cx, name = self.cx, item.let.name
        inside: list[Item] = []
        outside = False
        for user in cx.facts.users.get(name, []):
            member = next(
                (
                    i for i in self.items
                    if (isinstance(i, Value) and i.let is user and user.name not in cx.inside_dot)
                    or (isinstance(i, Put) and i.store is user)
                ),
                None,
            )  # fmt: skip
            if member is not None:
                inside.append(member)
            elif not self._is_carry_only(user, name):
                outside = True
        updates = [i for i in self.items if isinstance(i, Update) and i.value == name]
        return inside + updates, outside

    def _is_carry_only(self, user: object, name: str) -> bool:
        """The user is a loop or branch that takes the value through updates of this nest only."""
        wanted = self.cx.transfers(user, name)
        given = [i for i in self.items if isinstance(i, Update) and i.value == name]
        return wanted is not None and len(given) >= wanted

    def _escapes(self, item: Value) -> bool:
        return self._users(item)[1]

    def _is_read_back(self, item: Value) -> bool:
        """A later pass reads it, and reading is cheaper than computing it again."""
        if not self._has_inner(item) or self._is_fold(item):
            return False
        later = any(self.stage[u] > self.stage[item] for u in self._users(item)[0])
        return later and self.cx.facts.is_costly(item.let.name)

    def _give_home(self, item: Value) -> None:
        cx, name = self.cx, item.let.name
        row, lane = cx.row_lane(name)
        for update in self.items:
            same = isinstance(update, Update) and update.value == name
            if same and self.stage[update] == self.stage[item]:
                assert isinstance(update, Update)
                if (update.buffer.row, update.buffer.lane) == (row, lane):
                    cx.homes[name] = update.buffer.name
                    return
        free = dying_operand(cx, item, self.makers, self.stage) if row and lane else None
        if free is None:
            free = cx.new_buffer(name, cx.buffer_dtype(name), row, lane).name
        cx.homes[name] = free
