"""Comparisons of columns with numbers: what is of the row or of the call is computed once a row.

`m_start + row + size >= n_start + col + 8 * ci + ei` becomes `8 * ci + ei <= upto`, where `upto` is
a number of 32 bits. Compilers leave the long sum on both sides at each element.
"""

from __future__ import annotations

from kdsl.codegen.cuda.fragment import COLUMN, Fragments
from kdsl.ir.nodes import Bound
from kdsl.passes.cpu.masks import comparison
from kdsl.passes.cpu.plan import Term
from kdsl.passes.cuda.maps import Cols

_NAMES = {"<=": "upto", "<": "below", ">=": "least", ">": "above"}


class Limits:
    """Limits of one row's columns; they are declared where its step begins."""

    def __init__(self, fragments: Fragments) -> None:
        self.fragments, self.scope = fragments, fragments.scope
        self.known: dict[str, str] = {}

    def comparison(self, condition: str) -> str | None:
        """An affine comparison as one of the column; None where it is nothing of that kind."""
        found, axis = comparison(self.scope.facts, condition), self._column(condition)
        if found is None or axis is None:
            return None
        terms = [*((t, t.sign) for t in found.left), *((t, -t.sign) for t in found.right)]
        side = sum(sign for t, sign in terms if t.kind != "value" and t.name == axis)
        if side not in (-1, 1):
            return None
        rest = [(t, -side * sign) for t, sign in terms if t.kind == "value" or t.name != axis]
        op = found.op if side > 0 else found.op.replace(">", "<")
        return f"({COLUMN} {op} {self._limit(condition, axis, op, rest)})"

    def _column(self, condition: str) -> str | None:
        """The axis along columns of a value that has one."""
        maps = self.fragments.maps
        for axis in self.scope.facts.axes[condition]:
            if isinstance(maps.get((condition, axis)), Cols):
                return axis
        return None

    def _limit(self, condition: str, axis: str, op: str, terms: list[tuple[Term, int]]) -> str:
        """The name of a number to which the lane's columns are compared."""
        scope, frags = self.scope, self.fragments
        plus, minus, short = list[str](), list[str](), True
        start = scope.start(axis)
        for term, sign in terms:
            made = scope.facts.op(term.name) if term.kind == "value" else None
            if start and sign > 0 and made == Bound(axis, "stop"):
                text, start = scope.length(axis), ""
            elif term.kind == "value":
                text = scope.point(term.name)
                short &= text.isdigit()
            else:
                at = frags.position(condition, term.name)
                text = f"({scope.index_of(term.name, at)})"
            (plus if sign > 0 else minus).append(text)
        minus += [s for s in (start, frags.base(frags.maps[condition, axis])) if s not in ("", "0")]
        text = " - ".join([" + ".join(plus) or "0", *minus])
        if text not in self.known:
            name = scope.names.fresh(_NAMES[op], local=True)
            scope.declare(f"const int {name} = {text if short else f'near({text})'};")
            self.known[text] = name
        return self.known[text]
