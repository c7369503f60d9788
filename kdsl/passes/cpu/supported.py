"""What the CPU target does not have yet: one clear error at the author's line, before any plan."""

from __future__ import annotations

from kdsl.dtypes import DType
from kdsl.errors import KernelTypeError
from kdsl.ir.nodes import Ew, Func, Let
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


def check_supported(func: Func) -> None:
    """Raise KernelTypeError at the first operation that has no CPU code for its dtype."""
    types = value_types(func)
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


def _functions(dtype: DType) -> frozenset[str]:
    """Elementwise operations that there are for a dtype."""
    if not dtype.is_float:
        return _ANY
    return (_ANY - _WHOLE) | (_F64 if dtype.name == "f64" else _F32)
