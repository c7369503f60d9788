"""A function's source text and its ast, and where each node stands in the author's file.

The one place that converts ast offsets (UTF-8 bytes, after dedent) to columns of the file.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import opcode
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType

from kdsl.errors import NOWHERE, KernelSyntaxError, Span
from kdsl.frontend import lambdas


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
        return _dedented(self.lines, self.indent)

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

    def else_span(self, loop: ast.For | ast.While) -> Span:
        """Where the `else` of a loop stands."""
        first = loop.orelse[0]
        for line in range(first.lineno, loop.body[-1].end_lineno or 0, -1):
            text = self.lines[line - 1]
            if line == first.lineno:
                text = text[: self._column(line, first.col_offset)]
            if text.strip().startswith("else"):
                column = text.index("else")
                return Span(self.file, self.first_line + line - 1, column, column + 4,
                            self.lines[line - 1])  # fmt: skip
        return self.span(first)

    def segment(self, node: ast.AST) -> str:
        """The text of an expression, on one line."""
        span = self.span(node)
        if getattr(node, "end_lineno", None) == getattr(node, "lineno", None) and span.text:
            return span.text[span.column : span.end]
        return ast.unparse(node)

    def _column(self, line: int, offset: int) -> int:
        text = self.lines[line - 1]
        cut = _cut(text, self.indent)
        return cut + len(text[cut:].encode()[:offset].decode(errors="replace"))


def read(fn: FunctionType, source: str | None = None) -> tuple[SourceText, ast.FunctionDef]:
    """The text and ast of a function, checked to be this very function's.

    Args:
        source: the text, for functions whose file cannot be read.

    Raises:
        KernelSyntaxError: no text is to be had, or it is that of another function.
    """
    code = fn.__code__
    if code.co_name == "<lambda>" and source is None:
        return _read_lambda(fn)
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
        if isinstance(node, ast.AsyncFunctionDef) and node.name == code.co_name:
            raise KernelSyntaxError(
                "a kernel is a plain function, without yield or async", text.span(node)
            )
    raise _unreadable(fn, f"line {first} of {shown} does not begin a `def {code.co_name}`")


def _read_lambda(fn: FunctionType) -> tuple[SourceText, ast.FunctionDef]:
    found = lambdas.find(fn, _is_code_of)
    if found is None:
        raise _unreadable(fn, "no lambda on its line is this one")
    lines, first, node = found
    return SourceText(fn.__code__.co_filename, first, tuple(lines), _indent(lines)), node


def _lines(fn: FunctionType) -> list[str]:
    code = fn.__code__
    linecache.checkcache(code.co_filename)
    lines = linecache.getlines(code.co_filename, fn.__globals__) or _typed(fn)
    if not lines and code.co_filename == "<stdin>":
        raise _unreadable(
            fn, "Python keeps no text of <stdin>",
            "keep the kernel in a file, use IPython or a notebook, or pass its text: "
            "@kdsl.kernel(source=...)",
        )  # fmt: skip
    if not lines:
        raise _unreadable(fn, f"there is no source for {code.co_filename}")
    if code.co_firstlineno > len(lines):
        raise _unreadable(fn, f"{code.co_filename} has no line {code.co_firstlineno}")
    rest = lines[code.co_firstlineno - 1 :]
    length = _last_line(code) - code.co_firstlineno + 1
    for end in range(length, length + 3):
        block = [line.rstrip("\r\n") for line in rest[:end]]
        if _parses(block):
            return block
    return [line.rstrip("\r\n") for line in inspect.getblock(rest)]


#: A kernel that was typed at a prompt has no more lines than this.
_MOST_TYPED = 200


def _typed(fn: FunctionType) -> list[str]:
    """The lines of a function just typed at Python's prompt, where its line editor has them."""
    editor = sys.modules.get("readline")
    if editor is None or fn.__code__.co_filename != "<stdin>":
        return []
    last = editor.get_current_history_length()
    block: list[str] = []
    for i in range(last, max(last - _MOST_TYPED, 0), -1):
        block.insert(0, f"{editor.get_history_item(i)}\n")
        if block[0].startswith(("@", "def ")):
            with contextlib.suppress(SyntaxError):
                for node in ast.parse("".join(block)).body:
                    if isinstance(node, ast.FunctionDef) and _is_code_of(node, fn.__code__):
                        return block
    return []


def _last_line(code: CodeType) -> int:
    """The last line that a function's instructions come from."""
    last = max((line for _, _, line in code.co_lines() if line), default=code.co_firstlineno)
    return max([last, *(_last_line(c) for c in code.co_consts if isinstance(c, CodeType))])


def _parses(lines: list[str]) -> bool:
    """Whether these lines end where a statement ends; much faster than finding its tokens."""
    indent = _indent(lines)
    try:
        ast.parse(_dedented(lines, indent))
    except SyntaxError:
        return False
    return True


def _dedented(lines: Sequence[str], indent: int) -> str:
    return "\n".join(line[_cut(line, indent) :] for line in lines)


def _cut(line: str, indent: int) -> int:
    """How many characters of a line the parser does not see: a line within brackets may begin
    further to the left than the function."""
    return min(indent, len(line) - len(line.lstrip()))


def _indent(lines: list[str]) -> int:
    return len(lines[0]) - len(lines[0].lstrip()) if lines else 0


def _check_same(fn: FunctionType, node: ast.FunctionDef) -> None:
    """The text, compiled, must be the function: a file may change after its import."""
    if not _is_code_of(node, fn.__code__):
        raise _unreadable(fn, "its text has changed since it was imported")


def _is_code_of(node: ast.FunctionDef, code: CodeType) -> bool:
    again = _compiled(node, code)
    return again is not None and _content(again) == _content(code)


def _compiled(node: ast.FunctionDef, code: CodeType) -> CodeType | None:
    """The code of a function's text, where its free names are free too."""
    bare = ast.FunctionDef(
        name=node.name, args=_without_defaults(node.args), body=node.body, decorator_list=[]
    )
    cells: list[ast.stmt] = [
        ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in code.co_freevars
    ]
    if node.name not in code.co_freevars:
        cells.append(ast.Global([node.name]))  # a function that calls itself finds it there
    outer = ast.FunctionDef(
        name="around", args=_NO_ARGUMENTS, body=[*cells, bare], decorator_list=[]
    )
    tree = ast.fix_missing_locations(ast.Module([outer], []))
    try:
        found = compile(tree, code.co_filename, "exec", dont_inherit=True)
    except SyntaxError:
        return None
    for _ in range(2):
        found = next(c for c in found.co_consts if isinstance(c, CodeType))
    return found


_NO_ARGUMENTS = ast.arguments([], [], None, [], [], None, [])


def _without_defaults(a: ast.arguments) -> ast.arguments:
    """Parameters alone: defaults and annotations are no part of a function's code."""

    def bare(args: list[ast.arg]) -> list[ast.arg]:
        return [ast.arg(x.arg) for x in args]

    star = None if a.vararg is None else ast.arg(a.vararg.arg)
    stars = None if a.kwarg is None else ast.arg(a.kwarg.arg)
    nothing: list[ast.expr | None] = [None for _ in a.kwonlyargs]
    return ast.arguments(
        bare(a.posonlyargs), bare(a.args), star, bare(a.kwonlyargs), nothing, stars, []
    )


_OPERATORS = frozenset(opcode.opmap[name] for name in ("BINARY_OP", "COMPARE_OP"))


def _content(code: CodeType) -> tuple[object, ...]:
    """What a function does, without where it stands: names, constants and operators.

    How attributes are loaded is left out: it depends on the imports of the whole module.
    """
    constants = tuple(
        _content(c) if isinstance(c, CodeType) else (type(c), repr(c)) for c in code.co_consts
    )
    raw = code.co_code
    operators = [raw[i : i + 2] for i in range(0, len(raw), 2) if raw[i] in _OPERATORS]
    return code.co_names, code.co_varnames, code.co_freevars, constants, operators


def _unreadable(
    fn: FunctionType,
    why: str,
    help: str = "keep the kernel in a file, or pass its text: @kdsl.kernel(source=...)",
) -> KernelSyntaxError:
    code = fn.__code__
    return KernelSyntaxError(
        f"cannot read the source of `{fn.__name__}`: {why}",
        Span(code.co_filename, code.co_firstlineno, 0, 0),
        help=help,
    )
