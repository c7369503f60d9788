"""Functions that Python gives to native code: converted, or kept under a global name.

Global functions live in the process, not in Python: native code of any module finds them by name,
and so does apache-tvm-ffi, whose table it is where that is installed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from kdsl.runtime import _core, provider
from kdsl.runtime._core import Function

F = TypeVar("F", bound=Callable[..., Any])
E = TypeVar("E", bound=type[BaseException])

_LIST = "ffi.FunctionListGlobalNamesFunctor"
_REMOVE = "ffi.FunctionRemoveGlobal"


def convert(callable_: Callable[..., Any]) -> Function:
    """A packed function that calls a Python callable.

    An argument of a packed function may be any callable; converted once, it need not be converted
    in each call. What native code returns is this Function again.

    Raises:
        TypeError: it is no callable.

    Example:
        >>> double = convert(lambda x: 2 * x)
        >>> double(4)
        8
    """
    return _core.convert(callable_)


@overload
def register_global_func(name: str, f: F, override: bool = False) -> F: ...
@overload
def register_global_func(name: str, f: None = None, override: bool = False) -> Callable[[F], F]: ...
@overload
def register_global_func(name: F, f: None = None, override: bool = False) -> F: ...
def register_global_func(name: Any, f: Any = None, override: bool = False) -> Any:
    """Keep a callable under a name that native code of the whole process can look up.

    Without `f` it is a decorator; used as a bare decorator the function's own name serves.

    Raises:
        RuntimeError: there is a function of that name, and not `override`.
        TypeError: the name is no str, or `f` no callable.

    Example:
        >>> @register_global_func("demo.add_one", override=True)
        ... def add_one(x):
        ...     return x + 1
        >>> get_global_func("demo.add_one")(1)
        2
    """
    if callable(name) and f is None:
        return register_global_func(name.__name__, name, override)
    if not isinstance(name, str):
        raise TypeError(f"register_global_func: expected a name, got {name!r}")
    if f is None:
        return lambda function: register_global_func(name, function, override)
    provider.share()
    function = _core.convert(f)
    if not override and _core.get_global(name) is not None:
        raise RuntimeError(
            f"register_global_func: a function `{name}` is registered already; "
            "pass override=True to replace it"
        )
    _core.set_global(name, function, override)
    return f


@overload
def get_global_func(name: str, allow_missing: bool) -> Function | None: ...
@overload
def get_global_func(name: str) -> Function: ...
def get_global_func(name: str, allow_missing: bool = False) -> Function | None:
    """The function that is registered under `name`.

    Raises:
        ValueError: there is none, and not `allow_missing`.
    """
    if not isinstance(name, str):
        raise TypeError(f"get_global_func: expected a name, got {name!r}")
    provider.share()
    function = _core.get_global(name)
    if function is None and not allow_missing:
        raise ValueError(f"get_global_func: no function `{name}` is registered")
    return function


def list_global_func_names() -> list[str]:
    """The names of all registered functions, of every module and library in the process, sorted."""
    provider.share()
    names = _core.list_global()
    functor = _core.get_global(_LIST)
    if functor is not None:
        name_at = functor()
        names += [name_at(i) for i in range(name_at(-1))]
    return sorted(names)


def remove_global_func(name: str) -> None:
    """Forget the function that is registered under `name`; whoever has it can still call it.

    Raises:
        ValueError: there is none.
    """
    if get_global_func(name, allow_missing=True) is None:
        raise ValueError(f"remove_global_func: no function `{name}` is registered")
    if not _core.remove_global(name):
        remove = _core.get_global(_REMOVE)
        if remove is None:
            raise ValueError(f"remove_global_func: `{name}` cannot be removed")
        remove(name)


@overload
def register_error(kind: str, cls: E) -> E: ...
@overload
def register_error(kind: str, cls: None = None) -> Callable[[E], E]: ...
@overload
def register_error(kind: E, cls: None = None) -> E: ...
def register_error(kind: Any, cls: Any = None) -> Any:
    """Let errors of a kind, a word that native code raises them with, be instances of `cls`.

    The class is called with one text. It goes the other way too: an exception of that class in a
    callback has this kind in native code. Without `cls` it is a decorator.

    Raises:
        TypeError: `cls` is no exception class, or `kind` no str.

    Example:
        >>> @register_error
        ... class QuotaError(RuntimeError):
        ...     pass
    """
    if isinstance(kind, type) and cls is None:
        return register_error(kind.__name__, kind)
    if not isinstance(kind, str):
        raise TypeError(f"register_error: expected a kind, got {kind!r}")
    if cls is None:
        return lambda decorated: register_error(kind, decorated)
    if not isinstance(cls, type) or not issubclass(cls, BaseException):
        raise TypeError(f"register_error: expected an exception class for `{kind}`, got {cls!r}")
    _core.error_classes[kind] = cls
    _core.error_kinds[cls] = kind
    return cls


def bind(
    callable_: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> tuple[object, ...]:
    """All arguments in the order of the callable's parameters: a packed call has no keywords.

    Raises:
        TypeError: they do not fit, or a keyword-only parameter is among them.
    """
    import inspect

    bound = inspect.signature(callable_).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        name = next(iter(bound.kwargs))
        raise TypeError(f"{callable_!r}: keyword-only parameter `{name}`: a packed call has none")
    return bound.args
