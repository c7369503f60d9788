"""One function being run by the lowering: its names, and what they mean."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field

from kdsl.dims import DimExpr, Extent, dim_names
from kdsl.dtypes import DTypeVar
from kdsl.errors import Span
from kdsl.frontend.context import Context
from kdsl.frontend.extents import with_sizes
from kdsl.frontend.scope import Absent, EmptyCell, known_names, local_names, lookup
from kdsl.frontend.source import FunctionSource
from kdsl.frontend.values import ScalarRef, Undefined


@dataclass(slots=True)
class Frame:
    """Names of a running function.

    Attributes:
        names: values of local names.
        around: names of the function that this one is defined in, for inner functions.
        loops: how many loops of this function are open.
    """

    source: FunctionSource
    names: dict[str, object]
    around: dict[str, object] = field(default_factory=dict)
    loops: int = 0
    is_kernel: bool = False
    locals: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        self.locals = frozenset(local_names(self.source.node))

    def look(self, ctx: Context, name: str, span: Span) -> object:
        """The value of a name. Raises KernelTypeError when it has none."""
        if name in self.names:
            value = self.names[name]
            if isinstance(value, Undefined):
                raise ctx.undefined(name, value, span)
            if isinstance(value, ScalarRef):
                return ctx.builder.argument(value.name, value.dtype)
            return value
        if name in self.locals:
            raise ctx.type_error(
                f"`{name}` has no value yet", span, "it gets one further down",
                f"a name that a function assigns is local to it: give `{name}` a value before",
            )  # fmt: skip
        if name in self.around:
            value = self.around[name]
            if isinstance(value, Undefined):
                raise ctx.undefined(name, value, span)
            if isinstance(value, ScalarRef):
                return ctx.builder.argument(value.name, value.dtype)
            return value
        return self._outside(ctx, name, span)

    def _outside(self, ctx: Context, name: str, span: Span) -> object:
        fn = self.source.function
        try:
            return known(ctx, lookup(fn, name), span)
        except EmptyCell:
            raise ctx.type_error(
                f"`{name}` has no value yet", span, "the enclosing function assigns it later",
                "assign it before the kernel is first called",
            ) from None  # fmt: skip
        except Absent:
            names = (*self.locals, *self.around, *known_names(fn))
            close = difflib.get_close_matches(name, names, 1)
            hint = f"did you mean `{close[0]}`?" if close else ""
            raise ctx.type_error(f"`{name}` is not defined", span, "", hint) from None


def known(ctx: Context, value: object, span: Span) -> object:
    """An object of the author's module as this specialisation sees it: dtype variables and dims
    with one value are that value. Raises KernelTypeError for a dim that nothing binds."""
    if isinstance(value, DTypeVar):
        return ctx.resolve(value)
    if isinstance(value, DimExpr):
        for name in dim_names(value):
            if name not in ctx.kernel.signature.dims and name not in ctx.statics:
                raise ctx.type_error(
                    f"nothing binds the dim `{name}`", span,
                    f"no parameter of `{ctx.kernel.name}` has `{name}` in its type",
                    f"give an input an axis that is just `{name}`, or add a parameter "
                    f"`{name}: Static[int]` or `{name}: i64`",
                )  # fmt: skip
        return substitute(ctx, value)
    return value


def substitute(ctx: Context, extent: Extent) -> Extent:
    """An extent with the dims that a static parameter binds as numbers."""
    return with_sizes(extent, ctx.statics)
