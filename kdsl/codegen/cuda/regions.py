"""Print regions: row by row, loops over columns, reductions across the lanes of a quad."""

from __future__ import annotations

from kdsl.codegen.cpu.ops import REDUCERS, bare, compute_type
from kdsl.codegen.cpu.scope import Scope
from kdsl.codegen.cuda.element import Element
from kdsl.codegen.cuda.fragment import Fragments
from kdsl.codegen.cuda.limits import Limits
from kdsl.errors import InternalError
from kdsl.ir.nodes import Reduce
from kdsl.passes.cuda.tensor_plan import AlongColumns, Compute, Fold, Region


class Regions:
    """Prints into a scope; `masked` are the `where`s that clean turns skip."""

    def __init__(self, scope: Scope, fragments: Fragments) -> None:
        self.scope, self.fragments = scope, fragments
        self.masked: frozenset[str] = frozenset()

    def columns(self, values: tuple[str, ...]) -> None:
        scope = self.scope
        scope.mark([scope.facts.lets[v].span for v in values])
        for value in values:
            home = self.fragments.homes[value]
            fresh = home not in self.fragments.declared
            self.fragments.declare(home)
            (axis,) = scope.facts.axes[value]
            blocks = self.fragments.maps[value, axis].blocks
            if fresh:
                self.fragments.declared.discard(home)
            text = bare(Element(self.fragments, self.masked).expression(value))
            self.fragments.declared.add(home)
            scope.line(
                f"KDSL_UNROLL for (int ci = 0; ci < {blocks}; ci++) "
                f"KDSL_UNROLL for (int ei = 0; ei < 2; ei++) "
                f"{self.fragments.name_of(home)}[ci][ei] = {text};"
            )

    def region(self, step: Region) -> None:
        scope, frags = self.scope, self.fragments
        values = [
            a.reduction if isinstance(a, Fold) else a.value
            for part in step.steps
            for a in (part.actions if isinstance(part, AlongColumns) else (part,))
        ]
        scope.mark([scope.facts.lets[v].span for v in values])
        waiting = set[str]()
        for value in values:
            home = frags.homes.get(value)
            if home is not None and home not in frags.declared:
                self.fragments.declare(home)
                waiting.add(home)
        frags.declared -= waiting  # nothing is read from them before they are written
        blocks = self._row_blocks(step.axis, values)
        scope.line(f"KDSL_UNROLL for (int mi = 0; mi < {blocks}; mi++)")
        scope.open("KDSL_UNROLL for (int hi = 0; hi < 2; hi++)")
        scope.begin_step()  # limits are declared here
        element = Element(frags, self.masked, Limits(frags))
        late: list[str] = []
        for part in step.steps:
            if isinstance(part, Compute):
                scope.line(element.define(part.value))
                late.append(part.value)
            else:
                late += self._along(part, element, waiting)
        for value in late:
            home = frags.homes.get(value)
            if home is not None:
                scope.line(f"{self.fragments.name_of(home)}[mi][hi] = {element.local[value]};")
        scope.close()
        frags.declared |= waiting
        scope.names.end_step()

    def _row_blocks(self, axis: str, values: list[str]) -> int:
        for value in values:
            to = self.fragments.maps.get((value, axis))
            if to is not None:
                return to.blocks
        raise InternalError(f"print: nothing lies along `{axis}`")

    def _along(self, part: AlongColumns, element: Element, waiting: set[str]) -> list[str]:
        scope, frags = self.scope, self.fragments
        folds = [a for a in part.actions if isinstance(a, Fold)]
        first = part.actions[0]
        shaped = first.value if isinstance(first, Compute) else self._reduced(first)
        blocks = frags.maps[shaped, part.axis].blocks
        names: dict[str, str] = {}
        for f in folds:
            names[f.reduction] = scope.names.fresh(f.reduction, local=True)
            kind = compute_type(scope.facts.types[f.reduction].dtype)
            scope.line(f"{kind} {names[f.reduction]};")
        scope.line(f"KDSL_UNROLL for (int ci = 0; ci < {blocks}; ci++)")
        scope.open("KDSL_UNROLL for (int ei = 0; ei < 2; ei++)")
        inner = Element(frags, self.masked, element.limits)
        inner.local = dict(element.local)
        for action in part.actions:
            if isinstance(action, Fold):
                text = bare(inner.value(self._reduced(action)))
                fold = self._folder(action.reduction)
                scope.line(f"fold({fold}, {names[action.reduction]}, {text}, ci + ei == 0);")
                continue
            home = frags.homes.get(action.value)
            readers = scope.facts.users.get(action.value, [])
            if home is None or len(readers) > 1 or action.value in self.masked:
                scope.line(inner.define(action.value))
                text = inner.local[action.value]
            else:
                text = bare(inner.expression(action.value))
            if home is not None:
                scope.line(f"{self.fragments.name_of(home)}[mi][ci][2 * hi + ei] = {text};")
        scope.close()
        for action in part.actions:
            # The next loop over columns reads from the array what this one wrote.
            if isinstance(action, Compute) and action.value in frags.homes:
                frags.declared.add(frags.homes[action.value])
        for f in folds:
            name = names[f.reduction]
            if f.whole:
                scope.line(f"{name} = across_quad({self._folder(f.reduction)}, {name});")
            element.local[f.reduction] = name
        return [f.reduction for f in folds]

    def _reduced(self, fold: Fold) -> str:
        op = self.scope.facts.op(fold.reduction)
        assert isinstance(op, Reduce)
        return op.arg

    def _folder(self, reduction: str) -> str:
        op = self.scope.facts.op(reduction)
        assert isinstance(op, Reduce)
        return f"{REDUCERS[op.fn]}{{}}"
