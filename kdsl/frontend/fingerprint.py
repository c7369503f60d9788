"""Text of captured values for the cache key: another value must give another text.

A value that cannot be looked into gets a text of its own, so that nothing compiled for another
one is ever taken for it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from enum import Enum
from types import BuiltinFunctionType, CodeType, FunctionType, MemberDescriptorType, ModuleType

from kdsl.dims import DimExpr
from kdsl.dtypes import DType, DTypeVar, TensorType

#: Deeper than this nobody keeps the settings of a kernel.
_DEPTH = 6


def simple(value: object) -> str | None:
    """Text of a number, string, dtype, dim, module, class or built-in function; None for a value
    with parts, which `deep` looks at."""
    match value:
        case Enum():
            return f"{type(value).__qualname__}.{value.name}"
        case None | bool() | int() | float() | str() | bytes() | complex():
            return repr(value)
        case DTypeVar():
            return f"{value.name}:{','.join(d.name for d in value.choices)}"
        case DType() | DimExpr() | TensorType():
            return f"{type(value).__name__} {value}"
        case ModuleType():
            return f"module {value.__name__}"
        case type():
            return f"class {value.__module__}.{value.__qualname__}"
        case BuiltinFunctionType():
            return f"function {value.__module__}.{value.__qualname__}"
    return None


def deep(value: object, function: Callable[[FunctionType], str], depth: int = 0) -> str:
    """Text of any value. `function` gives that of a Python function."""
    text = simple(value)
    if text is not None:
        return text
    if isinstance(value, FunctionType):
        return function(value)
    name = f"{type(value).__module__}.{type(value).__qualname__}"
    if depth >= _DEPTH:
        return f"{name} {id(value)}"
    content = _content(value)
    if content is not None:
        return f"{name} {content}"
    parts = _parts(value)
    if parts is None:
        return f"{name} {id(value)}"
    inner = (f"{k}={deep(v, function, depth + 1)}" for k, v in parts)
    return f"{name}({', '.join(inner)})"


def _parts(value: object) -> Iterator[tuple[str, object]] | None:
    """Named parts of a container or of an object with attributes."""
    match value:
        case Sequence():
            return ((str(i), v) for i, v in enumerate(value))
        case Mapping():
            return ((repr(k), v) for k, v in value.items())
        case Set():
            return (("", v) for v in sorted(value, key=repr))
    attributes = dict(_attributes(value))
    return iter(attributes.items()) if attributes else None


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """What `value.name` can be: of the class, then slots, then the object's own."""
    for kind in reversed(type(value).__mro__[:-1]):
        for name, attribute in vars(kind).items():
            if name.startswith("__"):
                continue
            if isinstance(attribute, MemberDescriptorType):
                if hasattr(value, name):
                    yield name, getattr(value, name)
            elif isinstance(attribute, property):
                yield name, attribute.fget
            elif isinstance(attribute, FunctionType) or not hasattr(attribute, "__get__"):
                yield name, attribute
    yield from getattr(value, "__dict__", {}).items()


def _content(value: object) -> str | None:
    """A digest of the bytes of an array, with what they mean."""
    if not callable(getattr(value, "tobytes", None)) and callable(
        to_numpy := getattr(value, "__array__", None)
    ):
        try:
            value = to_numpy()
        except Exception:  # memory of another device, say
            return None
    to_bytes = getattr(value, "tobytes", None)
    if not callable(to_bytes) or "O" in str(getattr(value, "dtype", "")):
        return None
    kind = f"{getattr(value, 'dtype', '')}{getattr(value, 'shape', '')}"
    return f"{kind} {hashlib.sha256(to_bytes()).hexdigest()[:16]}"


def structure(node: object) -> str:
    """Text of an ast that comments, blank lines, layout and place do not change."""
    if isinstance(node, ast.AST):
        # What a name is used for follows from where it stands.
        fields = (structure(getattr(node, f, None)) for f in node._fields if f != "ctx")
        return f"{type(node).__name__}({','.join(fields)})"
    if isinstance(node, list):
        return f"[{','.join(map(structure, node))}]"
    return repr(node)


def code_text(fn: FunctionType) -> str:
    """Text of a function whose source nobody has."""
    digest = hashlib.sha256(repr(_code(fn.__code__)).encode()).hexdigest()[:16]
    return f"{fn.__module__}.{fn.__qualname__} {digest}"


def _code(code: CodeType) -> tuple[object, ...]:
    constants = tuple(_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return code.co_code, code.co_names, code.co_freevars, constants
