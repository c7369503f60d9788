"""The signature of a packed function, read from the metadata that its module carries."""

from __future__ import annotations

import json
import sys

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    import inspect
    from collections.abc import Callable
    from typing import Any

# As `ParamKind` in csrc/core.h.
_KINDS = {"unknown": 0, "in": 1, "out": 2, "inout": 3, "scalar": 4, "static": 4}
_FLOAT = 5
_FLOATS = {"f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2"}


class Schema:
    """What a call needs to know of a function.

    Attributes:
        text: the signature as messages show it.
        metadata: the module's JSON as a dict; empty when it has none.
        parameters: the dicts under "params", in signature order; None when unknown.
        names: their names; None when unknown.
        kinds: one byte of `ParamKind` for each, then one byte each that is 1 where a call must
            give it.
        views: whether tensors may be passed as borrowed views; a foreign function has to say so.
        differentiable: False where the function says it has no gradient: it takes Torch tensors
            that require one.
        doc: the docstring or None.
    """

    def __init__(self, name: str, metadata: dict[str, Any], doc: str | None) -> None:
        self.metadata = metadata
        foreign = _foreign_types(metadata)
        params = metadata.get("params") if "kdsl" in metadata else _named(metadata, foreign)
        self.parameters: list[dict[str, Any]] | None = params
        own = "kdsl" in metadata and params is not None
        self.views = own or (foreign is not None and _takes_views(foreign))
        rest = "..." if foreign is None else ", ".join(map(_foreign_text, foreign))
        if foreign is not None and params is not None:
            rest = ", ".join(f"{p['name']}: {p['dtype']}" for p in params)
        self.text: str = metadata.get("signature") or f"{name}({rest})"
        self.differentiable: object = metadata.get("differentiable")
        self.doc: str | None = doc or metadata.get("doc")
        self.names = None if params is None else tuple(sys.intern(p["name"]) for p in params)
        self.kinds = b"" if params is None else _codes(params, metadata.get("dtypes", {}))

    @property
    def signature(self) -> inspect.Signature | None:
        """The signature for `inspect.signature`; None when unknown."""
        import inspect  # slow to import, and not needed for calls

        if self.parameters is None:
            return None
        try:
            return inspect.Signature([_inspected(p) for p in self.parameters])
        except (TypeError, ValueError):  # an order that no Python function has
            return None

    @property
    def text_signature(self) -> str | None:
        """The signature as `__text_signature__` has it; None when unknown."""
        return None if self.signature is None else str(self.signature)


class CallableSchema(Schema):
    """The schema of a function that calls a Python callable: signature and doc are its own."""

    def __init__(self, name: str, callable_: Callable[..., object]) -> None:
        super().__init__(name, {}, getattr(callable_, "__doc__", None))
        self._callable = callable_
        signature = self.signature
        self.text = f"{name}{signature}" if signature is not None else f"{name}(...)"

    @property
    def signature(self) -> inspect.Signature | None:
        import inspect

        try:
            return inspect.signature(self._callable)
        except (TypeError, ValueError):  # a builtin that does not tell
            return None

    @property
    def text_signature(self) -> str | None:
        return None if self.signature is None else str(self.signature)


def parse(name: str, metadata: str | None, doc: str | None) -> Schema:
    """The schema of function `name` from what its module says, which may be nothing.

    Raises:
        ValueError: the metadata is no JSON, or kdsl's and yet not of its form.
    """
    try:
        loaded = json.loads(metadata) if metadata else {}
    except (ValueError, RecursionError) as err:
        raise ValueError(f"{name}: the module's metadata is not JSON: {err}") from err
    try:
        schema = Schema(name, loaded if isinstance(loaded, dict) else {}, doc)
        _check(schema)
        return schema
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        raise ValueError(f"{name}: the module's metadata is not of kdsl's form: {err!r}") from err


def _check(schema: Schema) -> None:
    """Messages and signatures are made of these, later and in C.

    Raises:
        TypeError: one is not what it has to be.
    """
    for what, text in (("signature", schema.text), ("doc", schema.doc)):
        if not isinstance(text, str | None):
            raise TypeError(f"{what}: expected a text, got {text!r}")
    offered = schema.metadata.get("dtypes", {})
    if not all(isinstance(names, list) for names in offered.values()):
        raise TypeError("dtypes: expected lists of names")
    for param in schema.parameters or ():
        if not param["name"].isidentifier():
            raise ValueError(f"params: {param['name']!r} is no name")
        type_text(param)
    if schema.names is not None and len(set(schema.names)) != len(schema.names):
        raise ValueError("params: a name stands there twice")


def _foreign_types(metadata: dict[str, Any]) -> list[dict[str, Any]] | None:
    """The parameters in TVM FFI's own metadata, a JSON text within the JSON; None when unknown."""
    try:
        schema = json.loads(metadata["type_schema"])
        if "named_args" in schema:
            return list(schema["named_args"]["params"])
        return list(schema["args"][1:])  # before 0.1.15: the result comes first
    except (KeyError, TypeError, ValueError):
        return None


def _named(
    metadata: dict[str, Any], foreign: list[dict[str, Any]] | None
) -> list[dict[str, Any]] | None:
    """Parameters of hand-written C++ whose names its module tells: what they are for is unknown."""
    names = metadata.get("arg_names")
    if not isinstance(names, list) or foreign is None or len(names) != len(foreign):
        return None
    return [
        {"name": str(name), "kind": "unknown", "type": "scalar", "dtype": _foreign_text(schema)}
        for name, schema in zip(names, foreign, strict=True)
    ]


def _foreign_text(schema: dict[str, Any]) -> str:
    args = ", ".join(map(_foreign_text, schema.get("args", ())))
    name = str(schema.get("type", "Any")).removeprefix("ffi.")
    return f"{name}[{args}]" if args else name


def _takes_views(params: list[dict[str, Any]]) -> bool:
    """Only `DLTensor*` takes a view, and only plain values go with it."""
    plain = {"DLTensor*", "int", "float", "bool", "None", "ffi.String", "DataType", "Device"}
    return all(param.get("type") in plain for param in params)


def _codes(params: list[dict[str, Any]], variables: dict[str, list[str]]) -> bytes:
    def kind(param: dict[str, Any]) -> int:
        dtype = str(param.get("dtype"))
        floats = _FLOATS.issuperset(variables.get(dtype) or (dtype,))
        return _FLOAT if floats and param["kind"] == "scalar" else _KINDS[param["kind"]]

    kinds = bytes(map(kind, params))
    return kinds + bytes(p["kind"] != "out" and "default" not in p for p in params)


def _inspected(param: dict[str, Any]) -> inspect.Parameter:
    import inspect

    keyword_only = param.get("keyword_only", False)
    kind = (
        inspect.Parameter.KEYWORD_ONLY if keyword_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
    )
    default = param.get("default", inspect.Parameter.empty)
    if param["kind"] == "out":
        default = None
    return inspect.Parameter(param["name"], kind, default=default, annotation=annotation(param))


def annotation(param: dict[str, Any]) -> str:
    """A parameter's type as the signature shows it: `f32[B, N]`, `Out[T[N]]`, `bool`."""
    text = type_text(param) + (" | None" if param.get("optional") else "")
    return {"out": f"Out[{text}]", "inout": f"InOut[{text}]"}.get(param["kind"], text)


def type_text(param: dict[str, Any]) -> str:
    """A parameter's type without its kind: `T[B, N]` or `f32`."""
    if param.get("type") != "tensor":
        return str(param.get("dtype", "object"))
    shape = ", ".join(map(str, param["shape"]))
    return f"{param['dtype']}[{shape or '()'}]"
