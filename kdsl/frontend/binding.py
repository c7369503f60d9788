"""Static parameters that have their values before any call: functions, and what `bind` gives."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from types import FunctionType
from typing import Any

from kdsl.dtypes import DType
from kdsl.frontend.source import KernelSource


def bind(source: KernelSource, statics: Mapping[str, object], name: str | None) -> KernelSource:
    """The kernel with these static parameters fixed, as a kernel of its own.

    Args:
        statics: a function (or None) for a `Static[Callable]` parameter; a bool, an integer or a
            dtype for the others.
        name: what the new kernel is called; as the old one when it is None.

    Raises:
        TypeError: a parameter that does not exist or is not static, a value of another kind.
        ValueError: a name that is no identifier, a dtype or size that the kernel does not have.
    """
    if name is not None and not (isinstance(name, str) and name.isidentifier() and name.isascii()):
        raise ValueError(f"{source.name}: a kernel's name is an identifier, got {name!r}")
    for parameter, value in statics.items():
        _check(source, parameter, value)
    new = {n: v for n, v in statics.items() if n not in source.signature.fixed}
    signature = source.signature.without(new)
    if name is not None:
        signature = replace(signature, name=name)
    fixed = tuple((dict(source.fixed) | dict(statics)).items())
    return replace(source, signature=signature, fixed=fixed, helpers={})


def _check(source: KernelSource, name: str, value: object) -> None:
    """Raises TypeError, ValueError."""
    before = dict(source.fixed)
    if name in source.signature.fixed:
        is_function = before.get(name) is None or isinstance(before[name], FunctionType)
        if not is_function:
            raise TypeError(f"{source.name}: `{name}` is fixed already, to {_shown(before[name])}")
        if value is not None and not isinstance(value, FunctionType):
            raise TypeError(
                f"{source.name}: `{name}` is a function written in Python or None, "
                f"got {_shown(value)}"
            )
        return
    parameter = next((p for p in source.signature if p.name == name), None)
    if parameter is None or parameter.kind != "static":
        names = [p.name for p in source.signature.of_kind("static")]
        known = ", ".join((*source.signature.fixed, *names)) or "none"
        what = "is no static parameter" if parameter else "is no parameter"
        text = f"{source.name}: `{name}` {what}; there are: {known}"
        if parameter is not None and parameter.optional:
            text += f'. An export without `{name}` is export(..., statics={{"{name}": [False]}})'
        raise TypeError(text)
    fits = type(value) is parameter.type or (parameter.type is DType and isinstance(value, DType))
    if not fits:
        kind = "dtype" if parameter.type is DType else getattr(parameter.type, "__name__", "")
        raise TypeError(f"{source.name}: `{name}` is of type {kind}, got {_shown(value)}")
    if isinstance(value, int) and name in source.signature.dims and value < 0:
        raise ValueError(f"{source.name}: `{name}` is a size, got {value}")
    for var in source.signature.dtype_vars:
        if var.name == name and value not in var.choices:
            choices = ", ".join(d.name for d in var.choices)
            raise ValueError(f"{source.name}: `{name}` is one of {choices}, got {value}")


def _shown(value: object) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, FunctionType):
        return f"the function {value.__name__}"
    return str(value) if isinstance(value, DType) else type(value).__name__


def given(source: KernelSource) -> dict[str, object]:
    """Values of the static parameters that no call passes. Raises ValueError."""
    values = dict(source.fixed)
    for name in source.signature.fixed:
        if name not in values:
            raise ValueError(
                f"{source.name}: the static function `{name}` has no value; "
                f"`{source.name}.bind({name}=...)` gives it one"
            )
    return values


def missing(
    signature: inspect.Signature, positional: Sequence[object], named: Collection[str]
) -> list[str]:
    """Parameters of a function that a call leaves out and that may be passed by name."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = list(signature.parameters.values())[len(positional) :]
    return [p.name for p in parameters if p.kind in kinds and p.name not in named]


def with_parameters(value: object, passed: Mapping[str, object]) -> object:
    """A static function for the reference run: arguments that a call leaves out are those of the
    kernel's parameters with the same names. Other values as they are."""
    if not isinstance(value, FunctionType):
        return value
    function, signature = value, inspect.signature(value)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        extra = {n: passed[n] for n in missing(signature, args, kwargs) if n in passed}
        return function(*args, **kwargs, **extra)

    return call
