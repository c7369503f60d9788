"""Index arithmetic of a function as polynomials, and what is known of their size.

Atoms are dims (`N`), loop variables (`var i`), places of axes (`start m`, `stop m`, `at m`) and
values that are no polynomial: quotients and the like have a rule here, others are opaque.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Literal

from kdsl.dims import Dim, DimOp, Extent
from kdsl.dtypes import i64
from kdsl.ir import nodes as ir
from kdsl.ir.walk import lets, statements, value_types
from kdsl.passes.poly import Poly, atom, is_opaque, number

#: How deep a proof may nest: the kernels seen need 5.
_DEPTH = 12
#: How many facts a proof may add up.
_FACTS = 4


@dataclass(frozen=True, slots=True)
class Between:
    """An atom in [low, high]."""

    low: Poly
    high: Poly


@dataclass(frozen=True, slots=True)
class Division:
    """An atom that is the floor quotient of a by b, or the remainder; both are 0 where b is 0."""

    a: Poly
    b: Poly
    remainder: bool


@dataclass(frozen=True, slots=True)
class OneOf:
    """An atom that is one of two polynomials, the smaller or larger one when `pick` says so."""

    a: Poly
    b: Poly
    pick: Literal["min", "max", "any"]


Rule = Between | Division | OneOf


class Indices:
    """Polynomials of a function's values, and proofs that one is not negative."""

    def __init__(self, func: ir.Func) -> None:
        self.func, self.lets, self.types = func, lets(func), value_types(func)
        self.axes = {a.name: a for a in func.axes}
        self.loops = {s.axis: s for s in statements(func) if isinstance(s, ir.ForTiles)}
        self.rules: dict[str, Rule] = {}
        self.zero: set[str] = set()
        #: Polynomials that are at least 0 in a call.
        self.facts: list[Poly] = []
        self.poly, self.mentions = cache(self._poly), cache(self._mentions)
        for s in func.host:
            if isinstance(s, ir.Require):
                self._learn(s.cond)
        self._variables()

    # ---- values as polynomials

    def _poly(self, name: str) -> Poly:
        """The polynomial that an i64 value is (at each place, if it has axes)."""
        let = self.lets.get(name)
        if let is not None and isinstance(let.op, ir.Guard):
            size = self.func.tensor(let.op.tensor).shape[let.op.dim]
            return self._atom(name, Between(number(0), self.extent(size) - 1))
        if let is None or let.type.dtype != i64:
            return self._widened(name) or atom(f"value {name}")
        match let.op:
            case ir.Const(text=text):
                return number(int(text, 0))
            case ir.DimSize(extent=extent):
                return self.extent(extent)
            case ir.LoopVar(var=var):
                return atom(f"var {var}")
            case ir.Iota(axis=axis):
                return self.at(axis)
            case ir.Bound(axis=axis, which=which):
                start, stop = atom(f"start {axis}"), atom(f"stop {axis}")
                return {"start": start, "stop": stop, "len": stop - start}[which]
            case ir.Ew(fn="neg", args=(a,)):
                return -self.poly(a)
            case ir.Ew(fn="where", args=(_, a, b)):
                return self._atom(name, OneOf(self.poly(a), self.poly(b), "any"))
            case ir.Ew(fn=fn, args=(a, b)):
                return self._binary(name, fn, self.poly(a), self.poly(b))
        return self._widened(name) or atom(f"value {name}")

    def _widened(self, name: str) -> Poly | None:
        """An argument, a constant of any integer type, or what a widening cast says again."""
        let = self.lets.get(name)
        match let and let.op:
            case ir.Arg(param=param):
                return atom(f"arg {param}")
            case ir.Cast(arg=arg) if arg in self.lets:
                source = self.lets[arg].type.dtype
                if source.is_int and source.bits < 64:
                    return self.poly(arg)
            case ir.Const(text=text) if let and let.type.dtype.is_int:
                return number(int(text, 0))
            case ir.Load() if let and let.type.dtype.kind == "uint":
                most = number((1 << let.type.dtype.bits) - 1)
                return self._atom(name, Between(number(0), most))
        return None

    def _binary(self, name: str, fn: str, a: Poly, b: Poly) -> Poly:
        match fn:
            case "add":
                return a + b
            case "sub":
                return a - b
            case "mul":
                return self._reduced(a * b)
            case "floordiv" | "mod":
                return self._division(a, b, remainder=fn == "mod")
            case "minimum":
                return self._atom(name, OneOf(a, b, "min"))
            case "maximum":
                return self._atom(name, OneOf(a, b, "max"))
        return atom(f"value {name}")

    def extent(self, extent: Extent) -> Poly:
        match extent:
            case Dim():
                return atom(extent.name)
            case DimOp(op=op, a=a, b=b):
                names = {"+": "add", "-": "sub", "*": "mul", "//": "floordiv", "%": "mod"}
                return self._binary("", names[op], self.extent(a), self.extent(b))
            case int():
                return number(extent)
        raise TypeError(f"extent: not an extent: {extent!r}")

    def at(self, axis: str) -> Poly:
        """The index at a place of an axis."""
        return atom(f"at {axis}")

    def index(self, index: ir.Index) -> Poly:
        if isinstance(index, ir.Point):
            return self.poly(index.value)
        along = self.at(index.axis) * index.step
        return along if index.offset is None else along + self.poly(index.offset)

    def _atom(self, name: str, rule: Rule) -> Poly:
        self.rules[f"value {name}"] = rule
        return atom(f"value {name}")

    def _division(self, a: Poly, b: Poly, remainder: bool) -> Poly:
        x, y = a.constant, b.constant
        if x is not None and y:
            return number(x % y if remainder else x // y)
        name = f"({a}) {'%' if remainder else '//'} ({b})"
        self.rules[name] = Division(a, b, remainder)
        return number(0) if name in self.zero else atom(name)

    def _reduced(self, p: Poly) -> Poly:
        """With b * (a // b) as a, wherever a % b is known to be 0."""
        for name, rule in self.rules.items():
            if not isinstance(rule, Division) or rule.remainder:
                continue
            parts = p.split(name)
            if f"({rule.a}) % ({rule.b})" in self.zero and parts and len(rule.b.terms) == 1:
                ((inside, factor),) = rule.b.terms
                for monomial, times in parts[0].terms:
                    if factor == 1 and all(monomial.count(x) >= inside.count(x) for x in inside):
                        rest = list(monomial)
                        for x in inside:
                            rest.remove(x)
                        p = p + (rule.a - rule.b * atom(name)) * Poly(((tuple(rest), times),))
        return p

    # ---- what is known

    def _learn(self, cond: str) -> None:
        """Facts from a condition of the call."""
        match self.lets[cond].op:
            case ir.Ew(fn="and", args=(a, b)):
                self._learn(a)
                self._learn(b)
            case ir.Ew(fn=fn, args=(a, b)) if self.lets[a].type.dtype.is_int:
                more = self.poly(a) - self.poly(b)
                match fn:
                    case "ge" | "gt":
                        self.facts.append(more - (fn == "gt"))
                    case "le" | "lt":
                        self.facts.append(-more - (fn == "lt"))
                    case "eq":
                        self.facts += [more, -more]
                        ((inside, factor), *others) = more.terms or (((), 0),)
                        if factor == 1 and len(inside) == 1 and not others:
                            self.zero.add(inside[0])

    def _variables(self) -> None:
        for phase in self.func.phases:
            for each in phase.vars:
                size = self.extent(each.extent)
                if not each.is_tile:
                    self.rules[f"var {each.var}"] = Between(number(0), size - 1)
        for name, axis in self.axes.items():
            size = self.extent(axis.extent)
            self.rules[f"at {name}"] = Between(number(0), size - 1)
            self.rules[f"start {name}"] = Between(number(0), size - 1)
            self.rules[f"stop {name}"] = Between(number(1), size)
        for s in statements(self.func):
            if isinstance(s, ir.ForRange):
                a, b = self.poly(s.start), self.poly(s.stop)
                bounds = Between(a, b - 1) if s.step > 0 else Between(b + 1, a)
                self.rules[f"var {s.var}"] = bounds

    # ---- proofs

    def holds(self, p: Poly, facts: tuple[Poly, ...] = (), depth: int = _DEPTH) -> bool:
        """Whether p >= 0 follows from what is known and from `facts`, each of them >= 0 too."""
        if p.constant is not None:
            return p.constant >= 0
        if depth == 0:
            return False
        for name in self._order(p):
            parts = p.split(name)
            if parts is not None:
                return self._without(name, *parts, facts, depth - 1)
        if _sign(p) == 1:
            return True
        # a fact has to make up for the first term that is negative or of unknown sign
        short, factor = next((m, x) for m, x in p.terms if x < 0 or any(map(is_opaque, m)))
        return any(
            self.holds(p - f, facts[:i] + facts[i + 1 :], min(depth - 1, _FACTS))
            for i, f in enumerate(facts)
            if dict(f.terms).get(short, 0) * factor > 0
        )

    def _order(self, p: Poly) -> list[str]:
        """Atoms with a rule; one whose rule speaks of another comes before it."""
        names = [n for n in dict.fromkeys(p.atoms()) if n in self.rules]
        return sorted(names, key=lambda n: sum(n in self.mentions(other) for other in names))

    def _mentions(self, name: str) -> frozenset[str]:
        """Atoms in the rule of an atom, and in the rules of those."""
        match self.rules.get(name):
            case Between(low=a, high=b) | Division(a=a, b=b) | OneOf(a=a, b=b):
                inside = {*a.atoms(), *b.atoms()}
                return frozenset(inside.union(*map(self.mentions, inside)))
        return frozenset()

    def _without(
        self, name: str, times: Poly, rest: Poly, facts: tuple[Poly, ...], depth: int
    ) -> bool:
        """Whether times * atom + rest >= 0, by the atom's rule."""

        def put(value: Poly) -> bool:
            return self.holds(self._reduced(times * value) + rest, facts, depth)

        rule, sign = self.rules[name], _sign(times)
        match rule:
            case OneOf(a=a, b=b, pick=pick):
                either = sign and (pick, sign) in (("min", -1), ("max", 1))
                return put(a) or put(b) if either else put(a) and put(b)
            case Between(low=low, high=high):
                return bool(sign) and put(low if sign > 0 else high)
            case Division():
                return self._without_division(rule, times, rest, facts, depth)

    def _without_division(
        self, rule: Division, times: Poly, rest: Poly, facts: tuple[Poly, ...], depth: int
    ) -> bool:
        def known(p: Poly) -> bool:
            return self.holds(p, facts, depth)

        a, b, sign = rule.a, rule.b, _sign(times)
        positive = known(b - 1)
        if not sign or not (positive or (known(a) and known(b))):
            return False
        if sign > 0 and (rule.remainder or known(a)):
            return known(rest)
        if rule.remainder:
            return known(self._reduced(times * (b - positive)) + rest)
        k = times.constant
        if k is None:
            return False
        if sign < 0:  # floor(a / b) is an integer below (rest + 1) / -k
            return known(self._reduced(b * (rest + 1)) + a * k - 1)
        return positive and known(self._reduced(b * rest) + (a - b + 1) * k)


def _sign(p: Poly) -> int:
    """1 if no term is negative, -1 if none is positive (dims are not negative), 0 otherwise."""
    if not p.is_plain:
        return 0
    if all(factor > 0 for _, factor in p.terms):
        return 1
    return -1 if all(factor < 0 for _, factor in p.terms) else 0
