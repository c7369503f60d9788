"""Barriers of a team: from who writes memory and who reads it, by one rule.

The threads of a block share an iteration. An element that one thread writes and another reads, or
the other way round, has a barrier between the two. Threads own elements by lane: what is written
and read along one and the same lane axis stays with its thread and needs none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kdsl.ir.nodes import Along, Dot, Guard, Index, Let, Load, Reduce, Scan, Store
from kdsl.ir.walk import index_operands, operands
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.plan import (
    Action, Branch, Buffer, Check, Compute, Define, Fold, Hold, Loop, Nest, Pack, PhasePlan,
    Product, Run, Step, Sync, Transpose, Write,
)  # fmt: skip

#: Which thread touches an element: "lane n", the thread whose lane of axis n it is; "one", the
#: first writes it for all; "all", each reads it; "any", whoever.
Owner = str


@dataclass(frozen=True, slots=True)
class Access:
    """A step touches memory: a buffer, or a tensor that the phase writes."""

    memory: str
    owner: Owner
    writes: bool

    def conflicts(self, other: Access) -> bool:
        if self.memory != other.memory or not (self.writes or other.writes):
            return False
        alike = self.owner == other.owner and (self.owner.startswith("lane ") or self.writes)
        return not (alike and self.owner != "any")


Accesses = frozenset[Access]


def synchronise(facts: Facts, plan: PhasePlan) -> PhasePlan:
    """The plan with `Sync` steps: between two iterations of the phase as within one."""
    walker = _Walker(facts, plan)
    _, behind = walker.block(plan.steps, frozenset())
    steps, _ = walker.block(plan.steps, behind)
    return replace(plan, steps=steps)


class _Walker:
    def __init__(self, facts: Facts, plan: PhasePlan) -> None:
        self.facts, self.plan = facts, plan
        self.homes: Mapping[str, Buffer] = {
            value: plan.buffer(name) for value, name in plan.homes if plan.buffer(name).axes
        }
        self.slices = {each.var for each in facts.phase.vars if each.is_tile}
        self.known: dict[tuple[str, str | None, str], tuple[Access, ...]] = {}

    def block(self, steps: tuple[Step, ...], before: Accesses) -> tuple[tuple[Step, ...], Accesses]:
        """(steps with barriers, what was touched since the last one); `before`: at the start."""
        out: list[Step] = []
        open_ = before
        for step in steps:
            match step:
                case Loop(body=body):
                    inner = open_
                    for _ in range(2):  # an iteration comes after what is before, or after another
                        _, behind = self.block(body, inner)
                        inner = open_ | behind
                    new, behind = self.block(body, inner)
                    out.append(replace(step, body=new))
                    open_ |= behind
                case Branch(then=then, other=other):
                    a, after_then = self.block(then, open_)
                    b, after_other = self.block(other, open_)
                    out.append(replace(step, then=a, other=b))
                    open_ = after_then | after_other
                case Sync():
                    pass
                case _:
                    mine = frozenset(self.accesses(step))
                    if any(x.conflicts(y) for x in mine for y in open_):
                        out.append(Sync())
                        open_ = frozenset()
                    out.append(step)
                    open_ |= mine
        return tuple(out), open_

    # ---- what a step touches

    def accesses(self, step: Step) -> Iterator[Access]:
        match step:
            case Define(let=let):
                yield from self.operand_reads(let, None)
            case Check(let=let):
                assert isinstance(let.op, Guard)
                yield from self.reads(let.op.arg, None)
            case Pack(source=source, buffer=buffer):
                yield from self.anyhow(source)
                yield Access(buffer, "any", writes=True)
            case Product():
                yield from self.product(step)
            case Transpose(store=store, buffer=buffer):
                yield Access(buffer, "any", writes=False)
                yield Access(store.tensor, "any", writes=True)
            case Nest(stages=stages, lane=lane):
                for stage in stages:
                    for action in stage.before:
                        outer = lane if lane != step.inner else None
                        yield from self.action(action, outer)
                    for action in stage.within:
                        yield from self.action(action, lane)

    def action(self, action: Action, lane: str | None) -> Iterator[Access]:
        match action:
            case Compute(value=value) | Fold(reduction=value) | Run(scan=value):
                let = self.facts.lets.get(value)
                if let is None:
                    yield from self.reads(value, lane)
                else:
                    yield from self.operand_reads(let, lane)
            case Hold(value=value, buffer=name):
                let = self.facts.lets.get(value)
                if let is None:
                    yield from self.reads(value, lane)
                else:
                    yield from self.operand_reads(let, lane)
                buffer = self.plan.buffer(name)
                if buffer.axes:
                    yield Access(name, self.buffer_owner(buffer, lane, writes=True), writes=True)
            case Write(store=store):
                for name in (*index_operands(store.index), store.value):
                    yield from self.reads(name, lane)
                owner = self.tensor_owner(store.index, lane, writes=True)
                if not isinstance(store, Store):
                    owner = "any"
                yield Access(store.tensor, owner, writes=True)

    def product(self, step: Product) -> Iterator[Access]:
        packs = dict(self.plan.packs)
        for operand in (step.vectors, step.scalars):
            if operand in packs:
                yield Access(packs[operand], "any", writes=False)
            else:
                yield from self.anyhow(operand)
        dot = step.dot.op
        assert isinstance(dot, Dot)
        if step.init is not None:
            yield from self.anyhow(step.init, own=step.buffer)
        if step.value != step.dot.name:
            yield from self.anyhow(step.value, own=step.buffer, stop=step.dot.name)
        yield Access(step.buffer, "any", writes=True)

    def anyhow(self, value: str, own: str = "", stop: str = "") -> Iterator[Access]:
        """Reads of any thread, but for a buffer in which each thread has its own elements."""
        for access in self.reads(value, None, stop):
            if access.memory != own:
                yield replace(access, owner="any")

    def operand_reads(self, let: Let, lane: str | None) -> Iterator[Access]:
        if isinstance(let.op, Load):
            yield from self.load(let.op, lane)
        for name in operands(let.op):
            yield from self.reads(name, lane)

    def reads(self, value: str, lane: str | None, stop: str = "") -> tuple[Access, ...]:
        """What reading a value touches, through what is computed on the way."""
        key = (self.facts.unguarded(value), lane, stop)
        if key not in self.known:
            self.known[key] = tuple(dict.fromkeys(self._reads(*key)))
        return self.known[key]

    def _reads(self, value: str, lane: str | None, stop: str) -> Iterator[Access]:
        if value == stop:
            return
        buffer = self.homes.get(value)
        if buffer is not None:
            yield Access(buffer.name, self.buffer_owner(buffer, lane, writes=False), writes=False)
            return
        let = self.facts.lets.get(value)
        # What is folded is in registers by now: its own step has read the operand.
        if let is not None and not isinstance(let.op, Dot | Reduce | Scan):
            yield from self.operand_reads(let, lane)

    def load(self, load: Load, lane: str | None) -> Iterator[Access]:
        if load.tensor in self.facts.written:
            yield Access(load.tensor, self.tensor_owner(load.index, lane, False), writes=False)

    # ---- who touches it

    def buffer_owner(self, buffer: Buffer, lane: str | None, writes: bool) -> Owner:
        if lane is not None and lane in buffer.axes:
            # Along its rows another thread has the element than along its lanes.
            return f"lane {lane}"
        return "one" if writes else "all"

    def tensor_owner(self, index: tuple[Index, ...], lane: str | None, writes: bool) -> Owner:
        """Lanes of a tensor are a thread's own only where the index is the same elsewhere."""
        if lane is None:
            return "one" if writes else "all"
        places = [
            k for k, i in enumerate(index)
            if isinstance(i, Along) and i.axis == lane and i.offset is None and i.step == 1
        ]  # fmt: skip
        # A loop's slices start anywhere: there an element has another lane each time.
        fixed = self.facts.func.axis(lane).kind == "whole" or lane in self.slices
        if len(places) != 1 or not fixed:
            return "any"
        return f"lane {lane} of {places[0]}"
