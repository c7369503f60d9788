"""The source of a lambda: the one in its line that compiles to the same code."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType

#: Lines that a statement with a lambda may have.
_LONGEST = 60


def find(
    fn: FunctionType, same: Callable[[ast.FunctionDef, CodeType], bool]
) -> tuple[list[str], int, ast.FunctionDef] | None:
    """The lines of the statement around a lambda, the number of the first, and the lambda as a
    function definition; None when it is not found.

    Args:
        same: whether a function's ast compiles to a code.
    """
    code = fn.__code__
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    for first in range(code.co_firstlineno, max(code.co_firstlineno - _LONGEST, 0), -1):
        for block, tree in _statements(lines, first, code.co_firstlineno):
            for node in ast.walk(tree):
                if isinstance(node, ast.Lambda):
                    definition = as_function(node)
                    if same(definition, code):
                        return block, first, definition
    return None


def _statements(lines: list[str], first: int, last: int) -> Iterator[tuple[list[str], ast.AST]]:
    """Statements that begin on line `first` and reach `last`, shortest first."""
    start = lines[first - 1] if first <= len(lines) else ""
    indent = len(start) - len(start.lstrip())
    for end in range(last, min(first + _LONGEST, len(lines)) + 1):
        block = [line.rstrip("\r\n") for line in lines[first - 1 : end]]
        try:
            yield block, ast.parse("\n".join(line[indent:] for line in block))
        except SyntaxError:
            continue
        return


def as_function(node: ast.Lambda) -> ast.FunctionDef:
    """`lambda v: v + 1` as `def lambda(v): return v + 1`."""
    body = ast.copy_location(ast.Return(node.body), node.body)
    made = ast.FunctionDef(name="lambda", args=node.args, body=[body], decorator_list=[])
    return ast.copy_location(made, node)
