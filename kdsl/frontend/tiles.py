"""Functions and methods that make or reduce values: zeros, dot, sum, astype."""

from __future__ import annotations

from collections.abc import Sequence

from kdsl.dims import DimExpr, Extent
from kdsl.dtypes import DType, boolean, f32, f64, i64
from kdsl.errors import Span
from kdsl.frontend import elementwise
from kdsl.frontend.axes import Shape, reaxis
from kdsl.frontend.context import Context, literal
from kdsl.frontend.extents import same_extent
from kdsl.frontend.values import Operand, TileRef, Val, describe, is_number
from kdsl.ir.nodes import Const, Dot, Reduce, Scan
from kdsl.lang import promote
from kdsl.lang.ops import REDUCTIONS, SCANS
from kdsl.lang.promote import PromotionError


def full(ctx: Context, shape: Sequence[Operand], number: Operand, dtype: DType, span: Span) -> Val:
    """A value that is the same everywhere."""
    axes: list[str | None] = []
    for item in shape:
        axes.append(_axis(ctx, item, axes))
    value = ctx.value(number)
    if is_number(value):
        ctx.check_literal(value, dtype, number.span)  # type: ignore[arg-type]
        text = literal(value, dtype)  # type: ignore[arg-type]
        return ctx.builder.let(Const(text), dtype, tuple(axes), span=span)
    val = ctx.val(number, dtype)
    if not val.is_scalar:
        raise ctx.type_error("`full` takes one number", number.span, describe(val))
    zero = ctx.builder.let(Const(literal(0, dtype)), dtype, tuple(axes), span=span)
    choose = [Operand(True, span), Operand(val, number.span), Operand(zero, span)]
    return _fill(ctx, choose, span)


def _fill(ctx: Context, choose: list[Operand], span: Span) -> Val:
    condition = ctx.const(True, boolean, span)
    choose[0] = Operand(condition, span)
    result = elementwise.apply(ctx, "where", choose, span)
    assert isinstance(result, Val)
    return result


def _axis(ctx: Context, item: Operand, taken: Sequence[str | None]) -> str | None:
    match item.value:
        case TileRef(axis=axis):
            if axis in taken:
                raise ctx.type_error(
                    f"the tile `{axis}` would be two axes of one value", item.span,
                    help="loop over a second tile for the second axis",
                )  # fmt: skip
            return axis
        case bool():
            pass
        case int(1):
            return None
        case int() | DimExpr():
            extent: Extent = item.value
            if isinstance(extent, int) and extent < 0:
                raise ctx.type_error("a size cannot be negative", item.span, f"{extent}")
            return ctx.builder.whole_axis(extent, tuple(taken))
    raise ctx.type_error(
        "a shape is made of tiles, dims and integers", item.span, describe(item.value)
    )


def arange(ctx: Context, size: Operand) -> Val:
    """0, 1, ... over a whole axis, a weak i64."""
    axis = _axis(ctx, size, ())
    if axis is None:
        raise ctx.type_error("`arange(1)` is 0", size.span)
    return ctx.builder.iota(axis)


# ---- dot


def dot(ctx: Context, a: Operand, b: Operand, span: Span) -> Val:
    """The matrix product, with NumPy's rule for one axis: it is dropped from the result.

    Raises:
        KernelTypeError: operands of two dtypes, of more than two axes, whose inner axes differ.
    """
    x, y = ctx.val(a), ctx.val(b)
    for operand, val in ((a, x), (b, y)):
        if not 1 <= len(val.shape) <= 2:
            raise ctx.type_error(
                "`dot` is of values with one or two axes", operand.span, describe(val)
            )
    try:
        dtypes = promote.dot(x.dtype, y.dtype)
    except PromotionError as err:
        raise ctx.type_error(
            str(err), b.span, f"{describe(y)}, but `{a.text}` is {describe(x)}",
            f"convert one side, e.g. `{b.text}.astype(kdsl.{x.dtype})`",
        ) from err  # fmt: skip
    inner, other = x.shape[-1], y.shape[0]
    if inner is None and other is None:
        return _outer(ctx, x, y, a, b, span)
    if inner is None or other is None or not _same(ctx, inner, other):
        raise ctx.type_error(
            "the inner axes of `dot` differ", b.span,
            f"{describe(y)}, but `{a.text}` is {describe(x)}",
            f"`{inner or 1}` meets `{other or 1}`; is a `.T` missing or too many?",
        )  # fmt: skip
    y = reaxis(ctx, y, _moves(ctx, x.shape, y.shape, b, span), b.span)
    shape = (*x.shape[:-1], *y.shape[1:])
    axes = (set(x.type.axes) | set(y.type.axes)) - {inner}
    op = Dot(x.name, y.name, inner)
    return ctx.builder.let(op, dtypes.result, shape, span=span, axes=axes)


def _same(ctx: Context, a: str, b: str) -> bool:
    if a == b:
        return True
    x, y = ctx.builder.axis(a), ctx.builder.axis(b)
    return x.kind == y.kind == "whole" and same_extent(x.extent, y.extent, ctx.multiples)


def _moves(ctx: Context, x: Shape, y: Shape, b: Operand, span: Span) -> dict[str, str]:
    """Axes the right operand must change: its inner one to the left's, its outer one away from
    the left's."""
    inner, other = x[-1], y[0]
    assert inner is not None
    assert other is not None
    moves = {other: inner} if other != inner else {}
    outer = y[1] if len(y) == 2 else None
    if outer is not None and (outer in x or outer == inner):
        axis = ctx.builder.axis(outer)
        if axis.kind == "tile":
            raise ctx.type_error(
                f"both operands of `dot` have the tile `{outer}`", b.span,
                "the result would have it twice",
                "loop over a second tile of the same dim for one side",
            )  # fmt: skip
        moves[outer] = ctx.builder.whole_axis(axis.extent, (*x, *y))
    return moves


def _outer(ctx: Context, x: Val, y: Val, a: Operand, b: Operand, span: Span) -> Val:
    """A dot over an axis of length 1 is a product."""
    left = Operand(Val(x.name, x.type, (*x.shape[:-1], None), x.weak), a.span)
    right = Operand(Val(y.name, y.type, y.shape[1:], y.weak), b.span)
    result = elementwise.apply(ctx, "mul", [left, right], span)
    assert isinstance(result, Val)
    return result if len(y.shape) == 2 else Val(result.name, result.type, result.shape[:-1])


# ---- reductions


def reduce(
    ctx: Context, fn: str, operand: Operand, axis: object, keepdims: bool, span: Span
) -> Val:
    """`x.max(axis=1)`; without an axis over all of them."""
    val = ctx.val(operand)
    places = axes_of(ctx, val, axis, operand, span)
    if fn == "mean":
        return _mean(ctx, operand, places, keepdims, span)
    info = REDUCTIONS[fn]
    if fn in ("any", "all") and val.dtype is not boolean:
        raise ctx.type_error(
            f"`{fn}` is of bools", operand.span, describe(val), f"compare: `{operand.text} != 0`"
        )
    if fn in ("argmax", "argmin") and len(places) != 1:
        raise ctx.type_error(f"`{fn}` needs one axis", span, describe(val), "say which: axis=...")
    if fn in ("max", "min", "argmax", "argmin") and val.dtype is boolean:
        raise ctx.type_error(
            f"`{fn}` is of numbers", operand.span, describe(val), "use .any() or .all()"
        )
    dtypes = info.rule(val.promotable)
    val = ctx.cast(val, dtypes.compute, operand.span)
    shape = list(val.shape)
    for place in sorted(places, reverse=True):
        name = shape[place]
        if keepdims:
            shape[place] = None
        else:
            del shape[place]
        if name is None or name not in val.type.axes:
            val = _degenerate(ctx, fn, val, name, tuple(shape), span)
            continue
        axes = set(val.type.axes) - {name}
        op = Reduce(fn, val.name, name)
        val = ctx.builder.let(op, dtypes.result, tuple(shape), span=span, axes=axes)
    return Val(val.name, val.type, tuple(shape), False)


def _degenerate(ctx: Context, fn: str, val: Val, axis: str | None, shape: Shape, span: Span) -> Val:
    """A reduction along an axis of length 1."""
    assert axis is None, f"axis {axis} of {val} is not in its type"
    if fn in ("argmax", "argmin"):
        zero = ctx.builder.let(Const("0"), i64, (), span=span)
        return Val(zero.name, zero.type, shape)
    return Val(val.name, val.type, shape)


def scan(ctx: Context, fn: str, operand: Operand, axis: object, span: Span) -> Val:
    """`x.cumsum(axis=1)`: a running total along one axis, which the result keeps."""
    val = ctx.val(operand)
    places = axes_of(ctx, val, axis, operand, span)
    if len(places) != 1:
        raise ctx.type_error(
            f"`cum{fn}` needs one axis", span, describe(val), "say which: axis=..."
        )
    dtypes = SCANS[fn].rule(val.promotable)
    val = ctx.cast(val, dtypes.compute, operand.span)
    name = val.shape[places[0]]
    if name is None:  # one element is its own running total
        return Val(val.name, val.type, val.shape)
    op, axes = Scan(fn, val.name, name), set(val.type.axes)
    return ctx.builder.let(op, dtypes.result, val.shape, span=span, axes=axes)


def axes_of(ctx: Context, val: Val, axis: object, operand: Operand, span: Span) -> tuple[int, ...]:
    rank = len(val.shape)
    if axis is None:
        return tuple(range(rank))
    wanted = axis if isinstance(axis, tuple) else (axis,)
    places = []
    for a in wanted:
        if isinstance(a, bool) or not isinstance(a, int):
            raise ctx.type_error("axis must be a literal integer", span, f"got {describe(a)}")
        if not -rank <= a < rank:
            raise ctx.type_error(
                f"there is no axis {a}", span, f"`{operand.text}` is {describe(val)}"
            )
        places.append(a % rank)
    if len(set(places)) != len(places):
        raise ctx.type_error("an axis is given twice", span)
    return tuple(places)


def _mean(
    ctx: Context, operand: Operand, places: tuple[int, ...], keepdims: bool, span: Span,
    less: int = 0,
) -> Val:  # fmt: skip
    """The sum over how many there are, `less` fewer."""
    val = ctx.val(operand)
    dtype = f64 if val.dtype is f64 else f32
    val = ctx.cast(val, dtype, operand.span)
    total = reduce(ctx, "sum", Operand(val, operand.span), places, keepdims, span)
    length: object = 1
    for name in (val.shape[place] for place in places):
        if name is not None:
            factor = axis_length(ctx, name)
            pair = [Operand(length, span), Operand(factor, span)]
            length = factor if length == 1 else elementwise.apply(ctx, "mul", pair, span)
    if less:
        length = elementwise.apply(ctx, "sub", [Operand(length, span), Operand(less, span)], span)
    result = elementwise.apply(ctx, "div", [Operand(total, span), Operand(length, span)], span)
    assert isinstance(result, Val)
    return result


def spread(
    ctx: Context, fn: str, operand: Operand, axis: object, keepdims: bool, less: int, span: Span
) -> Val:
    """`x.var(axis=1)` and `x.std(axis=1)`: of what is left without the mean."""
    val = ctx.val(operand)
    places = axes_of(ctx, val, axis, operand, span)
    mean = _mean(ctx, operand, places, True, span)
    rest = elementwise.apply(ctx, "sub", [operand, Operand(mean, span)], span)
    square = elementwise.apply(ctx, "mul", [Operand(rest, span)] * 2, span)
    result = _mean(ctx, Operand(square, span), places, keepdims, span, less)
    if fn == "std":
        root = elementwise.apply(ctx, "sqrt", [Operand(result, span)], span)
        assert isinstance(root, Val)
        return root
    return result


def axis_length(ctx: Context, name: str) -> object:
    """How many elements an axis has now: a dim expression, or a tile's length."""
    axis = ctx.builder.axis(name)
    return axis.extent if axis.kind == "whole" else ctx.builder.bound(name, "len")
