"""Where a loop needs its masks: turns before, clean turns, turns behind.

`where(predicate, x, c)` with an affine predicate changes nothing while the predicate holds on the
whole slice. Along the loop's axis that is so from some turn on, or up to one: those are clean.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kdsl.ir.nodes import Bound, Ew, ForRange, ForTiles, Let, Load, LoopVar, Stmt
from kdsl.ir.walk import operands, walk
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.masks import always
from kdsl.passes.cpu.plan import Comparison, Term


@dataclass(frozen=True, slots=True)
class Segments:
    """See `tensor_plan.Loop`."""

    masked: frozenset[str]
    until: tuple[Comparison, ...]
    since: tuple[Comparison, ...]


def segments(facts: Facts, loop: ForTiles) -> Segments:
    """The masks of a loop's own body, and when they do nothing."""
    masked: set[str] = set()
    until: list[Comparison] = []
    since: list[Comparison] = []
    inside = made_in(loop.body)
    for s in loop.body:
        if not isinstance(s, Let) or not isinstance(s.op, Ew) or s.op.fn != "where":
            continue
        cond = s.op.args[0]
        if _is_end_of(facts, cond, loop.axis):
            masked.add(s.name)  # a whole slice has no end inside
            continue
        found = always(facts, cond)
        if found is None or any(_varies(facts, inside, c) for c in found):
            continue
        sides = [_side(c, loop.axis) for c in found]
        if any(side not in (-1, 1) for side in sides):
            continue
        masked.add(s.name)
        for comparison, side in zip(found, sides, strict=True):
            into = until if side < 0 else since
            if comparison not in into:
                into.append(comparison)
    return Segments(frozenset(masked), tuple(until), tuple(since))


def _is_end_of(facts: Facts, cond: str, axis: str) -> bool:
    """The condition is `index < stop` of the axis itself."""
    op = facts.op(cond)
    if not isinstance(op, Ew) or op.fn != "lt":
        return False
    stop = facts.op(op.args[1])
    return isinstance(stop, Bound) and stop.axis == axis and stop.which == "stop"


def varies(facts: Facts, inside: frozenset[str], name: str) -> bool:
    """Whether a scalar may differ from turn to turn of a loop; `inside` are the values it makes."""
    let = facts.lets.get(name)
    if let is None or isinstance(let.op, Bound | Load | LoopVar):
        return name in inside
    return any(varies(facts, inside, x) for x in operands(let.op))


def made_in(block: Iterable[Stmt]) -> frozenset[str]:
    """Values that statements and those inside them make."""
    found: set[str] = set()
    for s in walk(tuple(block)):
        match s:
            case Let(name=name):
                found.add(name)
            case ForTiles(carries=carries) | ForRange(carries=carries):
                found |= {c.result for c in carries}
    return frozenset(found)


def _varies(facts: Facts, inside: frozenset[str], comparison: Comparison) -> bool:
    terms = (*comparison.left, *comparison.right)
    return any(t.kind == "value" and varies(facts, inside, t.name) for t in terms)


def _side(comparison: Comparison, axis: str) -> int:
    """The factor of the axis's start in left - right."""
    return _count(comparison.left, axis) - _count(comparison.right, axis)


def _count(terms: tuple[Term, ...], axis: str) -> int:
    return sum(t.sign for t in terms if t.kind != "value" and t.name == axis)
