"""`while`: three ways the same, its text form, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from kdsl import lang as kdsl
from kdsl.errors import KernelError
from kdsl.frontend import capture, lower
from kdsl.ir.parser import parse
from kdsl.ir.printer import show
from kdsl.ir.verify import verify
from kdsl.lang import InOut, Out, abs, f32, i32, i64, maximum
from kdsl.passes import run_pipeline
from tests.cpu.harness import Compiled
from tests.frontend.oracles import agree

M, N = kdsl.dims("M N")


def newton(x: f32[N], o: Out[f32[N]], steps: Out[i32[N]]):
    """Square roots; never more than 50 steps."""
    for i in kdsl.parallel(N):
        root, count = maximum(x[i], 1), 0
        while abs(root * root - x[i]) > 1e-6 * x[i]:
            root = 0.5 * (root + x[i] / root)
            count += 1
            if count == 50:
                break
        o[i] = root
        steps[i] = count


def bisect(table: f32[N], x: f32[M], at: Out[i64[M]]):
    """The first place of a sorted table that is not below x."""
    for m in kdsl.parallel(M):
        low, high = 0, N
        while low < high:
            middle = (low + high) // 2
            if table[middle] < x[m]:
                low = middle + 1
                continue
            high = middle
        at[m] = low


def collatz(n: i64[M], steps: Out[i64[M]], most: Out[i64[M]]):
    for m in kdsl.parallel(M):
        value, count, top = n[m], 0, n[m]
        while True:
            if value <= 1:
                break
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            top = maximum(top, value)
            count += 1
        steps[m], most[m] = count, top


def rows(x: f32[M, N], o: Out[f32[N]], p: Out[f32[N]]):
    """Whole rows are carried, one loop stands in another, one never begins."""
    for _ in kdsl.parallel(1):
        total, m = kdsl.zeros(N), 0
        while m < M:
            k = 0
            while k < m:
                total += x[k]
                k += 2
            m += 1
        never = kdsl.zeros(N)
        while M < 0:
            never += 1
        while False:
            never += 1
        o[:], p[:] = total, never


def drain(x: InOut[f32[N]]):
    for i in kdsl.parallel(N):
        while x[i] > 1:
            x[i] = x[i] * 0.5


def strided(x: f32[M, N], o: Out[f32[N]]):
    """A carried number is the row that is read."""
    kdsl.require(M > 3)
    for _ in kdsl.parallel(1):
        total, k = kdsl.zeros(N), 0
        for _j in range(2):
            total += x[k]
            k += 2
        o[:] = total


X = np.array([0, 1, 2, 3, 100, 1e6], np.float32)
CASES = {
    "newton": (newton, (X,)),
    "bisect": (bisect, (np.sort(X), np.array([-1, 2, 2.5, 1e7, 0], np.float32))),
    "collatz": (collatz, (np.array([1, 2, 27, 97, 0]),)),
    "rows": (rows, (np.arange(28, dtype=np.float32).reshape(4, 7),)),
    "drain": (drain, (X,)),
    "strided": (strided, (np.arange(28, dtype=np.float32).reshape(4, 7),)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_runs_agree(name):
    fn, args = CASES[name]
    want = agree(fn, *args)
    want = want if isinstance(want, tuple) else (want,)
    func = lower(capture(fn), {}, {})
    for version in (func, run_pipeline(func)):
        verify(version)
        (again,) = parse(show(version)) if isinstance(parse(show(version)), tuple) else (
            parse(show(version)),
        )  # fmt: skip
        assert show(again) == show(version)
    passed = {p.name: a.copy() for p, a in zip(func.params, args, strict=False)}
    outs = [p.name for p in func.params if p.kind == "out"]
    passed |= {n: np.zeros(w.shape, w.dtype) for n, w in zip(outs, want, strict=False)}
    Compiled(func)(**passed)
    got = [passed[n] for n in outs] + [passed[p.name] for p in func.params if p.kind == "inout"]
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=2e-6)


def test_results_are_those_of_numpy():
    assert agree(bisect, *CASES["bisect"][1]).tolist() == [0, 2, 3, 6, 0]
    assert agree(collatz, np.array([27]))[0].tolist() == [111]
    np.testing.assert_allclose(agree(newton, X)[0], np.sqrt(X), rtol=1e-6, atol=1e-7)


def test_text_of_a_loop_that_goes_on():
    text = show(run_pipeline(lower(capture(drain), {}, {})))
    assert "    for turn in range(t_4, t_5) while going with\n" in text or " while going " in text
    broken = text.replace("while going", "while i_at")
    with pytest.raises(Exception, match="what a loop goes on for `i_at` must be bool"):
        verify(parse(broken))


@pytest.mark.parametrize(("fn", "message", "help"), [
    ("while x[i]:\n                o[i] = x[i]",
     "a run-time condition must be a bool", "help: compare it: `x[i] != 0`"),
    ("while x[i] > 0:\n                break\n            else:\n                o[i] = 0",
     "a kernel cannot use `else` of a loop", "help: put the statements after the loop"),
])  # fmt: skip
def test_what_is_refused(fn, message, help):
    source = f"""\
def k(x: f32[N], o: Out[f32[N]]):
        for i in kdsl.parallel(N):
            o[i] = 1
            {fn}
"""
    space = {"f32": f32, "Out": Out, "N": N, "kdsl": kdsl}
    exec(source, space)
    with pytest.raises(KernelError) as caught:
        lower(capture(space["k"], source=source), {}, {})
    lines = str(caught.value).splitlines()
    assert lines[0] == message
    assert lines[-1] == help
