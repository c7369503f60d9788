"""What a dot computes on the way: the chain that makes its first value, and the one behind it."""

from __future__ import annotations

from dataclasses import dataclass

from kdsl.ir.nodes import Block, Cast, Dot, Ew, Let
from kdsl.ir.walk import operands
from kdsl.passes.cpu.context import Context
from kdsl.passes.cpu.masks import always


@dataclass(frozen=True, slots=True)
class Chain:
    """`value` is what the dot leaves; `reads` are the operands of its chains from outside."""

    value: str
    reads: tuple[str, ...]


def absorb(cx: Context, block: Block) -> dict[str, Chain]:
    """The chains of each dot of a block; lets inside chains go to `cx.inside_dot`."""
    local = {s.name: s for s in block if isinstance(s, Let)}
    found = {}
    for s in block:
        if isinstance(s, Let) and isinstance(s.op, Dot) and len(s.type.axes) == 2:
            reads: list[str] = []
            if s.op.acc is not None:
                _first_value(cx, local, s, s.op.acc, reads)
            value = _last_value(cx, local, s, reads)
            found[s.name] = Chain(value, tuple(dict.fromkeys(reads)))
    return found


def _first_value(cx: Context, local: dict[str, Let], dot: Let, name: str, reads: list[str]) -> None:
    """`dot(a, b, acc = x * f)`: x * f is computed where the accumulators start."""
    let = local.get(name)
    absorbs = (
        let is not None and isinstance(let.op, (Ew, Cast)) and cx.facts.kind(name) == "item"
        and let.type.axes == dot.type.axes and len(cx.facts.users[name]) == 1
    )  # fmt: skip
    if let is None or not absorbs:
        reads.append(name)
        return
    cx.inside_dot.add(name)
    for a in operands(let.op):
        _first_value(cx, local, dot, a, reads)


def _last_value(cx: Context, local: dict[str, Let], dot: Let, reads: list[str]) -> str:
    """`dot(a, b) * scale + bias`: applied while the sums are still in registers."""
    value = dot.name
    behind = {dot.name}
    while True:
        user = cx.facts.sole_user(value)
        if not isinstance(user, Let) or user.name not in local:
            return value
        if not isinstance(user.op, (Ew, Cast)) or user.type.axes != dot.type.axes:
            return value
        if _is_mask(cx, user):
            return value
        others = [a for a in operands(user.op) if a != value]
        if any(_comes_from(cx, a, behind) for a in others):
            return value
        if not user.type.dtype.is_float or user.type.dtype.bits == 64:
            return value
        cx.inside_dot.add(user.name)
        reads += others
        value = user.name
        behind.add(value)


def _is_mask(cx: Context, let: Let) -> bool:
    """A mask is better applied by a sweep, which whole tiles skip."""
    match let.op:
        case Ew(fn="where", args=(cond, _, _)):
            return cx.facts.kind(cond) == "inline" and always(cx.facts, cond) is not None
    return False


def _comes_from(cx: Context, name: str, sources: set[str]) -> bool:
    """Whether a value depends on one of `sources` (all of one block)."""
    if name in sources:
        return True
    let = cx.facts.lets.get(name)
    if let is None:  # a result of a loop: after the dot only if the loop is
        return cx.facts.kind(name) == "carried" and name in cx.facts.results
    if cx.facts.level[name] < cx.facts.level[next(iter(sources))]:
        return False
    return any(_comes_from(cx, a, sources) for a in operands(let.op))
