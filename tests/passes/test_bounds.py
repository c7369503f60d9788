"""Accesses are proven in bounds from the signature and the requirements, guarded, or refused."""

import pytest

from kdsl.errors import KernelTypeError
from kdsl.ir.parser import parse
from kdsl.ir.printer import show_stmt
from kdsl.ir.verify import verify
from kdsl.ir.walk import guards
from kdsl.passes.bounds import bounds, unproven
from tests.ir_texts import ATTENTION, CONTROL, MATMUL, MEAN_OF_SQUARES, SOFTMAX

FRAME = """\
kernel f(x: f32[N], mat: f32[M, N], half: f32[N // 2], flat: f32[M * N], ids: i64[N], at: i32,
         four: f32[4], byte: u8[N], all: f32[256], o: Out[f32[N]]) {{
  dims N, M, K
  axis n = tiles(N)
  axis N = whole(N)
  axis M = whole(M)
  axis half = whole(N // 2)
  axis rest = whole(N - N // 2)
  axis even = whole((N + 1) // 2)
  host {{
    n_size: i64 = size(N)
    m_size: i64 = size(M)
    k_size: i64 = size(K)
    c0: i64 = 0
    {host}
  }}
  parallel i in N, j in M, n in tiles(N) {{
    i: i64 = var(i)
    j: i64 = var(j)
    one: i64 = 1
    two: i64 = 2
    big: i64 = size(N)
    last: i64 = sub(big, one)
    mid: i64 = size(N // 2)
    {body}
  }}
}}
"""

PROVEN = [
    "t: f32[n] = x[n]",
    "t: f32[N] = x[N]",
    "t: f32 = x[i]",
    "t: f32 = mat[j, i]",
    "t: f32[M, n] = mat[M, n]",
    "t: f32 = x[last]",
    "a: i64 = sub(last, i)\n    t: f32 = x[a]",
    "t: f32[half] = x[half]",
    "t: f32[half] = half[half]",
    "t: f32[half] = x[half * 2]",
    "t: f32[half] = x[half * 2 + one]",
    "t: f32[even] = x[even * 2]",
    "t: f32[rest] = x[rest + mid]",
    "a: i64 = floordiv(i, two)\n    t: f32 = x[a]",
    "a: i64 = mod(i, two)\n    b: i64 = minimum(a, last)\n    t: f32 = x[b]",
    "a: i64 = add(i, one)\n    b: i64 = minimum(a, last)\n    t: f32 = x[b]",
    "a: i64 = sub(i, two)\n    b: i64 = 0\n    c: i64 = maximum(a, b)\n    t: f32 = x[c]",
    "a: i64 = mod(j, big)\n    t: f32 = x[a]",
    "a: i64 = mul(j, big)\n    b: i64 = add(a, i)\n    t: f32 = flat[b]",
    "a: i64 = n.start\n    t: f32 = x[a]",
    "a: i64 = n.stop\n    b: i64 = sub(a, one)\n    t: f32 = x[b]",
    "a: i64[n] = n.index\n    b: i64[n] = sub(last, a)\n    t: f32[n] = x[b]",
    "z: i64 = 0\n    for r in range(z, big) {\n      a: i64 = var(r)\n      t: f32 = x[a]\n    }",
    "for r in range(i, big) {\n      a: i64 = var(r)\n      b: i64 = sub(a, i)\n"
    "      t: f32 = x[b]\n    }",
    "z: i64 = 0\n    for r in range(last, z, -1) {\n      a: i64 = var(r)\n"
    "      t: f32 = x[a]\n    }",
    "a: i32 = 0\n    b: i64 = cast(a)\n    t: f32 = x[b]",
    "a: bool = True\n    b: i64 = where(a, i, last)\n    t: f32 = x[b]",
    "a: u8[n] = byte[n]\n    t: f32[n] = all[a]",
    "a: i64[n] = ids[n]\n    b: i64[n] = guard(a; x, 0)\n    t: f32[n] = x[b]",
    "a: i64 = ids[i]\n    b: i64 = guard(a; half, 0)\n    t: f32 = half[b]\n    u: f32 = x[b]",
    "a: i32 = arg(at)\n    b: i32 = guard(a; flat, 0)\n    c: i64 = cast(b)\n    t: f32 = flat[c]",
]
UNPROVEN = [
    "t: f32 = x[j]",
    "t: f32 = x[big]",
    "t: f32 = mat[i, i]",
    "a: i64 = sub(i, one)\n    t: f32 = x[a]",
    "a: i64 = add(i, one)\n    t: f32 = x[a]",
    "t: f32[half] = half[half + one]",
    "t: f32[even] = x[even * 2 + one]",
    "a: i64 = ids[i]\n    t: f32 = x[a]",
    "a: i32 = arg(at)\n    t: f32 = x[a]",
    "a: i64 = mul(i, i)\n    t: f32 = x[a]",
    "a: i64 = n.stop\n    t: f32 = x[a]",
    "a: i64 = neg(one)\n    t: f32 = x[a]",
    "a: i64 = floordiv(last, j)\n    t: f32 = mat[a, i]",
    "a: i64 = maximum(i, j)\n    t: f32 = x[a]",
    "a: bool = True\n    b: i64 = where(a, i, j)\n    t: f32 = x[b]",
    "z: i64 = 0\n    for r in range(z, big) with c: i64 = z as d {\n      e: i64 = add(c, one)\n"
    "      t: f32 = x[c]\n      yield c=e\n    }",
]


@pytest.mark.parametrize("body", PROVEN)
def test_in_bounds_is_proven(body):
    func = parse(FRAME.format(host="", body=body))
    assert bounds(func) is func


@pytest.mark.parametrize("body", UNPROVEN)
def test_what_may_be_out_of_bounds_is_not(body):
    assert list(unproven(parse(FRAME.format(host="", body=body))))


REQUIRED = [
    ('c: bool = le(m_size, n_size)\n    assert c, "M <= N"', "t: f32 = x[j]"),
    ('c: bool = ge(n_size, m_size)\n    assert c, "N >= M"', "t: f32 = x[j]"),
    ('c: bool = lt(k_size, n_size)\n    d: bool = ge(k_size, c0)\n    e: bool = and(c, d)\n'
     '    assert e, "0 <= K < N"', "a: i64 = size(K)\n    t: f32 = x[a]"),
    ('c: bool = eq(m_size, n_size)\n    assert c, "M == N"', "t: f32 = mat[i, j]"),
    ('w: i32 = arg(at)\n    w_2: i64 = cast(w)\n    c: bool = lt(w_2, n_size)\n'
     '    assert c, "at < N"\n    z: i32 = 0\n    d: bool = ge(w, z)\n    assert d, "at >= 0"',
     "a: i32 = arg(at)\n    b: i64 = cast(a)\n    t: f32 = x[b]\n    t_2: f32 = x[a]"),
]  # fmt: skip


@pytest.mark.parametrize(("host", "body"), REQUIRED)
def test_a_requirement_is_a_fact(host, body):
    assert list(unproven(parse(FRAME.format(host="", body=body))))
    assert not list(unproven(parse(FRAME.format(host=host, body=body))))


@pytest.mark.parametrize("text", [ATTENTION, MATMUL, SOFTMAX, MEAN_OF_SQUARES])
def test_ordinary_kernels_are_in_bounds(text):
    assert not list(unproven(parse(text)))


def guarded(body):
    """What `bounds` makes of statements that stand in the frame."""
    func = parse(FRAME.format(host="", body=body), "f.kdsl")
    new = bounds(func)
    verify(new, "bounds")
    assert bounds(new) is new
    axes = [a.name for a in new.axes]
    shown = [line for s in new.phases[0].body for line in show_stmt(s, axes).splitlines()]
    return "\n    ".join(shown[shown.index("mid: i64 = size(N // 2)") + 1 :])


GUARDED = {
    "a: i64 = ids[i]\n    t: f32 = x[a]":
    "a: i64 = ids[i]\n    a_2: i64 = guard(a; x, 0)\n    t: f32 = x[a_2]",
    "a: i64[n] = ids[n]\n    t: f32[n, M] = mat[M, a]":
    "a: i64[n] = ids[n]\n    a_2: i64[n] = guard(a; mat, 1)\n    t: f32[n, M] = mat[M, a_2]",
    "a: i32 = arg(at)\n    t: f32 = mat[a, a]":
    "a: i32 = arg(at)\n    a_2: i32 = guard(a; mat, 0)\n    a_3: i32 = guard(a; mat, 1)\n"
    "    t: f32 = mat[a_2, a_3]",
    "t: f32 = x[j]\n    o[j] = t":
    "j_2: i64 = guard(j; x, 0)\n    t: f32 = x[j_2]\n    o[j_2] = t",
    "t: f32 = x[i]\n    o[j] += t":
    "t: f32 = x[i]\n    j_2: i64 = guard(j; o, 0)\n    o[j_2] += t",
    "z: i64 = 0\n    a: i64 = ids[i]\n    for r in range(z, a) {\n      b: i64 = var(r)\n"
    "      t: f32 = x[b]\n    }":
    "z: i64 = 0\n    a: i64 = ids[i]\n    for r in range(z, a) {\n      b: i64 = var(r)\n"
    "      b_2: i64 = guard(b; x, 0)\n      t: f32 = x[b_2]\n    }",
    "a: i64 = ids[i]\n    c: bool = gt(a, one)\n    if c {\n      t: f32 = x[a]\n    } else {\n"
    "      u: f32 = x[a]\n    }":
    "a: i64 = ids[i]\n    c: bool = gt(a, one)\n    if c {\n      a_2: i64 = guard(a; x, 0)\n"
    "      t: f32 = x[a_2]\n    } else {\n      a_3: i64 = guard(a; x, 0)\n"
    "      u: f32 = x[a_3]\n    }",
    "c: bool = gt(i, one)\n    if c {\n      t: f32 = x[big]\n    }":
    "c: bool = gt(i, one)\n    if c {\n      big_2: i64 = guard(big; x, 0)\n"
    "      t: f32 = x[big_2]\n    }",
}  # fmt: skip


@pytest.mark.parametrize("body", GUARDED)
def test_an_index_that_is_not_proven_is_guarded_once_where_it_is_needed(body):
    assert guarded(body) == GUARDED[body]


def test_a_guard_knows_the_line_and_the_index_that_it_is_for():
    (guard,) = guards(bounds(parse(CONTROL, "control.kdsl")))
    assert (str(guard.span), guard.op.span) == ("control.kdsl:14:22", guard.span)


OUTSIDE = {
    "t: f32 = x[big]": ("x", 0, "N"),
    "a: i64 = neg(one)\n    t: f32 = mat[j, a]": ("mat", 1, "N"),
    "a: i64 = 4\n    t: f32 = four[a]": ("four", 0, "4"),
    "t: f32 = x[i]\n    o[big] = t": ("o", 0, "N"),
    "t: f32 = x[i]\n    o[big] += t": ("o", 0, "N"),
}


@pytest.mark.parametrize("body", OUTSIDE)
def test_a_constant_that_is_never_inside_is_refused(body):
    tensor, dimension, size = OUTSIDE[body]
    with pytest.raises(KernelTypeError) as caught:
        guarded(body)
    assert caught.value.message == f"an index of `{tensor}` is outside its dimension {dimension}"
    assert caught.value.label == f"this is never in [0, {size})"


def test_a_slice_that_may_be_outside_is_refused_with_its_place():
    with pytest.raises(KernelTypeError) as caught:
        guarded("t: f32[half] = half[half + one]")
    assert str(caught.value) == (
        "an index of `half` may be outside its dimension 0\n"
        "  --> f.kdsl:25:25\n"
        "   |\n"
        "25 |     t: f32[half] = half[half + one]\n"
        "   |                         ^^^^^^^^^^ cannot show that it stays in [0, N // 2)\n"
        "help: kdsl.require(...) what makes it fit, or clamp it with minimum and maximum"
    )


def test_grouped_heads_need_the_requirement_that_they_divide():
    func = parse(ATTENTION.replace("eq(t_3, t_4)", "ge(t_3, t_4)"))
    assert [access.name for access, _ in unproven(func)] == ["t_17", "t_39"]
