"""Branches on run-time conditions, and values that two paths leave different."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kdsl.dims import DimExpr
from kdsl.dtypes import DType, boolean
from kdsl.errors import Span
from kdsl.frontend.axes import Shape, reaxis, same_length
from kdsl.frontend.builder import Scope
from kdsl.frontend.context import Context
from kdsl.frontend.elementwise import promotables
from kdsl.frontend.values import Operand, Undefined, Val, describe, is_number, is_valuelike
from kdsl.ir.nodes import Cast, Const, Ew, If, Let, Merge, Stmt
from kdsl.ir.types import Type
from kdsl.lang.ops import OPS
from kdsl.lang.promote import PromotionError, check_literal


@dataclass(frozen=True, slots=True)
class Joined:
    """The type that two values of one variable share."""

    dtype: DType
    weak: bool
    shape: tuple[str | None, ...]


class CannotJoin(Exception):
    """Two values that one variable cannot hold; the text says why."""


def join(ctx: Context, a: object, b: object, span: Span) -> Joined:
    """The common type of two values, where a Python number takes the other's dtype.

    Raises:
        CannotJoin: no values, or their dtypes or shapes differ.
    """
    if not is_valuelike(a) or not is_valuelike(b):
        raise CannotJoin(f"{describe(a)} and {describe(b)}")
    x, y = promotables(ctx, [Operand(a, span), Operand(b, span)])
    shapes = tuple(v.shape if isinstance(v, Val) else () for v in (a, b))
    if not _same_lengths(ctx, *shapes):
        raise CannotJoin(f"{describe(a)} and {describe(b)}")
    if x.weak and y.weak:
        return Joined(x.dtype if x.dtype.is_float else y.dtype, True, shapes[0])
    if x.weak != y.weak:
        weak, strong, number = (x, y, a) if x.weak else (y, x, b)
        if strong.dtype is boolean or (weak.dtype.is_float and not strong.dtype.is_float):
            raise CannotJoin(f"{describe(a)} and {describe(b)}")
        if is_number(number):
            try:
                check_literal(number, strong.dtype)  # type: ignore[arg-type]
            except PromotionError as err:
                raise CannotJoin(str(err)) from err
        return Joined(strong.dtype, False, shapes[0])
    if x.dtype != y.dtype:
        raise CannotJoin(f"{describe(a)} and {describe(b)}")
    return Joined(x.dtype, False, shapes[0])


def _same_lengths(ctx: Context, a: Shape, b: Shape) -> bool:
    if a == b:
        return True
    return len(a) == len(b) and all(
        x == y or (x is not None and y is not None and same_length(ctx, x, y))
        for x, y in zip(a, b, strict=True)
    )


def as_joined(ctx: Context, value: object, type_: Joined, span: Span, name: str = "") -> Val:
    """A value in its joined type, in the open scope."""
    val = ctx.val(Operand(value, span), type_.dtype)
    if name and is_number(value):
        val = ctx.builder.name_last(val, name)
    if val.shape != type_.shape:
        pairs = zip(val.shape, type_.shape, strict=True)
        val = reaxis(ctx, val, {a: b for a, b in pairs if a and b}, span)
    return Val(val.name, val.type, type_.shape, type_.weak)


def same(a: object, b: object) -> bool:
    """The very same value on both paths."""
    if a is b:
        return True
    if isinstance(a, Val) and isinstance(b, Val):
        return a.name == b.name and a.shape == b.shape
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if type(a) is not type(b):
        return False
    if isinstance(a, DimExpr):
        return a == b
    return is_number(a) and repr(a) == repr(b)


def in_scope(ctx: Context, run: Callable[[], object]) -> tuple[object, Scope]:
    """Runs `run` with statements going to a scope of their own."""
    scope = ctx.builder.open()
    try:
        result = run()
    finally:
        ctx.builder.scopes.pop()
    return result, scope


class Merger:
    """Builds an `If` from two filled scopes, merging values one by one."""

    def __init__(self, ctx: Context, cond: Val, then: Scope, other: Scope, span: Span) -> None:
        self.ctx, self.cond, self.then, self.other, self.span = ctx, cond, then, other, span
        self.merges: list[Merge] = []

    def value(self, a: object, b: object, name: str = "") -> object:
        """What a variable is after the branch. Raises CannotJoin."""
        if same(a, b):
            return a
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            return tuple(self.value(x, y, name) for x, y in zip(a, b, strict=True))
        type_ = join(self.ctx, a, b, self.span)
        builder = self.ctx.builder
        names = []
        for value, scope in ((a, self.then), (b, self.other)):
            builder.scopes.append(scope)
            names.append(as_joined(self.ctx, value, type_, self.span).name)
            builder.scopes.pop()
        merged = builder.unique(name or "t")
        ir_type = Type(type_.dtype, builder.ordered({x for x in type_.shape if x}))
        self.merges.append(Merge(merged, ir_type, *names, span=self.span))
        val = Val(merged, ir_type, type_.shape, type_.weak)
        builder.types[merged] = val
        return val

    def emit(self) -> None:
        """Appends the `If`, or its pieces where every path is only cheap arithmetic."""
        then, other = self.then.block(), self.other.block()
        builder = self.ctx.builder
        if self.merges and _is_cheap(then) and _is_cheap(other):
            builder.scope.body += [*then, *other]
            for m in self.merges:
                op = Ew("where", (self.cond.name, m.then, m.other))
                let = Let(m.name, m.type, op, span=self.span)
                builder.emit(let)
                builder.lets[m.name] = let
            return
        if then or other or self.merges:
            builder.emit(If(self.cond.name, then, other, tuple(self.merges), span=self.span))


def _is_cheap(block: tuple[Stmt, ...]) -> bool:
    """A few scalar operations that may run although the other path is taken."""
    return len(block) <= 6 and all(
        isinstance(s, Let)
        and s.type.is_scalar
        and (isinstance(s.op, (Const, Cast)) or (isinstance(s.op, Ew) and OPS[s.op.fn].cheap))
        for s in block
    )


def is_cheap_scope(scope: Scope) -> bool:
    return _is_cheap(scope.block())


def choose(
    ctx: Context, cond: Val, then: Callable[[], object], other: Callable[[], object], span: Span
) -> object:
    """`then() if cond else other()`: only the path that is taken runs.

    Raises:
        KernelTypeError: the two results have no common type.
    """
    a, scope_a = in_scope(ctx, then)
    b, scope_b = in_scope(ctx, other)
    merger = Merger(ctx, cond, scope_a, scope_b, span)
    try:
        result = merger.value(a, b)
    except CannotJoin as err:
        raise ctx.type_error(
            "both results of a run-time choice need one type", span, f"got {err}",
            "convert one with .astype, or fill a tile with kdsl.full",
        ) from err  # fmt: skip
    if not ctx.builder.in_phase and not (_is_cheap(scope_a.block()) and _is_cheap(scope_b.block())):
        raise ctx.syntax_error("this choice is too much for host code", span)
    merger.emit()
    if isinstance(result, Val) and not ctx.builder.in_phase:
        ctx.builder.mark_host(result.name)
    return result


def merge_names(
    ctx: Context, merger: Merger, then: dict[str, object], other: dict[str, object], span: Span
) -> dict[str, object]:
    """Names after a branch from the names at the end of its two paths."""
    after: dict[str, object] = {}
    for name in dict.fromkeys((*then, *other)):
        if name not in then or name not in other:
            holds = "holds" if name in then else "does not hold"
            why = f"it is assigned only where the condition on line {span.line} {holds}"
            after[name] = Undefined(why, span)
            continue
        a, b = then[name], other[name]
        if isinstance(a, Undefined) or isinstance(b, Undefined):
            after[name] = a if isinstance(a, Undefined) else b
            continue
        try:
            after[name] = merger.value(a, b, name)
        except CannotJoin as err:
            why = f"the branches on line {span.line} leave it {err}"
            after[name] = Undefined(why, span)
    return after
