"""A frame for tests of passes: what a pass makes of a few statements."""

from collections.abc import Callable
from textwrap import dedent, indent

from kdsl.ir import nodes as ir
from kdsl.ir.parser import parse
from kdsl.ir.printer import show_stmt
from kdsl.ir.verify import check, verify

FRAME = """\
{words} f(
    x: f32[N],
    y: f32[N],
    w: f32[K],
    mat: f32[N, K],
    h: bf16[N],
    ids: i64[N],
    s: f32,
    u: f32,
    z: InOut[f32[N]],
    o: Out[f32[N]]) {{
  dims N, K
  axis n = tiles(N)
  axis k = tiles(K)
  axis K = whole(K)
  axis N = whole(N)
  scratch part: f32[N, 4]
  host {{
    p: f32 = arg(s)
    nothing: f32 = 0
    yes: bool = gt(p, nothing)
    assert yes, "s > 0"
{host}  }}
  parallel i in N, n in tiles(N) {{
{body}  }}
}}
"""


def func(body: str, host: str = "", strict: bool = False) -> ir.Func:
    """The frame around statements, checked."""
    words = "strict kernel" if strict else "kernel"
    new = parse(
        FRAME.format(
            words=words,
            host=indent(dedent(host).lstrip("\n"), "    "),
            body=indent(dedent(body).lstrip("\n"), "    "),
        )
    )
    check(new)
    return new


def after(step: Callable[[ir.Func], ir.Func], body: str, **frame: object) -> str:
    """The statements of the phase after a pass; the pass has nothing more to do then."""
    new = step(func(body, **frame))
    verify(new, step.__name__)
    assert step(new) is new
    return statements(new)


def statements(new: ir.Func) -> str:
    """Text of the first phase."""
    axes = [a.name for a in new.axes]
    return "".join(show_stmt(s, axes) + "\n" for s in new.phases[0].body)


def text(lines: str) -> str:
    return dedent(lines).lstrip("\n")
