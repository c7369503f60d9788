"""Expressions: each kind of ast node has one function here, or is refused with a way out."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from kdsl.dims import DimExpr
from kdsl.dtypes import DType
from kdsl.errors import Span
from kdsl.frontend import calls, elementwise, indexing, tiles
from kdsl.frontend.calls import METHODS, Arguments
from kdsl.frontend.context import Context
from kdsl.frontend.control import choose, in_scope, is_cheap_scope
from kdsl.frontend.frame import Frame, known
from kdsl.frontend.lambdas import as_function
from kdsl.frontend.source import FunctionSource
from kdsl.frontend.values import (
    Closure,
    Method,
    Operand,
    Slice,
    TensorRef,
    TileRef,
    Val,
    describe,
)  # fmt: skip

BINARY: dict[type[ast.AST], str] = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.FloorDiv: "floordiv",
    ast.Mod: "mod",
    ast.Pow: "pow",
    ast.BitAnd: "and",
    ast.BitOr: "or",
    ast.BitXor: "xor",
    ast.LShift: "shl",
    ast.RShift: "shr",
}
_COMPARE: dict[type[ast.AST], str] = {
    ast.Eq: "eq",
    ast.NotEq: "ne",
    ast.Lt: "lt",
    ast.LtE: "le",
    ast.Gt: "gt",
    ast.GtE: "ge",
}


def evaluate(ctx: Context, frame: Frame, node: ast.expr) -> object:
    """The value of an expression. Raises KernelSyntaxError, KernelTypeError."""
    rule = _RULES.get(type(node))
    if rule is None:
        what, help = _REFUSED.get(type(node), (type(node).__name__, ""))
        raise ctx.syntax_error(
            f"a kernel cannot use {what}", frame.source.span(node), help or _GENERAL_HELP
        )
    return rule(ctx, frame, node)


def operand(ctx: Context, frame: Frame, node: ast.expr) -> Operand:
    """An expression's value with its place."""
    return Operand(evaluate(ctx, frame, node), frame.source.span(node))


def binary(ctx: Context, op: ast.operator, a: Operand, b: Operand, span: Span) -> object:
    """`a op b`."""
    fn = BINARY.get(type(op))
    if fn is None:
        raise ctx.syntax_error(
            "a kernel cannot use `@`", span, f"write kdsl.dot({a.text}, {b.text})"
        )
    if isinstance(a.value, TileRef) or isinstance(b.value, TileRef):
        return indexing.shift_tile(ctx, fn, a, b, span)
    if isinstance(a.value, (tuple, str)) or isinstance(b.value, (tuple, str)):
        return _sequences(ctx, fn, a, b, span)
    return elementwise.apply(ctx, fn, [a, b], span)


def _sequences(ctx: Context, fn: str, a: Operand, b: Operand, span: Span) -> object:
    """Concatenation and repetition of tuples and strings known at compile time."""
    x: Any = a.value
    y: Any = b.value
    if (fn == "add" and type(x) is type(y)) or (
        fn == "mul" and (isinstance(x, int) or isinstance(y, int))
    ):
        result: object = x + y if fn == "add" else x * y
        return result
    wrong = b if isinstance(b.value, (tuple, str)) else a
    raise ctx.type_error("this is no number", wrong.span, describe(wrong.value))


def _constant(ctx: Context, frame: Frame, node: ast.Constant) -> object:
    if isinstance(node.value, (complex, bytes)):
        raise ctx.type_error(
            f"a kernel has no {type(node.value).__name__}", frame.source.span(node)
        )
    return node.value


def _name(ctx: Context, frame: Frame, node: ast.Name) -> object:
    value = frame.look(ctx, node.id, frame.source.span(node))
    return ctx.builder.local(value) if isinstance(value, Val) else value


def _binary(ctx: Context, frame: Frame, node: ast.BinOp) -> object:
    a, b = operand(ctx, frame, node.left), operand(ctx, frame, node.right)
    return binary(ctx, node.op, a, b, frame.source.span(node))


def _unary(ctx: Context, frame: Frame, node: ast.UnaryOp) -> object:
    span = frame.source.span(node)
    x = operand(ctx, frame, node.operand)
    match node.op:
        case ast.USub():
            return elementwise.negate(ctx, x, span)
        case ast.UAdd():
            return ctx.value(x)
        case ast.Invert():
            return elementwise.apply(ctx, "not", [x], span)
    known_truth = elementwise.truth(ctx, x)
    if known_truth is not None:
        return not known_truth
    val = ctx.scalar_bool(x)
    return elementwise.apply(ctx, "not", [Operand(val, x.span)], span)


def condition(ctx: Context, frame: Frame, node: ast.expr) -> bool | Val:
    """A condition: a bool known at compile time, or a run-time scalar bool."""
    test = operand(ctx, frame, node)
    known_truth = elementwise.truth(ctx, test)
    return ctx.scalar_bool(test) if known_truth is None else known_truth


def _bool_op(ctx: Context, frame: Frame, node: ast.BoolOp) -> object:
    return _short_circuit(ctx, frame, node.values, isinstance(node.op, ast.And), node)


def _short_circuit(
    ctx: Context, frame: Frame, values: list[ast.expr], is_and: bool, node: ast.BoolOp
) -> object:
    first = operand(ctx, frame, values[0])
    if len(values) == 1:
        if isinstance(first.value, (Val, DimExpr)):
            return ctx.scalar_bool(first)
        return first.value
    known_truth = elementwise.truth(ctx, first)
    if known_truth is not None:
        if known_truth != is_and:
            return first.value
        return _short_circuit(ctx, frame, values[1:], is_and, node)
    cond = ctx.scalar_bool(first)

    def rest() -> object:
        value = _short_circuit(ctx, frame, values[1:], is_and, node)
        return ctx.scalar_bool(Operand(value, frame.source.span(values[1])))

    return _connect(ctx, cond, rest, is_and, frame.source.span(node))


def _connect(
    ctx: Context, cond: Val, rest: Callable[[], object], is_and: bool, span: Span
) -> object:
    """`cond and rest()`: one operation where `rest` is cheap, a branch where it is not."""
    mark = ctx.builder.mark()
    value, scope = in_scope(ctx, rest)
    if is_cheap_scope(scope):
        ctx.builder.scope.body += scope.block()
        fn = "and" if is_and else "or"
        pair = [Operand(cond, span), Operand(value, span)]
        return elementwise.apply(ctx, fn, pair, span)
    ctx.builder.rewind(mark)
    if is_and:
        return choose(ctx, cond, rest, lambda: False, span)
    return choose(ctx, cond, lambda: True, rest, span)


def _compare(ctx: Context, frame: Frame, node: ast.Compare) -> object:
    left = operand(ctx, frame, node.left)
    return _chain(ctx, frame, left, list(node.ops), list(node.comparators), node)


def _chain(
    ctx: Context, frame: Frame, left: Operand, ops: list[ast.cmpop], others: list[ast.expr],
    node: ast.Compare,
) -> object:  # fmt: skip
    span = frame.source.span(node)
    right = operand(ctx, frame, others[0])
    result = _compare_pair(ctx, ops[0], left, right, span)
    if len(ops) == 1:
        return result
    here = Operand(result, span)
    if isinstance(result, Val) and not result.is_scalar:
        raise ctx.type_error(
            "a chained comparison is of single numbers", span, describe(result),
            "of tiles it is `(a < b) & (b < c)`",
        )  # fmt: skip
    known_truth = elementwise.truth(ctx, here)
    if known_truth is False:
        return False

    def rest() -> object:
        return _chain(ctx, frame, right, ops[1:], others[1:], node)

    if known_truth:
        return rest()
    cond = ctx.scalar_bool(here)
    return _connect(ctx, cond, lambda: ctx.scalar_bool(Operand(rest(), span)), True, span)


def _compare_pair(ctx: Context, op: ast.cmpop, a: Operand, b: Operand, span: Span) -> object:
    run_time = any(isinstance(x.value, (Val, DimExpr, TileRef, TensorRef)) for x in (a, b))
    match op:
        case ast.Is():
            return a.value is b.value
        case ast.IsNot():
            return a.value is not b.value
        case ast.In() | ast.NotIn():
            if run_time or not isinstance(b.value, (tuple, str)):
                raise ctx.syntax_error("`in` is of values known at compile time", span)
            found: bool = a.value in b.value
            return found == isinstance(op, ast.In)
    fn = _COMPARE[type(op)]
    if not run_time and fn in ("eq", "ne"):
        return (a.value == b.value) == (fn == "eq")
    if a.value is None or b.value is None:
        raise ctx.type_error("None is compared with `is`", span)
    return elementwise.apply(ctx, fn, [a, b], span)


def _if_expression(ctx: Context, frame: Frame, node: ast.IfExp) -> object:
    test = condition(ctx, frame, node.test)
    if isinstance(test, bool):
        return evaluate(ctx, frame, node.body if test else node.orelse)
    span = frame.source.span(node)
    return choose(
        ctx,
        test,
        lambda: evaluate(ctx, frame, node.body),
        lambda: evaluate(ctx, frame, node.orelse),
        span,
    )


def _tuple(ctx: Context, frame: Frame, node: ast.Tuple) -> object:
    items: list[object] = []
    for element in node.elts:
        if isinstance(element, ast.Starred):
            items.extend(_starred(ctx, frame, element))
        else:
            items.append(evaluate(ctx, frame, element))
    return tuple(items)


def _starred(ctx: Context, frame: Frame, node: ast.Starred) -> tuple[object, ...]:
    inner = operand(ctx, frame, node.value)
    if not isinstance(inner.value, tuple):
        raise ctx.type_error("only a tuple is unpacked", inner.span, describe(inner.value))
    return inner.value


def _named(ctx: Context, frame: Frame, node: ast.NamedExpr) -> object:
    value = evaluate(ctx, frame, node.value)
    frame.names[node.target.id] = value
    return value


def _lambda(ctx: Context, frame: Frame, node: ast.Lambda) -> object:
    return inner_function(frame, as_function(node))


def inner_function(frame: Frame, node: ast.FunctionDef) -> Closure:
    """A function defined in a kernel or helper."""
    source = FunctionSource(frame.source.function, frame.source.text, node)
    return Closure(source, frame.names)


# ---- attributes, indices, calls


def _attribute(ctx: Context, frame: Frame, node: ast.Attribute) -> object:
    owner = operand(ctx, frame, node.value)
    span = frame.source.span(node)
    value, name = owner.value, node.attr
    match value:
        case TileRef():
            return _of_tile(ctx, value, name, owner, span)
        case Val():
            return _of_value(ctx, value, name, owner, span)
        case TensorRef():
            return _of_tensor(ctx, value, name, owner, span)
        case ModuleType() | DType():
            pass
        case DimExpr():
            raise ctx.type_error(f"a size has no `{name}`", span, describe(value))
    try:
        return known(ctx, getattr(value, name), span)
    except AttributeError:
        pass
    close = difflib.get_close_matches(name, dir(value), 1)
    hint = f"did you mean `{owner.text}.{close[0]}`?" if close else ""
    raise ctx.type_error(f"`{owner.text}` has no `{name}`", span, "", hint)


def _of_tile(ctx: Context, tile: TileRef, name: str, owner: Operand, span: Span) -> object:
    builder = ctx.builder
    match name:
        case "start" | "stop":
            base: Val = builder.bound(tile.axis, name)
        case "size":
            return builder.bound(tile.axis, "len")
        case "index":
            base = builder.iota(tile.axis)
        case _:
            raise ctx.type_error(
                f"a tile has no `{name}`", span, "", "a tile has start, stop, size and index"
            )
    if isinstance(tile.offset, int) and tile.offset == 0:
        return base
    pair = [Operand(base, span), Operand(tile.offset, span)]
    return elementwise.apply(ctx, "add", pair, span)


def _of_value(ctx: Context, val: Val, name: str, owner: Operand, span: Span) -> object:
    if val.weak and val.is_scalar:
        raise ctx.type_error(
            f"a Python number has no `{name}`", span, f"`{owner.text}` is {describe(val)}"
        )
    if name in METHODS:
        return Method(name, val, owner.span)
    match name:
        case "T":
            return indexing.transpose(val)
        case "ndim":
            return len(val.shape)
        case "dtype":
            return val.dtype
        case "shape":
            return tuple(1 if a is None else tiles.axis_length(ctx, a) for a in val.shape)
    close = difflib.get_close_matches(name, (*METHODS, "T", "ndim", "dtype", "shape"), 1)
    hint = f"did you mean `.{close[0]}`?" if close else ""
    raise ctx.type_error(f"a value has no `{name}`", span, describe(val), hint)


def _of_tensor(ctx: Context, tensor: TensorRef, name: str, owner: Operand, span: Span) -> object:
    match name:
        case "dtype":
            return tensor.dtype
        case "ndim":
            return tensor.type.ndim
        case "shape":
            return tensor.type.shape
        case "take":
            return Method(name, tensor, owner.span)
    ctx.value(owner)
    raise ctx.type_error(f"a tensor has no `{name}`", span)


def items(ctx: Context, frame: Frame, node: ast.expr) -> list[Operand]:
    """The items of an index."""
    if isinstance(node, ast.Tuple):
        found: list[Operand] = []
        for element in node.elts:
            if isinstance(element, ast.Starred):
                span = frame.source.span(element)
                found += [Operand(v, span) for v in _starred(ctx, frame, element)]
            else:
                found += [_item(ctx, frame, element)]
        return found
    one = _item(ctx, frame, node)
    if isinstance(one.value, tuple):
        return [Operand(v, one.span) for v in one.value]
    return [one]


def _item(ctx: Context, frame: Frame, node: ast.expr) -> Operand:
    if not isinstance(node, ast.Slice):
        return operand(ctx, frame, node)
    span = frame.source.span(node)
    start, stop, step = (
        None if n is None else evaluate(ctx, frame, n) for n in (node.lower, node.upper, node.step)
    )
    return Operand(Slice(start, stop, step, span), span)


def _subscript(ctx: Context, frame: Frame, node: ast.Subscript) -> object:
    owner = operand(ctx, frame, node.value)
    span = frame.source.span(node)
    index = items(ctx, frame, node.slice)
    match owner.value:
        case TensorRef() as tensor:
            return indexing.load(ctx, tensor, index, span)
        case Val() as val:
            return indexing.view(ctx, val, index, span)
        case TileRef() | DimExpr() | bool() | int() | float() | None:
            raise ctx.type_error("this is not indexed", owner.span, describe(owner.value))
    keys = [_python_key(ctx, i) for i in index]
    container: Any = owner.value
    try:
        return known(ctx, container[tuple(keys) if len(keys) > 1 else keys[0]], span)
    except (TypeError, KeyError, IndexError) as err:
        raise ctx.type_error(
            f"this index fails: {type(err).__name__}: {err}", span, describe(owner.value)
        ) from err


def _python_key(ctx: Context, item: Operand) -> object:
    match item.value:
        case Slice(start=start, stop=stop, step=step):
            return slice(start, stop, step)
        case Val() | DimExpr() | TileRef() | TensorRef():
            raise ctx.type_error(
                "this index must be known at compile time", item.span, describe(item.value)
            )
    return item.value


def arguments(ctx: Context, frame: Frame, node: ast.Call) -> Arguments:
    """Evaluated arguments of a call."""
    positional: list[Operand] = []
    for a in node.args:
        if isinstance(a, ast.Starred):
            span = frame.source.span(a)
            positional += [Operand(v, span) for v in _starred(ctx, frame, a)]
        else:
            positional.append(operand(ctx, frame, a))
    named: dict[str, Operand] = {}
    for k in node.keywords:
        if k.arg is None:
            raise ctx.syntax_error(
                "a kernel cannot use `**` in a call", frame.source.span(k), "name each argument"
            )
        named[k.arg] = operand(ctx, frame, k.value)
    return Arguments(positional, named, frame.source.span(node))


def _call(ctx: Context, frame: Frame, node: ast.Call) -> object:
    function = evaluate(ctx, frame, node.func)
    name = frame.source.text.segment(node.func)
    return calls.call(ctx, function, arguments(ctx, frame, node), name)


Rule = Callable[[Context, Frame, Any], object]

_RULES: dict[type[ast.AST], Rule] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.BoolOp: _bool_op,
    ast.Compare: _compare,
    ast.IfExp: _if_expression,
    ast.Tuple: _tuple,
    ast.NamedExpr: _named,
    ast.Lambda: _lambda,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.Call: _call,
}

_GENERAL_HELP = "a kernel is made of numbers, tiles, assignments, `if`, `for` and calls"
_NO_LISTS = "use a tuple, or a tile"
_REFUSED: dict[type[ast.AST], tuple[str, str]] = {
    ast.List: ("a list", _NO_LISTS),
    ast.Dict: ("a dict", _NO_LISTS),
    ast.Set: ("a set", _NO_LISTS),
    ast.ListComp: ("a comprehension", _NO_LISTS),
    ast.SetComp: ("a comprehension", _NO_LISTS),
    ast.DictComp: ("a comprehension", _NO_LISTS),
    ast.GeneratorExp: ("a generator", _NO_LISTS),
    ast.JoinedStr: ("an f-string", "a kernel computes with numbers only"),
    ast.FormattedValue: ("an f-string", "a kernel computes with numbers only"),
    ast.Await: ("`await`", ""),
    ast.Yield: ("`yield`", ""),
    ast.YieldFrom: ("`yield from`", ""),
    ast.Starred: ("`*` here", "unpack a tuple in a call, a tuple or an index"),
    ast.Slice: ("a slice here", "a slice stands in an index"),
}
