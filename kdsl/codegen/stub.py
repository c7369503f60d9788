"""The `.pyi` beside an exported library: its functions for type checkers and editors."""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from kdsl.codegen.context import VERSION, KernelUnit, origins
from kdsl.codegen.render import render
from kdsl.dtypes import DType, DTypeVar
from kdsl.frontend.signature import MISSING, Parameter

#: What `kdsl.runtime.Module` has itself; such a kernel is an item of the module only.
_TAKEN = frozenset({"path", *keyword.kwlist})
_INDENT = " " * 8


@dataclass(frozen=True, slots=True)
class StubForm:
    """One way to call a function: parameters as Python spells them, and what comes back."""

    parameters: tuple[str, ...]
    result: str


@dataclass(frozen=True, slots=True)
class StubFunction:
    """`receiver` is the first parameter of the method."""

    name: str
    receiver: str
    docstring: str
    forms: tuple[StubForm, ...]


@dataclass(frozen=True, slots=True)
class StubModule:
    """What the template sees. `name` is that of the file, `library` that of the library's."""

    version: str
    name: str
    library: str
    origin: str
    functions: tuple[StubFunction, ...]


def stub(library: str, kernels: Sequence[KernelUnit]) -> tuple[str, str]:
    """The stub's file name and its text, for the library of that file name.

    It is no module's of that name, since the source of the kernels may well be one.
    """
    name = re.sub(r"\W", "_", library.partition(".")[0]) + "_module"
    if name[0].isdigit():
        name = f"_{name}"
    functions = tuple(_function(unit) for unit in kernels if unit.name not in _TAKEN)
    module = StubModule(VERSION, name, library, origins(kernels), functions)
    return f"{name}.pyi", render("host/stub.pyi.j2", m=module)


def _function(unit: KernelUnit) -> StubFunction:
    parameters = unit.signature.parameters
    receiver = "self" if all(p.name != "self" for p in parameters) else "_self"
    outs = unit.signature.of_kind("out")
    result = "_Array" if len(outs) == 1 else f"tuple[{', '.join(['_Array'] * len(outs))}]"
    if unit.signature.of_kind("inout"):
        result = "Any"  # an array of JAX is not written, a new one comes back
    elif not outs:
        result = "None"
    forms = [StubForm(_spelled(parameters, given=False), result)]
    if outs:
        forms.append(
            StubForm(_spelled(parameters, given=True), "Any" if result == "Any" else "None")
        )
    return StubFunction(unit.name, receiver, _docstring(unit), tuple(forms))


def _spelled(parameters: Sequence[Parameter], *, given: bool) -> tuple[str, ...]:
    """`given`: the caller passes the outputs."""
    spelled: list[str] = []
    for p in parameters:
        if p.keyword_only and "*" not in spelled:
            spelled.append("*")
        if p.kind == "out":
            spelled.append(f"{p.name}: _Array" if given else f"{p.name}: None = None")
        else:
            default = "" if p.default is MISSING else f" = {_literal(p.default)}"
            spelled.append(f"{p.name}: {_type(p)}{default}")
    return tuple(spelled)


def _type(p: Parameter) -> str:
    if p.is_tensor:
        return "_Array | None" if p.optional else "_Array"
    match p.type:
        case DTypeVar(choices=choices):
            return "float" if any(d.is_float for d in choices) else "int"
        case DType(kind="bool"):
            return "bool"
        case DType() as dtype:
            return "float" if dtype.is_float else "int"
        case type() as static if static in (bool, int):
            return static.__name__
    return "Any"  # a dtype: kdsl's, NumPy's, Torch's


def _literal(value: object) -> str:
    plain = value is None or isinstance(value, bool | int)
    if plain or (isinstance(value, float) and math.isfinite(value)):
        return repr(value)
    return "..."


def _docstring(unit: KernelUnit) -> str:
    """The signature as messages show it, then what the author says; as it stands in the stub."""
    text = unit.signature.text + (f"\n\n{unit.doc}\n" if unit.doc else "")
    text = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    first, *rest = text.split("\n")
    indented = [_INDENT + line if line else "" for line in rest]
    return "\n".join([first, *indented[:-1], _INDENT] if rest else [first])
