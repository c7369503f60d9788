"""Affine predicates over a tile: when does `where(predicate, y, c)` leave all of y as it is?"""

from __future__ import annotations

from typing import Literal

from kdsl.ir.nodes import Ew, Iota
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.plan import Comparison, Term


def always(facts: Facts, name: str) -> tuple[Comparison, ...] | None:
    """Comparisons of scalars that together say that the predicate holds for each element of the
    tile; None when the predicate is not a conjunction of affine comparisons."""
    op = facts.op(name)
    match op:
        case Ew(fn="and", args=(a, b)):
            left, right = always(facts, a), always(facts, b)
            return None if left is None or right is None else left + right
        case Ew(fn="ge" | "gt" as fn, args=(a, b)):
            return _compare(facts, ">=" if fn == "ge" else ">", a, b)
        case Ew(fn="le" | "lt" as fn, args=(a, b)):
            return _compare(facts, ">=" if fn == "le" else ">", b, a)
    return None


def _compare(
    facts: Facts, op: Literal[">=", ">"], greater: str, less: str
) -> tuple[Comparison, ...] | None:
    if not facts.types[greater].dtype.is_int:
        return None
    a, b = _affine(facts, greater, 1), _affine(facts, less, 1)
    if a is None or b is None:
        return None
    return (Comparison(op, _extreme(a, "first"), _extreme(b, "last")),)


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
