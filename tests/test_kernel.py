"""What a kernel says of itself, and `kernel.check`."""

from __future__ import annotations

import inspect
import threading

import numpy as np
import pytest

import kdsl
from kdsl import InOut, Out, check, f32, i32

(N,) = kdsl.dims("N")


@kdsl.kernel
def halve(x: f32[N], o: Out[f32[N]]):
    """Half of x."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * 0.5


@kdsl.kernel(strict=True)
def count_up(x: InOut[i32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        x[n] = x[n] + 1


def test_a_kernel_has_the_name_doc_and_signature_of_its_function():
    assert halve.__name__ == "halve"
    assert halve.__doc__ == "Half of x."
    assert halve.__module__ == __name__
    assert halve.signature == "halve(x: f32[N], o: Out[f32[N]])"
    assert repr(halve) == "<kernel halve(x: f32[N], o: Out[f32[N]])>"


def test_the_signature_of_python_reads_as_messages_do():
    assert str(inspect.signature(halve)) == "(x: 'f32[N]', o: 'Out[f32[N]]' = None)"
    assert inspect.signature(halve).bind(1).arguments == {"x": 1}


def test_a_tune_can_be_taken_back():
    kernel = kdsl.kernel(halve.__wrapped__)
    plain = kernel.show("plan")
    kernel.tune("cpu", tiles={"n": 24})
    assert "n=24" in kernel.show("plan")
    kernel.tune("cpu", tiles={"n": None})
    assert kernel.show("plan") == plain
    kernel.tune("cpu", tiles={"n": 24})
    kernel.untune()
    assert kernel.show("plan") == plain
    with pytest.raises(ValueError, match="no loop over tiles has the variable `m`"):
        kernel.tune("cpu", tiles={"m": None})


def test_check_runs_both_and_tells_the_worst_element():
    x = np.arange(5, dtype=np.float32)
    report = halve.check(x)
    assert report.ok
    assert str(report).splitlines() == [
        "halve(x: f32[N], o: Out[f32[N]])",
        "  o: f32: error 0.00e+00, bound 3.81e-06: ok; worst at [0]: got 0.0, reference 0.0",
    ]


def test_check_leaves_an_inout_as_it_is():
    x = np.arange(5, dtype=np.int32)
    assert count_up.check(x).ok
    np.testing.assert_array_equal(x, np.arange(5))
    count_up(x)
    np.testing.assert_array_equal(x, np.arange(5) + 1)


@pytest.mark.parametrize(
    ("got", "ok"),
    [
        ([1.0, 2.0], True),
        ([1.0, 2.001], False),
        ([1.0, np.nan], False),
        ([1.0, np.inf], False),
    ],
)
def test_a_difference_beyond_the_bound_is_found(got, ok):
    want = np.array([1.0, 2.0], np.float32)
    output = check._output("o", np.array(got, np.float32), want, f32)
    assert output.ok is ok
    assert output.index == ((0,) if ok else (1,))


def test_equal_infinities_and_nans_are_no_difference():
    odd = np.array([np.inf, -np.inf, np.nan, 1.0], np.float32)
    assert check._output("o", odd, odd.copy(), f32).ok


def test_integers_have_no_tolerance():
    want = np.array([1, 2], np.int32)
    assert check._output("o", want.copy(), want, i32).ok
    output = check._output("o", np.array([1, 3], np.int32), want, i32)
    assert not output.ok
    assert output.index == (1,)


def test_a_check_that_fails_shows_got_and_reference(monkeypatch):
    monkeypatch.setattr(type(halve), "__call__", lambda self, x: x)
    with pytest.raises(AssertionError, match=r"DIFFERS; worst at \[1\]: got 2\.0, reference 1\.0"):
        halve.check(np.array([0, 2], np.float32))


def test_threads_that_call_first_at_once_share_one_function():
    kernel = kdsl.kernel(halve.__wrapped__)
    x = np.ones(3, np.float32)
    results: list[object] = []
    start = threading.Barrier(4)

    def call() -> None:
        start.wait()
        results.append(kernel(x)[0])

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [0.5] * 4
    assert len(kernel.compiler._functions) == 1


MADE = """
def tripled(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * 3
"""


def test_a_function_that_exec_made_is_a_kernel_when_its_text_comes_along():
    names = {"kdsl": kdsl, "f32": f32, "Out": Out, "N": N}
    exec(MADE, names)
    kernel = kdsl.kernel(source=MADE)(names["tripled"])
    np.testing.assert_array_equal(kernel(np.ones(2, np.float32)), [3, 3])
