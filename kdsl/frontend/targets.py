"""The variables of a `kdsl.parallel` loop: one name for each of its ranges."""

from __future__ import annotations

import ast

from kdsl.errors import KernelSyntaxError, KernelTypeError, Span
from kdsl.frontend.source import FunctionSource


def loop_targets(source: FunctionSource, node: ast.For) -> list[tuple[str, Span]]:
    """Names and places of a loop's variables.

    Raises:
        KernelSyntaxError: one is no name, or two have one name.
        KernelTypeError: not as many as the call of `parallel` has ranges.
    """
    assert isinstance(node.iter, ast.Call)
    is_tuple = isinstance(node.target, ast.Tuple)
    nodes = node.target.elts if isinstance(node.target, ast.Tuple) else [node.target]
    if is_tuple and len(nodes) == 1:
        raise KernelSyntaxError(
            "one loop variable stands without a comma", source.span(node.target)
        )
    found = []
    for target in nodes:
        span = source.span(target)
        if not isinstance(target, ast.Name):
            raise KernelSyntaxError("a loop variable is a name", span)
        found.append((target.id, span))
    repeated = {n for n, _ in found if n != "_" and [m for m, _ in found].count(n) > 1}
    for name, span in found:
        if name in repeated:
            raise KernelSyntaxError(f"two variables of this loop are called `{name}`", span)
    ranges = len(node.iter.args)
    if ranges and len(found) != ranges:
        names = f"{len(found)} name{'' if len(found) == 1 else 's'}"
        raise KernelTypeError(
            f"{names} for {ranges} range{'' if ranges == 1 else 's'}", source.span(node.target),
            help="one variable for each argument of kdsl.parallel",
        )  # fmt: skip
    return found


def check_targets(source: FunctionSource) -> None:
    """The same of all parallel loops of a kernel. Python itself would hand one name a tuple."""
    for node in ast.walk(source.node):
        match node:
            case ast.For(
                iter=ast.Call(func=ast.Name(id="parallel") | ast.Attribute(attr="parallel"))
            ):
                loop_targets(source, node)
