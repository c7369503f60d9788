"""A function's source text and its ast, and where each node stands in the author's file.

The one place that converts ast offsets (UTF-8 bytes, after dedent) to columns of the file.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import textwrap
from dataclasses import dataclass
from types import CodeType, FunctionType

from kdsl.errors import NOWHERE, KernelSyntaxError, Span


@dataclass(frozen=True, slots=True)
class SourceText:
    """The lines of one function as they stand in its file.

    Attributes:
        file: path or name to show.
        first_line: number of the first line in the file.
        lines: the lines, without their ends, indented as in the file.
        indent: how many characters of each line the parser did not see.
    """

    file: str
    first_line: int
    lines: tuple[str, ...]
    indent: int

    @property
    def text(self) -> str:
        """The function's text, dedented: what is hashed."""
        return "\n".join(line[self.indent :] for line in self.lines)

    def span(self, node: ast.AST) -> Span:
        """Where a node stands; of a node over several lines, its first."""
        line: int | None = getattr(node, "lineno", None)
        if line is None or not 1 <= line <= len(self.lines):
            return NOWHERE
        text = self.lines[line - 1]
        start = self._column(line, getattr(node, "col_offset", 0))
        end = len(text.rstrip())
        if getattr(node, "end_lineno", line) == line:
            end = self._column(line, getattr(node, "end_col_offset", 0))
        return Span(self.file, self.first_line + line - 1, start, end, text)

    def segment(self, node: ast.AST) -> str:
        """The text of an expression, on one line."""
        span = self.span(node)
        if getattr(node, "end_lineno", None) == getattr(node, "lineno", None) and span.text:
            return span.text[span.column : span.end]
        return ast.unparse(node)

    def _column(self, line: int, offset: int) -> int:
        seen = self.lines[line - 1][self.indent :].encode()
        return self.indent + len(seen[:offset].decode(errors="replace"))


def read(fn: FunctionType, source: str | None = None) -> tuple[SourceText, ast.FunctionDef]:
    """The text and ast of a function, checked to be this very function's.

    Args:
        source: the text, for functions whose file cannot be read.

    Raises:
        KernelSyntaxError: no text is to be had, or it is that of another function.
    """
    code = fn.__code__
    if source is not None:
        lines, first = textwrap.dedent(source).strip("\n").splitlines(), 1
        shown = f"<source of {fn.__name__}>"
    else:
        lines, first, shown = _lines(fn), code.co_firstlineno, code.co_filename
    indent = _indent(lines)
    text = SourceText(shown, first, tuple(lines), indent)
    try:
        tree = ast.parse(text.text)
    except SyntaxError as err:
        raise _unreadable(fn, f"its text does not parse: {err.msg}") from err
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == code.co_name:
            _check_same(fn, node)
            return text, node
    raise _unreadable(fn, f"line {first} of {shown} does not begin a `def {code.co_name}`")


def _lines(fn: FunctionType) -> list[str]:
    code = fn.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, fn.__globals__)
    if not lines:
        raise _unreadable(fn, f"there is no source for {code.co_filename}")
    if code.co_firstlineno > len(lines):
        raise _unreadable(fn, f"{code.co_filename} has no line {code.co_firstlineno}")
    block = inspect.getblock(lines[code.co_firstlineno - 1 :])
    return [line.rstrip("\r\n") for line in block]


def _indent(lines: list[str]) -> int:
    return len(lines[0]) - len(lines[0].lstrip()) if lines else 0


def _check_same(fn: FunctionType, node: ast.FunctionDef) -> None:
    """The compiled function's names must all stand in the text, and its parameters must agree."""
    code = fn.__code__
    a = node.args
    parameters = [p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs)]
    count = code.co_argcount + code.co_kwonlyargcount
    known = _identifiers(node)
    if parameters != list(code.co_varnames[:count]) or not _names(code) <= known:
        raise _unreadable(fn, "its text has changed since it was imported")


def _names(code: CodeType) -> set[str]:
    names = {*code.co_names, *code.co_freevars, *code.co_varnames}
    return {n for n in names if n.isidentifier()} - {"__class__"}


def _identifiers(node: ast.AST) -> set[str]:
    found: set[str] = set()
    for n in ast.walk(node):
        match n:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                found.add(name)
            case ast.alias(name=name, asname=asname):
                found.update(name.split("."))
                found.add(asname or name)
            case ast.ImportFrom(module=str(name)):
                found.update((name, *name.split(".")))
            case ast.keyword(arg=str(name)):
                found.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                found.update(names)
            case ast.Assert():
                found.add("AssertionError")
    return found


def _unreadable(fn: FunctionType, why: str) -> KernelSyntaxError:
    code = fn.__code__
    return KernelSyntaxError(
        f"cannot read the source of `{fn.__name__}`: {why}",
        Span(code.co_filename, code.co_firstlineno, 0, 0),
        help="keep the kernel in a file, or pass its text: @kdsl.kernel(source=...)",
    )
