"""`value.reshape(4, 8)`: the same elements in the same order, as other axes of fixed lengths."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from kdsl.dtypes import i64
from kdsl.errors import Span
from kdsl.frontend import elementwise
from kdsl.frontend.axes import At, placed
from kdsl.frontend.context import Context
from kdsl.frontend.extents import as_int
from kdsl.frontend.values import Operand, Val, describe


def reshape(ctx: Context, operand: Operand, lengths: list[int], span: Span) -> Val:
    """The value read again at the places where its elements were.

    Raises:
        KernelTypeError: an axis without a fixed length, another number of elements, a value that
            cannot be read or computed again.
    """
    val = ctx.val(operand)
    sizes = [_length(ctx, val, axis, operand) for axis in val.shape]
    lengths = _known(ctx, val, prod(sizes), lengths, span)
    shape: list[str | None] = []
    for n in lengths:
        taken = (*val.shape, *shape)
        shape.append(None if n == 1 else ctx.builder.whole_axis(n, taken))
    index = _position(ctx, shape, lengths, span)
    new = {a for a in shape if a}
    behind = prod(sizes)
    for axis, size in zip(val.shape, sizes, strict=True):
        behind //= size
        if axis is None:
            continue
        at = _apply(ctx, "floordiv", index, behind, span) if behind > 1 else index
        at = _apply(ctx, "mod", at, size, span)
        val = placed(ctx, val, axis, At(ctx.val(at, i64).name, ctx.builder.ordered(new)), span)
    return replace(val, shape=tuple(shape))


def _length(ctx: Context, val: Val, axis: str | None, operand: Operand) -> int:
    if axis is None:
        return 1
    found = ctx.builder.axis(axis)
    size = as_int(found.extent) if found.kind == "whole" else None
    if size is None or size < 1:
        raise ctx.type_error(
            f"the axis `{axis}` has no fixed length", operand.span, describe(val),
            "reshape is of axes whose lengths are numbers in the annotation or Static[int]",
        )  # fmt: skip
    return size


def _known(ctx: Context, val: Val, count: int, lengths: list[int], span: Span) -> list[int]:
    """The new lengths, the one that is -1 computed."""
    known = prod(n for n in lengths if n != -1)
    if lengths.count(-1) == 1 and known > 0 and count % known == 0:
        lengths = [count // known if n == -1 else n for n in lengths]
    if any(n < 1 for n in lengths) or prod(lengths) != count:
        raise ctx.type_error(
            f"{count} elements do not go into {tuple(lengths)}", span, describe(val),
            "the lengths multiply to the number of elements; one may be -1",
        )  # fmt: skip
    return lengths


def _position(ctx: Context, shape: list[str | None], lengths: list[int], span: Span) -> Operand:
    """Which element, counted from the first, each place of the new axes is."""
    result, behind = Operand(0, span), prod(lengths)
    for axis, n in zip(shape, lengths, strict=True):
        behind //= n
        if axis is not None:
            # each axis stands for itself: their shapes are settled by the caller
            index = replace(ctx.builder.iota(axis), shape=())
            step = _apply(ctx, "mul", Operand(index, span), behind, span)
            result = _sum(ctx, result, step, span)
    return result


def _apply(ctx: Context, fn: str, operand: Operand, number: int, span: Span) -> Operand:
    return Operand(elementwise.apply(ctx, fn, [operand, Operand(number, span)], span), span)


def _sum(ctx: Context, a: Operand, b: Operand, span: Span) -> Operand:
    return Operand(elementwise.apply(ctx, "add", [a, b], span), span)
