"""`sort`, `argsort` and `topk`: where each element comes is how many come before it.

Every element of an axis meets every other one, so this is for axes of up to some hundred elements.
"""

from __future__ import annotations

from kdsl.dtypes import boolean, i64
from kdsl.errors import Span
from kdsl.frontend import tiles
from kdsl.frontend.axes import reaxis
from kdsl.frontend.context import Context
from kdsl.frontend.extents import as_int
from kdsl.frontend.values import Operand, Val, describe
from kdsl.ir.nodes import Const, DimSize, Ew, Let, Reduce, Require
from kdsl.ir.types import Type
from kdsl.lang.promote import extremum, lowest


def sort(ctx: Context, fn: str, operand: Operand, axis: object, span: Span) -> Val:
    """The elements along an axis from the smallest to the largest, or where they were: `argsort`.
    Equal ones keep their order, NaN comes last."""
    val, _, name = _along(ctx, fn, operand, axis, span)
    if name is None:
        return val if fn == "sort" else _zero(ctx, val, span)
    other = ctx.builder.whole_axis(ctx.builder.axis(name).extent, val.shape)
    far = reaxis(ctx, val, {name: other}, span)
    rank = _rank(ctx, far, val, other, name, "lt", span)
    here = ctx.builder.iota(name)
    found = far if fn == "sort" else ctx.builder.iota(other)
    shape = val.shape
    return _pick(ctx, rank, here, found, other, shape, span)


def topk(ctx: Context, operand: Operand, k: int, axis: object, span: Span) -> tuple[Val, Val]:
    """The k largest elements along an axis in order, and where they are. Of equal ones the first
    comes first; NaN is above all numbers."""
    val, place, name = _along(ctx, "topk", operand, axis, span)
    extent = 1 if name is None else ctx.builder.axis(name).extent
    size = as_int(extent)
    if k < 1 or (size is not None and k > size):
        raise ctx.type_error(
            f"`topk` of {k} elements", span, f"the axis has {extent}", "k is from 1 to its length"
        )
    if name is None:
        return val, _zero(ctx, val, span)
    if size is None:
        _require_size(ctx, name, k, span)
    first = ctx.builder.whole_axis(k, val.shape) if k > 1 else None
    other = ctx.builder.whole_axis(extent, (*val.shape, first))
    near = reaxis(ctx, val, {name: other}, span)  # what is counted: all of the axis
    rank = _rank(ctx, val, near, name, other, "gt", span)
    zero = ctx.const(0, i64, span)
    here = zero if first is None else ctx.builder.iota(first)
    shape = (*val.shape[:place], first, *val.shape[place + 1 :])
    index = ctx.builder.iota(name)
    values = _pick(ctx, rank, here, val, name, shape, span)
    return values, _pick(ctx, rank, here, index, name, shape, span)


def _along(
    ctx: Context, fn: str, operand: Operand, axis: object, span: Span
) -> tuple[Val, int, str | None]:
    """The value as it computes, the place of its axis and the axis."""
    val = ctx.val(operand)
    if val.dtype is boolean or (val.weak and val.is_scalar):
        raise ctx.type_error(f"`{fn}` is of tiles of numbers", operand.span, describe(val))
    places = tiles.axes_of(ctx, val, -1 if axis is None and val.shape else axis, operand, span)
    if len(places) != 1:
        raise ctx.type_error(f"`{fn}` needs one axis", span, describe(val), "say which: axis=...")
    val = ctx.cast(val, extremum(val.promotable).compute, operand.span)
    name = val.shape[places[0]]
    if name is not None and ctx.builder.axis(name).kind == "tile":
        raise ctx.type_error(
            f"`{fn}` of the tile `{name}`, whose length is not known", operand.span,
            describe(val), "take a whole axis: `x[:]`, or slices of known size",
        )  # fmt: skip
    return val, places[0], name


def _rank(
    ctx: Context, val: Val, others: Val, axis: str, other: str, before: str, span: Span
) -> Val:
    """How many of `others`, along its axis `other`, come before each element of `val`."""

    def ew(fn: str, *vals: Val) -> Val:
        axes = {a for v in vals for a in v.type.axes}
        dtype = boolean if fn not in ("add",) else vals[0].dtype
        return ctx.builder.let(Ew(fn, tuple(v.name for v in vals)), dtype, span=span, axes=axes)

    first = ew(before, others, val)
    same = ew("eq", others, val)
    if val.dtype.is_float:
        mine, theirs = ew("ne", val, val), ew("ne", others, others)
        beyond = (theirs, ew("not", mine)) if before == "gt" else (ew("not", theirs), mine)
        first = ew("or", first, ew("and", *beyond))
        same = ew("or", same, ew("and", mine, theirs))
    earlier = ew("lt", ctx.builder.iota(other), ctx.builder.iota(axis))
    comes = ew("or", first, ew("and", same, earlier))
    count = ctx.cast(comes, i64, span)
    axes = set(count.type.axes) - {other}
    return ctx.builder.let(Reduce("sum", count.name, other), i64, span=span, axes=axes)


def _pick(
    ctx: Context, rank: Val, here: Val, val: Val, axis: str, shape: tuple[str | None, ...],
    span: Span,
) -> Val:  # fmt: skip
    """The one element of `val` along `axis` whose rank is `here`."""
    let = ctx.builder.let
    fits = {*rank.type.axes, *here.type.axes}
    hit = let(Ew("eq", (rank.name, here.name)), boolean, span=span, axes=fits)
    below = "-1" if val.weak else lowest(val.dtype)  # an index is weak
    least = let(Const(below), val.dtype, span=span)
    axes = {*fits, *val.type.axes}
    one = let(Ew("where", (hit.name, val.name, least.name)), val.dtype, span=span, axes=axes)
    return let(Reduce("max", one.name, axis), val.dtype, shape, span=span, axes=axes - {axis})


def _zero(ctx: Context, val: Val, span: Span) -> Val:
    zero = ctx.const(0, i64, span)
    return Val(zero.name, zero.type, val.shape)


def _require_size(ctx: Context, axis: str, k: int, span: Span) -> None:
    """The call is told where there are not as many elements."""
    builder, extent = ctx.builder, ctx.builder.axis(axis).extent
    text = f"{extent} >= {k}"
    if any(isinstance(s, Require) and s.text == text for s in builder.host.body):
        return
    names = [builder.unique(n) for n in ("size", "least", "enough")]
    builder.host.body += [
        Let(names[0], Type(i64), DimSize(extent), span=span),
        Let(names[1], Type(i64), Const(str(k)), span=span),
        Let(names[2], Type(boolean), Ew("ge", (names[0], names[1])), span=span),
        Require(names[2], text, span=span),
    ]
