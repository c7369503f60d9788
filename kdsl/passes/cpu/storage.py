"""Reuse of memory: a value that is computed may lie where an operand of it lay, once that operand
has been read for the last time; and the check that no plan overwrites what is still to be read."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from kdsl.errors import InternalError
from kdsl.ir.nodes import Cast, Ew, Guard, Let, Load, Reduce
from kdsl.ir.walk import operands, reads
from kdsl.passes.cpu.context import Context
from kdsl.passes.cpu.items import Item, Value
from kdsl.passes.cpu.plan import (
    Branch, Check, Compute, Define, Fold, Hold, Loop, Nest, Pack, PhasePlan, Product, Run, Step,
    Transpose, Write,
)  # fmt: skip


def dying_operand(
    cx: Context, item: Value, makers: Mapping[str, Value], stage: Mapping[Item, int]
) -> str | None:
    """A buffer that the value of `item` can take over: that of a value below it in the same nest
    which nobody reads in a later pass or after the nest. Carries keep theirs."""
    facts, name = cx.facts, item.let.name
    row_lane = cx.row_lane(name)

    @cache
    def last_read(value: str) -> int | None:
        """The last pass that reads a value, through values that are recomputed; None: outside."""
        last = 0
        for user in facts.users.get(value, []):
            member = makers.get(user.name) if isinstance(user, Let) else None
            if member is None or member.let is not user:
                return None
            last = max(last, stage[member])
            if member is not item and user.name not in cx.homes and not isinstance(user.op, Reduce):
                inner = last_read(user.name)
                if inner is None:
                    return None
                last = max(last, inner)
        return last

    @cache
    def below(value: str) -> str | None:
        if value in facts.carries:
            return None
        home = cx.homes.get(value)
        if home is not None:
            buffer = cx.buffers[home]
            fits = (buffer.row, buffer.lane) == row_lane
            fits &= buffer.dtype == cx.buffer_dtype(name)
            last = last_read(value)
            return home if fits and last is not None and last <= stage[item] else None
        if value in makers:
            for a in operands(makers[value].let.op):
                found = below(a)
                if found is not None:
                    return found
        return None

    if not isinstance(item.let.op, (Ew, Cast)):
        return None
    for a in operands(item.let.op):
        free = below(a)
        if free is not None:
            return free
    return None


def verify_storage(cx: Context, plan: PhasePlan) -> None:
    """Raise InternalError where a step reads a buffer that holds another value by then."""
    _Check(cx, plan).steps(plan.steps)


class _Check:
    """Walks the steps in order and keeps, for each buffer, the names of what it holds."""

    def __init__(self, cx: Context, plan: PhasePlan) -> None:
        self.cx, self.homes = cx, dict(plan.homes)
        self.holds: dict[str, set[str]] = {}
        self.constants: set[str] = set()  # scalars that have been computed stay as they are
        self.seen: set[str] = set()  # values that can be read as things are

    def steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Define():
                    pass
                case Check(let=let):
                    self.seen = set()
                    self.value(let.name, set(), step)
                case Pack(source=source):
                    self.read(source, step)
                case Product():
                    for value in (step.scalars, step.vectors):
                        if value not in self.cx.packs:
                            self.read(value, step)
                    self.chain(step.value, step)
                    self.put(step.value, step.buffer)
                case Nest():
                    self.nest(step)
                case Transpose(store=store):
                    self.read(store.value, step)
                case Loop(loop=loop):
                    names = {c.name: c for c in loop.carries}
                    for c in names.values():
                        self.holds.setdefault(self.homes[c.name], set()).add(c.name)
                    self.steps(step.body)
                    for c in names.values():
                        self.holds.setdefault(self.homes[c.name], set()).update((c.name, c.result))
                case Branch():
                    before = {k: set(v) for k, v in self.holds.items()}
                    self.steps(step.then)
                    then, self.holds = self.holds, before
                    self.steps(step.other)
                    self.holds = {k: v & then.get(k, set()) for k, v in self.holds.items()}
                    for m in step.merges:
                        self.holds.setdefault(self.homes[m], set()).add(m)

    def put(self, value: str, buffer: str) -> None:
        carried = {
            c.result for c in self.cx.facts.carries.values() if self.homes.get(c.name) == buffer
        }
        merged = {v for v, home in self.homes.items() if home == buffer and self._is_merge(v)}
        self.holds[buffer] = {value} | carried | merged

    def _is_merge(self, value: str) -> bool:
        facts = self.cx.facts
        return (
            facts.kind(value) == "carried"
            and value not in facts.carries
            and (value not in facts.results)
        )

    def nest(self, nest: Nest) -> None:
        fresh = set(self.constants)
        for stage in nest.stages:
            fresh |= {a.scan for a in stage.within if isinstance(a, Run)}
            for actions in (stage.before, stage.within):
                self.seen = set()
                for action in actions:
                    match action:
                        case Compute(value=value) | Hold(value=value):
                            self.value(value, fresh, nest)
                        case Fold(reduction=name) | Run(scan=name):
                            (arg,) = operands(self.cx.facts.lets[name].op)
                            self.value(arg, fresh, nest)
                        case Write(store=store):
                            for n in reads(store):
                                self.value(n, fresh, nest)
                for action in actions:
                    if isinstance(action, Hold):
                        self.put(action.value, action.buffer)
                    if isinstance(action, (Compute, Fold)):
                        fresh.add(action.value if isinstance(action, Compute) else action.reduction)
        self.constants |= {v for v in fresh if not self.cx.facts.axes[v]}

    def value(self, name: str, fresh: set[str], step: Step) -> None:
        """A read inside a nest: registers, a buffer that holds it, or its operands again."""
        if name in fresh or name in self.seen or self.is_there(name):
            return
        self.seen.add(name)
        let = self.cx.facts.lets.get(name)
        if let is None or (self.cx.facts.kind(name) == "item" and self._needs_memory(let)):
            self.read(name, step)
        else:
            for a in operands(let.op):
                self.value(a, fresh, step)

    def _needs_memory(self, let: Let) -> bool:
        return not isinstance(let.op, (Ew, Cast, Load, Guard)) and bool(let.type.axes)

    def chain(self, name: str, step: Step) -> None:
        """Reads of a dot's chains."""
        if self.is_there(name) or name in self.constants:
            return
        let = self.cx.facts.lets.get(name)
        if let is None:
            self.read(name, step)
        elif isinstance(let.op, (Ew, Cast)):
            for a in operands(let.op):
                self.chain(a, step)

    def is_there(self, name: str) -> bool:
        home = self.homes.get(name)
        return home is not None and name in self.holds.get(home, set())

    def read(self, name: str, step: Step) -> None:
        if self.cx.facts.kind(name) in ("scalar", "inline", "leaf") or self.is_there(name):
            return
        if not self.cx.facts.axes[name] and name not in self.homes:
            return  # a scalar in registers
        raise InternalError(f"`{name}` is read after its memory was reused", repr(step))
