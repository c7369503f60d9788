"""The JSON that a module gives of each function: its whole schema, for loaders and generators."""

from __future__ import annotations

import json
from collections.abc import Mapping

from kdsl.codegen.context import VERSION, KernelUnit
from kdsl.dtypes import DType, DTypeVar, TensorType
from kdsl.frontend.signature import MISSING, Parameter
from kdsl.ir.nodes import Require
from kdsl.ir.walk import walk

SCHEMA = 1

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]


def metadata(unit: KernelUnit) -> dict[str, Json]:
    """What `__tvm_ffi__metadata_<name>` returns, as an object."""
    signature = unit.signature
    return {
        "kdsl": {"schema": SCHEMA, "version": VERSION},
        "name": unit.name,
        "signature": signature.text,
        "doc": unit.doc,
        "params": [_parameter(p) for p in signature.parameters],
        "dims": list(signature.dims),
        "dtypes": {v.name: [d.name for d in v.choices] for v in signature.dtype_vars},
        "require": list(requirements(unit)),
        "returns": [p.name for p in signature.of_kind("out")],
        "differentiable": unit.differentiable,
        "targets": list(unit.targets),
        "specialisations": [
            {
                "dtypes": {name: dtype.name for name, dtype in s.dtypes},
                "statics": {name: _value(value) for name, value in s.statics},
                "dims": dict(s.func.fixed),
            }
            for s in unit.specialisations
        ],
        "source": {"file": unit.file, "line": unit.line, "sha256": unit.sha256},
        "type_schema": type_schema(unit),
    }


def metadata_text(unit: KernelUnit) -> str:
    """The metadata as it stands in a generated file: one line an entry, a line a parameter."""

    def entry(key: str, value: Json) -> str:
        if key in ("params", "specialisations") and isinstance(value, list) and value:
            rows = ",\n".join(f"  {_dumps(row)}" for row in value)
            return f"{_dumps(key)}: [\n{rows}\n]"
        return f"{_dumps(key)}: {_dumps(value)}"

    return "{" + ",\n".join(entry(k, v) for k, v in metadata(unit).items()) + "}"


def requirements(unit: KernelUnit) -> tuple[str, ...]:
    """The conditions of `kdsl.require`, each once."""
    found = (
        stmt.text
        for s in unit.specialisations
        for stmt in walk(s.func.host)
        if isinstance(stmt, Require)
    )
    return tuple(dict.fromkeys(found))


def type_schema(unit: KernelUnit) -> str:
    """The function's type as TVM FFI describes it: result first, then the parameters.

    This is the form that every release reads; later ones have a second, longer form.
    """
    outs = unit.signature.of_kind("out")
    tensor: Mapping[str, Json] = {"type": "ffi.Tensor"}
    result: Mapping[str, Json] = {"type": "None"}
    if outs:
        array: Mapping[str, Json] = {"type": "ffi.Array", "args": [dict(tensor)]}
        result = _optional(tensor if len(outs) == 1 else array)
    args = [dict(result), *(_type(p) for p in unit.signature.parameters)]
    return json.dumps({"type": "ffi.Function", "args": args}, separators=(",", ":"))


def _type(p: Parameter) -> dict[str, Json]:
    """Outs and parameters with defaults may be None."""
    if p.is_tensor:
        of: dict[str, Json] = {"type": "DLTensor*"}
    elif p.type is DType:
        of = {"type": "DataType"}
    else:
        name = scalar_type(p)
        of = {"type": "bool" if name == "bool" else "int" if _is_integer(p) else "float"}
    may_be_none = p.kind == "out" or p.optional or p.default is not MISSING
    return _optional(of) if may_be_none else of


def _optional(of: Mapping[str, Json]) -> dict[str, Json]:
    return {"type": "Optional", "args": [dict(of)]}


def scalar_type(p: Parameter) -> str:
    """Type of a scalar or static as signatures and messages show it."""
    if isinstance(p.type, type):
        return "dtype" if p.type is DType else p.type.__name__
    return str(p.type)


def _is_integer(p: Parameter) -> bool:
    match p.type:
        case DType():
            return p.type.is_int
        case DTypeVar(choices=choices):
            return not any(d.is_float for d in choices)
    return p.type is int


def _parameter(p: Parameter) -> dict[str, Json]:
    row: dict[str, Json] = {"name": p.name, "kind": p.kind}
    if isinstance(p.type, TensorType):
        row |= {"type": "tensor", "dtype": str(p.type.dtype)}
        row["shape"] = [e if isinstance(e, int) else str(e) for e in p.type.shape]
        if p.optional:
            row["optional"] = True
    else:
        row |= {"type": "scalar", "dtype": scalar_type(p)}
    if p.default is not MISSING:
        row["default"] = _value(p.default)
    if p.keyword_only:
        row["keyword_only"] = True
    return row


def _value(value: object) -> Json:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        # JSON has no infinity; Python reads and writes this spelling of it.
        return value
    return value.name if isinstance(value, DType) else repr(value)


def _dumps(value: Json) -> str:
    return json.dumps(value, ensure_ascii=True)
