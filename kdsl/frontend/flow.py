"""How a block of statements ends."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flow:
    """`END`, `CONTINUE` or a `Returned`."""

    name: str


@dataclass(frozen=True, slots=True)
class Returned(Flow):
    """`return value`."""

    value: object = None

    def __init__(self, value: object) -> None:
        object.__setattr__(self, "name", "return")
        object.__setattr__(self, "value", value)


#: The block runs to its end.
END = Flow("end")
#: The iteration ends here.
CONTINUE = Flow("continue")


def leaves_early(body: list[ast.stmt]) -> bool:
    """Whether a `continue` of the loop around, or a `return`, stands in these statements."""
    return any(_leaves(statement, inside_loop=False) for statement in body)


def _leaves(node: ast.AST, inside_loop: bool) -> bool:
    match node:
        case ast.Return():
            return True
        case ast.Continue():
            return not inside_loop
        case ast.FunctionDef() | ast.Lambda():
            return False
        case ast.For() | ast.While():
            inside_loop = True
        case ast.expr():
            return False
    return any(_leaves(child, inside_loop) for child in ast.iter_child_nodes(node))
