"""The IR's text: `show` and `parse` are inverse, and errors point at the wrong word."""

import pytest

from kdsl.dims import Dim
from kdsl.errors import KernelSyntaxError
from kdsl.ir.nodes import Along, Const, ForRange, ForTiles, Func, Guard, If, Let, Load, Point
from kdsl.ir.parser import parse
from kdsl.ir.printer import show
from kdsl.ir.walk import guards

EVERYTHING = """\
strict kernel everything(
    q: f32[B, H, M, D],
    w: bf16[(M + 2) // 3],
    zero_d: f32[()],
    scale: f32,
    o: Out[f32[B, H, M, 128]],
    seen: InOut[i32[M]]) {
  dims B, H, M, D, N
  fixed D = 128
  axis m = tiles(M, 48)
  axis n = tiles(N)
  axis D = whole(D)
  axis E = whole(M // 2)
  scratch part: f32[B, N - 1]
  host {
    t: i64 = size(H // B)
    ok: bool = eq(t, t)
    assert ok, "H % B == \\"0\\""
  }
  parallel b in B, h in H // 2, m in tiles(M) {
    b: i64 = var(b)
    s: f32 = arg(scale)
    x: f32[m, D] = q[b, b, m, D]
    half: f32[E] = part[b, E * 2 + b]
    gather: bf16[D] = w[(D)]
    all: f32 = zero_d[()]
    low: f32 = -inf
    nothing: f32 = nan
    yes: bool = True
    tiny: f32 = 1e-30
    lo: i64 = m.start
    at: i64[m] = m.index
    safe: i64[m] = guard(at; part, 1)
    for n in tiles(start=lo, stop=b) with
        acc: f32[m, D] = x as acc_end,
        top: f32[m] = z as top_end {
      y: f32[m, n] = dot(x, k; D)
      row: f32[m] = max(y; n)
      c: f32[m, n] = cast(y)
      run: f32[m, n] = cumsum(c; n)
      if yes as u: f32[m], v: f32 {
        yield u=row, v=s
      } else {
        for i in range(lo, b, -2) {
          part[b, i] = s
          part[b, E * 2 + b] += half
        }
        yield u=top, v=low
      }
      acc_2: f32[m, D] = acc + dot(y, k; n)
      yield acc=acc_2, top=u
    }
    for n in tiles() {
    }
    if yes {
      o[b, b, m, D] = acc_end
    }
    if yes {
    } else {
      seen[m] = low
    }
  }
  parallel {
  }
}
"""


def test_showing_what_was_parsed_gives_the_text_back():
    assert show(parse(EVERYTHING)) == EVERYTHING


def test_parsing_what_was_shown_gives_the_function_back():
    func = parse(EVERYTHING)
    assert parse(show(func)) == func


def test_parsed_nodes_are_what_the_text_says():
    func = parse(EVERYTHING)
    assert func.name == "everything"
    assert func.strict
    assert func.fixed == (("D", 128),)
    assert [p.kind for p in func.params] == ["in", "in", "in", "scalar", "out", "inout"]
    body = {s.name: s for s in func.phases[0].body if isinstance(s, Let)}
    assert body["half"].op == Load("part", (Point("b"), Along("E", "b", 2)))
    assert body["gather"].op == Load("w", (Point("D"),))
    assert body["x"].op == Load("q", (Point("b"), Point("b"), Along("m"), Along("D")))
    assert body["low"].op == Const("-inf")
    assert body["safe"].op == Guard("at", "part", 1)
    assert guards(func) == (body["safe"],)
    loop = next(s for s in func.phases[0].body if isinstance(s, ForTiles))
    assert [(c.name, c.init, c.next, c.result) for c in loop.carries] == [
        ("acc", "x", "acc_2", "acc_end"),
        ("top", "z", "u", "top_end"),
    ]
    branch = next(s for s in loop.body if isinstance(s, If))
    assert [(m.name, m.then, m.other) for m in branch.merges] == [
        ("u", "row", "top"),
        ("v", "s", "low"),
    ]
    assert isinstance(branch.other[0], ForRange)
    assert branch.other[0].step == -2
    assert func.axis("E").extent == Dim("M") // 2


def test_a_function_without_anything_shows_and_parses():
    empty = Func("nop", (), (), (), (), (), ())
    assert show(empty) == "kernel nop() {\n}\n"
    assert parse(show(empty)) == empty


@pytest.mark.parametrize("text", ["1", "-7", ".5", "2.", "1e-05", "-1E+3", "0x1.8p-3", "1_000"])
def test_a_literal_keeps_its_exact_text(text):
    source = f"kernel f() {{\n  parallel {{\n    a: f32 = {text}\n  }}\n}}\n"
    (let,) = parse(source).phases[0].body
    assert isinstance(let, Let)
    assert let.op == Const(text)
    assert show(parse(source)) == source


@pytest.mark.parametrize(
    "name",
    [
        "kernel",
        "strict",
        "dims",
        "axis",
        "host",
        "parallel",
        "size",
        "arg",
        "var",
        "cast",
        "dot",
        "guard",
        "tiles",
        "range",
        "inf",
        "whole",
    ],
)
def test_words_of_the_grammar_are_names_an_author_may_use(name):
    source = f"""\
kernel {name}({name}: f32[{name}], o: Out[f32[{name}]]) {{
  dims {name}
  axis {name} = whole({name})
  scratch {name}_2: f32[{name}]
  host {{
    {name}: i64 = size({name})
  }}
  parallel {name} in {name} {{
    {name}_3: i64 = var({name})
    {name}_4: f32 = {name}[{name}_3]
    {name}[({name})] = {name}_4
  }}
}}
"""
    assert show(parse(source)) == source


def test_statements_know_where_they_stand():
    func = parse(EVERYTHING, "a.kdsl")
    let = func.phases[0].body[2]
    line = "    x: f32[m, D] = q[b, b, m, D]"
    assert (let.span.file, let.span.text) == ("a.kdsl", line)
    assert line[let.span.column : let.span.end] == line.strip()


ERRORS = [
    (
        "kernel a(x: f3[N]) {}",
        "`f3` is no dtype\n --> a.kdsl:1:13\n  |\n1 | kernel a(x: f3[N]) {}\n  |             ^^",
    ),
    (
        "kernel a() {\n  parallel {\n    t: f32 = $\n  }\n}",
        "unexpected `$` in IR text\n --> a.kdsl:3:14\n  |\n3 |     t: f32 = $\n  |              ^\n"
        "help: expected a literal, a name",
    ),
    (
        "kernel a() {\n  parallel {",
        "unexpected end of IR text\n --> a.kdsl:2:13\n  |\n2 |   parallel {\n  |             ^\n"
        "help: expected `assert`, `for`, `if`, `yield`, `}`, a name",
    ),
    (
        "kernel a() {\n  parallel {\n    t: f32 = max(a, b; n)\n  }\n}",
        "wrong form of `max`\n --> a.kdsl:3:14\n  |\n3 |     t: f32 = max(a, b; n)\n"
        "  |              ^^^^^^^^^^^^",
    ),
    (
        "kernel a() {\n  parallel {\n    t: f32 = sum(a; n, 0)\n  }\n}",
        "wrong form of `sum`\n --> a.kdsl:3:14\n  |\n3 |     t: f32 = sum(a; n, 0)\n"
        "  |              ^^^^^^^^^^^^\nhelp: guard(index; tensor, dimension)",
    ),
    (
        "kernel a() {\n  parallel {\n    t: i64 = guard(a; x)\n  }\n}",
        "wrong form of `guard`\n --> a.kdsl:3:14\n  |\n3 |     t: i64 = guard(a; x)\n"
        "  |              ^^^^^^^^^^^",
    ),
    (
        "kernel a() {\n  parallel {\n    t: f32 = b\n  }\n}",
        "`b` is no operation\n --> a.kdsl:3:14\n  |\n3 |     t: f32 = b\n"
        "  |              ^\nhelp: a copy is the name itself",
    ),
    (
        "kernel a() {\n  parallel {\n    for n in tiles() with a: f32 = b as c {\n    }\n  }\n}",
        "the block must end in `yield a=...`\n --> a.kdsl:3:43\n  |\n"
        "3 |     for n in tiles() with a: f32 = b as c {\n"
        "  |                                           ^",
    ),
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_an_error_names_the_word_and_what_was_expected(text, message):
    with pytest.raises(KernelSyntaxError) as caught:
        parse(text, "a.kdsl")
    assert str(caught.value) == message


def test_extents_read_as_python_reads_them():
    text = "kernel f(x: f32[N - M // 2 * 3, N - 1 - M]) {\n  dims N, M\n}\n"
    (x,) = parse(text).params
    n, m = Dim("N"), Dim("M")
    assert x.type.shape == (n - m // 2 * 3, n - 1 - m)
    assert "x: f32[N - M // 2 * 3, N - 1 - M]" in show(parse(text))
