"""`for` over tiles and over `range`: variables that an iteration changes become carries.

The types of carries are found by lowering the body, comparing, and lowering it again where a
Python number turned out to be a value, or a variable did not change after all.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from kdsl.dims import DimExpr, Extent
from kdsl.dtypes import i64
from kdsl.errors import KernelTypeError, Span
from kdsl.frontend.builder import Scope
from kdsl.frontend.context import Context, literal
from kdsl.frontend.control import CannotJoin, Joined, as_joined, join, same
from kdsl.frontend.extents import as_int, same_extent
from kdsl.frontend.frame import Frame
from kdsl.frontend.scope import assigned_names
from kdsl.frontend.values import Operand, TileRef, Undefined, Val, describe, is_valuelike
from kdsl.ir.nodes import Block, Carry, Const, ForRange, ForTiles, Stmt
from kdsl.ir.walk import reads, walk

Body = Callable[[], None]


@dataclass(slots=True)
class Variable:
    """A name that the body assigns.

    Attributes:
        types: of its values (one, or those of a tuple, in order); None until known.
        fresh: it has no value before the loop.
    """

    name: str
    types: list[Joined] | None = None
    fresh: bool = False
    carries: list[Val] = field(default_factory=list)
    inits: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Loop:
    """What is known of a loop before its body is lowered."""

    body: list[ast.stmt]
    target: str
    span: Span
    binds: str
    once: bool
    enter: Callable[[], object]
    finish: Callable[[tuple[Carry, ...], Block, str | None], Stmt]
    #: The variable that a `while` goes on for; `finish` is given its carry.
    flag: str | None = None


class Again(Exception):
    """The body must be lowered again with what was learnt."""


def tile_loop(
    ctx: Context, frame: Frame, node: ast.For, target: str, walked: TileWalk, run: Body
) -> None:
    """`for n in kdsl.tiles(N, start=..., stop=...):`"""
    builder = ctx.builder
    span = frame.source.span(node.target)
    start = _bound(ctx, walked.start, 0)
    stop = _bound(ctx, walked.stop, walked.dim)
    axis = builder.tile_axis(target, walked.dim, walked.size)

    def finish(carries: tuple[Carry, ...], body: Block, _: str | None) -> Stmt:
        return ForTiles(axis, start, stop, carries, body, span=frame.source.span(node.iter))

    loop = Loop(node.body, target, span, axis, False, lambda: TileRef(axis, walked.dim), finish)
    _lower(ctx, frame, loop, run)
    frame.names[target] = Undefined("the tile ends with its loop", span)


def while_loop(ctx: Context, frame: Frame, node: ast.For, flag: str, span: Span, run: Body) -> None:
    """`while flag:`, in the form that `breaks.counted` gives it; `flag` has its first value."""
    builder = ctx.builder
    names = [ctx.const(n, i64, span).name for n in (0, 2**63 - 1)]
    assert isinstance(node.target, ast.Name)
    var = builder.unique("turn")

    def finish(carries: tuple[Carry, ...], body: Block, going: str | None) -> Stmt:
        last = next((builder.lets.get(c.next) for c in carries if c.name == going), None)
        if going is None or (last is not None and last.op == Const("True")):
            raise ctx.syntax_error(
                "this loop would never end", span,
                "change what its condition looks at, or leave it by `break`",
            )  # fmt: skip
        return ForRange(var, names[0], names[1], 1, carries, body, going, span=span)

    turn = node.target.id
    loop = Loop(node.body, turn, span, var, False, lambda: builder.loop_var(var), finish, flag)
    _lower(ctx, frame, loop, run)
    frame.names.pop(turn, None)


def range_loop(
    ctx: Context, frame: Frame, node: ast.For, target: str, bounds: list[Operand], run: Body
) -> None:
    """`for i in range(...):`"""
    builder = ctx.builder
    span = frame.source.span(node.target)
    start, stop, step = _range(ctx, bounds, span)
    trips = _trips(start.value, stop.value, step)
    if trips == 0:
        frame.names[target] = Undefined("the loop has no iteration", span)
        return
    names = [ctx.val(o, i64).name for o in (start, stop)]
    var = builder.unique(target)

    def finish(carries: tuple[Carry, ...], body: Block, _: str | None) -> Stmt:
        where = frame.source.span(node.iter)
        return ForRange(var, names[0], names[1], step, carries, body, span=where)

    once = trips is not None
    loop = Loop(node.body, target, span, var, once, lambda: builder.loop_var(var), finish)
    _lower(ctx, frame, loop, run)
    if trips is not None and target not in set(assigned_names(node.body)):
        assert isinstance(start.value, int)
        frame.names[target] = start.value + (trips - 1) * step
    else:
        frame.names[target] = Undefined("its loop may have had no iteration", span)


@dataclass(slots=True)
class TileWalk:
    """`kdsl.tiles(dim, start=, stop=, size=)` as evaluated."""

    dim: Extent
    start: Operand | None
    stop: Operand | None
    size: int | None


def _bound(ctx: Context, bound: Operand | None, default: Extent) -> str | None:
    """A start or stop as an i64 value; None where it is all of the dim anyway."""
    if bound is None or bound.value is None:
        return None
    value = ctx.value(bound)
    if isinstance(value, (int, DimExpr)) and not isinstance(value, bool):
        if same_extent(value, default, ctx.multiples):
            return None
    val = ctx.val(bound)
    if not val.dtype.is_int or not val.is_scalar:
        raise ctx.type_error("a bound is one integer", bound.span, describe(val))
    return ctx.val(Operand(val, bound.span), i64).name


def _range(ctx: Context, bounds: list[Operand], span: Span) -> tuple[Operand, Operand, int]:
    if not 1 <= len(bounds) <= 3:
        raise ctx.type_error("range takes 1 to 3 arguments", span, f"got {len(bounds)}")
    for b in bounds:
        value = ctx.value(b)
        fits = (isinstance(value, Val) and value.dtype.is_int and value.is_scalar) or (
            isinstance(value, (int, DimExpr)) and not isinstance(value, bool)
        )
        if not fits:
            raise ctx.type_error("range takes integers", b.span, describe(value))
    step: object = 1
    if len(bounds) == 3:
        step = bounds[2].value
        if not isinstance(step, int) or step == 0:
            raise ctx.type_error(
                "the step of range is a literal integer, not 0", bounds[2].span, describe(step)
            )
    if len(bounds) == 1:
        return Operand(0, bounds[0].span), bounds[0], 1
    assert isinstance(step, int)
    return bounds[0], bounds[1], step


def _trips(start: object, stop: object, step: int) -> int | None:
    """How many iterations there are, if that is known."""
    first = as_int(start) if isinstance(start, (int, DimExpr)) else None
    last = as_int(stop) if isinstance(stop, (int, DimExpr)) else None
    return None if first is None or last is None else len(range(first, last, step))


def _lower(ctx: Context, frame: Frame, loop: Loop, run: Body) -> None:
    assigned = dict.fromkeys(assigned_names(loop.body))
    assigned.pop(loop.target, None)
    variables = {
        name: Variable(name)
        for name in assigned
        if not isinstance(frame.names.get(name, Undefined("", loop.span)), Undefined)
    }
    dropped: dict[str, Undefined] = {}
    while True:
        mark, before = ctx.builder.mark(), dict(frame.names)
        try:
            _attempt(ctx, frame, loop, run, variables, dropped)
            return
        except Again:
            ctx.builder.rewind(mark)
            frame.names = before


def _attempt(
    ctx: Context, frame: Frame, loop: Loop, run: Body, variables: dict[str, Variable],
    dropped: dict[str, Undefined],
) -> None:  # fmt: skip
    builder = ctx.builder
    outside = dict(frame.names)
    for v in variables.values():
        _begin(ctx, frame, v, loop)
    frame.names.update(dropped)
    builder.open(frozenset((loop.binds,)))
    frame.names[loop.target] = loop.enter()
    frame.loops += 1
    run()
    frame.loops -= 1
    scope = builder.scope
    _learn(ctx, frame, loop, variables, dropped, outside, scope)
    nexts = {v.name: _nexts(ctx, frame, v, loop.span) for v in variables.values()}
    body = builder.close()
    carries: list[Carry] = []
    after: dict[str, object] = {}
    for v in variables.values():
        results: list[Val] = []
        for inner, init, following in zip(v.carries, v.inits, nexts[v.name], strict=True):
            result = replace(inner, name=builder.unique(v.name))
            builder.types[result.name] = result
            carry = Carry(inner.name, inner.type, init, following, result.name, span=loop.span)
            carries.append(carry)
            results.append(result)
        after[v.name] = _rebuild(frame.names[v.name], results)
    flag = next((v.carries[0].name for v in variables.values() if v.name == loop.flag), None)
    builder.emit(loop.finish(tuple(carries), body, flag))
    ended = frame.names
    frame.names = outside
    for name in assigned_names(loop.body):
        if name not in after and name in ended and not same(ended[name], outside.get(name)):
            why = "it is assigned in a loop that may have had no iteration"
            after[name] = Undefined(why, loop.span)
    frame.names.update(after)
    frame.names.update(dropped)


def _leaves(value: object) -> list[object]:
    """The values in a variable: of a tuple each, of anything else itself."""
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]


def _rebuild(like: object, leaves: list[Val]) -> object:
    """`leaves` in the nesting of `like`."""
    rest = iter(leaves)

    def build(value: object) -> object:
        if isinstance(value, tuple):
            return tuple(build(item) for item in value)
        return next(rest)

    return build(like)


def _begin(ctx: Context, frame: Frame, v: Variable, loop: Loop) -> None:
    """Gives a variable its carries: the values at the start of an iteration."""
    builder = ctx.builder
    if v.fresh:
        assert v.types is not None
        starts: list[object] = [_anything(ctx, t, v.name) for t in v.types]
        value: object = starts[0] if len(starts) == 1 else tuple(starts)
    else:
        value = frame.names[v.name]
        starts = _leaves(value)
    if v.types is None:
        v.types = [_own_type(ctx, s, loop.span) for s in starts if is_valuelike(s)]
        if len(v.types) != len(starts):
            v.types = None
            v.carries, v.inits = [], []
            return
    v.carries, v.inits = [], []
    for start, type_ in zip(starts, v.types, strict=True):
        init = as_joined(ctx, start, type_, loop.span, v.name)
        inner = replace(init, name=builder.unique(v.name))
        builder.types[inner.name] = inner
        v.carries.append(inner)
        v.inits.append(init.name)
    frame.names[v.name] = _rebuild(value, v.carries)


def _anything(ctx: Context, type_: Joined, name: str) -> Val:
    """A first value nobody reads, for a variable that the first iteration sets."""
    op = Const(literal(0, type_.dtype))
    return ctx.builder.let(op, type_.dtype, type_.shape, name=name, weak=type_.weak)


def _own_type(ctx: Context, value: object, span: Span) -> Joined:
    return join(ctx, value, value, span)


def _nexts(ctx: Context, frame: Frame, v: Variable, span: Span) -> list[str]:
    """Names of a variable's values at the end of an iteration, over the axes of its carries."""
    assert v.types is not None
    leaves = _leaves(frame.names[v.name])
    try:
        return [as_joined(ctx, leaf, t, span).name for leaf, t in zip(leaves, v.types, strict=True)]
    except KernelTypeError as err:
        raise ctx.type_error(
            f"`{v.name}` would change its axes in the loop", span,
            f"it is computed from all of itself as {describe(leaves[0])}",
            "write it to a scratch tensor and read it in another parallel loop",
        ) from err  # fmt: skip


def _learn(
    ctx: Context, frame: Frame, loop: Loop, variables: dict[str, Variable],
    dropped: dict[str, Undefined], outside: dict[str, object], scope: Scope,
) -> None:  # fmt: skip
    """Compares the end of the body with its start. Raises Again when something was learnt."""
    again = False
    for v in list(variables.values()):
        end = frame.names.get(v.name)
        if v.types is None:
            again |= _learn_plain(ctx, v, end, outside, variables, dropped, loop)
            continue
        if isinstance(end, Undefined) or not _same_nesting(end, v, outside):
            _drop(ctx, v, end, variables, dropped, scope, loop)
            again = True
            continue
        leaves = _leaves(end)
        if all(same(leaf, carry) for leaf, carry in zip(leaves, v.carries, strict=True)):
            del variables[v.name]
            again = True
            continue
        try:
            types = [join(ctx, t, e, loop.span) for t, e in zip(v.carries, leaves, strict=True)]
        except CannotJoin:
            _drop(ctx, v, end, variables, dropped, scope, loop)
            again = True
            continue
        if types != v.types:
            v.types = types
            again = True
    if loop.once:
        again |= _adopt_fresh(ctx, frame, loop, variables, dropped, outside)
    if again:
        raise Again


def _adopt_fresh(
    ctx: Context, frame: Frame, loop: Loop, variables: dict[str, Variable],
    dropped: dict[str, Undefined], outside: dict[str, object],
) -> bool:  # fmt: skip
    """Variables first assigned in a loop that surely runs have a value after it."""
    found = False
    for name in dict.fromkeys(assigned_names(loop.body)):
        end = frame.names.get(name)
        new = name not in variables and name not in dropped and name != loop.target
        if new and name not in outside and isinstance(end, Val):
            variables[name] = Variable(name, [_own_type(ctx, end, loop.span)], fresh=True)
            found = True
    return found


def _learn_plain(
    ctx: Context, v: Variable, end: object, outside: dict[str, object],
    variables: dict[str, Variable], dropped: dict[str, Undefined], loop: Loop,
) -> bool:  # fmt: skip
    """A variable that holds something else than values: it must stay what it is."""
    del variables[v.name]
    if not same(end, outside[v.name]):
        why = f"the loop changes it from {describe(outside[v.name])}"
        dropped[v.name] = Undefined(why, loop.span)
    return True


def _same_nesting(end: object, v: Variable, outside: dict[str, object]) -> bool:
    leaves = _leaves(end)
    return len(leaves) == len(v.carries) and all(map(is_valuelike, leaves))


def _drop(
    ctx: Context, v: Variable, end: object, variables: dict[str, Variable],
    dropped: dict[str, Undefined], scope: Scope, loop: Loop,
) -> None:  # fmt: skip
    """A variable whose types differ may still be one that each iteration sets anew."""
    names = {c.name for c in v.carries}
    used = names & _read_names(scope.block())
    del variables[v.name]
    start = describe(v.carries[0] if len(v.carries) == 1 else tuple(v.carries))
    if used:
        finish = end.why if isinstance(end, Undefined) else describe(end)
        raise ctx.type_error(
            f"`{v.name}` changes its type in the loop", loop.span,
            f"it enters an iteration as {start} and leaves it as {finish}",
            f"give `{v.name}` its final type before the loop, e.g. kdsl.zeros(...) or .astype(...)",
        )  # fmt: skip
    dropped[v.name] = Undefined("the loop gives it another type in each iteration", loop.span)


def _read_names(block: Block) -> set[str]:
    found: set[str] = set()
    for stmt in walk(block):
        found.update(reads(stmt))
        for merge in getattr(stmt, "merges", ()):
            found.update((merge.then, merge.other))
        for carry in getattr(stmt, "carries", ()):
            found.add(carry.next)
    return found
