"""Affine predicates over a tile: when does `where(predicate, y, c)` leave all of y as it is?"""

from __future__ import annotations

from typing import Literal

from kdsl.ir.nodes import Ew, Iota
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.plan import Comparison, Term


def always(facts: Facts, name: str) -> tuple[Comparison, ...] | None:
    """Comparisons of scalars that together say that the predicate holds for each element of the
    tile; None when the predicate is not a conjunction of affine comparisons."""
    match facts.op(name):
        case Ew(fn="and", args=(a, b)):
            left, right = always(facts, a), always(facts, b)
            return None if left is None or right is None else left + right
    found = comparison(facts, name)
    if found is None:
        return None
    least, greatest = _extreme(found.left, "first"), _extreme(found.right, "last")
    return (Comparison(found.op, least, greatest),)


def comparison(facts: Facts, name: str) -> Comparison | None:
    """An affine comparison of integers at one element, where a term of kind "first" is the index
    itself; None when it is nothing of that kind."""
    op: Literal[">=", ">"]
    match facts.op(name):
        case Ew(fn="ge" | "gt" as fn, args=(greater, less)):
            op = ">=" if fn == "ge" else ">"
        case Ew(fn="le" | "lt" as fn, args=(less, greater)):
            op = ">=" if fn == "le" else ">"
        case _:
            return None
    if not facts.types[greater].dtype.is_int:
        return None
    left, right = _affine(facts, greater, 1), _affine(facts, less, 1)
    return None if left is None or right is None else Comparison(op, left, right)


def _affine(facts: Facts, name: str, sign: Literal[1, -1]) -> tuple[Term, ...] | None:
    """Summands of an expression; an axis index is a term of kind "first" for now."""
    if facts.kind(name) == "scalar":
        return (Term(sign, "value", name),)
    match facts.op(name):
        case Iota(axis=axis):
            return (Term(sign, "first", axis),)
        case Ew(fn="add" | "sub" as fn, args=(a, b)):
            other: Literal[1, -1] = sign if fn == "add" else (-1 if sign == 1 else 1)
            left, right = _affine(facts, a, sign), _affine(facts, b, other)
            return None if left is None or right is None else left + right
    return None


def _extreme(terms: tuple[Term, ...], end: Literal["first", "last"]) -> tuple[Term, ...]:
    """The least ("first") or greatest ("last") value over the tile."""
    opposite: Literal["first", "last"] = "last" if end == "first" else "first"
    return tuple(
        t if t.kind == "value" else Term(t.sign, end if t.sign == 1 else opposite, t.name)
        for t in terms
    )
