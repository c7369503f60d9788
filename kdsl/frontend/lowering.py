"""A kernel and one choice of dtypes and statics to the typed IR of that specialisation."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from types import FunctionType

from kdsl.dims import Dim
from kdsl.dtypes import DType, TensorType
from kdsl.errors import InternalError, KernelError, KernelSyntaxError
from kdsl.frontend.builder import Builder
from kdsl.frontend.binding import given, missing
from kdsl.frontend.calls import Arguments, bind_helper
from kdsl.frontend.context import Context
from kdsl.frontend.flow import Returned
from kdsl.frontend.frame import Frame, substitute
from kdsl.frontend.signature import MISSING, Parameter
from kdsl.frontend.source import KernelSource
from kdsl.frontend.statements import run
from kdsl.frontend.values import Closure, Operand, ScalarRef, TensorRef
from kdsl.ir.nodes import (
    Along, AtomicAdd, Block, ForTiles, Func, Iota, Let, Param, Require, Stmt, Store,
)  # fmt: skip
from kdsl.ir.types import Axis
from kdsl.ir.walk import reads, walk

_MAX_DEPTH = 50


def lower(kernel: KernelSource, dtypes: Mapping[str, DType], statics: Mapping[str, object]) -> Func:
    """One specialisation of a kernel.

    Args:
        dtypes: a dtype for each dtype variable of the signature, by name.
        statics: a value for each static parameter; those with a default may be left out. For
            an optional tensor whether there is one: False when left out.

    Raises:
        KernelSyntaxError, KernelTypeError: what the kernel gets wrong, with its place.
        ValueError: a dtype variable or static parameter without a choice.
    """
    chosen = _choices(kernel, dtypes, statics)
    all_dtypes = dict(dtypes)
    all_dtypes.update((n, v) for n, v in chosen.items() if isinstance(v, DType))
    for var in kernel.signature.dtype_vars:
        if all_dtypes.get(var.name) not in var.choices:
            raise ValueError(
                f"{kernel.name}: dtype variable {var.name} is one of "
                f"{', '.join(map(str, var.choices))}, got {all_dtypes.get(var.name)}"
            )
    try:
        return _lower(kernel, all_dtypes, chosen)
    except (KernelError, InternalError):
        raise
    except RecursionError as err:
        raise KernelSyntaxError(
            "an expression of this kernel is nested too deeply", kernel.span(kernel.node),
            help="give parts of it names",
        ) from err  # fmt: skip
    except Exception as err:
        raise InternalError(f"lowering `{kernel.name}`: {type(err).__name__}: {err}") from err


def _choices(kernel: KernelSource, dtypes: Mapping[str, DType], statics: Mapping[str, object]) -> (
    dict[str, object]
):  # fmt: skip
    chosen = given(kernel)
    for p in kernel.signature.selectors:
        value = statics.get(p.name, p.default)
        if p.optional:
            if not statics.get(p.name, False):
                chosen[p.name] = None
            continue
        if value is MISSING:
            value = dtypes.get(p.name, MISSING)
        if value is MISSING:
            raise ValueError(f"{kernel.name}: static parameter `{p.name}` has no value")
        chosen[p.name] = value
    return chosen


def _lower(
    kernel: KernelSource, dtypes: Mapping[str, DType], statics: Mapping[str, object]
) -> Func:
    signature = kernel.signature
    ctx = Context(kernel, Builder((), signature.dims), dtypes, statics)
    params = tuple(_param(ctx, p) for p in signature if p.name not in statics)
    builder = ctx.builder = Builder(params, signature.dims)
    ctx.call = lambda function, arguments, name: _call(ctx, function, arguments, name)
    ctx.parameters = _parameter_values(ctx)
    frame = Frame(kernel, dict(ctx.parameters), is_kernel=True)
    run(ctx, frame, kernel.node.body)
    if not builder.phases:
        raise ctx.syntax_error(
            "a kernel needs a parallel loop", kernel.span(kernel.node),
            "write `for i in kdsl.parallel(N):` around its work",
        )  # fmt: skip
    fixed = tuple((d, v) for d in signature.dims if isinstance(v := statics.get(d), int))
    return Func(
        specialisation_name(kernel, dtypes, statics),
        params,
        signature.dims,
        _used_axes(builder),
        tuple(builder.scratch),
        _needed(builder.host.block()),
        tuple(builder.phases),
        fixed,
        kernel.strict,
        span=kernel.span(kernel.node),
    )


def specialisation_name(
    kernel: KernelSource, dtypes: Mapping[str, DType], statics: Mapping[str, object]
) -> str:
    """`attention_f32_causal`: dtypes in order, names of true flags, numbers with their name."""
    parts = [kernel.name]
    parts += [dtypes[v.name].name for v in kernel.signature.dtype_vars]
    for p in kernel.signature.selectors:
        value = statics.get(p.name, p.default)
        if p.optional:
            parts += [] if p.name in statics else [p.name]
        elif isinstance(value, bool):
            parts += [p.name] if value else []
        elif isinstance(value, int):
            parts.append(f"{p.name}{value}" if value >= 0 else f"{p.name}m{-value}")
    return "_".join(parts)


def _param(ctx: Context, p: Parameter) -> Param:
    span = ctx.kernel.span(ctx.kernel.node)
    assert p.kind != "static"
    if not isinstance(p.type, TensorType):
        dtype = ctx.resolve(p.type)
        assert isinstance(dtype, DType)
        return Param(p.name, p.kind, dtype, span=span)
    type_ = ctx.tensor_type(p.type)
    shape = tuple(substitute(ctx, e) for e in type_.shape)
    return Param(p.name, p.kind, replace(type_, shape=shape), span=span)


def _parameter_values(ctx: Context) -> dict[str, object]:
    """What each parameter's name is at the start of the body."""
    values: dict[str, object] = dict(ctx.statics)
    for p in ctx.builder.params:
        if isinstance(p.type, TensorType):
            values[p.name] = TensorRef(p.name, p.type, p.kind)
        elif p.name in ctx.kernel.signature.dims:
            values[p.name] = Dim(p.name)
        else:
            values[p.name] = ScalarRef(p.name, p.type)
    return values


def _call(ctx: Context, function: object, arguments: Arguments, name: str) -> object:
    """A helper's result: its body is lowered in place."""
    if isinstance(function, Closure):
        source, around = function.source, function.names
        signature = _signature_of(ctx, function)
    else:
        assert isinstance(function, FunctionType)
        source, around = ctx.kernel.helper(function), {}
        signature = inspect.signature(function)
        if any(function is value for _, value in ctx.kernel.fixed):
            arguments = _with_parameters(ctx, signature, arguments, name)
    if ctx.depth >= _MAX_DEPTH:
        raise ctx.syntax_error(
            f"`{name}` calls itself without end", arguments.span,
            "helpers are inlined, so recursion must end at compile time",
        )  # fmt: skip
    frame = Frame(source, bind_helper(ctx, signature, arguments, name), around)
    ctx.depth += 1
    try:
        flow = run(ctx, frame, source.node.body)
    except KernelError as err:
        err.add_note(f"in `{name}`, called from {arguments.span}")
        raise
    finally:
        ctx.depth -= 1
    return flow.value if isinstance(flow, Returned) else None


def _with_parameters(
    ctx: Context, signature: inspect.Signature, arguments: Arguments, name: str
) -> Arguments:
    """Arguments of a static function: what the call leaves out are parameters of the kernel."""
    named = dict(arguments.named)
    for extra in missing(signature, arguments.positional, arguments.named):
        if extra in ctx.parameters:
            named[extra] = Operand(ctx.parameters[extra], arguments.span)
        elif signature.parameters[extra].default is inspect.Parameter.empty:
            raise ctx.type_error(
                f"`{name}` needs `{extra}`", arguments.span,
                f"neither the call nor `{ctx.kernel.name}` has a `{extra}`",
                "further arguments of a static function are named like parameters of the kernel",
            )  # fmt: skip
    return Arguments(arguments.positional, named, arguments.span)


def _signature_of(ctx: Context, function: Closure) -> inspect.Signature:
    node = function.source.node.args
    if node.defaults or any(d is not None for d in node.kw_defaults):
        raise ctx.syntax_error(
            "an inner function has no defaults", function.source.span(function.source.node)
        )
    kind = inspect.Parameter
    parameters = [kind(a.arg, kind.POSITIONAL_ONLY) for a in node.posonlyargs]
    parameters += [kind(a.arg, kind.POSITIONAL_OR_KEYWORD) for a in node.args]
    parameters += [kind(node.vararg.arg, kind.VAR_POSITIONAL)] if node.vararg else []
    parameters += [kind(a.arg, kind.KEYWORD_ONLY) for a in node.kwonlyargs]
    return inspect.Signature(parameters)


def _used_axes(builder: Builder) -> tuple[Axis, ...]:
    """Axes that values, places and loops have; lowering a loop again may leave others."""
    used = {e.var for phase in builder.phases for e in phase.vars if e.is_tile}
    for phase in builder.phases:
        for stmt in walk(phase.body):
            match stmt:
                case Let(type=type_, op=op):
                    used.update(type_.axes)
                    if isinstance(op, Iota):
                        used.add(op.axis)
                case Store(index=index) | AtomicAdd(index=index):
                    used.update(i.axis for i in index if isinstance(i, Along))
                case ForTiles(axis=axis):
                    used.add(axis)
    return tuple(a for a in builder.axes if a.name in used)


def _needed(host: Block) -> Block:
    """Host code without values that no condition of the call reads."""
    needed: set[str] = set()
    kept: list[Stmt] = []
    for stmt in reversed(host):
        if isinstance(stmt, Require) or (isinstance(stmt, Let) and stmt.name in needed):
            needed.update(reads(stmt))
            kept.append(stmt)
    return tuple(reversed(kept))
