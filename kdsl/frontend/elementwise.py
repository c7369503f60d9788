"""Elementwise operations: at compile time when all operands are known, else as `Ew`."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from kdsl.dims import DimExpr
from kdsl.dtypes import DType, boolean, i64
from kdsl.errors import Span
from kdsl.frontend.axes import broadcast
from kdsl.frontend.context import Context
from kdsl.frontend.values import Closure, Operand, Val, describe, is_number
from kdsl.ir.nodes import Ew
from kdsl.lang import promote
from kdsl.lang.ops import OPS
from kdsl.lang.power import PowerError, known_power
from kdsl.lang.promote import PromotionError

_ON_DIMS = ("add", "sub", "mul", "floordiv", "mod")


def apply(ctx: Context, fn: str, operands: list[Operand], span: Span) -> object:
    """The operation `fn` of the language: a Python number or dim expression where that is all it
    takes, else a value.

    Raises:
        KernelTypeError: operands that are no values, whose dtypes or shapes do not fit.
    """
    info = OPS[fn]
    if len(operands) != info.arity:
        raise ctx.type_error(
            f"`{fn}` takes {info.arity} argument{'s' * (info.arity > 1)}", span,
            f"got {len(operands)}",
        )  # fmt: skip
    values = [ctx.value(o) for o in operands]
    if all(map(is_number, values)):
        return _constant(ctx, fn, values, span)
    if all(isinstance(v, (int, DimExpr)) and not isinstance(v, bool) for v in values):
        if fn in _ON_DIMS:
            for value, o in zip(values, operands, strict=True):
                if isinstance(value, int):
                    ctx.check_literal(value, i64, o.span)
            return info.meaning(*values)
        if fn == "neg":
            return 0 - values[0]  # type: ignore[operator]
    if fn == "where":
        return _where(ctx, operands, span)
    if fn == "pow":
        return _power(ctx, operands, span)
    result = emit(ctx, fn, operands, span)
    return result


def _constant(ctx: Context, fn: str, values: list[Any], span: Span) -> object:
    try:
        return OPS[fn].number(*values)
    except ZeroDivisionError as err:
        raise ctx.type_error("division by zero", span) from err
    except (TypeError, ValueError, OverflowError) as err:
        raise ctx.type_error(f"this cannot be computed: {err}", span) from err


def promotables(ctx: Context, operands: list[Operand]) -> list[promote.Operand]:
    """What promotion sees of each operand."""
    found = []
    for o in operands:
        value = ctx.value(o)
        if isinstance(value, Val):
            found.append(value.promotable)
        elif isinstance(value, DimExpr):
            found.append(promote.WEAK_INT)
        else:
            found.append(promote.weak_operand(value))
    return found


def promoted(
    ctx: Context, rule: Callable[..., promote.Promoted], operands: list[Operand], what: str,
    span: Span,
) -> promote.Promoted:  # fmt: skip
    """The dtypes of an operation. Raises KernelTypeError when the operands have none."""
    try:
        return rule(*promotables(ctx, operands))
    except PromotionError as err:
        last = operands[-1]
        label = describe(ctx.value(last))
        if len(operands) > 1:
            first = operands[0]
            label += f", `{first.text}` is {describe(ctx.value(first))}"
        raise ctx.type_error(
            f"{what}: {err}", last.span, label, "convert one side with .astype(...)"
        ) from err


def emit(ctx: Context, fn: str, operands: list[Operand], span: Span) -> Val:
    """An `Ew` of operands of which at least one is a run-time value or a size."""
    info = OPS[fn]
    what = f"`{info.symbol or fn}`"
    dtypes = promoted(ctx, info.rule, operands, what, span)
    vals = [ctx.val(o, dtypes.compute) for o in operands]
    vals, shape = broadcast(ctx, vals, operands, what, span)
    axes = {a for v in vals for a in v.type.axes}
    names = tuple(v.name for v in vals)
    return ctx.builder.let(
        Ew(fn, names), dtypes.result, shape, span=span, weak=dtypes.weak, axes=axes
    )


def _where(ctx: Context, operands: list[Operand], span: Span) -> object:
    condition, *choices = operands
    value = ctx.value(condition)
    if is_number(value):
        return ctx.value(choices[0] if value else choices[1])
    cond = ctx.val(condition)
    if cond.dtype is not boolean:
        raise ctx.type_error(
            "the condition of `where` must be bool", condition.span, describe(cond),
            f"compare it: `{condition.text} != 0`",
        )  # fmt: skip
    dtypes = promoted(ctx, promote.choice, choices, "`where`", span)
    vals = [cond, *(ctx.val(o, dtypes.compute) for o in choices)]
    vals, shape = broadcast(ctx, vals, operands, "`where`", span)
    axes = {a for v in vals for a in v.type.axes}
    names = tuple(v.name for v in vals)
    return ctx.builder.let(
        Ew("where", names), dtypes.result, shape, span=span, weak=dtypes.weak, axes=axes
    )


def _power(ctx: Context, operands: list[Operand], span: Span) -> object:
    """x ** n: a known n multiplies where it can, as the reference run does."""
    base, exponent = operands
    n, of = ctx.value(exponent), promotables(ctx, operands)
    of_int = not of[0].dtype.is_float
    help = f"convert first: `{base.text}.astype(kdsl.f32)`"
    if not is_number(n):
        if of_int and not of[1].dtype.is_float:
            raise ctx.type_error(
                "an integer power needs an exponent known at compile time", exponent.span,
                describe(n), help,
            )  # fmt: skip
        return emit(ctx, "pow", operands, span)

    def step(fn: str, *values: object) -> object:
        given = [v if isinstance(v, Operand) else Operand(v, span) for v in values]
        return apply(ctx, fn, given, span)

    try:
        known = known_power(step, base, n, of_int)
    except PowerError as err:
        raise ctx.type_error(str(err), exponent.span, describe(n), help) from err
    return emit(ctx, "pow", operands, span) if known is None else known


def negate(ctx: Context, operand: Operand, span: Span) -> object:
    """`-x`. Raises KernelTypeError for bool and unsigned integers."""
    value = ctx.value(operand)
    if isinstance(value, Val) and value.dtype.kind in ("bool", "uint"):
        raise ctx.type_error(f"`-` is not of {value.dtype}", operand.span, describe(value))
    return apply(ctx, "neg", [operand], span)


def truth(ctx: Context, operand: Operand) -> bool | None:
    """A condition known at compile time as the bool it is; None for a run-time one."""
    value = operand.value
    if isinstance(value, (Val, DimExpr)):
        return None
    if isinstance(value, (bool, int, float, str, tuple, type(None))):
        return bool(value)
    if isinstance(value, (DType, FunctionType, Closure)):
        return True
    ctx.value(operand)
    return True
