"""Call, raise and call back on many threads at once; each answer is checked.

libtvm_ffi's table of global functions is not made for threads: where it is in use, the names stay.
`--seconds` long, on `--threads` threads of Python, and more that native code starts; with `--fork`
processes fork in the middle, and the child does the same. That needs KDSL_RUNTIME=bundled:
libtvm_ffi's errors do not survive a fork. Prints how many calls there were; an answer that is
wrong, or a child that does not end, ends it with status 1.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from kdsl.runtime import (
    Dict,
    List,
    Module,
    get_global_func,
    load_module,
    register_global_func,
    remove_global_func,
)
from kdsl.runtime._core import provider

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / "tests" / "runtime" / "modules"


class OwnError(Exception):
    """Only its identity counts."""


def build(folder: Path, name: str, cflags: str) -> Module:
    """A module of the tests, loaded."""
    out = folder / f"{name}.so"
    flags = ["-std=gnu11", "-g", "-shared", "-fPIC", f"-I{ROOT / 'include'}", *cflags.split()]
    subprocess.run(["gcc", *flags, str(MODULES / f"{name}.c"), "-o", str(out)], check=True)
    return load_module(out)


class Shared:
    """Containers that all threads change; what each put in and took out of the list is counted."""

    def __init__(self) -> None:
        self.list, self.dict = List(), Dict()


class Stress:
    """What one thread does, over and over."""

    def __init__(self, functions: Module, hand: Module, shared: Shared, number: int) -> None:
        self.functions, self.hand, self.shared, self.number = functions, hand, shared, number
        self.in_list = 0
        self.random = random.Random(number)
        self.calls = 0
        self.wrong: list[str] = []
        self.actions: list[Callable[[int], bool]] = [
            self.call,
            self.call_elsewhere,
            self.call_nested,
            self.raise_own,
            self.raise_native,
            self.replace_error,
            self.many_at_once,
            self.registry,
            self.closure,
            self.containers,
            self.shared_list,
            self.shared_dict,
            self.lent,
            self.wrong_call,
        ]

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self.wrong:
            action = self.random.choice(self.actions)
            if not action(self.random.randrange(1000)):
                self.wrong.append(f"thread {self.number}: {action.__name__}")
            self.calls += 1

    def fork(self, x: int) -> bool:
        """A child of this one thread does everything once, and ends."""
        child = os.fork()
        if child == 0:
            # A lock of Python's own may be held by a thread that is no more: no print, no import.
            os._exit(0 if all(action(x) for action in self.actions if action != self.fork) else 1)
        for _ in range(600):
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status == 0
            time.sleep(0.1)
        os.kill(child, signal.SIGABRT)
        os.waitpid(child, 0)
        return False

    def call(self, x: int) -> bool:
        answer = self.functions.apply(lambda a, b: (a + b, [a, {"b": b}]), x, 1)
        return bool(answer == (x + 1, (x, {"b": 1})))

    def call_elsewhere(self, x: int) -> bool:
        return bool(self.functions.elsewhere(lambda a: a * 2, x) == 2 * x)

    def call_nested(self, x: int) -> bool:
        inner = self.functions.elsewhere
        return bool(self.functions.apply(lambda a: inner(lambda b: b + 1, a), x) == x + 1)

    def raise_own(self, x: int) -> bool:
        error = OwnError(x)

        def fail() -> None:
            raise error

        try:
            self.functions[("apply", "elsewhere")[x % 2]](fail)
        except OwnError as caught:
            return caught is error
        return False

    def raise_native(self, x: int) -> bool:
        text = f"thread {self.number}, {x}"
        try:
            self.hand.fail("IndexError", text)
        except IndexError as caught:
            return str(caught) == text
        return False

    def replace_error(self, x: int) -> bool:
        try:
            self.functions.translated(lambda: 1 // 0)
        except IndexError as caught:
            return str(caught) == "another error"
        return False

    def many_at_once(self, x: int) -> bool:
        def half(a: int) -> None:
            if a % 2:
                raise OwnError

        return bool(self.functions.many_threads(3, half, x) == (3 if x % 2 else 0))

    def registry(self, x: int) -> bool:
        if provider() == "tvm_ffi":
            return True
        name = f"stress.{self.number}.{x}"
        register_global_func(name, lambda a: a + x, override=True)
        good = self.functions.by_name(name, 1) == get_global_func(name)(1) == x + 1
        remove_global_func(name)
        return good and get_global_func(name, allow_missing=True) is None

    def closure(self, x: int) -> bool:
        add = self.functions.adder(x)
        return bool(self.functions.apply(add, 1) == add(1) == x + 1)

    def containers(self, x: int) -> bool:
        value = [x, ["a longer text", None], {"k": (1.5, b"bytes")}]
        back = self.functions.echo(value)
        return bool(back == (x, ("a longer text", None), {"k": (1.5, b"bytes")}))

    def shared_list(self, x: int) -> bool:
        shared = self.shared.list
        good = True
        for i in range(20):
            shared.insert(x, f"the text {self.number} {i}") if i % 2 else shared.append([x])
            self.in_list += 1
        good &= all(type(item) in (str, tuple) for item in shared[3:40:2])
        for _ in range(18):
            try:
                good &= type(shared.pop(-1 if x % 2 else 0)) in (str, tuple)
                self.in_list -= 1
            except IndexError:
                pass
        return good and (x % 100 != 0 or len(repr(shared)) > 1)

    def shared_dict(self, x: int) -> bool:
        shared = self.shared.dict
        key = f"{self.number}, {x}"
        good = key not in shared
        shared[key] = [x, "a longer text"]
        shared[x % 7] = self.number
        good &= shared[key] == (x, "a longer text") and 0 <= shared.get(x % 7, 0) < 1000
        good &= all(type(k) in (str, int) for k in shared)
        return good and shared.pop(key) == (x, "a longer text") and shared.pop(key, None) is None

    def lent(self, x: int) -> bool:
        return bool(self.functions.lend(lambda a: a.shape) == 6.0)

    def wrong_call(self, x: int) -> bool:
        try:
            self.hand.nop([x])
        except TypeError as caught:
            return "argument 0 `x`" in str(caught)
        return False


def stress(
    functions: Module, hand: Module, threads: int, seconds: float, forks: bool = False
) -> tuple[int, list[str]]:
    """How many calls there were, and which of them went wrong."""
    shared = Shared()
    work = [Stress(functions, hand, shared, number) for number in range(threads)]
    if forks:
        warnings.simplefilter("ignore", DeprecationWarning)  # Python advises against it
        for each in work:
            each.actions = each.actions * 20 + [each.fork]
        # Locks of Python's imports do not survive a fork: whatever is imported late is there now.
        for action in work[0].actions[:-1]:
            action(0)
    running = [threading.Thread(target=each.run, args=(seconds,)) for each in work]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    wrong = [text for each in work for text in each.wrong]
    left, kept = len(shared.list), sum(each.in_list for each in work)
    if left != kept:
        wrong.append(f"the shared list has {left} elements, {kept} were left in it")
    return sum(each.calls for each in work), wrong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--cflags", default="", help="for the modules that are called")
    parser.add_argument("--fork", action="store_true", help="fork in the middle")
    options = parser.parse_args()
    if options.fork and provider() == "tvm_ffi":
        raise SystemExit("--fork needs KDSL_RUNTIME=bundled")
    with tempfile.TemporaryDirectory() as folder:
        functions, hand = (build(Path(folder), n, options.cflags) for n in ("functions", "hand"))
        calls, wrong = stress(functions, hand, options.threads, options.seconds, options.fork)
    print(f"{calls} calls on {options.threads} threads, {len(wrong)} of them wrong")
    if wrong:
        raise SystemExit("\n".join(wrong))


if __name__ == "__main__":
    main()
