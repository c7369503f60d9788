"""Host code of a kernel: `require`, `scratch`, and the parallel loops that are its phases."""

from __future__ import annotations

import ast
from collections.abc import Callable

from kdsl.dims import Dim, DimExpr, Extent
from kdsl.dtypes import TensorType
from kdsl.errors import Span
from kdsl.frontend.calls import Arguments, static_int
from kdsl.frontend.context import Context
from kdsl.frontend.expressions import arguments, evaluate, operand
from kdsl.frontend.flow import Flow, Returned
from kdsl.frontend.frame import Frame
from kdsl.frontend.targets import loop_targets
from kdsl.frontend.values import Operand, TensorRef, TileRef, Undefined, describe
from kdsl.ir.nodes import Block, Each, Parallel, Require, ScratchBuffer
from kdsl.lang import names


def require(ctx: Context, frame: Frame, node: ast.Call) -> None:
    """`kdsl.require(condition, ...)`: each is checked by the host when the kernel is called."""
    if node.keywords:
        where = frame.source.span(node.keywords[0])
        raise ctx.type_error("`require` takes conditions only", where)
    for argument in node.args:
        condition = operand(ctx, frame, argument)
        if condition.value is True:
            continue
        text = frame.source.text.segment(argument)
        _remember(ctx, frame, argument)
        val = ctx.scalar_bool(condition)
        ctx.builder.emit(Require(val.name, text, span=condition.span))


def _remember(ctx: Context, frame: Frame, node: ast.expr) -> None:
    """`D % 2 == 0` makes `D - D // 2` and `D // 2` one size."""
    match node:
        case ast.Compare(
            left=ast.BinOp(left=ast.Name() as name, op=ast.Mod(), right=by),
            ops=[ast.Eq()],
            comparators=[ast.Constant(value=0)],
        ):
            dim, factor = evaluate(ctx, frame, name), evaluate(ctx, frame, by)
            if isinstance(dim, Dim) and isinstance(factor, int) and factor > 1:
                ctx.multiples[dim.name] = factor


def scratch(ctx: Context, frame: Frame, node: ast.Call, name: str) -> TensorRef:
    """`part = kdsl.scratch(f32, M, N)`."""
    called = arguments(ctx, frame, node)
    if ctx.builder.in_phase:
        raise ctx.syntax_error(
            "a scratch tensor is made inside kdsl.parallel", called.span,
            "make it before the loop; a tile of one iteration is kdsl.zeros(...)",
        )  # fmt: skip
    if called.named or not called.positional:
        raise ctx.type_error("`scratch` takes a dtype and a shape", called.span)
    dtype = ctx.dtype(called.positional[0])
    shape = tuple(_size(ctx, o) for o in called.positional[1:])
    type_ = TensorType(dtype, shape)
    unique = ctx.builder.unique(name)
    ctx.builder.scratch.append(ScratchBuffer(unique, type_, span=called.span))
    return TensorRef(unique, type_, "scratch")


def _size(ctx: Context, item: Operand) -> Extent:
    if isinstance(item.value, (int, DimExpr)) and not isinstance(item.value, bool):
        return item.value
    raise ctx.type_error(
        "the shape of a scratch tensor is dims and integers", item.span, describe(item.value)
    )


def parallel(
    ctx: Context, frame: Frame, node: ast.For, run: Callable[[list[ast.stmt]], Flow]
) -> None:
    """`for b, m in kdsl.parallel(B, kdsl.tiles(M)):` is a phase."""
    assert isinstance(node.iter, ast.Call)
    span = frame.source.span(node.iter)
    if ctx.builder.in_phase:
        raise ctx.syntax_error(
            "kdsl.parallel stands inside another one", span,
            "name all its variables in one loop: `for b, m in kdsl.parallel(B, kdsl.tiles(M)):`",
        )  # fmt: skip
    if node.orelse:
        raise ctx.syntax_error(
            "a kernel cannot use `else` of a loop", frame.source.else_span(node),
            "put the statements after the loop",
        )  # fmt: skip
    _check_no_break(ctx, frame, node.body)
    targets = loop_targets(frame.source, node)
    if node.iter.keywords or not node.iter.args:
        raise ctx.type_error("`parallel` takes dims and kdsl.tiles(...)", span)
    builder = ctx.builder
    vars_: list[Each] = []
    values: list[tuple[str, TileRef | None, str]] = []
    for (name, where), walked in zip(targets, node.iter.args, strict=True):
        each, tile = _each(ctx, frame, name, walked, where)
        vars_.append(each)
        values.append((name, tile, each.var))
    builder.open_phase(frozenset(e.var for e in vars_))
    before = dict(frame.names)
    for name, tile, var in values:
        frame.names[name] = builder.loop_var(var) if tile is None else tile
    frame.loops += 1
    flow = run(node.body)
    frame.loops -= 1
    assert not isinstance(flow, Returned)
    builder.close_phase(lambda body: _phase(vars_, body, span))
    after = frame.names
    frame.names = before
    why = "it belongs to an iteration of kdsl.parallel"
    changed = [n for n in after if n not in before or after[n] is not before[n]]
    frame.names.update((n, Undefined(why, span)) for n in changed)


def _phase(vars_: list[Each], body: Block, span: Span) -> Parallel:
    return Parallel(tuple(vars_), body, span=span)


def _each(
    ctx: Context, frame: Frame, name: str, walked: ast.expr, where: Span
) -> tuple[Each, TileRef | None]:
    if isinstance(walked, ast.Call):
        function = evaluate(ctx, frame, walked.func)
        if function is names.tiles:
            return _each_tile(ctx, name, arguments(ctx, frame, walked), where)
    size = operand(ctx, frame, walked)
    if isinstance(size.value, (int, DimExpr)) and not isinstance(size.value, bool):
        return Each(ctx.builder.unique(name), size.value, False, span=where), None
    raise ctx.type_error(
        "`parallel` takes dims and kdsl.tiles(...)", size.span, describe(size.value)
    )


def _each_tile(ctx: Context, name: str, called: Arguments, where: Span) -> tuple[Each, TileRef]:
    bound = called.bind(ctx, "tiles", "dim *start= *stop= *size=")
    dim = bound["dim"]
    if isinstance(dim.value, bool) or not isinstance(dim.value, (int, DimExpr)):
        raise ctx.type_error("tiles are of a dim", dim.span, describe(dim.value))
    for end in ("start", "stop"):
        if end in bound and bound[end].value is not None:
            raise ctx.type_error(
                f"tiles of a parallel loop have no `{end}`", bound[end].span,
                help="they cover the dim; guard the body with `if`",
            )  # fmt: skip
    size = None
    if "size" in bound and bound["size"].value is not None:
        size = static_int(ctx, bound["size"], "the size of a tile")
        if size < 1:
            raise ctx.type_error("a tile has at least one element", bound["size"].span, f"{size}")
    axis = ctx.builder.tile_axis(name, dim.value, size)
    return Each(axis, dim.value, True, span=where), TileRef(axis, dim.value)


def _check_no_break(ctx: Context, frame: Frame, body: list[ast.stmt]) -> None:
    """`break` and `return` directly in a parallel loop would make iterations depend."""

    def check(node: ast.AST) -> None:
        match node:
            case ast.Break() | ast.Return():
                word = "break" if isinstance(node, ast.Break) else "return"
                raise ctx.syntax_error(
                    f"`{word}` cannot leave a parallel loop", frame.source.span(node),
                    "iterations are independent; `continue` ends one",
                )  # fmt: skip
            case ast.For() | ast.While() | ast.FunctionDef() | ast.Lambda():
                return
        for child in ast.iter_child_nodes(node):
            check(child)

    for statement in body:
        check(statement)
