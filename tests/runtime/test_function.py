"""A function knows its signature, releases the GIL and survives threads."""

from __future__ import annotations

import gc
import inspect
import threading
import time
import weakref

import numpy as np
import pytest
import torch

from kdsl.runtime import Module, load_module


def test_a_function_has_signature_doc_and_name(hand: Module) -> None:
    signature = inspect.signature(hand.scale)
    assert list(signature.parameters) == ["x", "factor"]
    assert signature.parameters["factor"].default == 1.0
    assert str(signature) == "(x: 'T[M, N]', factor: 'f64' = 1.0)"
    assert str(inspect.signature(hand.nop)) == (
        "(x: 'T[M, N]', y: 'T[M, N]', o: 'Out[T[M, N]]' = None)"
    )
    assert hand.scale.__doc__ == "The doc of scale."
    assert hand.scale.__name__ == hand.scale.__qualname__ == "scale"
    assert hand.scale.metadata["dims"] == ["M", "N"]
    assert repr(hand.scale) == "<kdsl function scale(x: T[M, N], factor: f64 = 1.0)>"


def test_a_function_without_metadata_still_has_a_name(hand: Module) -> None:
    assert hand.plain.__name__ == "plain"
    assert hand.plain.__doc__ is None
    assert hand.plain.metadata == {}
    assert repr(hand.plain) == "<kdsl function plain(...)>"
    with pytest.raises((TypeError, ValueError)):
        inspect.signature(hand.plain)


def test_other_threads_run_during_a_call(hand: Module) -> None:
    flag = np.zeros(1, np.uint8)

    def wake() -> None:
        time.sleep(0.02)
        flag[0] = 1

    waker = threading.Thread(target=wake)
    waker.start()
    assert hand.wait(flag) is True
    waker.join()


def test_a_function_can_keep_the_gil(hand: Module) -> None:
    assert hand.many.release_gil is True
    hand.many.release_gil = False
    assert hand.many(1, 2, 3) == 3
    assert hand["many"].release_gil is False
    del hand.many.release_gil
    assert hand.many.release_gil is True


def test_errors_stay_in_their_thread(hand: Module) -> None:
    wrong: list[object] = []

    def work(number: int) -> None:
        x = torch.full((3,), float(number))
        for _ in range(300):
            try:
                hand.fail("ValueError", f"of thread {number}")
            except ValueError as err:
                if str(err) != f"of thread {number}":
                    wrong.append(err)
            if hand.scale(x, 2.0).tolist() != [2.0 * number] * 3:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_function_dies_with_its_last_reference(hand: Module) -> None:
    function = load_module(hand.path)["nop"]
    function(np.ones(1), np.ones(1))
    ref = weakref.ref(function)
    del function
    gc.collect()
    assert ref() is None


def test_a_thousand_calls_leave_nothing_behind(hand: Module) -> None:
    import sys

    x, t = np.ones(4, np.float32), torch.ones(4)
    before = [sys.getrefcount(x), sys.getrefcount(t), sys.getrefcount(None)]
    for _ in range(1000):
        hand.pair(x)
        hand.pair(t)
        hand.scale(t, factor=2.0)
        hand.plain([x, "a longer text", t])
        with pytest.raises(TypeError):
            hand.nop(x, object())
    gc.collect()
    after = [sys.getrefcount(x), sys.getrefcount(t), sys.getrefcount(None)]
    assert all(abs(a - b) < 100 for a, b in zip(after, before, strict=True))
