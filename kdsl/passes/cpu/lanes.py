"""Choose the lane axis of every value with two axes or more: the cheapest assignment.

Values joined by elementwise operations and loop carries move together. The cost of a choice counts
dot operands that have to be transposed (at the loop level where they do not change), reductions
across lanes and accesses to memory across its contiguous axis. "S or S transposed" is nothing but
this choice.
"""

from __future__ import annotations

from itertools import product

from kdsl.ir.nodes import Cast, Dot, Ew, Load, Reduce, Scan, Store
from kdsl.ir.walk import operands, walk
from kdsl.passes.cpu.facts import Facts, contiguous_axis

#: Assumed trips of a loop, per level of nesting.
TRIPS = 16.0
#: Cost of a lane axis whose length is not known, by which the other axis wins a tie.
UNKNOWN_LENGTH = 0.001
#: A choice among more combinations is made group by group.
COMBINATIONS = 4096


def choose_lanes(facts: Facts) -> dict[str, str]:
    """Lane axis by value, for values that are kept somewhere and have two axes or more."""
    groups = _Groups(facts)
    roots = groups.roots()
    options = [facts.axes[r] for r in roots]
    combinations = 1
    for o in options:
        combinations *= len(o)
    if combinations <= COMBINATIONS:
        best = min(product(*options), key=lambda pick: _cost(facts, groups, roots, pick))
    else:
        best = tuple(o[-1] for o in options)
        for i, choices in enumerate(options):
            best = min(
                ((*best[:i], c, *best[i + 1 :]) for c in choices),
                key=lambda pick: _cost(facts, groups, roots, pick),
            )
    chosen = dict(zip(roots, best, strict=True))
    return {v: chosen[groups.find(v)] for v in groups.members}


class _Groups:
    """Union-find over values that share a lane axis."""

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.parent: dict[str, str] = {}
        self.members = [v for v in facts.types if self._is_kept(v)]
        for let in facts.lets.values():
            match let.op:
                case Ew() | Cast() | Scan():
                    for a in operands(let.op):
                        self._join(let.name, a)
                case Dot(acc=acc) if acc is not None:
                    self._join(let.name, acc)
        for c in facts.carries.values():
            for v in (c.init, c.next, c.result):
                self._join(c.name, v)

    def _is_kept(self, v: str) -> bool:
        return len(self.facts.axes[v]) >= 2 and self.facts.kind(v) in ("item", "carried")

    def find(self, v: str) -> str:
        while v in self.parent:
            v = self.parent[v]
        return v

    def _join(self, a: str, b: str) -> None:
        if self._is_kept(a) and self._is_kept(b) and self.facts.axes[a] == self.facts.axes[b]:
            a, b = self.find(a), self.find(b)
            if a != b:
                self.parent[a] = b

    def roots(self) -> list[str]:
        return list(dict.fromkeys(self.find(v) for v in self.members))


def _cost(facts: Facts, groups: _Groups, roots: list[str], pick: tuple[str, ...]) -> float:
    chosen = dict(zip(roots, pick, strict=True))
    level = facts.level

    def lane(v: str) -> str | None:
        op = facts.op(v)
        if facts.kind(v) == "leaf" and isinstance(op, Load):
            return contiguous_axis(op.index)
        return chosen.get(groups.find(v))

    total = 0.0
    for v in groups.members:
        if facts.func.axis(chosen[groups.find(v)]).kind == "whole":
            total += UNKNOWN_LENGTH * TRIPS ** level[v]
    for let in facts.lets.values():
        trips = TRIPS ** level[let.name]
        match let.op:
            case Dot(a=a, b=b) if len(let.type.axes) == 2:
                vectors = a if lane(let.name) in facts.axes[a] else b
                if lane(vectors) != lane(let.name):
                    total += 4 * TRIPS ** level[vectors]
            case Reduce(arg=arg, axis=axis) | Scan(arg=arg, axis=axis) if len(facts.axes[arg]) >= 2:
                total += trips if lane(arg) == axis else 0.0
            case Ew() | Cast() if len(let.type.axes) >= 2 and facts.kind(let.name) == "item":
                for arg in operands(let.op):
                    if facts.kind(arg) == "leaf" and lane(let.name) in facts.axes[arg]:
                        total += 2 * trips if lane(arg) != lane(let.name) else 0.0
    for s in walk(facts.phase.body):
        if isinstance(s, Store) and facts.kind(s.value) in ("item", "carried"):
            own = lane(s.value)
            if own is not None and own != contiguous_axis(s.index):
                total += 2 * TRIPS ** level[s.value]
    return total
