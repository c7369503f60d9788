"""Calls: functions of the language, methods of values, Python's own functions, helpers."""

from __future__ import annotations

import builtins
import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from kdsl.dims import DimExpr
from kdsl.dtypes import DType, f32
from kdsl.errors import Span
from kdsl.frontend import elementwise, indexing, reshaping, sorting, tiles
from kdsl.frontend.context import Context
from kdsl.frontend.extents import as_int
from kdsl.frontend.values import (
    Closure,
    Method,
    Operand,
    TensorRef,
    TileRef,
    Val,
    describe,
    is_number,
)  # fmt: skip
from kdsl.lang import __all__ as LANGUAGE  # noqa: N812
from kdsl.lang import names
from kdsl.lang.ops import FUNCTIONS, OPS, REDUCTIONS, SCANS

_SPREADS = ("var", "std")
_REDUCING = (*REDUCTIONS, "mean", *_SPREADS)
_SCANNING = {f"cum{fn}": fn for fn in SCANS}
METHODS = frozenset((*_REDUCING, *_SCANNING, "astype", "reshape"))


@dataclass(slots=True)
class Arguments:
    """Evaluated arguments of a call."""

    positional: list[Operand]
    named: dict[str, Operand]
    span: Span

    def bind(self, ctx: Context, what: str, signature: str) -> dict[str, Operand]:
        """Arguments by parameter; `signature` is "a b=" with `=` after optional ones and `*` in
        front of the keyword-only. Raises KernelTypeError."""
        bound: dict[str, Operand] = {}
        order = [p.rstrip("=") for p in signature.split() if not p.startswith("*")]
        all_names = [p.strip("*=") for p in signature.split()]
        if len(self.positional) > len(order):
            extra = self.positional[len(order)]
            raise ctx.type_error(
                f"`{what}` takes {len(order)} positional argument{'s' * (len(order) != 1)}",
                extra.span, f"got {len(self.positional)}",
            )  # fmt: skip
        bound.update(zip(order, self.positional, strict=False))
        for name, operand in self.named.items():
            if name not in all_names:
                close = difflib.get_close_matches(name, all_names, 1)
                hint = f"did you mean `{close[0]}`?" if close else ""
                raise ctx.type_error(f"`{what}` has no parameter `{name}`", operand.span, "", hint)
            if name in bound:
                raise ctx.type_error(f"`{what}` got `{name}` twice", operand.span)
            bound[name] = operand
        for p in signature.split():
            if not p.endswith("=") and p.strip("*") not in bound:
                raise ctx.type_error(f"`{what}` needs `{p.strip('*')}`", self.span)
        return bound


Lowered = Callable[[Context, Arguments], object]


def call(ctx: Context, function: object, arguments: Arguments, name: str) -> object:
    """The result of calling `function`, which the author wrote as `name`."""
    if isinstance(function, Method):
        return _method(ctx, function, arguments)
    try:
        lowered = _LANGUAGE.get(function)
        info = FUNCTIONS.get(function)
        loop = _LOOPS.get(function)
    except TypeError:
        lowered = info = loop = None
    if lowered is not None:
        return lowered(ctx, arguments)
    if info is not None:
        bound = arguments.bind(ctx, name, " ".join(info.parameters))
        operands = [bound[p] for p in info.parameters]
        return elementwise.apply(ctx, info.name, operands, arguments.span)
    if loop is not None:
        raise ctx.syntax_error(f"`{name}` stands in the wrong place", arguments.span, loop)
    if isinstance(function, Closure) or _is_helper(function):
        return ctx.call(function, arguments, name)
    return _python(ctx, function, arguments, name)


def _is_helper(function: object) -> bool:
    return isinstance(function, FunctionType) and not (function.__module__ or "").startswith(
        "kdsl."
    )


# ---- functions of the language


def _full(ctx: Context, arguments: Arguments) -> object:
    positional = list(arguments.positional)
    dtype, span = _dtype_argument(ctx, "full", arguments), arguments.span
    if not positional:
        raise ctx.type_error("`full` needs a shape and a number", span)
    return tiles.full(ctx, positional[:-1], positional[-1], dtype, span)


def _filled(number: int) -> Lowered:
    def lower(ctx: Context, arguments: Arguments) -> object:
        dtype = _dtype_argument(ctx, "zeros" if number == 0 else "ones", arguments)
        fill = Operand(number, arguments.span)
        return tiles.full(ctx, arguments.positional, fill, dtype, arguments.span)

    return lower


def _dtype_argument(ctx: Context, what: str, arguments: Arguments) -> DType:
    for name, operand in arguments.named.items():
        if name != "dtype":
            raise ctx.type_error(f"`{what}` has no parameter `{name}`", operand.span)
        return ctx.dtype(operand)
    return f32


def _dot(ctx: Context, arguments: Arguments) -> object:
    bound = arguments.bind(ctx, "dot", "a b")
    return tiles.dot(ctx, bound["a"], bound["b"], arguments.span)


def _arange(ctx: Context, arguments: Arguments) -> object:
    return tiles.arange(ctx, arguments.bind(ctx, "arange", "size")["size"])


def _reduction(fn: str) -> Lowered:
    def lower(ctx: Context, arguments: Arguments) -> object:
        bound = arguments.bind(ctx, fn, f"x {_along(fn)}")
        return _reduce(ctx, fn, bound["x"], bound, arguments.span)

    return lower


def _along(fn: str) -> str:
    return "axis= *ddof= *keepdims=" if fn in _SPREADS else "axis= *keepdims="


def _reduce(
    ctx: Context, fn: str, operand: Operand, bound: Mapping[str, Operand], span: Span
) -> Val:
    axis = bound["axis"].value if "axis" in bound else None
    where = bound["axis"].span if "axis" in bound else span
    keep = bound["keepdims"].value if "keepdims" in bound else False
    if not isinstance(keep, bool):
        raise ctx.type_error("keepdims is True or False", span, describe(keep))
    if fn in _SPREADS:
        less = static_int(ctx, bound["ddof"], "ddof") if "ddof" in bound else 0
        return tiles.spread(ctx, fn, operand, axis, keep, less, where)
    return tiles.reduce(ctx, fn, operand, axis, keep, where)


def _scanning(fn: str) -> Lowered:
    def lower(ctx: Context, arguments: Arguments) -> object:
        bound = arguments.bind(ctx, f"cum{fn}", "x axis=")
        return _scan(ctx, fn, bound["x"], bound, arguments.span)

    return lower


def _scan(ctx: Context, fn: str, operand: Operand, bound: Mapping[str, Operand], span: Span) -> Val:
    axis = bound.get("axis", Operand(None, span))
    return tiles.scan(ctx, fn, operand, axis.value, axis.span)


def _sorting(fn: str) -> Lowered:
    def lower(ctx: Context, arguments: Arguments) -> object:
        bound = arguments.bind(ctx, fn, "x k axis=" if fn == "topk" else "x axis=")
        axis = bound.get("axis", Operand(None, arguments.span))
        if fn == "topk":
            k = static_int(ctx, bound["k"], "k of `topk`")
            return sorting.topk(ctx, bound["x"], k, axis.value, axis.span)
        return sorting.sort(ctx, fn, bound["x"], axis.value, axis.span)

    return lower


def _take(ctx: Context, tensor: TensorRef, arguments: Arguments) -> object:
    bound = arguments.bind(ctx, "take", "index *mask= *other=")
    return indexing.take(
        ctx, tensor, bound["index"], bound.get("mask"), bound.get("other"), arguments.span
    )


def _reshape(ctx: Context, owner: Operand, arguments: Arguments) -> object:
    if arguments.named or not arguments.positional:
        raise ctx.type_error("`reshape` takes the lengths of the axes", arguments.span)
    sizes = arguments.positional
    if len(sizes) == 1 and isinstance(sizes[0].value, tuple):
        sizes = [Operand(v, sizes[0].span) for v in sizes[0].value]
    lengths = [static_int(ctx, o, "the length of an axis") for o in sizes]
    return reshaping.reshape(ctx, owner, lengths, arguments.span)


def _method(ctx: Context, method: Method, arguments: Arguments) -> object:
    owner = Operand(method.owner, method.span)
    if isinstance(method.owner, TensorRef):
        return _take(ctx, method.owner, arguments)
    if method.name == "reshape":
        return _reshape(ctx, owner, arguments)
    if method.name == "astype":
        dtype = ctx.dtype(arguments.bind(ctx, "astype", "dtype")["dtype"])
        return ctx.cast(ctx.val(owner), dtype, arguments.span)
    if method.name in _SCANNING:
        bound = arguments.bind(ctx, method.name, "axis=")
        return _scan(ctx, _SCANNING[method.name], owner, bound, arguments.span)
    bound = arguments.bind(ctx, method.name, _along(method.name))
    return _reduce(ctx, method.name, owner, bound, arguments.span)


def _absolute(ctx: Context, arguments: Arguments) -> object:
    operand = arguments.bind(ctx, "abs", "x")["x"]
    return elementwise.apply(ctx, "abs", [operand], arguments.span)


def _extreme(fn: str, op: str) -> Lowered:
    """Python's `max` and `min` of scalars: the first of equals, as comparisons decide."""

    def lower(ctx: Context, arguments: Arguments) -> object:
        operands = list(arguments.positional)
        if arguments.named or len(operands) < 2:
            raise ctx.type_error(
                f"`{fn}` of Python takes two or more numbers here", arguments.span,
                help=f"along an axis it is the method: `x.{fn}(axis=...)`",
            )  # fmt: skip
        best, span = operands[0], arguments.span
        for other in operands[1:]:
            for o in (best, other):
                value = ctx.value(o)
                if isinstance(value, Val) and not value.is_scalar:
                    raise ctx.type_error(
                        f"Python's `{fn}` is of single numbers", o.span, describe(value),
                        f"element by element it is kdsl.{fn}imum(a, b)",
                    )  # fmt: skip
            better = Operand(elementwise.apply(ctx, op, [other, best], span), span)
            chosen = elementwise.apply(ctx, "where", [better, other, best], span)
            best = Operand(chosen, span)
        return best.value

    return lower


def _convert(kind: type) -> Lowered:
    def lower(ctx: Context, arguments: Arguments) -> object:
        operand = arguments.bind(ctx, kind.__name__, "x")["x"]
        value = ctx.value(operand)
        if is_number(value):
            try:
                return kind(value)
            except (OverflowError, ValueError) as err:
                raise ctx.type_error(f"{err}", operand.span) from err
        if kind is int and isinstance(value, DimExpr):
            return value
        raise ctx.type_error(
            f"Python's `{kind.__name__}` takes numbers known at compile time", operand.span,
            describe(value), "a run-time value is converted by .astype(kdsl.i32)",
        )  # fmt: skip

    return lower


def _len(ctx: Context, arguments: Arguments) -> object:
    operand = arguments.bind(ctx, "len", "x")["x"]
    match operand.value:
        case tuple() | str() as sized:
            return len(sized)
        case TensorRef(type=type_) if type_.shape:
            return type_.shape[0]
        case Val(shape=shape) if shape:
            return 1 if shape[0] is None else tiles.axis_length(ctx, shape[0])
    raise ctx.type_error("this has no length", operand.span, describe(operand.value))


def _divmod(ctx: Context, arguments: Arguments) -> object:
    bound = arguments.bind(ctx, "divmod", "a b")
    operands = [bound["a"], bound["b"]]
    span = arguments.span
    return tuple(elementwise.apply(ctx, fn, operands, span) for fn in ("floordiv", "mod"))


def _require(ctx: Context, arguments: Arguments) -> object:
    raise ctx.syntax_error(
        "`require` stands in the wrong place", arguments.span,
        "conditions of a call come first, outside kdsl.parallel",
    )  # fmt: skip


_LANGUAGE: dict[object, Lowered] = {
    names.zeros: _filled(0),
    names.ones: _filled(1),
    names.full: _full,
    names.dot: _dot,
    names.arange: _arange,
    names.require: _require,
    builtins.abs: _absolute,
    builtins.max: _extreme("max", "gt"),
    builtins.min: _extreme("min", "lt"),
    builtins.int: _convert(int),
    builtins.float: _convert(float),
    builtins.bool: _convert(bool),
    builtins.len: _len,
    builtins.divmod: _divmod,
}
_LANGUAGE |= {function: _reduction(fn) for function, fn in names.REDUCTIONS.items()}
_LANGUAGE |= {function: _sorting(fn) for function, fn in names.SORTS.items()}
_LANGUAGE |= {function: _scanning(fn) for function, fn in names.SCANS.items()}

_LOOPS: dict[object, str] = {
    names.parallel: "it is what a `for` statement of the body walks: `for i in kdsl.parallel(N):`",
    names.tiles: "it is what a `for` walks, or an argument of kdsl.parallel",
    names.scratch: "a scratch tensor is a statement of its own: `part = kdsl.scratch(f32, N)`",
    names.atomic_add: "it gives no value: it is a statement of its own",
    builtins.range: "it is what a `for` statement walks",
}

_AT_COMPILE_TIME = (
    builtins.round, builtins.pow, builtins.sum, builtins.tuple, builtins.isinstance,
)  # fmt: skip


# ---- Python functions at compile time


def _python(ctx: Context, function: object, arguments: Arguments, name: str) -> object:
    """A function of Python's own, on numbers that are known."""
    values = [o.value for o in (*arguments.positional, *arguments.named.values())]
    known = getattr(function, "__module__", None) == "math" or any(
        function is f for f in _AT_COMPILE_TIME
    )
    operands = [*arguments.positional, *arguments.named.values()]
    if not known:
        raise _not_callable(ctx, function, arguments, name)
    for operand in operands:
        if isinstance(operand.value, (Val, DimExpr, TileRef, TensorRef)):
            last = name.rpartition(".")[2]
            help = f"use kdsl.{last}" if last in OPS else ""
            raise ctx.type_error(
                f"`{name}` takes numbers known at compile time", operand.span,
                describe(operand.value), help,
            )  # fmt: skip
    named = {k: o.value for k, o in arguments.named.items()}
    try:
        result: object = function(*values[: len(arguments.positional)], **named)  # type: ignore[operator]
    except Exception as err:
        raise ctx.type_error(f"`{name}` fails: {err}", arguments.span) from err
    return result


def _not_callable(ctx: Context, function: object, arguments: Arguments, name: str) -> Exception:
    module = (getattr(function, "__module__", None) or "").partition(".")[0]
    last = name.rpartition(".")[2]
    if not callable(function):
        return ctx.type_error(f"`{name}` is no function", arguments.span, describe(function))
    if last in LANGUAGE and module in ("numpy", "torch", "jax", "math"):
        help = f"the language's own is kdsl.{last}"
    else:
        help = "a kernel calls functions of kdsl, of math, and helpers written in Python"
    return ctx.syntax_error(f"`{name}` cannot be called in a kernel", arguments.span, help)


# ---- helpers


def bind_helper(
    ctx: Context, signature: inspect.Signature, arguments: Arguments, name: str
) -> dict[str, Any]:
    """Arguments of a helper by parameter, as Python binds them. Raises KernelTypeError."""
    positional: Sequence[object] = [o.value for o in arguments.positional]
    named = {k: o.value for k, o in arguments.named.items()}
    try:
        bound = signature.bind(*positional, **named)
    except TypeError as err:
        raise ctx.type_error(f"`{name}`: {err}", arguments.span) from err
    bound.apply_defaults()
    return dict(bound.arguments)


def static_int(ctx: Context, operand: Operand, what: str) -> int:
    """An integer known at compile time. Raises KernelTypeError."""
    value = operand.value
    if isinstance(value, DimExpr):
        value = as_int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ctx.type_error(
        f"{what} must be an integer known at compile time", operand.span, describe(operand.value)
    )
