"""An elementwise operation is one entry of the language and one of each target."""

from __future__ import annotations

import re

import numpy as np
import pytest
from kdsl import lang as kdsl
from kdsl.codegen.cpu import ops as cpu
from kdsl.dtypes import DTYPES, f32, i32
from kdsl.errors import KernelTypeError
from kdsl.frontend import capture, lower
from kdsl.frontend.reference import reference
from kdsl.ir import interp
from kdsl.lang import Out, ops
from kdsl.lang.arrays import numpy_dtype
from kdsl.lang.declare import operation
from kdsl.lang.operation import np as lazy
from kdsl.lang.promote import Operand, PromotionError, maths
from tests.cpu.harness import Compiled
from tests.house import ROOT, tracked

N = kdsl.dims("N")[0]


@operation(maths, cost="division")
def softsign(x):
    """x over 1 plus its absolute value."""
    return x / (1 + lazy.abs(x))


def uses_softsign(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = softsign(x[n]) + softsign(x=3.0)


def test_an_operation_is_added_in_two_places(monkeypatch):
    monkeypatch.setitem(ops.FUNCTIONS, softsign, softsign.operation)
    monkeypatch.setitem(ops.OPS, "softsign", softsign.operation)
    monkeypatch.setitem(cpu.EXPRESSIONS, "softsign", "({0} / (1.0f + abs({0})))")
    x = np.linspace(-5, 5, 37, dtype=np.float32)
    want = x / (1 + np.abs(x)) + np.float32(0.75)
    np.testing.assert_array_equal(reference(capture(uses_softsign), [x], {}), want)
    func = lower(capture(uses_softsign), {}, {})
    got = np.empty_like(x)
    interp.run(func, {"x": x, "o": got})
    np.testing.assert_array_equal(got, want)
    got = np.empty_like(x)
    Compiled(func)(x=x, o=got)
    np.testing.assert_array_equal(got, want)


def test_an_operation_that_the_target_lacks_is_refused_at_the_authors_line(monkeypatch):
    monkeypatch.setitem(ops.FUNCTIONS, softsign, softsign.operation)
    monkeypatch.setitem(ops.OPS, "softsign", softsign.operation)
    with pytest.raises(KernelTypeError) as caught:
        Compiled(lower(capture(uses_softsign), {}, {}))
    message, place, *_, help = str(caught.value).splitlines()
    assert message == "`softsign` is not available on the CPU"
    assert re.search(r"test_ops\.py:\d+:16$", place)
    assert help == "help: docs/language.md says what it has code for"


#: What passes know of particular operations: identities, signs, sums of products, masks.
KNOWN = {"where", "fma", "maximum", "minimum", "fmax", "fmin", "abs", "sqrt", "round", "clip"}


@pytest.mark.parametrize("name", sorted({f.__name__ for f in ops.FUNCTIONS} - KNOWN))
def test_no_other_file_of_the_compiler_names_a_function(name):
    word = re.compile(rf"[\"']{name}[\"']")
    naming = {
        str(file.relative_to(ROOT))
        for file in tracked(".py", under=("kdsl/",))
        if word.search(re.sub(r'""".*?"""|#.*', "", file.read_text(), flags=re.DOTALL))
    }
    targets = {f for f in naming if re.fullmatch(r"kdsl/codegen/\w+/(ops|spelling)\.py", f)}
    assert naming - targets <= {"kdsl/lang/functions.py"}


def test_every_operation_is_spelled_on_the_cpu():
    assert [name for name in ops.OPS if not cpu.has(name)] == []


# ---- every operation of every dtype: the reference run, the interpreter and compiled code agree

K = kdsl.dims("K")[0]


def expression(op):
    if not op.symbol:
        operands = ["x > y", "x", "y"] if op.conditions else ["x", "y", "z"][: op.arity]
        return f"kdsl.{op.name}({', '.join(operands)})"
    return f"{op.symbol}x" if op.arity == 1 else f"x {op.symbol} y"


def expressions(dtype):
    """Those that the dtype has, with the operation that each is."""
    for op in ops.OPS.values():
        try:
            op.rule(*[Operand(dtype)] * (op.arity - op.conditions))
        except PromotionError:
            continue
        if op.name == "pow" and not dtype.is_float:
            yield "x ** 3", op
        elif op.name != "neg" or dtype.kind not in ("bool", "uint"):
            yield expression(op), op


def numbers(dtype, n):
    """Operands with the numbers in them that rules are about."""
    rng, of = np.random.default_rng(3), numpy_dtype(dtype)
    if dtype.kind == "bool":
        return [rng.random(n) < 0.5 for _ in range(3)]
    if dtype.is_int:
        edge = np.array([0, 1, 2, 3, 7, np.iinfo(of).max, np.iinfo(of).min], of)
        return [rng.choice(edge, n) for _ in range(3)]
    special = [0.0, -0.0, 0.5, -0.5, 1, -1, 2.5, -3, np.inf, -np.inf, np.nan, 1e-5, 30, 0.1]
    picked = rng.choice(special, (3, n))
    return list(np.where(rng.random((3, n)) < 0.5, picked, rng.standard_normal((3, n))).astype(of))


@pytest.mark.parametrize("name", "f32 f64 bf16 bool i8 u64".split())
def test_every_operation_is_the_same_three_ways(name):
    dtype = DTYPES[name]
    table = list(expressions(dtype))
    public = "boolean" if name == "bool" else name
    lines = [f"        o[{k}, n] = {text}" for k, (text, _) in enumerate(table)]
    source = f"""\
def k(a: {public}[N], b: {public}[N], c: {public}[N], o: Out[f64[{len(table)}, N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        x, y, z = a[n], b[n], c[n]
""" + "\n".join(lines) + "\n"  # fmt: skip
    space = {public: getattr(kdsl, public), "f64": kdsl.f64, "Out": Out, "N": N, "kdsl": kdsl}
    exec(source, space)
    kernel = capture(space["k"], source=source)
    compiled = Compiled(lower(kernel, {}, {}))
    for n in (1, 101):
        args = numbers(dtype, n)
        if n > 1:  # every second element, so that vectors are not aligned
            args = [np.repeat(v, 2)[1::2].copy() for v in args]
        want = reference(kernel, args, {})
        passed = dict(zip("abc", args, strict=True))
        meant, got = np.zeros_like(want), np.zeros_like(want)
        interp.run(compiled.func, passed | {"o": meant})
        compiled(**passed, o=got)
        eps = 2.0**-52 if name == "f64" else 2.0**-23
        for k, (text, op) in enumerate(table):
            exact = op.exact or (op.symbol == "**" and not dtype.is_float)
            for other in (meant[k], got[k]):
                np.testing.assert_allclose(
                    other, want[k], rtol=0 if exact else 4 * eps, atol=0, err_msg=text
                )
                number = ~np.isnan(want[k])
                same = np.signbit(other) == np.signbit(want[k])
                assert same[number].all() or op.name in (
                    "maximum",
                    "minimum",
                    "fmax",
                    "fmin",
                    "clip",
                )


#: Operations that do not say which of two zeros is the larger.
EITHER_ZERO = ("maximum", "minimum", "fmax", "fmin", "clip")


# ---- powers


def powers(x: f32[N], i: i32[N], o: Out[f32[9, N]], p: Out[i32[5, N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[0, n], o[1, n], o[2, n] = x[n] ** 2, x[n] ** 3.0, x[n] ** 0.5
        o[3, n], o[4, n], o[5, n] = x[n] ** -1, x[n] ** 0, x[n] ** 7
        o[6, n], o[7, n], o[8, n] = 2.0 ** x[n], x[n] ** i[n], i[n] ** 0.5
        p[0, n], p[1, n], p[2, n] = i[n] ** 0, i[n] ** 1, i[n] ** 5
        p[3, n], p[4, n] = i[n] ** 10, (i[n] > 0) ** 2


def test_powers_are_those_of_numpy():
    x = np.array([0, -0.0, 0.3, 2.5, 7, 4, np.inf, np.nan, -2, 1.5], np.float32)
    i = np.array([0, 1, -1, 2, 3, 10, -7, 5, 4, -3], np.int32)
    o, p = reference(capture(powers), [x, i], {})
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        want = [x**2, x**3, x**0.5, 1 / x, x**0, wide**7, 2.0**wide, wide**i, np.sqrt(i)]
        np.testing.assert_allclose(o, np.array(want, np.float64).astype(np.float32), rtol=2e-7)
    np.testing.assert_array_equal(p, np.stack([i**0, i, i**5, i**10, (i > 0) * 1]))
    compiled = Compiled(lower(capture(powers), {}, {}))
    got, whole = np.zeros_like(o), np.zeros_like(p)
    compiled(x=x, i=i, o=got, p=whole)
    np.testing.assert_allclose(got, o, rtol=2e-7)
    np.testing.assert_array_equal(whole, p)
