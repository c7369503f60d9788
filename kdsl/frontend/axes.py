"""Which axis stands where: NumPy's broadcasting, and giving a value other axes when it must.

A whole axis is known by its dim, so two rows of one tensor share it. Where that is not what the
author means (`x[:, None] * x`, a square matrix), one side's value is made again over another
axis of the same extent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kdsl.dtypes import i64
from kdsl.errors import KernelTypeError, Span
from kdsl.frontend.context import Context
from kdsl.frontend.extents import same_extent
from kdsl.frontend.values import Operand, Val, describe
from kdsl.ir.nodes import (
    Along, Cast, Const, Dot, Ew, Index, Iota, Let, Load, Op, Point, Reduce, Scan,
)  # fmt: skip

Shape = tuple[str | None, ...]


def broadcast(
    ctx: Context, vals: list[Val], operands: list[Operand], what: str, span: Span
) -> tuple[list[Val], Shape]:
    """Values brought to one shape: their axes line up from the right, as in NumPy.

    Raises:
        KernelTypeError: lengths that do not go together, with both shapes.
    """
    first = vals[0].shape
    if all(v.shape == first or not v.shape for v in vals[1:]):
        return vals, first
    shape: Shape = ()
    done: list[Val] = []
    for val, operand in zip(vals, operands, strict=True):
        val, shape = _join(ctx, done, val, shape, operand, operands, what, span)
        done.append(val)
    return done, shape


def _join(
    ctx: Context, done: list[Val], val: Val, shape: Shape, operand: Operand,
    operands: list[Operand], what: str, span: Span,
) -> tuple[Val, Shape]:  # fmt: skip
    rank = max(len(shape), len(val.shape))
    left = (None,) * (rank - len(shape)) + shape
    right = (None,) * (rank - len(val.shape)) + val.shape
    moves: dict[str, str] = {}
    for a, b in zip(left, right, strict=True):
        if b is None or a == b:
            continue
        if a is None:
            continue
        if not same_length(ctx, a, b):
            other = next((v for v in done if a in v.shape), done[-1])
            with_ = operands[done.index(other)]
            raise ctx.type_error(
                f"shapes do not go together in {what}", operand.span,
                f"{describe(val)}, but `{with_.text}` is {describe(other)}",
                _shape_help(ctx, a, b, operand, val),
            )  # fmt: skip
        moves[b] = a
    fixed = {a for a in left if a}
    for a, b in zip(left, right, strict=True):
        if b is None or b in moves:
            continue
        if b in fixed and a != b:
            extent = _extent_of_whole(ctx, b, span, operand)
            taken = (*left, *right, *moves.values())
            moves[b] = ctx.builder.whole_axis(extent, taken)
    if moves:
        val, left = _move_one_side(ctx, done, val, moves, left, operand)
        right = (None,) * (rank - len(val.shape)) + val.shape
    return val, tuple(b if a is None else a for a, b in zip(left, right, strict=True))


def _move_one_side(
    ctx: Context, done: list[Val], val: Val, moves: dict[str, str], shape: Shape, operand: Operand
) -> tuple[Val, Shape]:
    """Gives `val` the axes of the operands before it, or them its axes where it cannot change."""
    mark = ctx.builder.mark()
    try:
        return reaxis(ctx, val, moves, operand.span), shape
    except KernelTypeError:
        ctx.builder.rewind(mark)
        back = {b: a for a, b in moves.items()}
        if not set(back) <= set(shape) or set(moves) & set(shape):
            raise
        try:
            done[:] = [reaxis(ctx, v, back, operand.span) for v in done]
        except KernelTypeError:
            ctx.builder.rewind(mark)
        else:
            return val, tuple(back.get(a, a) if a else None for a in shape)
        raise


def same_length(ctx: Context, a: str, b: str) -> bool:
    x, y = ctx.builder.axis(a), ctx.builder.axis(b)
    whole = x.kind == y.kind == "whole"
    return whole and same_extent(x.extent, y.extent, ctx.multiples)


def _shape_help(ctx: Context, a: str, b: str, operand: Operand, val: Val) -> str:
    x, y = ctx.builder.axis(a), ctx.builder.axis(b)
    if "tile" in (x.kind, y.kind) and x.extent == y.extent:
        return f"`{a}` and `{b}` are different slices of {x.extent}"
    if len(val.shape) == 1:
        return f"an axis of length 1 fits any: `{operand.text}[:, None]`"
    return ""


def _extent_of_whole(ctx: Context, axis: str, span: Span, operand: Operand) -> int:
    found = ctx.builder.axis(axis)
    if found.kind == "tile":
        raise ctx.type_error(
            f"the tile `{axis}` would be two axes of one value", operand.span,
            help="loop over a second tile of the same dim for the second axis",
        )  # fmt: skip
    return found.extent  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class At:
    """A place of an axis instead of all of it: an i64 value over axes of its own."""

    index: str
    axes: tuple[str, ...] = ()


#: What an axis becomes.
Move = str | At


def _axes_of(move: Move) -> tuple[str, ...]:
    return move.axes if isinstance(move, At) else (move,)


def placed(ctx: Context, val: Val, axis: str, at: At, span: Span) -> Val:
    """The value where its axis `axis` is at a place; what is left of its shape is the caller's.

    Raises:
        KernelTypeError: it comes from a loop, or from a tensor that has changed since.
    """
    name = _Mover(ctx, span).value(val.name, {axis: at})
    axes = ctx.builder.ordered({*(a for a in val.type.axes if a != axis), *at.axes})
    return replace(val, name=name, type=replace(val.type, axes=axes))


def reaxis(ctx: Context, val: Val, moves: Mapping[str, str], span: Span) -> Val:
    """The same value as a function of other axes.

    Raises:
        KernelTypeError: it comes from a loop, whose axes are settled.
    """
    moves = {a: b for a, b in moves.items() if a != b}
    if not moves:
        return val
    name = _Mover(ctx, span).value(val.name, moves)
    shape = tuple(moves.get(a, a) if a else None for a in val.shape)
    axes = ctx.builder.ordered({moves.get(a, a) for a in val.type.axes})
    return replace(val, name=name, shape=shape, type=replace(val.type, axes=axes))


class _Mover:
    """Makes values again over other axes, each once."""

    def __init__(self, ctx: Context, span: Span) -> None:
        self.ctx, self.builder, self.span = ctx, ctx.builder, span
        self.made: dict[tuple[str, frozenset[tuple[str, Move]]], str] = {}

    def value(self, name: str, moves: Mapping[str, Move]) -> str:
        builder = self.builder
        axes = builder.types[name].type.axes
        if not set(axes) & set(moves):
            return name
        key = name, frozenset(moves.items())
        if key in self.made:
            return self.made[key]
        let = builder.lets.get(name)
        if let is None:
            old = next(a for a in axes if a in moves)
            raise self.ctx.type_error(
                f"the axis `{old}` of this value cannot stand for another one", self.span,
                "it is changed by a loop or a branch",
                "write it to a scratch tensor first, or use a dim of another name",
            )  # fmt: skip
        match let.op:
            case Iota(axis=axis) if isinstance(at := moves[axis], At):
                return at.index
            case Load(tensor=tensor):
                self.unchanged(let, tensor)
        op = self.op(let.op, moves)
        new_axes = {b for a in axes for b in _axes_of(moves.get(a, a))}
        new = builder.let(op, let.type.dtype, tuple(new_axes), name=name, span=let.span)
        self.made[key] = new.name
        return new.name

    def unchanged(self, let: Let, tensor: str) -> None:
        """What is read again must be what it was. Raises KernelTypeError."""
        if self.builder.may_have_changed(tensor, let):
            raise self.ctx.type_error(
                f"this would read `{tensor}` again, which has been written", self.span,
                "a value is made again for other axes or for one element",
                "use it before the tensor is written, or write it to a scratch tensor first",
            )  # fmt: skip

    def op(self, op: Op, moves: Mapping[str, Move]) -> Op:
        def again(name: str) -> str:
            return self.value(name, moves)

        match op:
            case Const():
                return op
            case Iota(axis=axis):
                return replace(op, axis=self.named(axis, moves))
            case Load(index=index):
                return replace(op, index=tuple(self.index(i, moves) for i in index))
            case Ew(args=args):
                return replace(op, args=tuple(map(again, args)))
            case Cast(arg=arg):
                return replace(op, arg=again(arg))
            case Reduce(arg=arg, axis=axis):
                inner = self.inner(axis, (arg,), moves)
                return replace(op, arg=self.value(arg, inner), axis=self.named(axis, inner))
            case Scan(arg=arg, axis=axis):
                return replace(op, arg=again(arg), axis=self.named(axis, moves))
            case Dot(a=a, b=b, axis=axis):
                inner = self.inner(axis, (a, b), moves)
                x, y = self.value(a, inner), self.value(b, inner)
                return replace(op, a=x, b=y, axis=self.named(axis, inner))
        raise TypeError(f"reaxis: no rule for {type(op).__name__}")

    def named(self, axis: str, moves: Mapping[str, Move]) -> str:
        """An axis that has to stay one. Raises KernelTypeError."""
        move = moves.get(axis, axis)
        if isinstance(move, At):
            raise self.ctx.type_error(
                "a running total has no single elements", self.span,
                help="write it to a scratch tensor first",
            )  # fmt: skip
        return move

    def inner(self, axis: str, args: tuple[str, ...], moves: Mapping[str, Move]) -> dict[str, Move]:
        """Moves for the operands of a reduction: its own axis steps aside for a new one."""
        inner = {a: b for a, b in moves.items() if a != axis}
        new = {a for move in inner.values() for a in _axes_of(move)}
        if axis in new:
            near = {a for n in args for a in self.builder.types[n].type.axes}
            taken = (*near, *moves, *new)
            extent = self.builder.axis(axis).extent
            inner[axis] = self.builder.whole_axis(extent, taken)
        return inner

    def index(self, index: Index, moves: Mapping[str, Move]) -> Index:
        match index:
            case Along(axis=axis, offset=offset, step=step):
                moved = None if offset is None else self.value(offset, moves)
                move = moves.get(axis, axis)
                if isinstance(move, At):
                    return Point(self.place(move, step, moved), span=index.span)
                return replace(index, axis=move, offset=moved)
            case Point(value=value):
                return replace(index, value=self.value(value, moves))
        raise TypeError(f"reaxis: no rule for {type(index).__name__}")

    def place(self, at: At, step: int, offset: str | None) -> str:
        """index * step + offset."""
        builder, name = self.builder, at.index
        if step != 1:
            by = self.ctx.const(step, i64, self.span).name
            name = builder.let(Ew("mul", (name, by)), i64, axes=set(at.axes)).name
        if offset is not None:
            axes = {*at.axes, *builder.types[offset].type.axes}
            name = builder.let(Ew("add", (name, offset)), i64, axes=axes).name
        return name
