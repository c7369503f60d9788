"""What the CPU target does not have yet: one clear error at the author's line, before any plan."""

from __future__ import annotations

from kdsl.dtypes import DType, TensorType
from kdsl.errors import KernelTypeError, Span
from kdsl.ir.nodes import Ew, Func, Let, Reduce
from kdsl.ir.walk import statements, value_types

#: Elementwise operations by what they compute on.
_ANY = frozenset(
    """add sub mul neg abs eq ne lt le gt ge maximum minimum fmax fmin where fma and or xor not shl
    shr floordiv mod div""".split()
)
#: Those of integers alone.
_WHOLE = frozenset("floordiv mod and or xor shl shr".split())
_F32 = frozenset("exp exp2 log log2 sqrt rsqrt tanh sigmoid erf sin cos floor ceil round".split())
_F64 = frozenset("sqrt rsqrt".split())
_REDUCTIONS = frozenset("sum prod max min any all argmax argmin".split())
_STORED = frozenset("bool i8 i16 i32 i64 u8 u16 u32 u64 f16 bf16 f32 f64".split())


def check_supported(func: Func) -> None:
    """Raise KernelTypeError at the first thing that has no CPU code."""
    types = value_types(func)
    tensors = [(p.name, p.type, p.span) for p in func.params]
    tensors += [(s.name, s.type, s.span) for s in func.scratch]
    for name, type_, span in tensors:
        if isinstance(type_, TensorType):
            _dtype(type_.dtype, f"tensor `{name}`", span)
    for s in statements(func):
        match s:
            case Let(op=Ew(fn=fn, args=args), span=span):
                dtype = types[args[-1]].dtype
                if fn in _functions(dtype):
                    continue
                cast = "; cast to f32 first" if dtype.name == "f64" and fn in _F32 else ""
                raise KernelTypeError(
                    f"`{fn}` of {dtype} is not available on the CPU yet",
                    span,
                    help=f"it has {', '.join(sorted(_F32))} of f32{cast}",
                )
            case Let(op=Reduce(fn=fn), span=span) if fn not in _REDUCTIONS:
                raise KernelTypeError(
                    f"the reduction `{fn}` is not available on the CPU yet",
                    span,
                    help=f"it has {', '.join(sorted(_REDUCTIONS))}",
                )
            case Let(span=span):
                _dtype(s.type.dtype, "a value", span)


def _functions(dtype: DType) -> frozenset[str]:
    """Elementwise operations that there are for a dtype."""
    if not dtype.is_float:
        return _ANY | _F32
    return (_ANY - _WHOLE) | (_F64 if dtype.name == "f64" else _F32)


def _dtype(dtype: object, what: str, span: Span) -> None:
    if isinstance(dtype, DType) and dtype.name not in _STORED:
        raise KernelTypeError(f"{what} of dtype {dtype} is not available on the CPU yet", span)
