"""`tensor[...]` read and written, and views of values: `[:, None]`, `.T`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kdsl.dims import DimExpr, Extent
from kdsl.dtypes import boolean, i64
from kdsl.errors import Span
from kdsl.frontend import elementwise
from kdsl.frontend.axes import At, Shape, broadcast, placed
from kdsl.frontend.context import Context
from kdsl.frontend.extents import as_int, may_fit, same_extent, simplify
from kdsl.frontend.values import (
    Operand,
    Slice,
    TensorRef,
    TileRef,
    Val,
    describe,
)  # fmt: skip
from kdsl.ir.nodes import Along, AtomicAdd, Index, Load, Point, Store
from kdsl.ir.walk import operands


@dataclass(slots=True)
class Place:
    """Where an index leads: one `Index` a tensor dimension, and the shape it reads or fills."""

    index: list[Index]
    shape: list[str | None]


def load(ctx: Context, tensor: TensorRef, items: Sequence[Operand], span: Span) -> Val:
    """`tensor[items]`: a copy of the elements, in the tensor's dtype."""
    if not ctx.builder.in_phase:
        raise ctx.syntax_error(
            "a tensor is read outside kdsl.parallel", span,
            ctx.loop_help(tensor.name, tensor.type),
        )  # fmt: skip
    place = _place(ctx, tensor, items, span, None)
    shape = tuple(place.shape)
    axes = {a for a in shape if a} | _point_axes(ctx, place.index)
    op = Load(tensor.name, tuple(place.index))
    return ctx.builder.let(op, tensor.dtype, shape, span=span, axes=axes)


def take(
    ctx: Context, tensor: TensorRef, index: Operand, mask: Operand | None, other: Operand | None,
    span: Span,
) -> Val:  # fmt: skip
    """`tensor.take(index, mask=c, other=0)`: `tensor[index]` where the mask holds; what is not
    taken is not read, and its index may be anything."""
    items = [index]
    if isinstance(index.value, tuple):
        items = [Operand(v, index.span) for v in index.value]
    if mask is None or mask.value is True:
        if mask is None and other is not None:
            raise ctx.type_error("`take` has no mask for `other` to stand beside", other.span)
        return load(ctx, tensor, items, span)
    chosen = ctx.val(mask)
    if chosen.dtype is not boolean:
        raise ctx.type_error("the mask of `take` must be bool", mask.span, describe(chosen))
    if not any(isinstance(i.value, Val) for i in items):
        raise ctx.type_error(
            "a mask is for indices that are computed", mask.span, "here each is always inside",
            "choose of what is read: kdsl.where(mask, x[...], other)",
        )  # fmt: skip
    zero = Operand(0, span)

    def masked(item: Operand) -> Operand:
        if not isinstance(item.value, Val):
            return item
        inside = elementwise.apply(ctx, "where", [Operand(chosen, mask.span), item, zero], span)
        return Operand(inside, item.span)

    found = load(ctx, tensor, [masked(i) for i in items], span)
    behind = len(found.shape) - len(chosen.shape)
    chosen = replace(chosen, shape=(*chosen.shape, *(None,) * behind))
    choose = [Operand(chosen, mask.span), Operand(found, span), other or zero]
    result = elementwise.apply(ctx, "where", choose, span)
    assert isinstance(result, Val)
    return result


def store(
    ctx: Context, tensor: TensorRef, items: Sequence[Operand], value: Operand, span: Span
) -> None:
    """`tensor[items] = value`: rounds to the tensor's dtype; the value broadcasts."""
    index, val = _written(ctx, tensor, items, value, span)
    ctx.written.add(tensor.name)
    ctx.builder.emit(Store(tensor.name, index, val.name, span=span))


def atomic_add(
    ctx: Context, tensor: TensorRef, items: Sequence[Operand], value: Operand, span: Span
) -> None:
    """`atomic_add(tensor[items], value)`: to elements that the call or this kernel has filled."""
    if tensor.kind == "out":
        raise ctx.type_error(
            f"`{tensor.name}` is an Out, whose elements are undefined until they are written", span,
            "there is nothing to add to",
            f"declare it `{tensor.name}: InOut[{tensor.type}]` and pass zeros, or add to a "
            "scratch tensor that is written before",
        )  # fmt: skip
    if tensor.kind == "scratch" and tensor.name not in ctx.written:
        raise ctx.type_error(
            f"nothing has written the scratch tensor `{tensor.name}` before this", span,
            "there is nothing to add to", "fill it in an earlier kdsl.parallel loop",
        )  # fmt: skip
    if tensor.dtype is boolean:
        raise ctx.type_error(f"`{tensor.name}` holds bool, no numbers", span, describe(tensor))
    index, val = _written(ctx, tensor, items, value, span)
    ctx.builder.emit(AtomicAdd(tensor.name, index, val.name, span=span))


def _written(
    ctx: Context, tensor: TensorRef, items: Sequence[Operand], value: Operand, span: Span
) -> tuple[tuple[Index, ...], Val]:
    """The place that a statement changes, and what it puts there in the tensor's dtype."""
    if tensor.kind == "in":
        raise ctx.type_error(
            f"`{tensor.name}` is an input", span, "an input is not written",
            f"declare it `{tensor.name}: InOut[{tensor.type}]`, or write an Out",
        )  # fmt: skip
    if not ctx.builder.in_phase:
        raise ctx.syntax_error("a tensor is written outside kdsl.parallel", span)
    val = ctx.val(value, tensor.dtype)
    place = _place(ctx, tensor, items, span, val.shape)
    target = tuple(place.shape)
    if len(val.shape) > len(target):
        raise _does_not_fit(ctx, tensor, val, value, target)
    padded = (None,) * (len(target) - len(val.shape)) + val.shape
    for have, want in zip(padded, target, strict=True):
        if have is not None and have != want:
            raise _does_not_fit(ctx, tensor, val, value, target)
    return tuple(place.index), val


def _does_not_fit(
    ctx: Context, tensor: TensorRef, val: Val, value: Operand, target: Shape
) -> Exception:
    shown = f"{tensor.dtype}[{', '.join(a or '1' for a in target)}]" if target else "one element"
    return ctx.type_error(
        f"the value does not fit into `{tensor.name}[...]`", value.span,
        f"{describe(val)}, the place is {shown}",
    )  # fmt: skip


def _point_axes(ctx: Context, index: Sequence[Index]) -> set[str]:
    names = (i.value if isinstance(i, Point) else i.offset for i in index)
    return {a for n in names if n is not None for a in ctx.builder.types[n].type.axes}


def _place(
    ctx: Context, tensor: TensorRef, items: Sequence[Operand], span: Span, value: Shape | None
) -> Place:
    """Resolves an index. `value` is the shape that a store puts there: its axes are preferred."""
    items = _expand(ctx, tensor, list(items), span)
    arrays = _arrays(ctx, items)
    place = Place([], [])
    array_at: int | None = None
    wanted = _wanted(tensor, items, value, arrays)
    for d, (item, extent) in enumerate(zip(items, tensor.type.shape, strict=True)):
        if id(item) in arrays:
            place.index.append(Point(arrays[id(item)].name))
            if array_at is None:
                array_at = len(place.shape)
            continue
        index, axes = _one(ctx, tensor, item, extent, place, wanted.get(d))
        place.index.append(index)
        place.shape += axes
    if arrays and array_at is not None:
        _put_array_axes(ctx, items, arrays, place, array_at)
    return place


def _expand(ctx: Context, tensor: TensorRef, items: list[Operand], span: Span) -> list[Operand]:
    """As many items as dimensions: `...` and what is left out are whole axes."""
    everything = Slice(None, None, None, span)
    dots = [i for i, item in enumerate(items) if item.value is Ellipsis]
    for item in items:
        if item.value is None:
            raise ctx.type_error(
                "None in the index of a tensor", item.span, "a new axis is one of a value",
                f"index first: `{tensor.name}[...][:, None]`",
            )  # fmt: skip
    if len(dots) > 1:
        raise ctx.syntax_error("an index has `...` twice", items[dots[1]].span)
    ndim = tensor.type.ndim
    if len(items) - len(dots) > ndim:
        raise ctx.type_error(
            f"too many indices for `{tensor.name}`", items[ndim + len(dots)].span,
            f"{tensor.name} is {tensor.type}: {ndim} dimension{'s' * (ndim != 1)}",
        )  # fmt: skip
    missing = ndim - (len(items) - len(dots))
    fill = [Operand(everything, span) for _ in range(missing)]
    at = dots[0] if dots else len(items)
    return [*items[:at], *fill, *items[at + len(dots) :]]


def _arrays(ctx: Context, items: Sequence[Operand]) -> dict[int, Val]:
    """Index arrays (gather), brought to one shape, by identity of their item."""
    found = [i for i in items if isinstance(i.value, Val) and not i.value.is_scalar]
    if not found:
        return {}
    vals = [_integer(ctx, i) for i in found]
    vals, _ = broadcast(ctx, vals, found, "the index", found[0].span)
    return {id(item): val for item, val in zip(found, vals, strict=True)}


def _put_array_axes(
    ctx: Context, items: Sequence[Operand], arrays: dict[int, Val], place: Place, at: int
) -> None:
    """NumPy's rule: axes of index arrays stand where the arrays do, in front if those are apart."""
    shape: Shape = ()
    for val in arrays.values():
        if len(val.shape) >= len(shape):
            shape = tuple(
                a or b for a, b in zip(val.shape, (None,) * len(val.shape), strict=True)
            ) if not shape else _merged(shape, val.shape)  # fmt: skip
    kinds = [isinstance(i.value, (Slice, TileRef)) for i in items]
    advanced = [i for i, basic in enumerate(kinds) if not basic]
    apart = any(kinds[advanced[0] : advanced[-1] + 1])
    if apart:
        at = 0
    elif advanced:
        at = sum(kinds[: advanced[0]])
    for axis in shape:
        if axis is not None and axis in place.shape:
            raise ctx.type_error(
                f"the axis `{axis}` would be two axes of one value", items[advanced[0]].span,
                "this index has it and another one too",
            )  # fmt: skip
    place.shape[at:at] = list(shape)


def _merged(a: Shape, b: Shape) -> Shape:
    rank = max(len(a), len(b))
    a, b = (None,) * (rank - len(a)) + a, (None,) * (rank - len(b)) + b
    return tuple(x or y for x, y in zip(a, b, strict=True))


def _wanted(
    tensor: TensorRef, items: Sequence[Operand], value: Shape | None, arrays: dict[int, Val]
) -> dict[int, str]:
    """For a store: which axis of the value each whole dimension would take, from the right."""
    if not value or arrays:
        return {}
    open_ = [d for d, i in enumerate(items) if isinstance(i.value, (Slice, TileRef))]
    pairs = zip(reversed(open_), reversed(value), strict=False)
    return {d: axis for d, axis in pairs if axis is not None}


def _one(
    ctx: Context, tensor: TensorRef, item: Operand, extent: Extent, place: Place,
    wanted: str | None,
) -> tuple[Index, Shape]:  # fmt: skip
    """One place of an index, and what it adds to the shape."""
    match item.value:
        case TileRef() as tile:
            return _tile(ctx, tensor, tile, item, extent, place)
        case Slice() as slice_:
            return _slice(ctx, tensor, slice_, extent, place, wanted)
        case int() as number if not isinstance(number, bool):
            return _literal(ctx, tensor, number, item, extent), ()
        case Val() | DimExpr():
            return Point(_integer(ctx, item).name, span=item.span), ()
    raise ctx.type_error(
        f"`{tensor.name}` cannot be indexed with this", item.span, describe(item.value),
        "an index is an integer, a tile, a slice or a tile of integers",
    )  # fmt: skip


def _literal(ctx: Context, tensor: TensorRef, number: int, item: Operand, extent: Extent) -> Point:
    size = as_int(extent)
    if size is not None and not -size <= number < size:
        raise ctx.type_error(
            f"the index {number} is outside `{tensor.name}`", item.span,
            f"this axis has {size} elements",
        )  # fmt: skip
    at: Extent = number if number >= 0 else extent + number
    return Point(ctx.val(Operand(at, item.span), i64).name, span=item.span)


def _integer(ctx: Context, item: Operand) -> Val:
    val = ctx.val(item)
    if not val.dtype.is_int:
        raise ctx.type_error(
            "an index must be an integer", item.span, describe(val),
            f"convert it: `{item.text}.astype(kdsl.i64)`",
        )  # fmt: skip
    return ctx.val(Operand(val, item.span), i64)


def _tile(
    ctx: Context, tensor: TensorRef, tile: TileRef, item: Operand, extent: Extent, place: Place
) -> tuple[Index, Shape]:
    if tile.axis in place.shape:
        raise ctx.type_error(
            f"the tile `{tile.axis}` indexes two dimensions", item.span,
            f"`{tensor.name}` would get the axis `{tile.axis}` twice",
            "loop over a second tile for the second dimension",
        )  # fmt: skip
    unmoved = isinstance(tile.offset, int) and tile.offset == 0
    if unmoved and not may_fit(tile.dim, extent, ctx.multiples):
        raise ctx.type_error(
            f"the tile `{item.text}` does not fit this axis of `{tensor.name}`", item.span,
            f"a tile of {tile.dim}, the axis is {extent}",
            f"walk kdsl.tiles({extent}) instead",
        )  # fmt: skip
    offset = None
    if not unmoved:
        offset = ctx.val(Operand(tile.offset, item.span), i64).name
    return Along(tile.axis, offset, span=item.span), (tile.axis,)


def _slice(
    ctx: Context, tensor: TensorRef, item: Slice, extent: Extent, place: Place,
    wanted: str | None,
) -> tuple[Index, Shape]:  # fmt: skip
    start, stop = (
        _edge(ctx, edge, extent, item.span, default)
        for edge, default in ((item.start, 0), (item.stop, extent))
    )
    step = 1 if item.step is None else item.step
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        raise ctx.type_error("the step of a slice is a positive integer", item.span, describe(step))
    length = stop - start
    if step > 1:
        length = (length + (step - 1)) // step
    length = simplify(length)
    known = as_int(length)
    if known is not None and known < 0:
        raise ctx.type_error(f"the slice of `{tensor.name}` ends before it starts", item.span)
    if known == 1:
        return Point(ctx.val(Operand(start, item.span), i64).name, span=item.span), (None,)
    if same_extent(length, extent, ctx.multiples):
        length = extent
    axis = _axis_for(ctx, length, place, wanted)
    offset = None
    if as_int(start) != 0:
        offset = ctx.val(Operand(start, item.span), i64).name
    return Along(axis, offset, step, span=item.span), (axis,)


def _axis_for(ctx: Context, length: Extent, place: Place, wanted: str | None) -> str:
    """A whole axis of this length; a store takes the value's own where it fits."""
    taken = tuple(place.shape)
    if wanted is not None and wanted not in taken:
        axis = ctx.builder.axis(wanted)
        if axis.kind == "whole" and same_extent(axis.extent, length, ctx.multiples):
            return wanted
    for axis in ctx.builder.axes:
        if axis.kind == "whole" and axis.name not in taken and axis.extent != length:
            if same_extent(axis.extent, length, ctx.multiples):
                return axis.name
    return ctx.builder.whole_axis(length, taken)


def _edge(ctx: Context, edge: object, extent: Extent, span: Span, default: Extent) -> Extent:
    match edge:
        case None:
            return default
        case int() if not isinstance(edge, bool):
            return edge if edge >= 0 else extent + edge
        case DimExpr():
            return edge
    raise ctx.type_error(
        "the ends of a slice are integers and dims", span, describe(edge),
        "slices with run-time ends are tiles: `for n in kdsl.tiles(N, start=..., stop=...)`",
    )  # fmt: skip


# ---- views of values


def view(ctx: Context, val: Val, items: Sequence[Operand], span: Span) -> Val:
    """`value[:, None]`: new axes of length 1; `value[0]`, `value[j]`: one place of an axis."""
    dots = [i for i in items if i.value is Ellipsis]
    used = sum(i.value is not None and i.value is not Ellipsis for i in items)
    if used > len(val.shape) or len(dots) > 1:
        raise ctx.type_error(
            "too many indices", span, f"the value is {describe(val)}",
        )  # fmt: skip
    items = list(items)
    whole = Operand(Slice(None, None, None, span), span)
    at = next((n for n, i in enumerate(items) if i.value is Ellipsis), len(items))
    items[at : at + len(dots)] = [whole] * (len(val.shape) - used)
    left = list(val.shape)
    shape: list[str | None] = []
    for item in items:
        if item.value is None:
            shape.append(None)
            continue
        axis = left.pop(0)
        match item.value:
            case Slice(start=None, stop=None, step=None):
                shape.append(axis)
            case int(0 | -1) if axis is None and not isinstance(item.value, bool):
                pass
            case int() | DimExpr() | Val(shape=()) if axis is not None and not isinstance(
                item.value, bool
            ):
                val = placed(ctx, val, axis, At(_element(ctx, val, axis, item).name), item.span)
            case _:
                raise ctx.type_error(
                    "a value is indexed with `:`, `None` and single integers", item.span,
                    f"got {describe(item.value)}",
                    "index the tensor itself, or reduce the value",
                )  # fmt: skip
    return replace(val, shape=tuple(shape))


def _element(ctx: Context, val: Val, axis: str, item: Operand) -> Val:
    """Which element of an axis `value[item]` is, counted as the axis does: checked to be one."""
    found, value = ctx.builder.axis(axis), item.value
    if found.kind == "tile":
        if value not in (0, -1) or isinstance(value, Val):
            raise ctx.type_error(
                "of a tile, only the first and the last element are known to be there", item.span,
                f"the value is {describe(val)}",
                f"index the tensor: its element is `{axis}.start + i`",
            )  # fmt: skip
        if value == 0:
            return ctx.builder.bound(axis, "start")
        stop = Operand(ctx.builder.bound(axis, "stop"), item.span)
        last = elementwise.apply(ctx, "sub", [stop, Operand(1, item.span)], item.span)
        return ctx.val(Operand(last, item.span), i64)
    size = as_int(found.extent)
    if isinstance(value, int) and size is not None:
        if not -size <= value < size:
            raise ctx.type_error(
                f"the index {value} is outside the value", item.span,
                f"this axis has {size} elements",
            )  # fmt: skip
        return ctx.val(Operand(value % size, item.span), i64)
    at: object = found.extent + value if isinstance(value, int) and value < 0 else value
    index = _integer(ctx, Operand(at, item.span))
    if not _is_checked(ctx, val, axis):
        raise ctx.type_error(
            "nothing would check this index", item.span,
            f"the value is {describe(val)}, of which not each element is one of a tensor",
            "write it to a scratch tensor first, or index the tensor itself",
        )  # fmt: skip
    return index


def _is_checked(ctx: Context, val: Val, axis: str) -> bool:
    """Whether an element of the value along an axis is made of an element of a tensor whose
    dimension is that axis: reading that one checks the index."""
    todo, seen = [val.name], set[str]()
    while todo:
        let = ctx.builder.lets.get(todo.pop())
        if let is None or let.name in seen or axis not in let.type.axes:
            continue
        seen.add(let.name)
        if isinstance(let.op, Load):
            for item, extent in zip(let.op.index, ctx.tensor(let.op.tensor), strict=True):
                if isinstance(item, Along) and item.axis == axis and item.step == 1:
                    size = ctx.builder.axis(axis).extent
                    if item.offset is None and same_extent(size, extent, ctx.multiples):
                        return True
        todo += operands(let.op)
    return False


def transpose(val: Val) -> Val:
    """`value.T`: the axes in reverse order."""
    return replace(val, shape=val.shape[::-1])


def shift_tile(ctx: Context, fn: str, a: Operand, b: Operand, span: Span) -> TileRef:
    """`n + 1`, `1 + n`, `n - n.start`: the slice moved."""
    tile, by = (a, b) if isinstance(a.value, TileRef) else (b, a)
    if fn not in ("add", "sub") or (fn == "sub" and tile is b) or isinstance(by.value, TileRef):
        operand = tile
        ctx.value(operand)
    assert isinstance(tile.value, TileRef)
    amount = ctx.value(by)
    if isinstance(amount, float) or (isinstance(amount, Val) and not amount.dtype.is_int):
        raise ctx.type_error("a tile moves by an integer", by.span, describe(amount))
    if isinstance(amount, Val) and not amount.is_scalar:
        raise ctx.type_error("a tile moves by one integer", by.span, describe(amount))
    old = Operand(tile.value.offset, tile.span)
    offset = elementwise.apply(ctx, fn, [old, by], span)
    if not isinstance(offset, (Val, int)):
        offset = ctx.val(Operand(offset, span))
    return replace(tile.value, offset=offset)
