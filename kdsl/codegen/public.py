"""The headers beside an exported library: C and C++, with typed calls, self-contained."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from kdsl import paths
from kdsl.codegen.archs import is_cuda
from kdsl.codegen.context import VERSION, KernelUnit, c_name, origins, scalar_ctype
from kdsl.codegen.render import render
from kdsl.dtypes import DType
from kdsl.frontend.signature import MISSING, Parameter

#: What C's library calls functions; a kernel of such a name gets `_` behind it in C.
_TAKEN = frozenset(
    """abs acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh div erf erfc exp exp2
    expm1 fabs fdim floor fma fmax fmin fmod frexp free gamma hypot index ldexp lgamma log log10
    log1p log2 logb malloc modf nan pow printf rand random read remainder remove rename rint round
    select sin sinh sort sqrt system tan tanh tgamma time trunc write y0 y1 j0 j1 main""".split()
)


@dataclass(frozen=True, slots=True)
class PublicParameter:
    """A parameter as C and C++ callers see it.

    Attributes:
        kind: how it is passed: tensor, float, int, bool or dtype.
        ctype: what C callers give.
        default: a C++ literal; None where a call must give it.
    """

    name: str
    kind: str
    ctype: str
    is_output: bool
    is_optional: bool
    default: str | None

    @property
    def c_parameter(self) -> str:
        return f"{self.ctype} {self.name}"

    @property
    def c_argument(self) -> str:
        return f"kdsl_{self.kind}({self.name})"

    @property
    def c_new_argument(self) -> str:
        return "kdsl_none()" if self.is_output else self.c_argument

    @property
    def cpp_parameter(self) -> str:
        ctype = self.ctype
        if self.kind == "tensor":
            ctype = "const View*" if self.is_optional else "const View&"
        default = f" = {self.default}" if self.default is not None else ""
        return f"{ctype} {self.name}{default}"

    @property
    def cpp_argument(self) -> str:
        return f"kdsl_host::pass({self.name})" if self.kind == "tensor" else self.c_argument

    @property
    def cpp_new_argument(self) -> str:
        return "kdsl_none()" if self.is_output else self.cpp_argument


@dataclass(frozen=True, slots=True)
class PublicFunction:
    """`call` is its name in C, `symbol` that of the packed function without its prefix."""

    symbol: str
    call: str
    signature: str
    doc: str
    parameters: tuple[PublicParameter, ...]

    @property
    def inputs(self) -> tuple[PublicParameter, ...]:
        return tuple(p for p in self.parameters if not p.is_output)

    @property
    def outputs(self) -> tuple[PublicParameter, ...]:
        return tuple(p for p in self.parameters if p.is_output)


@dataclass(frozen=True, slots=True)
class PublicModule:
    """What the templates see. `support` is the text that makes the header self-contained, `on_cuda`
    whether there is work to wait for."""

    version: str
    name: str
    origin: str
    support: str
    functions: tuple[PublicFunction, ...]
    on_cuda: bool = False


def public_headers(name: str, kernels: Sequence[KernelUnit]) -> dict[str, str]:
    """`{".h": text, ".hpp": text}`: the headers of a module called `name`."""

    on_cuda = any(is_cuda(target) for unit in kernels for target in unit.targets)

    def module(support: str) -> PublicModule:
        functions = tuple(map(_function, kernels))
        return PublicModule(VERSION, c_name(name), origins(kernels), support, functions, on_cuda)

    return {
        ".h": render("host/public.h.j2", m=module(bundled("kdsl/hosts/c.h"))),
        ".hpp": render("host/public.hpp.j2", m=module(bundled("kdsl/hosts/cpp.h"))),
    }


def bundled(header: str) -> str:
    """The text of one of kdsl's headers with those of kdsl's that it includes in their places."""
    seen: set[str] = set()

    def text(name: str) -> str:
        if name in seen:
            return ""
        seen.add(name)
        content = (paths.include_dir() / name).read_text(encoding="utf-8")
        content = content.replace("#pragma once\n", "")
        return re.sub(r"#include <(kdsl/\S+)>\n", lambda found: text(found[1]), content)

    return re.sub(r"\n{3,}", "\n\n", text(header)).rstrip()


def _function(unit: KernelUnit) -> PublicFunction:
    parameters = tuple(map(_parameter, unit.signature.parameters))
    call = f"{unit.name}_" if unit.name in _TAKEN else c_name(unit.name)
    return PublicFunction(unit.name, call, unit.signature.text, unit.doc, _settled(parameters))


def _settled(parameters: tuple[PublicParameter, ...]) -> tuple[PublicParameter, ...]:
    """C++ takes defaults only from some parameter on to the last."""
    kept: list[PublicParameter] = []
    for p in reversed(parameters):
        given = any(k.default is None for k in kept)
        plain = PublicParameter(p.name, p.kind, p.ctype, p.is_output, p.is_optional, None)
        kept.append(plain if given else p)
    return tuple(reversed(kept))


def _parameter(p: Parameter) -> PublicParameter:
    name = c_name(p.name)
    if p.is_tensor:
        default = "nullptr" if p.optional and p.default is not MISSING else None
        return PublicParameter(
            name, "tensor", "const DLTensor*", p.kind == "out", p.optional, default
        )
    if p.type is DType:
        return PublicParameter(name, "dtype", "DLDataType", False, False, None)
    ctype = scalar_ctype(p.type)
    kind = "bool" if ctype == "bool" else "float" if ctype in ("float", "double") else "int"
    wide = {"bool": "bool", "float": "double", "int": "int64_t"}[kind]
    return PublicParameter(name, kind, wide, False, False, _literal(p.default))


def _literal(value: object) -> str | None:
    """A default as C++ says it; None where there is none, or none that it can say."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float) and value == value and abs(value) < 2**63:
        return repr(value)
    return None
