"""Integer polynomials over named atoms: the normal form of index arithmetic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

Monomial = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Poly:
    """A sum of products: each monomial (atoms in order) with its coefficient, none of them 0."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Poly | int) -> Poly:
        sums = dict(self.terms)
        for monomial, factor in _poly(other).terms:
            sums[monomial] = sums.get(monomial, 0) + factor
        return _of(sums)

    def __neg__(self) -> Poly:
        return Poly(tuple((m, -factor) for m, factor in self.terms))

    def __sub__(self, other: Poly | int) -> Poly:
        return self + -_poly(other)

    def __rsub__(self, other: int) -> Poly:
        return _poly(other) - self

    def __mul__(self, other: Poly | int) -> Poly:
        sums: dict[Monomial, int] = {}
        for a, x in self.terms:
            for b, y in _poly(other).terms:
                monomial = tuple(sorted(a + b))
                sums[monomial] = sums.get(monomial, 0) + x * y
        return _of(sums)

    @property
    def constant(self) -> int | None:
        """The number that this is, if it is one."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def atoms(self) -> Iterator[str]:
        """Atoms, each as often as it stands in a monomial."""
        for monomial, _ in self.terms:
            yield from monomial

    @property
    def is_plain(self) -> bool:
        """Whether every atom is a dim: one value in a call, and not negative."""
        return not any(map(is_opaque, self.atoms()))

    def split(self, atom: str) -> tuple[Poly, Poly] | None:
        """(a, b) with self = a * atom + b, neither of them with the atom; None: not linear."""
        inside: dict[Monomial, int] = {}
        outside: dict[Monomial, int] = {}
        for monomial, factor in self.terms:
            count = monomial.count(atom)
            if count > 1:
                return None
            if count:
                inside[tuple(a for a in monomial if a != atom)] = factor
            else:
                outside[monomial] = factor
        return _of(inside), _of(outside)

    def __str__(self) -> str:
        parts = [
            " * ".join(([] if factor == 1 and m else [str(factor)]) + list(m))
            for m, factor in self.terms
        ]
        return " + ".join(parts) or "0"


def number(value: int) -> Poly:
    return _of({(): value})


def atom(name: str) -> Poly:
    return Poly((((name,), 1),))


def is_opaque(atom: str) -> bool:
    """Whether an atom is no dim, so that it may be negative."""
    return " " in atom


def _poly(value: Poly | int) -> Poly:
    return number(value) if isinstance(value, int) else value


def _of(sums: Mapping[Monomial, int]) -> Poly:
    return Poly(tuple(sorted((m, factor) for m, factor in sums.items() if factor)))
