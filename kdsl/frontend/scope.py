"""What a name means in a function, as Python resolves it: locals, closure, globals, builtins."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from types import FunctionType

_BUILTINS = vars(builtins)


class EmptyCell(Exception):
    """A closure variable that has no value yet."""


class Absent(Exception):
    """A name that nothing defines."""


def lookup(fn: FunctionType, name: str) -> object:
    """The value of a name that is not local to `fn`, at this moment.

    Raises:
        EmptyCell: a closure variable without a value.
        Absent: no such name.
    """
    free = fn.__code__.co_freevars
    if name in free and fn.__closure__ is not None:
        try:
            return fn.__closure__[free.index(name)].cell_contents
        except ValueError:
            raise EmptyCell(name) from None
    if name in fn.__globals__:
        return fn.__globals__[name]
    if name in _BUILTINS:
        return _BUILTINS[name]
    raise Absent(name)


def known_names(fn: FunctionType) -> tuple[str, ...]:
    """Names that `lookup` finds, for suggestions."""
    return (*fn.__code__.co_freevars, *fn.__globals__, *_BUILTINS)


def outside_paths(node: ast.FunctionDef) -> tuple[tuple[str, ...], ...]:
    """Names and attribute paths that a function's body takes from outside: `("cfg", "eps")`."""
    local = local_names(node)
    found: dict[tuple[str, ...], None] = {}

    def visit(n: ast.AST) -> None:
        path = _path(n)
        if path is not None:
            if path[0] not in local:
                found[path] = None
            return
        for child in ast.iter_child_nodes(n):
            visit(child)

    for statement in node.body:
        visit(statement)
    return tuple(found)


def local_names(node: ast.FunctionDef) -> set[str]:
    """Parameters of a function and names that its body assigns."""
    a = node.args
    names = {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)}
    return names | set(assigned_names(node.body))


def assigned_names(body: list[ast.stmt]) -> Iterator[str]:
    """Names that statements bind, those of inner functions left out."""
    for statement in body:
        yield from _assigned(statement)


def _assigned(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()):
            yield name
        case ast.FunctionDef(name=name):
            yield name
        case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            pass
        case _:
            for child in ast.iter_child_nodes(node):
                yield from _assigned(child)


def _path(node: ast.AST) -> tuple[str, ...] | None:
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            return (name,)
        case ast.Attribute(value=value, attr=attr):
            inner = _path(value)
            return None if inner is None else (*inner, attr)
    return None
