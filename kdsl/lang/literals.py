"""Whether a negative index that a run meets is a literal in the author's text.

Only `x[-1]` counts from the end; an index that was computed is out of range when it is negative.
Asked in that one case only, so it may be slow: it reads the source line.
"""

from __future__ import annotations

import ast
import linecache
import sys


def is_literal(number: int) -> bool:
    """Whether the subscript being evaluated has `number`, negative, written as a literal.

    True when the text cannot be read: then Python's own meaning stands.
    """
    frame = sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith("kdsl.lang"):
        if frame.f_back is None:
            return True
        frame = frame.f_back
    code = frame.f_code
    line, end_line, column, end = list(code.co_positions())[frame.f_lasti // 2]
    if line is None or line != end_line or column is None or end is None:
        return True
    text = linecache.getline(code.co_filename, line, frame.f_globals).encode()
    return _written(text[column:end].decode(errors="replace"), number)


def _written(text: str, number: int) -> bool:
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return True
    for node in ast.walk(tree):
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=value)) if value == -number:
                return True
    return False
