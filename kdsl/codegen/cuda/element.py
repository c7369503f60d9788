"""Expressions of one element of a fragment: a place in registers, its row and its column."""

from __future__ import annotations

from kdsl.codegen.cpu.ops import bare, compute_type, convert, literal, spell
from kdsl.codegen.cuda.fragment import Fragments
from kdsl.codegen.cuda.limits import Limits
from kdsl.dtypes import DType
from kdsl.errors import InternalError
from kdsl.ir.nodes import Cast, Const, Ew, Iota

#: f32 operations that the special function unit has, a few ulp off.
FAST = frozenset("exp exp2 log log2 div sigmoid tanh".split())


class Element:
    """Prints expressions of one element; values of this row or column are constants of it.

    `masked` are the `where`s that clean turns skip; `limits` are those of the element's row.
    """

    def __init__(
        self, fragments: Fragments, masked: frozenset[str], limits: Limits | None = None
    ) -> None:
        self.fragments, self.scope = fragments, fragments.scope
        self.masked, self.limits = masked, limits
        self.exact = fragments.plan.func.strict
        self.local: dict[str, str] = {}

    def dtype(self, value: str) -> DType:
        return self.scope.facts.types[value].dtype

    def value(self, value: str) -> str:
        facts = self.scope.facts
        value = facts.unguarded(value)
        if value in self.local:
            return self.local[value]
        if not facts.axes[value]:
            return self.scope.point(value)
        array = self.fragments.array(value)
        if array is not None:
            return array + self.fragments.index(value)
        return self.expression(value)

    def expression(self, value: str) -> str:
        """How a value is made here."""
        let = self.scope.facts.lets.get(value)
        if let is None:
            raise InternalError(f"print: `{value}` is in no register")
        match let.op:
            case Const(text=text):
                return literal(text, let.type.dtype)
            case Iota(axis=axis):
                at = self.fragments.position(value, axis)
                return f"(i64)({self.scope.index_of(axis, at)})"  # an i64 like any index
            case Cast(arg=arg):
                return convert(self.value(arg), self.dtype(arg), let.type.dtype, vector=False)
            case Ew(fn="where", args=(condition, x, other)):
                if value in self.masked:
                    test = bare(self.value(condition))
                    return f"(!masked || {test} ? {self.value(x)} : {self.value(other)})"
                texts = [self.value(a) for a in (condition, x, other)]
                return spell("where", texts, self.dtype(x), vector=False)  # without a branch
            case Ew(fn=fn, args=args):
                limited = self.limits and self.limits.comparison(value)
                if limited:
                    return limited
                texts = [self.value(a) for a in args]
                dtype = self.dtype(args[-1])
                if fn in FAST and dtype.name == "f32" and not self.exact:
                    return f"fast::{fn}({', '.join(map(bare, texts))})"
                return spell(fn, texts, dtype, vector=False)
        raise InternalError(f"print: `{value}` cannot be computed here", repr(let.op))

    def define(self, value: str) -> str:
        """A line that gives the value a name here."""
        text = bare(self.expression(value))
        name = self.scope.names.fresh(value, local=True)
        self.local[value] = name
        return f"const {compute_type(self.dtype(value))} {name} = {text};"
