"""What a message about an argument says of it, worked out anew from signature and arguments."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kdsl.frontend.signature import Signature
from tests.calls.kinds import Kind


def signature(kind: Kind) -> Signature:
    return kind.kernel.compiler.source.signature


def message(kind: Kind, arguments: Mapping[str, object], name: str, text: str) -> str:
    """The whole message; `{expected}` in `text` is the parameter's type as far as it is known."""
    names = [p.name for p in signature(kind)]
    place = f"{signature(kind).text}: argument {names.index(name)} `{name}`: "
    return place + text.replace("{expected}", expected(kind, arguments, name)).replace(
        "{name}", name
    )


def expected(
    kind: Kind, arguments: Mapping[str, object], name: str, *, choices: bool = True
) -> str:
    """`f32[M=3, N]`: sizes and dtypes that the arguments before this one have bound."""
    sizes: dict[str, int] = {}
    dtypes: dict[str, str] = {}
    for p in signature(kind):
        if not p.is_tensor:
            if p.name == name:
                return str(p.type) if not isinstance(p.type, type) else p.type.__name__
            continue
        if p.name == name:
            break
        value = arguments.get(p.name)
        dtypes[str(p.tensor.dtype)] = "f32"
        if value is not None:
            for extent, size in zip(map(str, p.tensor.shape), np.shape(value), strict=True):
                sizes.setdefault(extent, size)
    axes = [str(e) for e in p.tensor.shape]
    axes = [f"{axis}={sizes[axis]}" if axis in sizes else axis for axis in axes]
    dtype = str(p.tensor.dtype)
    shape = ", ".join(axes) or "()"
    open_variable = dtype == "T" and "T" not in dtypes
    return f"{dtypes.get(dtype, dtype)}[{shape}]" + (
        " with T one of f32, bf16" if open_variable and choices else ""
    )
