"""Fixed dims: a specialisation for one value of a dim."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kdsl.dims import Dim, DimOp, Extent, dim_names, evaluate
from kdsl.dtypes import DType, TensorType
from kdsl.errors import InternalError
from kdsl.ir import nodes as ir
from kdsl.ir.walk import map_blocks, statements, value_types


def specialise(func: ir.Func, dims: Mapping[str, int]) -> ir.Func:
    """`func` for these values of dims: numbers wherever they stood, `fixed` says which.

    The name gets `_D128` for each. A dim that already has this value stays as it is.

    Raises:
        InternalError: a name that is no dim, or a dim that is fixed to another value.
    """
    fixed = dict(func.fixed)
    for name, size in dims.items():
        if name not in func.dims or fixed.get(name, size) != size:
            raise InternalError(f"specialise: {func.name} cannot have {name} = {size}")
    new = {name: dims[name] for name in func.dims if name in dims and name not in fixed}
    if not new:
        return func

    def tensor(type_: TensorType) -> TensorType:
        return replace(type_, shape=tuple(fix(e, new) for e in type_.shape))

    def param(p: ir.Param) -> ir.Param:
        return p if isinstance(p.type, DType) else replace(p, type=tensor(p.type))

    def stmt(s: ir.Stmt) -> ir.Stmt:
        match s:
            case ir.Let(op=ir.DimSize(extent=extent, span=span)):
                size = fix(extent, new)
                known = isinstance(size, int)
                return replace(
                    s, op=ir.Const(str(size), span=span) if known else ir.DimSize(size, span=span)
                )
        return s

    def phase(p: ir.Parallel) -> ir.Parallel:
        return replace(p, vars=tuple(replace(e, extent=fix(e.extent, new)) for e in p.vars))

    func = map_blocks(func, lambda block: tuple(map(stmt, block)))
    return replace(
        func,
        name=func.name + "".join(f"_{name}{size}" for name, size in new.items()),
        params=tuple(map(param, func.params)),
        axes=tuple(replace(a, extent=fix(a.extent, new)) for a in func.axes),
        scratch=tuple(replace(b, type=tensor(b.type)) for b in func.scratch),
        phases=tuple(map(phase, func.phases)),
        fixed=tuple((n, {**fixed, **new}[n]) for n in func.dims if n in fixed or n in new),
    )


def fixed_dims(func: ir.Func) -> tuple[str, ...]:
    """Dims that are a whole axis of an operand or of the result of a `dot`: they get fixed."""
    types = value_types(func)
    axes = {
        axis
        for s in statements(func)
        if isinstance(s, ir.Let) and isinstance(s.op, ir.Dot)
        for name in (s.op.a, s.op.b)
        for axis in types[name].axes
    }
    found = {
        name
        for axis in func.axes
        if axis.kind == "whole" and axis.name in axes
        for name in dim_names(axis.extent)
    }
    return tuple(name for name in func.dims if name in found)


def fix(extent: Extent, sizes: Mapping[str, int]) -> Extent:
    """`extent` with numbers for these dims, and for what is then a number."""
    match extent:
        case Dim():
            return sizes.get(extent.name, extent)
        case DimOp():
            a, b = fix(extent.a, sizes), fix(extent.b, sizes)
            zero = extent.op in ("//", "%") and b == 0  # stays for the host to report
            if isinstance(a, int) and isinstance(b, int) and not zero:
                return evaluate(DimOp(extent.op, a, b), {})
            return DimOp(extent.op, a, b)
    return extent
