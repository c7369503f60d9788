"""Every kind of Python syntax in a kernel: lowered, or refused with one error at its place."""

from __future__ import annotations

import ast
import inspect
import warnings

import pytest

from kdsl.errors import KernelError
from kdsl.frontend import capture, lower
from kdsl.ir.verify import verify
from tests.frontend.refusal import body, define

#: Lines of a kernel's loop that hold the node; several where a node has several forms.
STATEMENTS = {
    ast.FunctionDef: ["def f(v):\n            return v + 1\n        o[i] = f(x[i])",
                      "def f(v=1):\n            return v\n        o[i] = f(x[i])"],
    ast.AsyncFunctionDef: ["async def f():\n            pass"],
    ast.ClassDef: ["class C:\n            pass"],
    ast.Return: ["return", "return x[i]"],
    ast.Delete: ["del x"],
    ast.Assign: ["a = b = x[i]", "a, (b, c) = x[i], (1, 2)", "a, *b = (1, 2)", "x.y = 1",
                 "[a, b] = 1, 2", "o[i], a = x[i], 1", "a, b = b, a"],
    ast.AugAssign: ["a = 1; a += x[i]", "o[i] += x[i]", "a += 1", "x.y += 1", "N += 1",
                    "a = (1,); a += (2,)", "a = x[i]; a @= a"],
    ast.AnnAssign: ["a: f32 = x[i]", "a: f32"],
    ast.For: ["for j in range(3):\n            o[i] = x[i] * j",
              "for j, k in range(3):\n            pass",
              "for j in range(0, N, 2):\n            pass",
              "for j in range():\n            pass",
              "for j in range(1.5):\n            pass",
              "for j in range(0, 5, 0):\n            pass",
              "for j in kdsl.tiles():\n            pass",
              "for j in kdsl.tiles(x):\n            pass",
              "for j in kdsl.tiles(N, size=0):\n            pass",
              "for j in kdsl.tiles(N, stop=1.5):\n            pass",
              "for j in kdsl.tiles(N, step=1):\n            pass",
              "for x[i] in range(3):\n            pass",
              "for j in (1, 2):\n            continue",
              "for j in x:\n            pass"],
    ast.AsyncFor: ["async for j in x:\n            pass"],
    ast.While: ["while True:\n            pass"],
    ast.If: ["if x[i] > 0:\n            o[i] = 1.0\n        else:\n            o[i] = 2.0",
             "if x:\n            pass", "if N:\n            pass", "if None:\n            y = z"],
    ast.With: ["with x:\n            pass"],
    ast.AsyncWith: ["async with x:\n            pass"],
    ast.Match: ["match x[i]:\n            case 1:\n                pass"],
    ast.Raise: ["raise ValueError"],
    ast.Try: ["try:\n            pass\n        except ValueError:\n            pass"],
    ast.TryStar: ["try:\n            pass\n        except* ValueError:\n            pass"],
    ast.Assert: ["assert True", "assert False", "assert x[i] > 0", "assert 1 < 2, 'text'"],
    ast.Import: ["import math"],
    ast.ImportFrom: ["from math import pi"],
    ast.Global: ["global g"],
    ast.Nonlocal: ["def f():\n            nonlocal i\n        f()"],
    ast.Expr: ["x[i]", "'text'", "kdsl.require(1)", "1 + 1", "f(x)", "print(x[i])"],
    ast.Pass: ["pass"],
    ast.Break: ["break", "for j in range(3):\n            break"],
    ast.Continue: ["continue", "if x[i] > 0:\n            continue\n        o[i] = 1.0"],
}  # fmt: skip

#: Expressions, put into `o[i] = ...`.
EXPRESSIONS = {
    ast.BoolOp: ["x[i] > 0 and x[i] < 1", "1 or x[i]", "x and 1", "x[:] > 0 or 1"],
    ast.NamedExpr: ["(a := x[i]) + a"],
    ast.BinOp: ["x[i] + 1", "x[i] @ x[i]", "x + x", "'a' + 1", "(1,) + (2,)", "None + 1",
                "kdsl + 1", "2 ** 10000", "1 << -1", "x[i] ** -1", "x[i] // 0", "N ** N",
                "'a' * 10 ** 3"],
    ast.UnaryOp: ["-x[i]", "+x[i]", "~x[i]", "not x[i]", "not x", "-'a'", "-N", "~N", "not N",
                  "-(x[i] > 0)", "-True"],
    ast.Lambda: ["(lambda v: v + 1)(x[i])", "lambda: 1", "(lambda *v: v)(1)[0]",
                 "(lambda v=1: v)()"],
    ast.IfExp: ["1 if x[i] > 0 else 2", "1 if x else 2", "x if N else 1", "x[i] if N > 1 else 'a'"],
    ast.Dict: ["{}", "{1: 2}"],
    ast.Set: ["{1, 2}"],
    ast.ListComp: ["[a for a, b in x]"],
    ast.SetComp: ["{a for a in x}"],
    ast.DictComp: ["{a: b for a, b in x}"],
    ast.GeneratorExp: ["(a for a in x)", "sum(a for a in x)"],
    ast.Await: [],  # no Python outside async functions
    ast.Yield: ["(yield)"],
    ast.YieldFrom: ["(yield from x)"],
    ast.Compare: ["x[i] > 0", "0 < x[i] < 1", "x is None", "1 in (1, 2)", "x in (1, 2)",
                  "x[i] not in 3", "None == x[i]", "x == o", "'a' < 1", "(1,) == (1,)",
                  "0 < x[:] < 1", "x[i] is not x[i]"],
    ast.Call: ["kdsl.exp(x[i])", "kdsl.exp()", "kdsl.exp(x[i], 1)", "kdsl.exp(y=1)", "x()", "3()",
               "kdsl.exp(*x)", "kdsl.exp(**x)", "kdsl.exp(*(1.0,))", "f(x)", "print(1)",
               "kdsl.tiles(N)", "range(3)", "kdsl.parallel(N)", "kdsl.scratch(f32)", "int('a')",
               "float(x)", "len(x)", "len(3)", "len((1, 2))", "max(1, 2)", "max(x[i], 0)", "max(x)",
               "min()", "abs(x[i])", "abs(x)", "round(1.5)", "round(x[i])", "pow(2, 3)",
               "math.sqrt(2)", "math.sqrt(-1)", "math.sqrt(x[i])", "np.exp(1)", "isinstance(x, 3)",
               "kdsl.zeros()", "kdsl.zeros(-1)", "kdsl.zeros(1.5)", "kdsl.zeros(N, dtype=3)",
               "kdsl.full()", "kdsl.full(N)", "kdsl.full(N, x)", "kdsl.dot(x, x)",
               "kdsl.dot(x[:], x[:])", "kdsl.dot(1, 2)", "kdsl.where(1, 2, 3)", "kdsl.where(x)",
               "kdsl.sum(x[:])", "kdsl.sum(3)", "kdsl.mean(x[:], axis='a')", "kdsl.max(x)",
               "x[:].sum(axis=None)", "x[:].sum(0, 1)", "x[:].sum(keepdims=2)", "x[:].astype()",
               "x[:].argmax()", "x[i].argmax()", "kdsl.arange(N).sum()", "kdsl.arange(x)",
               "kdsl.require(True)", "Out(3)", "T(3)", "f32(3)", "divmod(7, 2)[0]",
               "sorted((2, 1))", "getattr(x, 'y')", "open('x')", "kdsl.inline(x)"],
    ast.FormattedValue: ["f'{x}'"],
    ast.JoinedStr: ["f'a{1}'"],
    ast.Constant: ["1", "1.5", "True", "None", "'a'", "b'a'", "1j", "...", "10**400", "1e999"],
    ast.Attribute: ["kdsl.LOG2E", "kdsl.nothing", "x.T", "x.shape", "x.shape[0]", "x[i].dtype",
                    "x[i].T", "i.index", "N.name", "f32.bits", "math.pi", "i.real", "x[:].foo",
                    "x.__class__", "'a'.upper", "(1).real"],
    ast.Subscript: ["x[i]", "x[i][0]", "x[i, i]", "x[()]", "x[1.5]", "x['a']", "x[None]", "x[x]",
                    "x[x[i]]", "x[...]", "x[..., ...]", "x[::0]", "x[::-1]", "x[x[i]:]", "x[1:0]",
                    "x[-1]", "x[:][None]", "x[:][:, None]", "x[:][0]", "x[:][i]", "x[:][..., None]",
                    "(1, 2)[0]", "(1, 2)[5]", "(1, 2)['a']", "(1, 2)[i]", "'abc'[1]", "3[0]",
                    "kdsl[0]", "N[0]", "x[*(0,)]", "x[{}]", "x[True]", "(1, 2, 3)[::2][1]"],
    ast.Starred: ["(*(1, 2),)", "(*x,)"],
    ast.Name: ["x", "i", "N", "missing", "kdsl", "T", "f32", "Out", "print", "__name__"],
    ast.List: ["[]", "[1, 2]"],
    ast.Tuple: ["()", "(1, x[i])"],
    ast.Slice: ["x[:]", "x[0:N]", "x[:N // 2].sum()"],
}  # fmt: skip
if hasattr(ast, "TypeAlias"):
    STATEMENTS[ast.TypeAlias] = ["type X = int"]
if hasattr(ast, "TemplateStr"):
    EXPRESSIONS[ast.TemplateStr] = ["t'{x}'"]
    EXPRESSIONS[ast.Interpolation] = ["t'{x}'"]


def kinds(base):
    """Concrete node classes of this Python, without the deprecated spellings."""
    old = {"Num", "Str", "Bytes", "NameConstant", "Ellipsis", "Index", "ExtSlice"}
    return {c for c in base.__subclasses__() if inspect.isclass(c) and c.__name__ not in old}


def test_every_kind_of_node_is_here():
    assert kinds(ast.stmt) == set(STATEMENTS)
    assert kinds(ast.expr) == set(EXPRESSIONS)


LINES = [line for lines in STATEMENTS.values() for line in lines]
LINES += [f"o[i] = {e}" for expressions in EXPRESSIONS.values() for e in expressions]
LINES += [f"v = {e}" for expressions in EXPRESSIONS.values() for e in expressions]


@pytest.mark.parametrize("line", LINES)
def test_lowered_or_refused_at_a_place(line):
    text = body(line, "o[i] = x[i]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        try:
            k = define(text)
        except SyntaxError:
            return
        refused = None
        try:
            func = lower(capture(k, source=text), {}, {})
        except KernelError as err:
            refused = err
        else:
            verify(func)
    if refused is not None:
        assert refused.span.line > 0
        assert refused.span.text in text
        assert str(refused).count("\n") >= 3
