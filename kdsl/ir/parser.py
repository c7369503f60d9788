"""Text -> IR, the inverse of `kdsl.ir.printer`. Only people who hold text import this (lark)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Literal, NoReturn, TypeAlias, TypeVar, cast

import lark

from kdsl.dims import Dim, DimOp, Extent
from kdsl.dtypes import DTYPES, DType, TensorType
from kdsl.errors import KernelSyntaxError, Span
from kdsl.ir.nodes import (
    Along,
    Arg,
    AtomicAdd,
    Block,
    Bound,
    Carry,
    Cast,
    Const,
    DimSize,
    Dot,
    Each,
    Ew,
    ForRange,
    ForTiles,
    Func,
    Guard,
    If,
    Index,
    Iota,
    Let,
    Load,
    LoopVar,
    Merge,
    Op,
    Parallel,
    Param,
    Point,
    Reduce,
    Require,
    Scan,
    ScratchBuffer,
    Stmt,
    Store,
)
from kdsl.ir.types import Axis, Type

Tree: TypeAlias = "lark.Tree[lark.Token]"
Part: TypeAlias = "Tree | lark.Token"
R = TypeVar("R")


def parse(text: str, file: str = "<string>") -> Func:
    """The function that `text` shows. Its types and scopes are not checked: see `ir.verify`.

    Raises:
        KernelSyntaxError: the text is no function; it points at the first wrong word.
    """
    try:
        tree = _lark().parse(text)
    except lark.UnexpectedInput as err:
        raise _unexpected(err, text, file) from None
    return _Builder(text, file, tree).func(tree)


@cache
def _lark() -> lark.Lark:
    grammar = Path(__file__).with_name("grammar.lark").read_text(encoding="utf-8")
    return lark.Lark(grammar, start="func", parser="lalr", propagate_positions=True,
                     maybe_placeholders=False)  # fmt: skip


def _unexpected(err: lark.UnexpectedInput, text: str, file: str) -> KernelSyntaxError:
    lines = text.splitlines() or [""]
    token: lark.Token | None = getattr(err, "token", None)
    if token is not None and token.type == "$END":
        at, word = (len(lines), len(lines[-1]) + 1), ""
    elif token is not None:
        at, word = (err.line, err.column), str(token)
    else:
        at = (err.line, err.column)
        word = lines[at[0] - 1][at[1] - 1 : at[1]]
    span = Span(file, at[0], at[1] - 1, at[1] - 1 + len(word), lines[at[0] - 1])
    accepted: set[str] = set()
    for name in getattr(err, "accepts", None) or getattr(err, "allowed", None) or ():
        accepted.add(_words().get(name, name))
    found = f"`{word}` in IR text" if word else "end of IR text"
    remedy = f"expected {', '.join(sorted(accepted))}" if accepted else ""
    return KernelSyntaxError(f"unexpected {found}", span, help=remedy)


@cache
def _words() -> dict[str, str]:
    """What a reader calls the terminals of the grammar."""
    named = {"NAME": "a name", "INT": "an integer", "LITERAL": "a literal",
             "STRING": "a string", "SUM_OP": "one of + -",
             "PRODUCT_OP": "one of * // %"}  # fmt: skip
    literal = {t.name: f"`{t.pattern.value}`" for t in _lark().terminals if t.pattern.type == "str"}
    return {**literal, **named, "$END": "the end of the text"}


def _trees(tree: Tree, name: str) -> list[Tree]:
    return [c for c in tree.children if isinstance(c, lark.Tree) and c.data == name]


def _tokens(parts: Sequence[Part]) -> list[lark.Token]:
    return [c for c in parts if isinstance(c, lark.Token)]


class _Builder:
    """Makes nodes of trees; one rule of the grammar, one method."""

    def __init__(self, text: str, file: str, tree: Tree) -> None:
        self.lines, self.file = text.splitlines(), file
        self.axes = {str(a.children[0]) for a in _trees(tree, "axis")}

    def func(self, tree: Tree) -> Func:
        words = _tokens(tree.children)
        only = {name: _trees(tree, name)[0] for name in ("dims", "fixed", "host")}
        params = [c for c in tree.children if isinstance(c, lark.Tree) and "param" in c.data]
        return Func(
            str(words[-1]),
            tuple(map(self.param, params)),
            tuple(map(str, only["dims"].children)),
            tuple(map(self.axis, _trees(tree, "axis"))),
            tuple(map(self.scratch, _trees(tree, "scratch"))),
            sum((self.block(b) for b in _trees(only["host"], "block")), start=()),
            tuple(map(self.phase, _trees(tree, "phase"))),
            tuple(
                (str(p.children[0]), int(_token(p.children[1])))
                for p in _trees(only["fixed"], "pin")
            ),
            strict=len(words) == 2,
            span=self.span(words[-1]),
        )

    # ---- what stands before the phases

    def param(self, tree: Tree) -> Param:
        match tree.data, tree.children:
            case "in_param", [name, tensor]:
                return Param(str(name), "in", self.tensor(tensor), span=self.span(tree))
            case "out_param", [name, word, tensor]:
                kinds: dict[str, Literal["out", "inout"]] = {"Out": "out", "InOut": "inout"}
                kind = kinds.get(str(word)) or self.fail(word, "expected Out[...] or InOut[...]")
                return Param(str(name), kind, self.tensor(tensor), span=self.span(tree))
            case "scalar_param", [name, dtype]:
                return Param(str(name), "scalar", self.dtype(dtype), span=self.span(tree))
        raise TypeError(f"parse: no rule for {tree.data}")

    def axis(self, tree: Tree) -> Axis:
        name, word, extent, *size = tree.children
        kinds: dict[str, Literal["tile", "whole"]] = {"tiles": "tile", "whole": "whole"}
        kind = kinds.get(str(word)) or self.fail(word, "expected tiles(...) or whole(...)")
        try:
            return Axis(
                str(name), kind, self.extent(extent), int(_token(size[0])) if size else None
            )
        except ValueError as err:
            self.fail(tree, str(err))

    def scratch(self, tree: Tree) -> ScratchBuffer:
        return ScratchBuffer(str(tree.children[0]), self.tensor(tree.children[1]),
                             span=self.span(tree))  # fmt: skip

    def phase(self, tree: Tree) -> Parallel:
        *variables, body = tree.children
        return Parallel(tuple(map(self.each, variables)), self.block(body), span=self.span(tree))

    def each(self, part: Part) -> Each:
        name, *word, extent = _tree(part).children
        if word and str(word[0]) != "tiles":
            self.fail(word[0], "expected tiles(...)")
        return Each(str(name), self.extent(extent), bool(word), span=self.span(part))

    def tensor(self, part: Part) -> TensorType:
        dtype, *shape = _tree(part).children
        return TensorType(self.dtype(dtype), tuple(map(self.extent, shape)))

    def dtype(self, part: Part) -> DType:
        return DTYPES.get(str(part)) or self.fail(part, f"`{part}` is no dtype")

    def extent(self, part: Part) -> Extent:
        match _tree(part):
            case lark.Tree(data="number", children=[number]):
                return int(_token(number))
            case lark.Tree(data="dim", children=[name]):
                return Dim(str(name))
            case lark.Tree(data="dim_op", children=[a, op, b]):
                return DimOp(str(op), self.extent(a), self.extent(b))
        raise TypeError(f"parse: no rule for {_tree(part).data}")

    # ---- statements

    def block(self, part: Part) -> Block:
        return tuple(self.stmt(c) for c in _tree(part).children if _tree(c).data != "yielded")

    def yields(self, part: Part, names: list[str]) -> list[str]:
        """What a block yields for `names`, which it must yield in this order."""
        yielded = [_tokens(t.children) for t in _trees(_tree(part), "yielded")]
        if [str(name) for name, _ in yielded] != names:
            want = ", ".join(f"{n}=..." for n in names)
            self.fail(
                part, f"the block must end in `yield {want}`" if names else "nothing to yield"
            )
        return [str(value) for _, value in yielded]

    def stmt(self, part: Part) -> Stmt:
        tree = _tree(part)
        rules: dict[str, Callable[[Tree, Span], Stmt]] = {
            "let": self.let, "store": self.store, "loop": self.loop, "branch": self.branch,
            "require": self.require, "atomic_add": self.atomic_add,
        }  # fmt: skip
        return rules[tree.data](tree, self.span(tree))

    def let(self, tree: Tree, span: Span) -> Let:
        name, type_, op = tree.children
        return Let(str(name), self.type(type_), self.op(_tree(op)), span=span)

    def store(self, tree: Tree, span: Span) -> Store:
        tensor, place, value = tree.children
        return Store(str(tensor), self.place(place), str(value), span=span)

    def atomic_add(self, tree: Tree, span: Span) -> AtomicAdd:
        tensor, place, value = tree.children
        return AtomicAdd(str(tensor), self.place(place), str(value), span=span)

    def require(self, tree: Tree, span: Span) -> Require:
        cond, text = tree.children
        return Require(str(cond), cast(str, json.loads(str(text))), span=span)

    def loop(self, tree: Tree, span: Span) -> ForTiles | ForRange:
        var, word, body = str(tree.children[0]), tree.children[1], tree.children[-1]
        heads = _trees(tree, "carry")
        nexts = self.yields(body, [str(c.children[0]) for c in heads])
        carries = tuple(self.carry(c, n) for c, n in zip(heads, nexts, strict=True))
        bounds = [_tokens(b.children) for b in _trees(tree, "bound")]
        going = next((str(g.children[0]) for g in _trees(tree, "going")), None)
        if str(word) == "tiles" and going is None:
            given = {str(b[0]): str(b[1]) for b in bounds if len(b) == 2}
            if len(given) < len(bounds) or not given.keys() <= {"start", "stop"}:
                self.fail(tree, "expected tiles(start=..., stop=...), each optional")
            return ForTiles(var, given.get("start"), given.get("stop"), carries, self.block(body),
                            span=span)  # fmt: skip
        match str(word), [b[0] for b in bounds if len(b) == 1], len(bounds):
            case "range", [start, stop, *step], n if n == 2 + len(step) <= 3:
                if [t.type for t in (start, stop, *step)] == ["NAME", "NAME", "INT"][:n]:
                    by = int(step[0]) if step else 1
                    return ForRange(var, str(start), str(stop), by, carries, self.block(body),
                                    going, span=span)  # fmt: skip
        self.fail(
            word, "expected tiles(...), or range(start, stop, step) of two names and a number"
        )

    def carry(self, tree: Tree, following: str) -> Carry:
        name, type_, init, result = tree.children
        return Carry(str(name), self.type(type_), str(init), following, str(result),
                     span=self.span(tree))  # fmt: skip

    def branch(self, tree: Tree, span: Span) -> If:
        heads, bodies = _trees(tree, "merge"), _trees(tree, "block")
        names = [str(m.children[0]) for m in heads]
        if names and len(bodies) == 1:
            self.fail(tree, "an `if ... as` needs an `else` that yields the other values")
        values = [self.yields(b, names) for b in bodies]
        merges = tuple(
            Merge(name, self.type(head.children[1]), then, other, span=self.span(head))
            for name, head, then, other in zip(names, heads, *values, strict=True)
        ) if names else ()  # fmt: skip
        then, *other_ = map(self.block, bodies)
        return If(str(tree.children[0]), then, sum(other_, start=()), merges, span=span)

    def type(self, part: Part) -> Type:
        dtype, *axes = _tree(part).children
        return Type(self.dtype(dtype), tuple(map(str, axes)))

    # ---- operations

    def op(self, tree: Tree) -> Op:
        span = self.span(tree)
        match tree.data, tree.children:
            case "const", [lark.Token(type=kind) as text]:
                if kind == "NAME" and text not in ("inf", "nan", "True", "False"):
                    self.fail(tree, f"`{text}` is no operation", "a copy is the name itself")
                return Const(str(text), span=span)
            case "of_axis", [axis, lark.Token() as which]:
                match which.value:
                    case "index":
                        return Iota(str(axis), span=span)
                    case "start" | "stop" | "len" as bound:
                        return Bound(str(axis), bound, span=span)
                self.fail(which, f"an axis has start, stop, len and index, no `{which}`")
            case "load", [tensor, place]:
                return Load(str(tensor), self.place(place), span=span)
            case "call", _:
                return self.call(tree, span)
            case "guard", [fn, arg, tensor, dim]:
                index = self.extent(arg)
                if str(fn) != "guard" or not isinstance(index, Dim):
                    self.fail(tree, f"wrong form of `{fn}`", "guard(index; tensor, dimension)")
                return Guard(index.name, str(tensor), int(_token(dim)), span=span)
        raise TypeError(f"parse: no rule for {tree.data}")

    def call(self, tree: Tree, span: Span) -> Op:
        words = [str(t) for t in _tokens(tree.children)]
        args = [self.extent(c) for c in tree.children if isinstance(c, lark.Tree)]
        over = words.pop() if isinstance(tree.children[-1], lark.Token) else None
        *onto, fn = words
        if (fn, over, onto, len(args)) == ("size", None, [], 1):
            return DimSize(args[0], span=span)
        names = tuple(a.name for a in args if isinstance(a, Dim))
        if len(names) < len(args):
            self.fail(tree, f"`{fn}` takes names of values")
        match fn, names, over, onto:
            case "dot", (a, b), str(), []:
                return Dot(a, b, over, span=span)
            case "dot", (a, b), str(), [acc]:
                return Dot(a, b, over, acc, span=span)
            case _, (a,), str(), [] if fn.startswith("cum"):
                return Scan(fn.removeprefix("cum"), a, over, span=span)
            case _, (a,), str(), [] if fn != "guard":
                return Reduce(fn, a, over, span=span)
            case "arg", (a,), None, []:
                return Arg(a, span=span)
            case "var", (a,), None, []:
                return LoopVar(a, span=span)
            case "cast", (a,), None, []:
                return Cast(a, span=span)
            case _, _, None, [] if fn not in ("size", "arg", "var", "cast", "dot", "guard"):
                return Ew(fn, names, span=span)
        self.fail(tree, f"wrong form of `{fn}`")

    def place(self, part: Part) -> tuple[Index, ...]:
        return tuple(self.index(_tree(i)) for i in _tree(part).children)

    def index(self, tree: Tree) -> Index:
        name, *rest = _tokens(tree.children)
        if tree.data == "point" or str(name) not in self.axes:
            if rest:
                self.fail(tree, f"`{name}` is no axis, so nothing can step along it")
            return Point(str(name), span=self.span(tree))
        step = next((int(t) for t in rest if t.type == "INT"), 1)
        offset = next((str(t) for t in rest if t.type == "NAME"), None)
        return Along(str(name), offset, step, span=self.span(tree))

    # ---- places in the text

    def span(self, part: Part) -> Span:
        at = part if isinstance(part, lark.Token) else part.meta
        if isinstance(at, lark.tree.Meta) and at.empty:
            return Span(self.file, 1, 0, 1, self.lines[0])
        line, column = at.line or 1, at.column or 1
        text = self.lines[line - 1]
        # a statement with a body spans lines; its first one says enough
        end = (at.end_column or column + 1) - 1 if at.end_line == line else len(text)
        return Span(self.file, line, column - 1, end, text)

    def fail(self, part: Part, message: str, remedy: str = "") -> NoReturn:
        raise KernelSyntaxError(message, self.span(part), help=remedy)


def _tree(part: Part) -> Tree:
    if isinstance(part, lark.Token):
        raise TypeError(f"parse: expected a tree, got {part!r}")
    return part


def _token(part: Part) -> lark.Token:
    if isinstance(part, lark.Tree):
        raise TypeError(f"parse: expected a token, got {part.data}")
    return part
