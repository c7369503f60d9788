"""The rules of the IR: each broken rule is named, with the statement that breaks it."""

import pytest

from kdsl.errors import InternalError, KernelTypeError
from kdsl.ir.parser import parse
from kdsl.ir.verify import check, verify
from tests.ir_texts import MATMUL, TEXTS

FRAME = """\
strict kernel f(x: f32[N], w: bf16[N], ids: i32[N], s: f32, o: Out[f32[N]],
                flags: InOut[bool[N]]) {{
  dims N
  axis n = tiles(N)
  axis m = tiles(N)
  axis N = whole(N)
  host {{
    h: bool = True
    {host}
  }}
  parallel i in N, n in tiles(N) {{
    i: i64 = var(i)
    a: f32[n] = x[n]
    c: f32[N] = x[N]
    w0: bf16[n] = w[n]
    one: i64 = 1
    {body}
  }}
}}
"""

BROKEN = {
    "t: f32[n] = exp(b)": "`b` is not defined",
    "t: f32[n] = exp(t)": "`t` is not defined",
    "a: f32[n] = exp(a)": "`a` is defined twice",
    "t: f32[m] = 0.0": "`t`: no loop over axis `m` is open here",
    "t: f32[z] = 0.0": "`t`: there is no axis `z`",
    "t: f32[N, n] = 0.0": "`t`: axes of f32[N, n] are out of order",
    "t: f32[n] = add(a, one)": "`add` needs one dtype, got f32, i64",
    "t: f32[n] = add(a)": "`add` takes 2 operands, got 1",
    "t: f32[n] = plus(a, a)": "there is no operation `plus`",
    "t: f32[n] = gt(a, a)": "`t` is declared f32[n], but the operation gives bool[n]",
    "t: f32[n] = add(a, c)": "`t` is declared f32[n], but the operation gives f32[n, N]",
    "t: bf16[n] = add(w0, w0)": "`add` of bf16 computes in f32: a cast is missing",
    "t: f32[n] = where(a, a, a)": "the condition of where is f32",
    "t: f32 = sum(a; N)": "`a` is f32[n], it has no axis `N`",
    "t: f32 = median(a; n)": "there is no reduction `median`",
    "t: f32[N] = cumsum(a; N)": "`a` is f32[n], it has no axis `N`",
    "t: f32[n] = cummax(a; n)": "there is no scan `cummax`",
    "t: f32 = cumsum(a; n)": "`t` is declared f32, but the operation gives f32[n]",
    "t: bf16[n] = cumsum(w0; n)": "`cumsum` of bf16 computes in f32: a cast is missing",
    "t: f32 = dot(a, c; n)": "dot over `n`, which f32[n] and f32[N] do not share",
    "t: f32 = one + dot(a, a; n)": "the accumulator `one` must be f32, it is i64",
    "t: f32[n] = x[n, n]": "2 indices for a tensor of ndim 1",
    "t: f32[n] = x[a]": "index `a` is f32[n], not of an integer type",
    "t: f32[n] = y[n]": "there is no tensor `y`",
    "t: f32[n] = guard(a; x, 0)": "index `a` is f32[n], not of an integer type",
    "t: i64 = guard(one; y, 0)": "there is no tensor `y`",
    "t: i64 = guard(one; x, 1)": "`x` has ndim 1, so no dimension 1",
    "t: i32 = guard(one; x, 0)": "`t` is declared i32, but the operation gives i64",
    "t: i64 = guard(late; x, 0)": "`late` is not defined",
    "t: i64 = var(j)": "no loop over `j` is open here",
    "t: i64 = m.start": "no tile loop over `m` is open here",
    "t: i64[m] = m.index": "`t`: no loop over axis `m` is open here",
    "t: i32 = 3000000000": "`3000000000` does not fit i32",
    "t: i32 = 1.5": "`1.5` is no i32",
    "t: f32 = True": "`True` is no f32",
    "t: bool = 1": "`1` is no bool",
    "t: i64 = size(K)": "`K` is no dim of the function",
    "t: f32 = arg(x)": "there is no scalar parameter `x`",
    "o[i] = a": "the index has no place for axis `n` of `a`",
    "o[n] = w0": "`o` holds f32, `w0` is bf16",
    "o[i] += a": "the index has no place for axis `n` of `a`",
    "o[n] += w0": "`o` holds f32, `w0` is bf16",
    "x[n] += a": "`x` is an input, it cannot be written",
    "flags[n] += h": "`flags` holds bool, no numbers",
    "x[n] = a": "`x` is an input, it cannot be written",
    "for n in tiles() {\n    }": "a loop over axis `n` is open already",
    "for N in tiles() {\n    }": "axis `N` is whole, no loop binds it",
    "for m in tiles(stop=a) {\n    }": "a loop bound `a` must be i64, it is f32[n]",
    "for i in range(one, one) {\n    }": "`i` is the variable of two loops",
    "for j in range(one, one, 0) {\n    }": "a range needs a step other than 0",
    "for m in tiles() with k: f32 = a as r {\n      yield k=k\n    }": (
        "the first value `a` must be f32, it is f32[n]"
    ),
    "for m in tiles() with k: f32[n] = a as r {\n      yield k=one\n    }": (
        "the next value `one` must be f32[n], it is i64"
    ),
    "for m in tiles() {\n      t: f32[m] = x[m]\n    }\n    o[n] = t": "`t` is out of scope",
    "for m in tiles() with k: f32[n] = a as r {\n      yield k=a\n    }\n    o[n] = k": (
        "`k` is out of scope"
    ),
    "if a {\n    }": "a condition `a` must be bool, it is f32[n]",
    'assert h, "True"': "a require stands on the host",
}


@pytest.mark.parametrize("body", BROKEN)
def test_a_broken_rule_is_named(body):
    func = parse(FRAME.format(host="", body=body))
    with pytest.raises(KernelTypeError) as caught:
        check(func)
    assert caught.value.message == BROKEN[body]


@pytest.mark.parametrize(
    "statement",
    [
        "t: f32[N] = x[N]",
        "t: i64 = 0\n    u: i64 = guard(t; x, 0)",
        "for i in range(h, h) {\n    }",
        "t: f32[N] = 0.0",
    ],
)
def test_the_host_computes_scalars_only(statement):
    with pytest.raises(KernelTypeError, match="only scalar arithmetic runs on the host"):
        check(parse(FRAME.format(host=statement, body="")))


@pytest.mark.parametrize("name", TEXTS)
def test_what_frontends_make_is_valid(name):
    verify(parse(TEXTS[name]))


def test_a_mistake_in_a_text_points_into_it():
    func = parse(MATMUL.replace("tanh(t_5)", "tanh(t_55)"), "m.kdsl")
    with pytest.raises(KernelTypeError) as caught:
        check(func)
    assert str(caught.value) == (
        "`t_55` is not defined\n"
        "  --> m.kdsl:18:5\n"
        "   |\n"
        "18 |     t_6: f32[m, n] = tanh(t_55)\n"
        "   |     ^^^^^^^^^^^^^^^^^^^^^^^^^^^"
    )


def test_a_mistake_of_a_pass_says_which_pass_and_shows_the_statement():
    func = parse(MATMUL.replace("tanh(t_5)", "tanh(t_55)"))
    with pytest.raises(InternalError) as caught:
        verify(func, "the pass fold")
    assert str(caught.value) == (
        "invalid IR after the pass fold: `t_55` is not defined\n"
        "This is a bug in kdsl; please report it with the text of the kernel.\n"
        "t_6: f32[m, n] = tanh(t_55)"
    )


HEADERS = {
    "kernel f(x: f32[N], x: f32[N]) {\n  dims N\n}": "parameter `x` is declared twice",
    "kernel f() {\n  dims N, N\n}": "dim `N` is declared twice",
    "kernel f(x: f32[K]) {\n  dims N\n}": "`K` is no dim of the function",
    "kernel f() {\n  dims N\n  fixed K = 3\n}": "`K` is fixed but no dim",
    "kernel f() {\n  dims N\n  axis n = tiles(N)\n  axis n = whole(N)\n}": (
        "axis `n` is declared twice"
    ),
    "kernel f() {\n  dims N, M\n  axis n = tiles(N)\n  parallel n in tiles(M) {\n  }\n}": (
        "axis `n` runs over N"
    ),
}


@pytest.mark.parametrize("text", HEADERS)
def test_a_broken_header_is_named(text):
    with pytest.raises(KernelTypeError) as caught:
        check(parse(text))
    assert caught.value.message == HEADERS[text]
