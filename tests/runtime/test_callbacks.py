"""Python callables go into native code, are called from any thread, and come back."""

from __future__ import annotations

import functools
import gc
import inspect
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from kdsl.runtime import Function, Module, _core, load_module

ROOT = Path(__file__).parent.parent.parent


class Adder:
    """Callables of several kinds."""

    def __init__(self, by: int = 0) -> None:
        self.by = by

    def __call__(self, x: int) -> int:
        return x + self.by

    def nothing(self) -> int:
        return self.by

    def method(self, x: int) -> int:
        return x + self.by

    @classmethod
    def of_class(cls, x: int) -> int:
        return x + 3

    @staticmethod
    def static(x: int) -> int:
        return x + 3


CALLABLES: dict[str, Callable[[int], Any]] = {
    "function": lambda x: x + 3,
    "object": Adder(3),
    "bound method": Adder(3).method,
    "class method": Adder.of_class,
    "static method": Adder.static,
    "partial": functools.partial(pow, 2),
    "builtin": abs,
    "method of a builtin": (3).__add__,
    "class": float,
    "NumPy function": np.negative,
}


@pytest.mark.parametrize("name", CALLABLES)
def test_any_callable_is_an_argument(functions: Module, name: str) -> None:
    called = CALLABLES[name]
    assert functions.apply(called, 5) == called(5)
    assert functions.elsewhere(called, 5) == called(5)
    assert functions.echo(called) is called


def test_any_callable_is_called_without_arguments(functions: Module) -> None:
    def plain(x: int = 3, *rest: int, y: int = 4) -> int:
        return x + y + len(rest)

    def changes() -> int:
        return 1

    kept = _core.convert(changes)
    assert functions.apply(kept) == 1
    changes.__code__, changes.__defaults__ = plain.__code__, (5,)
    changes.__kwdefaults__ = {"y": 6}
    assert functions.apply(kept) == 11
    for callable_, answer in (
        (plain, 7),
        (lambda: None, None),
        (lambda: "x" * 40, "x" * 40),
        (Adder().nothing, 0),
        (functools.partial(plain, 1, y=2), 3),
        (functools.partial(int, "7"), 7),
        (int, 0),
    ):
        assert functions.apply(callable_) == answer
        assert functions.elsewhere(callable_) == answer
    with pytest.raises(ZeroDivisionError):
        functions.apply(lambda: 1 // 0)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        functions.apply(lambda x: x)


def test_a_class_is_called(functions: Module) -> None:
    assert functions.apply(list) == ()
    assert functions.apply(np.float32, 2) == 2.0


@pytest.mark.parametrize(
    "value", [None, True, 3, -(2**63), 1.5, "", "short", "a longer text", b"bytes", "a\0b", "ü" * 9]
)
def test_values_go_through_a_callback_as_they_are(functions: Module, value: object) -> None:
    seen: list[object] = []

    def note(x: object) -> object:
        seen.append(x)
        return x

    answer = functions.apply(note, value)
    assert answer == value
    assert type(answer) is type(value)
    assert seen == [value]
    assert type(seen[0]) is type(value)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 15, 16, 17, 100])
def test_a_callback_takes_any_number_of_arguments(functions: Module, count: int) -> None:
    assert functions.apply(lambda *a: list(a) == list(range(count)), *range(count)) is True


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.arange(3, dtype=np.float32),
        lambda: torch.arange(3.0),
        lambda: jnp.arange(3, dtype="float32"),
        lambda: memoryview(bytearray(3)),
    ],
    ids=["numpy", "torch", "jax", "buffer"],
)
def test_an_array_reaches_the_callback_as_the_same_object(
    functions: Module, make: Callable[[], Any]
) -> None:
    x = make()
    assert functions.apply(lambda y: y is x, x) is True
    assert functions.apply(lambda f, y: functions.apply(f, y), lambda z: z is x, x) is True


def test_results_are_of_the_callers_kind(functions: Module) -> None:
    x, t = np.arange(3, dtype=np.float32), torch.arange(3.0)
    double = functions.apply(lambda y: y * 2, x)
    assert type(double) is np.ndarray
    assert double.tolist() == [0.0, 2.0, 4.0]
    assert type(functions.apply(lambda y: y * 2, t)) is torch.Tensor
    assert functions.apply(lambda y: (y, [1, {"k": y}]), t)[0].tolist() == [0.0, 1.0, 2.0]


def test_callbacks_call_back(functions: Module) -> None:
    def down(n: int) -> int:
        return 0 if n == 0 else 1 + functions.apply(down, n - 1)

    assert functions.apply(down, 50) == 50
    assert functions.elsewhere(lambda: functions.elsewhere(lambda: functions.apply(lambda: 7))) == 7


def test_calling_back_without_end_is_a_recursion_error(functions: Module) -> None:
    def down() -> None:
        functions.apply(down)

    for _ in range(2):
        with pytest.raises(RecursionError):
            functions.apply(down)
    assert functions.apply(lambda: 1) == 1


def test_threads_that_python_never_saw_call_at_once(functions: Module) -> None:
    seen: set[int] = set()
    lock = threading.Lock()

    def note(x: int) -> None:
        with lock:
            seen.add(threading.get_ident())
        if x < 0:
            raise ValueError

    assert functions.many_threads(16, note, 1) == 0
    assert functions.many_threads(16, note, -1) == 16
    assert len(seen) >= 2
    assert threading.get_ident() not in seen


def test_memory_of_a_callee_is_lent_for_the_call(functions: Module) -> None:
    def fill(x: Any) -> None:
        assert x.shape == (3,)
        np.asarray(x)[0] = 10

    assert functions.lend(fill) == 15.0
    assert functions.lend(lambda x: None) == 6.0
    kept: list[object] = []
    for keep in (kept.append, lambda x: kept.append(np.asarray(x))):
        with pytest.raises(ValueError, match="argument 0: the memory of this array ends with the "):
            functions.lend(keep)
    assert functions.lend(lambda x: kept.append(np.array(x))) == 6.0


def test_a_result_without_a_form_in_native_code_is_an_error(functions: Module) -> None:
    with pytest.raises(TypeError) as caught:
        functions.apply(lambda: np.array(["text"]))
    assert "<lambda>: its result cannot go to native code: " in str(caught.value)
    assert caught.value.__cause__ is not None
    with pytest.raises(TypeError, match="its result cannot go to native code"):
        functions.apply(lambda: 2**70)


def test_a_kept_callable_lives_until_it_is_dropped(functions: Module) -> None:
    def called() -> int:
        return 3

    ref = weakref.ref(called)
    functions.keep(called)
    assert functions.kept() is called
    del called
    gc.collect()
    assert ref() is not None
    assert functions.kept()() == 3
    functions.drop()  # on a thread of its own
    gc.collect()
    assert ref() is None
    assert functions.kept() is None


def test_a_callable_may_drop_itself(functions: Module) -> None:
    def once() -> str:
        functions.drop()
        gc.collect()
        return "done"

    functions.keep(once)
    del once
    assert functions.apply(functions.kept()) == "done"


def test_a_returned_function_outlives_what_made_it(functions: Module) -> None:
    before = functions.living()
    fresh = load_module(functions.path)
    add = fresh.adder(40)
    del fresh
    gc.collect()
    assert isinstance(add, Function)
    assert add(2) == 42
    assert functions.apply(add, 2) == 42
    assert functions.living() == before + 1
    del add
    assert functions.living() == before


def test_functions_are_equal_when_they_call_the_same(functions: Module) -> None:
    other = load_module(functions.path)
    assert functions.apply == other.apply
    assert hash(functions.apply) == hash(other.apply)
    assert functions.apply != functions.elsewhere
    back = functions.echo(functions.apply)
    assert back == functions.apply
    assert repr(back) == repr(functions.apply)
    assert {functions.apply, other.apply, back} == {functions.apply}
    add = functions.adder(1)
    assert functions.echo(add) == add
    assert add != functions.adder(1)
    assert functions.apply != 3
    assert functions.apply.__eq__(3) is NotImplemented


def test_a_converted_callable_is_a_function(functions: Module) -> None:
    def scale(x: float, *, by: float = 2.0) -> float:
        """Doc of scale."""
        return x * by

    def power(x: int, n: int = 2) -> int:
        return x**n

    made = _core.convert(power)
    assert isinstance(made, Function)
    assert [made(3), made(3, 3), made(x=2), made(n=3, x=2)] == [9, 27, 4, 8]
    assert str(inspect.signature(made)) == "(x: 'int', n: 'int' = 2) -> 'int'"
    assert made.__name__.endswith("power")
    assert _core.convert(made) is made
    assert made == _core.convert(power)
    assert functions.echo(made) == made
    assert _core.convert(scale).__doc__ == "Doc of scale."
    with pytest.raises(TypeError, match="keyword-only parameter `by`"):
        _core.convert(scale)(1.0, by=3.0)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        made(n=2)
    with pytest.raises(TypeError, match="expected a callable, got 3"):
        _core.convert(3)


def test_what_is_no_function_is_refused_by_name(functions: Module, hand: Module) -> None:
    with pytest.raises(TypeError, match="expected a function first"):
        functions.apply(3)
    with pytest.raises(TypeError, match=r"argument 0 `x`: expected T\[M, N\] .*, got function"):
        hand.nop(lambda: 1, np.ones(2))


def test_a_callback_leaves_no_reference_behind(functions: Module) -> None:
    def called(*args: object) -> object:
        return args[0] if args else None

    x, t = np.ones(3, np.float32), torch.ones(3)
    text = "a text of some length"
    before = [sys.getrefcount(o) for o in (called, x, t, text, None)]
    for _ in range(500):
        functions.apply(called, x, t, text, 3)
        functions.apply(called, t, [x, text])
        functions.repeat(3, called, x)
        functions.elsewhere(called, x)
        functions.lend(lambda y: None)
    gc.collect()
    after = [sys.getrefcount(o) for o in (called, x, t, text, None)]
    assert all(abs(a - b) < 60 for a, b in zip(after, before, strict=True)), (before, after)


SIGNALLED = """
import os, signal, sys, threading, time
sys.path.insert(0, {root!r})
from kdsl.runtime import load_module
module = load_module({path!r})
signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    module.poll(10**9)
except KeyboardInterrupt as err:
    print("stopped", type(err).__name__)
class Stop(Exception):
    pass
def handler(number, frame):
    raise Stop("from the handler")
signal.signal(signal.SIGUSR1, handler)
threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1)).start()
try:
    module.poll(10**9)
except Stop as err:
    print(err)
print(module.poll(3), module.apply(lambda: 1))
"""


@pytest.mark.parametrize("runtime", ["bundled", "tvm_ffi"])
def test_a_long_loop_that_polls_stops_at_a_signal(functions: Module, runtime: str) -> None:
    script = SIGNALLED.format(root=str(ROOT), path=functions.path)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "KDSL_RUNTIME": runtime},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout.splitlines() == ["stopped KeyboardInterrupt", "from the handler", "3 1"], (
        done.stderr
    )


@pytest.mark.filterwarnings("ignore:os.fork")
def test_a_forked_child_can_call(functions: Module) -> None:
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            functions.apply(lambda: None)
            functions.caught(lambda: 1 / 0)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                good = functions.apply(lambda x: x + 1, 1) == 2
                good &= functions.elsewhere(lambda x: x + 1, 1) == 2
                good &= functions.caught(lambda: 1 / 0) == "ZeroDivisionError"
                os._exit(0 if good else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


AT_EXIT = """
import sys
sys.path.insert(0, {root!r})
from kdsl.runtime import load_module
module = load_module({path!r})
class Late:
    def __call__(self):
        return 1
    def __del__(self):
        module.apply(lambda: 1)
module.keep(Late())
late = Late()
sys.modules["keep_alive"] = late
late.me = late
print(module.apply(late))
"""


def test_the_end_of_python_is_no_crash(functions: Module) -> None:
    script = AT_EXIT.format(root=str(ROOT), path=functions.path)
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
