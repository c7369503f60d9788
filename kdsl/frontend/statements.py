"""Statements: assignment, `if`, `for`, calls for their effect."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from kdsl.dims import DimExpr, Extent
from kdsl.errors import Span
from kdsl.frontend import indexing
from kdsl.frontend.breaks import counted, flagged, has_break
from kdsl.frontend.calls import static_int
from kdsl.frontend.context import Context
from kdsl.frontend.control import CannotJoin, Merger, in_scope, merge_names
from kdsl.frontend.expressions import (
    arguments,
    binary,
    condition,
    evaluate,
    inner_function,
    items,
    operand,
)  # fmt: skip
from kdsl.frontend.flow import CONTINUE, END, Flow, Returned, leaves_early
from kdsl.frontend.frame import Frame
from kdsl.frontend.host import parallel, require, scratch
from kdsl.frontend.loops import TileWalk, range_loop, tile_loop, while_loop
from kdsl.frontend.values import Operand, TensorRef, Undefined, Val, describe
from kdsl.lang import names


def run(ctx: Context, frame: Frame, body: list[ast.stmt]) -> Flow:
    """Lowers statements up to the first that leaves the block."""
    for position, statement in enumerate(body):
        rest = body[position + 1 :]
        if isinstance(statement, ast.If):
            flow, took_rest = _if(ctx, frame, statement, rest)
            if took_rest or flow is not END:
                return flow
            continue
        rule = _RULES.get(type(statement))
        if rule is None:
            what, help = _REFUSED.get(type(statement), (type(statement).__name__, ""))
            raise ctx.syntax_error(
                f"a kernel cannot use {what}", frame.source.span(statement), help or _GENERAL_HELP
            )
        flow = rule(ctx, frame, statement)
        if flow is not END:
            return flow
    return END


# ---- assignment


def _assign(ctx: Context, frame: Frame, node: ast.Assign) -> Flow:
    only = node.targets[0] if len(node.targets) == 1 else None
    if isinstance(only, ast.Name) and isinstance(node.value, ast.Call):
        if evaluate_quietly(ctx, frame, node.value.func) is names.scratch:
            frame.names[only.id] = scratch(ctx, frame, node.value, only.id)
            return END
    if isinstance(only, ast.Tuple) and isinstance(node.value, ast.Tuple):
        if len(only.elts) == len(node.value.elts) and not _has_star(only, node.value):
            _assign_each(ctx, frame, only.elts, node.value.elts)
            return END
    value = operand(ctx, frame, node.value)
    for target in node.targets:
        assign(ctx, frame, target, value)
    return END


def evaluate_quietly(ctx: Context, frame: Frame, node: ast.expr) -> object:
    """A function's name or path, without anything being lowered; None for other expressions."""
    match node:
        case ast.Name():
            return evaluate(ctx, frame, node)
        case ast.Attribute(value=ast.Name() as owner) if owner.id not in frame.names:
            return evaluate(ctx, frame, node)
    return None


def _has_star(*nodes: ast.Tuple) -> bool:
    return any(isinstance(e, ast.Starred) for n in nodes for e in n.elts)


def _assign_each(
    ctx: Context, frame: Frame, targets: list[ast.expr], sources: list[ast.expr]
) -> None:
    """`a, b = x, y`: all right sides first, each called what its target is."""
    values = []
    for target, source in zip(targets, sources, strict=True):
        value = operand(ctx, frame, source)
        if isinstance(target, ast.Name) and isinstance(value.value, Val):
            value = value._replace(value=ctx.builder.name_last(value.value, target.id))
        values.append(value)
    for target, value in zip(targets, values, strict=True):
        assign(ctx, frame, target, value)


def assign(ctx: Context, frame: Frame, target: ast.expr, value: Operand) -> None:
    """`target = value` for a name, an element place or a tuple of them."""
    span = frame.source.span(target)
    match target:
        case ast.Name(id=name):
            new = value.value
            if isinstance(new, Val):
                new = ctx.builder.name_last(new, name)
            frame.names[name] = new
        case ast.Tuple(elts=elts) | ast.List(elts=elts):
            _unpack(ctx, frame, elts, value, span)
        case ast.Subscript():
            owner = operand(ctx, frame, target.value)
            if not isinstance(owner.value, TensorRef):
                raise ctx.type_error(
                    "only tensors have elements to write", owner.span, describe(owner.value),
                    "a value never changes: make a new one, e.g. with kdsl.where",
                )  # fmt: skip
            index = items(ctx, frame, target.slice)
            indexing.store(ctx, owner.value, index, value, span)
        case ast.Attribute():
            raise ctx.syntax_error("a kernel cannot assign attributes", span, "use a local name")
        case _:
            raise ctx.syntax_error("this is not assigned to", span, "assign each name by itself")


def _unpack(
    ctx: Context, frame: Frame, targets: list[ast.expr], value: Operand, span: Span
) -> None:
    if not isinstance(value.value, tuple):
        raise ctx.type_error("only a tuple is unpacked", value.span, describe(value.value))
    if any(isinstance(t, ast.Starred) for t in targets):
        raise ctx.syntax_error("a kernel cannot use `*` in a target", span, "name each value")
    if len(targets) != len(value.value):
        raise ctx.type_error(
            f"{len(targets)} names for {len(value.value)} values", span, help="name each value"
        )
    for target, item in zip(targets, value.value, strict=True):
        assign(ctx, frame, target, Operand(item, value.span))


def _augmented(ctx: Context, frame: Frame, node: ast.AugAssign) -> Flow:
    span = frame.source.span(node)
    target = node.target
    if isinstance(target, ast.Subscript):
        owner = operand(ctx, frame, target.value)
        index = items(ctx, frame, target.slice)
        where = frame.source.span(target)
        if not isinstance(owner.value, TensorRef):
            assign(ctx, frame, target, Operand(None, where))
            return END
        old = Operand(indexing.load(ctx, owner.value, index, where), where)
        new = binary(ctx, node.op, old, operand(ctx, frame, node.value), span)
        indexing.store(ctx, owner.value, index, Operand(new, span), where)
        return END
    if not isinstance(target, ast.Name):
        raise ctx.syntax_error("a kernel cannot assign attributes", span, "use a local name")
    where = frame.source.span(target)
    old = Operand(frame.look(ctx, target.id, where), where)
    if isinstance(old.value, Val):
        old = Operand(ctx.builder.local(old.value), where)
    new = binary(ctx, node.op, old, operand(ctx, frame, node.value), span)
    assign(ctx, frame, target, Operand(new, span))
    return END


# ---- if


def _if(ctx: Context, frame: Frame, node: ast.If, rest: list[ast.stmt]) -> tuple[Flow, bool]:
    """A branch. Where one of its paths leaves early, the rest of the block moves into the other
    paths; the second result says so."""
    test = condition(ctx, frame, node.test)
    if isinstance(test, bool):
        return run(ctx, frame, node.body if test else node.orelse), False
    span = frame.source.span(node.test)
    if not ctx.builder.in_phase:
        raise ctx.syntax_error(
            "host code cannot branch on a run-time value", span,
            "use a conditional expression, or branch inside kdsl.parallel",
        )  # fmt: skip
    early = leaves_early(node.body) or leaves_early(node.orelse)
    tail = rest if early else []
    before = frame.names
    paths: list[tuple[Flow, dict[str, object], Any]] = []
    for body in (node.body, node.orelse):
        frame.names = dict(before)
        statements = [*body, *tail]
        flow, scope = in_scope(ctx, lambda s=statements: run(ctx, frame, s))  # type: ignore[misc]
        assert isinstance(flow, Flow)
        paths.append((flow, frame.names, scope))
    (flow_a, names_a, scope_a), (flow_b, names_b, scope_b) = paths
    merger = Merger(ctx, test, scope_a, scope_b, span)
    frame.names = merge_names(ctx, merger, names_a, names_b, span)
    flow = _join_flows(ctx, merger, flow_a, flow_b, span)
    merger.emit()
    return flow, early


def _join_flows(ctx: Context, merger: Merger, a: Flow, b: Flow, span: Span) -> Flow:
    if isinstance(a, Returned) and isinstance(b, Returned):
        try:
            return Returned(merger.value(a.value, b.value))
        except CannotJoin as err:
            raise ctx.type_error(
                "the paths of this branch return different types", span, f"got {err}",
                "convert one with .astype, or fill a tile with kdsl.full",
            ) from err  # fmt: skip
    if isinstance(a, Returned) or isinstance(b, Returned):
        returned = a if isinstance(a, Returned) else b
        assert isinstance(returned, Returned)
        if returned.value is not None:
            raise ctx.syntax_error(
                "only some paths of this branch return a value", span, "return one on every path"
            )
        return returned
    return CONTINUE if CONTINUE in (a, b) else END


# ---- for


def _for(ctx: Context, frame: Frame, node: ast.For) -> Flow:
    span = frame.source.span(node.iter)
    if isinstance(node.iter, ast.Call):
        function = evaluate_quietly(ctx, frame, node.iter.func)
        if function is names.parallel:
            parallel(ctx, frame, node, lambda body: run(ctx, frame, body))
            return END
        if function in (names.tiles, range) and has_break(node.body):
            return _breaking(ctx, frame, node)
        if function is names.tiles:
            _no_else(ctx, frame, node)
            walked = tile_walk(ctx, frame, node.iter)
            _needs_phase(ctx, span)
            tile_loop(ctx, frame, node, _target(ctx, frame, node), walked, _body(ctx, frame, node))
            return END
        if function is range:
            _no_else(ctx, frame, node)
            called = arguments(ctx, frame, node.iter)
            _needs_phase(ctx, span)
            run_body = _body(ctx, frame, node)
            range_loop(ctx, frame, node, _target(ctx, frame, node), called.positional, run_body)
            return END
        if function in (enumerate, zip, reversed):
            _no_else(ctx, frame, node)
            return _unrolled(ctx, frame, node, _python_iterator(ctx, frame, node.iter, function))
    walked_value = operand(ctx, frame, node.iter)
    _no_else(ctx, frame, node)
    if isinstance(walked_value.value, tuple):
        return _unrolled(ctx, frame, node, walked_value.value)
    raise ctx.syntax_error(
        "a kernel cannot walk this", span,
        f"it is {describe(walked_value.value)}; a `for` walks kdsl.parallel(...), "
        "kdsl.tiles(...), range(...) or a tuple",
    )  # fmt: skip


def _breaking(ctx: Context, frame: Frame, node: ast.For) -> Flow:
    """A loop with `break`: where it has ended, its variable is not known."""
    loop, flag = flagged(node, {*frame.names, *frame.locals, *frame.around})
    frame.names[flag] = True
    flow = _for(ctx, frame, loop)
    frame.names.pop(flag, None)
    frame.names[_target(ctx, frame, node)] = Undefined(
        "its loop may end early", frame.source.span(node.target)
    )
    return flow


def _while(ctx: Context, frame: Frame, node: ast.While) -> Flow:
    span = frame.source.span(node.test)
    if node.orelse:
        raise ctx.syntax_error(
            "a kernel cannot use `else` of a loop", frame.source.span(node.orelse[0]),
            "put the statements after the loop",
        )  # fmt: skip
    _needs_phase(ctx, span)
    test = condition(ctx, frame, node.test)
    if test is False:
        return END
    loop, flag = counted(node, {*frame.names, *frame.locals, *frame.around})
    frame.names[flag] = test
    while_loop(ctx, frame, loop, flag, span, _body(ctx, frame, loop))
    frame.names.pop(flag, None)
    return END


def _python_iterator(
    ctx: Context, frame: Frame, node: ast.Call, function: Any
) -> tuple[object, ...]:
    called = arguments(ctx, frame, node)
    for o in called.positional:
        if not isinstance(o.value, tuple):
            raise ctx.type_error("only tuples are walked so", o.span, describe(o.value))
    return tuple(function(*(o.value for o in called.positional)))


def _unrolled(ctx: Context, frame: Frame, node: ast.For, values: tuple[object, ...]) -> Flow:
    """A loop over a tuple is its body once for each."""
    if leaves_early(node.body):
        raise ctx.syntax_error(
            "a loop over a tuple cannot `continue` or return", frame.source.span(node)
        )
    for value in values:
        assign(ctx, frame, node.target, Operand(value, frame.source.span(node.iter)))
        run(ctx, frame, node.body)
    return END


def _needs_phase(ctx: Context, span: Span) -> None:
    if not ctx.builder.in_phase:
        raise ctx.syntax_error(
            "a loop stands outside kdsl.parallel", span,
            "the outermost loops of a kernel are `for ... in kdsl.parallel(...)`",
        )  # fmt: skip


def _no_else(ctx: Context, frame: Frame, node: ast.For) -> None:
    if node.orelse:
        raise ctx.syntax_error(
            "a kernel cannot use `else` of a loop", frame.source.else_span(node),
            "put the statements after the loop",
        )  # fmt: skip


def _target(ctx: Context, frame: Frame, node: ast.For) -> str:
    if isinstance(node.target, ast.Name):
        return node.target.id
    raise ctx.syntax_error(
        "this loop has one variable", frame.source.span(node.target), "write one name here"
    )


def _body(ctx: Context, frame: Frame, node: ast.For) -> Callable[[], None]:
    def body() -> None:
        flow = run(ctx, frame, node.body)
        if isinstance(flow, Returned):
            raise ctx.syntax_error(
                "a loop cannot be left by `return`", frame.source.span(node),
                "compute the result in a variable and return it after the loop",
            )  # fmt: skip

    return body


def tile_walk(ctx: Context, frame: Frame, node: ast.Call) -> TileWalk:
    """The arguments of `kdsl.tiles(...)`."""
    bound = arguments(ctx, frame, node).bind(ctx, "tiles", "dim *start= *stop= *size=")
    dim = bound["dim"]
    extent: Extent | None = None
    if isinstance(dim.value, (int, DimExpr)) and not isinstance(dim.value, bool):
        extent = dim.value
    if extent is None:
        raise ctx.type_error(
            "tiles are of a dim", dim.span, describe(dim.value),
            "a run-time end is `kdsl.tiles(N, stop=...)`",
        )  # fmt: skip
    size = None
    if "size" in bound and bound["size"].value is not None:
        size = static_int(ctx, bound["size"], "the size of a tile")
        if size < 1:
            raise ctx.type_error("a tile has at least one element", bound["size"].span, f"{size}")
    return TileWalk(extent, bound.get("start"), bound.get("stop"), size)


# ---- the rest


def _expression(ctx: Context, frame: Frame, node: ast.Expr) -> Flow:
    if isinstance(node.value, ast.Constant):
        return END
    if isinstance(node.value, ast.Call):
        function = evaluate_quietly(ctx, frame, node.value.func)
        if function is names.require and not ctx.builder.in_phase:
            require(ctx, frame, node.value)
            return END
        if function is names.atomic_add:
            return _atomic_add(ctx, frame, node.value)
    value = evaluate(ctx, frame, node.value)
    if isinstance(node.value, (ast.Compare, ast.BinOp)) or isinstance(value, Val):
        raise ctx.syntax_error(
            "the value of this statement is lost", frame.source.span(node),
            "assign it: to a name, or to `tensor[...]`",
        )  # fmt: skip
    return END


def _atomic_add(ctx: Context, frame: Frame, node: ast.Call) -> Flow:
    """`kdsl.atomic_add(tensor[index], value)`: its first argument is a place, it is not read."""
    span = frame.source.span(node)
    if len(node.args) != 2 or node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
        raise ctx.type_error(
            "`atomic_add` takes a place and a value", span, help=_ATOMIC_HELP
        )  # fmt: skip
    place, value = node.args
    where = frame.source.span(place)
    tensor = operand(ctx, frame, place.value) if isinstance(place, ast.Subscript) else None
    if tensor is None or not isinstance(tensor.value, TensorRef):
        raise ctx.type_error(
            "`atomic_add` adds to elements of a tensor", where, "this names none", _ATOMIC_HELP
        )
    assert isinstance(place, ast.Subscript)
    index = items(ctx, frame, place.slice)
    indexing.atomic_add(ctx, tensor.value, index, operand(ctx, frame, value), where)
    return END


_ATOMIC_HELP = "write kdsl.atomic_add(tensor[index], value)"


def _return(ctx: Context, frame: Frame, node: ast.Return) -> Flow:
    if frame.is_kernel:
        raise ctx.syntax_error(
            "a kernel cannot return", frame.source.span(node),
            "results are written to Out parameters; `continue` ends an iteration",
        )  # fmt: skip
    if frame.loops:
        raise ctx.syntax_error(
            "a loop cannot be left by `return`", frame.source.span(node),
            "compute the result in a variable and return it after the loop",
        )  # fmt: skip
    return Returned(None if node.value is None else evaluate(ctx, frame, node.value))


def _continue(ctx: Context, frame: Frame, node: ast.Continue) -> Flow:
    return CONTINUE


def _break(ctx: Context, frame: Frame, node: ast.Break) -> Flow:
    raise ctx.syntax_error(
        "a loop over a tuple cannot `break`", frame.source.span(node),
        "its iterations are written out; put what follows under `if`",
    )  # fmt: skip


def _pass(ctx: Context, frame: Frame, node: ast.Pass) -> Flow:
    return END


def _inner(ctx: Context, frame: Frame, node: ast.FunctionDef) -> Flow:
    if node.decorator_list:
        where = frame.source.span(node.decorator_list[0])
        function = evaluate(ctx, frame, node.decorator_list[0])
        if function is not names.inline:
            raise ctx.syntax_error("an inner function has no decorator but kdsl.inline", where)
    frame.names[node.name] = inner_function(frame, node)
    return END


def _assert(ctx: Context, frame: Frame, node: ast.Assert) -> Flow:
    test = condition(ctx, frame, node.test)
    if test is True:
        return END
    if test is False:
        raise ctx.type_error("this assertion does not hold", frame.source.span(node.test))
    raise ctx.syntax_error(
        "a kernel asserts only what is known at compile time", frame.source.span(node),
        "a condition of the call is kdsl.require(...), before kdsl.parallel",
    )  # fmt: skip


Rule = Callable[[Context, Frame, Any], Flow]

_RULES: dict[type[ast.AST], Rule] = {
    ast.Assign: _assign,
    ast.AugAssign: _augmented,
    ast.For: _for,
    ast.While: _while,
    ast.Expr: _expression,
    ast.Return: _return,
    ast.Continue: _continue,
    ast.Break: _break,
    ast.Pass: _pass,
    ast.FunctionDef: _inner,
    ast.Assert: _assert,
}

_GENERAL_HELP = "a kernel is made of numbers, tiles, assignments, `if`, `for` and calls"
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.AnnAssign: ("an annotated assignment", "leave the annotation out; convert with .astype"),
    ast.Try: ("`try`", "nothing in a kernel raises; test the condition"),
    ast.With: ("`with`", ""),
    ast.AsyncFor: ("`async`", ""),
    ast.AsyncWith: ("`async`", ""),
    ast.AsyncFunctionDef: ("`async`", ""),
    ast.ClassDef: ("a class", "define it outside the kernel"),
    ast.Delete: ("`del`", "a name that is not used costs nothing"),
    ast.Global: ("`global`", "write results to an Out parameter"),
    ast.Nonlocal: ("`nonlocal`", "return the value from the inner function"),
    ast.Import: ("`import`", "import outside the kernel"),
    ast.ImportFrom: ("`import`", "import outside the kernel"),
    ast.Raise: ("`raise`", "a condition of the call is kdsl.require(...)"),
    ast.Match: ("`match`", "use `if` and `elif`"),
}
