"""Sums that stay apart in the four lanes of a quad until somebody needs them whole."""

from __future__ import annotations

from kdsl.ir.literals import literal
from kdsl.ir.nodes import Const, Ew, ForRange, ForTiles, Let, Reduce, Stmt
from kdsl.ir.walk import walk
from kdsl.passes.cpu.facts import Facts


def partial_sums(facts: Facts) -> frozenset[str]:
    """Values that are sums over lanes not yet done: the greatest set in which every reader only
    adds, multiplies by what the lanes share, or carries on. A loop's result is finished behind the
    loop and is not among them."""
    carries = {
        c.name: c
        for s in walk(facts.phase.body)
        if isinstance(s, ForTiles | ForRange)
        for c in s.carries
    }
    found = {n for n, let in facts.lets.items() if _may(let)} | {
        n for n, c in carries.items() if len(c.type.axes) == 1 and _is_zero(facts, c.init)
    }
    while True:
        wrong = {n for n in found if not _stays(facts, found, n)}
        if not wrong:
            return frozenset(found)
        found -= wrong


def _may(let: Let) -> bool:
    match let.op:
        case Reduce(fn="sum"):
            return len(let.type.axes) == 1 and let.type.dtype.name == "f32"
        case Ew(fn="add" | "mul" | "fma"):
            return len(let.type.axes) == 1 and let.type.dtype.name == "f32"
    return False


def _is_zero(facts: Facts, name: str) -> bool:
    let = facts.lets.get(name)
    return (
        let is not None and isinstance(let.op, Const) and literal(let.op.text, let.type.dtype) == 0
    )


def _stays(facts: Facts, found: set[str], name: str) -> bool:
    let = facts.lets.get(name)
    if let is not None and isinstance(let.op, Ew):
        apart = [a in found for a in let.op.args]
        match let.op.fn:
            case "add":
                right = all(apart)
            case "mul":
                right = sum(apart) == 1
            case _:
                right = apart[2] and sum(apart[:2]) == 1
        if not right:
            return False
    carry = facts.carries.get(name)
    if carry is not None and carry.name == name and carry.next not in found:
        return False
    return all(_reads_apart(found, name, s) for s in facts.users.get(name, []))


def _reads_apart(found: set[str], name: str, user: Stmt) -> bool:
    match user:
        case ForTiles(carries=carries) | ForRange(carries=carries):
            if any(c.init == name for c in carries):
                return False
            return all(c.name in found for c in carries if c.next == name)
        case Let():
            return user.name in found
    return False
