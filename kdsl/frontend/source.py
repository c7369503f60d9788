"""A kernel as it was when it was decorated: its text, its ast, its signature, its outer names."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import FrameType, FunctionType
from typing import Any

from kdsl.dims import Dim
from kdsl.errors import KernelSyntaxError, KernelTypeError, Span
from kdsl.frontend import text as text_module
from kdsl.frontend.fingerprint import code_text, deep, simple, structure
from kdsl.frontend.scope import Absent, EmptyCell, lookup, outside_paths
from kdsl.frontend.signature import MISSING, Signature, read_signature
from kdsl.frontend.text import SourceText


@dataclass(frozen=True)
class FunctionSource:
    """A function and its text: a kernel or a helper."""

    # a FunctionType; declared so, type checkers would bind it as a method
    function: Any
    text: SourceText
    node: ast.FunctionDef

    def span(self, node: ast.AST) -> Span:
        return self.text.span(node)

    def else_span(self, loop: ast.For) -> Span:
        return self.text.else_span(loop)

    @cached_property
    def structure(self) -> str:
        """Text that changes when what the function says does, and not with its layout."""
        return structure(self.node)

    @cached_property
    def outside(self) -> tuple[tuple[str, ...], ...]:
        """Names and attribute paths taken from outside."""
        return outside_paths(self.node)


@dataclass(frozen=True)
class KernelSource(FunctionSource):
    """What `capture` keeps of a kernel; a later edit of its file changes nothing."""

    signature: Signature
    strict: bool = False
    helpers: dict[FunctionType, FunctionSource] = field(default_factory=dict, compare=False)
    #: Values of the static parameters that are not in `signature`.
    fixed: tuple[tuple[str, object], ...] = ()
    #: False where its author says that its results have no gradient.
    differentiable: bool | None = None

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.function) or ""

    @property
    def file(self) -> str:
        return self.text.file

    @property
    def line(self) -> int:
        """Line of the `def`."""
        return self.text.first_line + self.node.lineno - 1

    def helper(self, fn: FunctionType) -> FunctionSource:
        """The source of a helper, read once. Raises KernelSyntaxError."""
        found = self.helpers.get(fn)
        if found is None:
            found = self.helpers[fn] = read_helper(fn)
        return found

    def captured(self, statics: Mapping[str, object] | None = None) -> tuple[tuple[str, str], ...]:
        """Names the kernel takes from outside with text that changes when their value does.

        Helpers are followed: their text and what they take from outside are part of it, and so
        are static arguments that are functions.
        """
        seen: dict[FunctionType, None] = {}
        pairs = list(self._captured(self, self.name, seen))
        for name, value in (dict(self.fixed) | dict(statics or {})).items():
            pairs.extend(self._value(name, value, seen))
        return tuple(pairs)

    def _captured(
        self, source: FunctionSource, prefix: str, seen: dict[FunctionType, None]
    ) -> Iterator[tuple[str, str]]:
        for path in source.outside:
            value, used = _resolve(source.function, path)
            yield from self._value(f"{prefix}.{'.'.join(used)}", value, seen)

    def _value(
        self, name: str, value: object, seen: dict[FunctionType, None]
    ) -> Iterator[tuple[str, str]]:
        helpers: list[FunctionType] = []

        def function(fn: FunctionType) -> str:
            helpers.append(fn)
            return f"{fn.__module__}.{fn.__qualname__}"

        text = deep(value, function)
        if not helpers:
            yield name, text
            return
        if value is not helpers[0]:
            yield name, text
        for i, fn in enumerate(helpers):
            inner = name if value is fn else f"{name}#{i}"
            yield from self._helper(inner, fn, seen)

    def _helper(
        self, name: str, fn: FunctionType, seen: dict[FunctionType, None]
    ) -> Iterator[tuple[str, str]]:
        """A helper's text and what it takes from outside, once; of kdsl's own only the name."""
        if (fn.__module__ or "").partition(".")[0] == "kdsl":
            yield name, f"{fn.__module__}.{fn.__qualname__}"
        elif fn not in seen and len(seen) < _MOST_HELPERS:
            seen[fn] = None
            try:
                helper = self.helper(fn)
            except KernelSyntaxError:
                yield name, code_text(fn)
            else:
                yield name, helper.structure
                yield from self._captured(helper, name, seen)


#: A kernel that reaches more functions than this does not call them all.
_MOST_HELPERS = 200
_UNSET = "<no value yet>"


def _resolve(fn: FunctionType, path: tuple[str, ...]) -> tuple[object, tuple[str, ...]]:
    """The value at a path, as far as it can be followed without running methods of values."""
    try:
        value = lookup(fn, path[0])
    except (EmptyCell, Absent):
        return _UNSET, path
    for depth, attr in enumerate(path[1:], 1):
        if simple(value) is not None and not _is_namespace(value):
            return value, path[:depth]
        try:
            value = getattr(value, attr)
        except AttributeError:
            return _UNSET, path[: depth + 1]
    return value, path


def _is_namespace(value: object) -> bool:
    return inspect.ismodule(value) or isinstance(value, type)


def read_helper(fn: FunctionType) -> FunctionSource:
    """A helper's source. Raises KernelSyntaxError."""
    return FunctionSource(fn, *text_module.read(fn))


def capture(
    fn: object, *, source: str | None = None, strict: bool = False,
    differentiable: bool | None = None, scope: Mapping[str, object] | None = None,
) -> KernelSource:  # fmt: skip
    """Reads a kernel where it is decorated.

    Args:
        fn: the function.
        source: its text, when its file cannot be read.
        strict: compile without contraction and rewriting.
        differentiable: False: results have no gradient.
        scope: names that string annotations may use beside globals and closure; the caller's
            locals when left out.

    Raises:
        TypeError: not a plain function, a `differentiable` that is neither False nor None.
        KernelSyntaxError, KernelTypeError: what its text or signature gets wrong.
    """
    if not isinstance(fn, FunctionType):
        raise TypeError(f"a kernel is a function, got {type(fn).__name__}")
    if differentiable is not None and differentiable is not False:
        raise TypeError(
            f"{fn.__name__}: expected differentiable=False or None, got {differentiable!r}; kdsl "
            "derives no gradients: leave it out, or say False where there is none"
        )
    text, node = text_module.read(fn, source)
    if inspect.iscoroutinefunction(fn) or inspect.isgeneratorfunction(fn):
        raise KernelSyntaxError(
            "a kernel is a plain function, without yield or async", text.span(node)
        )
    if not node.name.isascii():
        raise KernelSyntaxError(
            f"the name of a kernel has ASCII letters only, got `{node.name}`", text.span(node),
            help="it names a symbol of the compiled library; parameters are free",
        )  # fmt: skip
    first = next(iter((*node.args.posonlyargs, *node.args.args)), None)
    if first is not None and first.arg in ("self", "cls") and first.annotation is None:
        raise KernelSyntaxError(
            "a kernel is no method", text.span(first),
            help=f"write a function, or a @staticmethod without `{first.arg}`",
        )  # fmt: skip
    annotations = _annotations(fn, node, text, scope)
    defaults = {
        p.name: p.default
        for p in inspect.signature(fn).parameters.values()
        if p.default is not inspect.Parameter.empty
    }
    signature = read_signature(node, text, annotations, defaults)
    functions = {p.name: p.default for p in signature if p.type is FunctionType}
    fixed = tuple((name, value) for name, value in functions.items() if value is not MISSING)
    signature = signature.without(functions)
    kernel = KernelSource(fn, text, node, signature, strict, {}, fixed, differentiable)
    _check_dims_used(kernel)
    return kernel


def _annotations(
    fn: FunctionType, node: ast.FunctionDef, text: SourceText, scope: Mapping[str, object] | None
) -> dict[str, object]:
    """Annotations by parameter; strings are evaluated where the function was defined."""
    found: dict[str, Any] = dict(fn.__annotations__)
    if not any(isinstance(a, str) for a in found.values()):
        return found
    names = dict(_caller_locals() if scope is None else scope)
    cells = fn.__closure__ or ()
    for name, cell in zip(fn.__code__.co_freevars, cells, strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:
            continue
    spans = {a.arg: text.span(a.annotation or a) for a in ast.walk(node) if isinstance(a, ast.arg)}
    for parameter, annotation in found.items():
        if isinstance(annotation, str):
            try:
                value: Any = annotation
                # a quoted annotation under `from __future__ import annotations` is twice a string
                while isinstance(value, str):
                    value = eval(value, fn.__globals__, names)
                found[parameter] = value
            except Exception as err:
                raise KernelTypeError(
                    f"the annotation of `{parameter}` cannot be evaluated: {err}",
                    spans.get(parameter, text.span(node)),
                    help="annotations see globals and the names around the function",
                ) from err
    return found


def _caller_locals() -> Mapping[str, object]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "kdsl":
        frame = frame.f_back
    return {} if frame is None else frame.f_locals


def _check_dims_used(kernel: KernelSource) -> None:
    """Every dim that the body names must be bound by a parameter."""
    outer: dict[str, Dim] = {}
    for path in kernel.outside:
        value, _ = _resolve(kernel.function, path)
        if isinstance(value, Dim) and value.name not in kernel.signature.dims:
            outer[path[0]] = value
    for node in ast.walk(kernel.node) if outer else ():
        if isinstance(node, ast.Name) and node.id in outer:
            dim = outer[node.id]
            raise KernelTypeError(
                f"nothing binds the dim `{dim}`", kernel.span(node),
                label=f"no parameter has `{dim}` in its type",
                help=f"give an input an axis that is just `{dim}`, or add a parameter "
                f"`{dim}: Static[int]` or `{dim}: i64`",
            )  # fmt: skip
