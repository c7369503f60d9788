"""`break`: a loop that a flag tells to do nothing more; `while`: one that it tells to end.

A loop of the IR runs to its end, so the iterations after a `break` are empty: `break` clears a
flag and ends its iteration, and the body stands under `if flag`.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Container


def has_break(body: list[ast.stmt]) -> bool:
    """Whether a `break` of the loop around stands in these statements."""
    return any(_has_break(statement) for statement in body)


def _has_break(node: ast.AST) -> bool:
    match node:
        case ast.Break():
            return True
        case ast.For() | ast.While() | ast.FunctionDef() | ast.expr():
            return False
    return any(map(_has_break, ast.iter_child_nodes(node)))


def flagged(node: ast.For, taken: Container[str]) -> tuple[ast.For, str]:
    """The loop without `break`, and the name of its flag, which is none of `taken`."""
    flag = "going"
    while flag in taken:
        flag += "_on"
    body = [_Breaks(flag).visit(copy.deepcopy(s)) for s in node.body]
    flat = [s for item in body for s in (item if isinstance(item, list) else [item])]
    test = ast.copy_location(ast.Name(flag, ast.Load()), node.target)
    branch = ast.copy_location(ast.If(test, flat, []), node)
    made = ast.For(node.target, node.iter, [branch], node.orelse)
    return ast.copy_location(made, node), flag


def counted(node: ast.While, taken: Container[str]) -> tuple[ast.For, str]:
    """A `while` as a loop over integers that begins an iteration while a flag holds, and the
    name of the flag: the condition, which is looked at again at the end of each iteration."""
    flag = "going"
    while flag in taken:
        flag += "_on"
    again = ast.copy_location(
        ast.Assign([ast.copy_location(ast.Name(flag, ast.Store()), node.test)], node.test), node
    )
    change = _Whiles(flag, again)
    body = [change.visit(copy.deepcopy(s)) for s in node.body]
    flat = [s for item in body for s in (item if isinstance(item, list) else [item])]
    target = ast.copy_location(ast.Name(f"{flag}_count", ast.Store()), node.test)
    made = ast.For(target, node.test, [*flat, again], node.orelse)
    return ast.copy_location(made, node), flag


class _Breaks(ast.NodeTransformer):
    def __init__(self, flag: str) -> None:
        self.flag = flag

    def visit_Break(self, node: ast.Break) -> list[ast.stmt]:
        target = ast.copy_location(ast.Name(self.flag, ast.Store()), node)
        value = ast.copy_location(ast.Constant(False), node)
        statements: list[ast.stmt] = [ast.Assign([target], value), ast.Continue()]
        return [ast.copy_location(s, node) for s in statements]

    def _leave(self, node: ast.AST) -> ast.AST:
        return node

    visit_For = visit_While = visit_FunctionDef = visit_Lambda = _leave  # noqa: N815


class _Whiles(_Breaks):
    """`continue` looks at the condition first."""

    def __init__(self, flag: str, again: ast.Assign) -> None:
        super().__init__(flag)
        self.again = again

    def visit_Continue(self, node: ast.Continue) -> list[ast.stmt]:
        return [copy.deepcopy(self.again), node]
