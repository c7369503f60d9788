"""Millions of calls of every kind: the process must not grow.

`--calls` in all, the cheap kinds more often, and a tenth more of each before it is looked at. What
is printed is by how much the resident memory grew meanwhile; more than `--limit` KiB is status 1.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path
from typing import Any

from tools.stress import build

from kdsl.runtime import Dict, List, Module, convert, load_module


def resident_kib() -> int:
    """Resident memory of this process in KiB."""
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4


class OwnError(Exception):
    pass


def fail(*args: object) -> None:
    raise OwnError(args)


def raising(function: Callable[..., object], *args: object) -> Callable[[], None]:
    """A call that is expected to raise."""

    def call() -> None:
        try:
            function(*args)
        except (OwnError, IndexError, TypeError):
            return
        raise AssertionError("no error")

    return call


def kinds(functions: Module, hand: Module) -> Iterator[tuple[str, Callable[[], object], int]]:
    """(name, call, how many times rarer it is made): starting a thread takes its time."""
    import numpy as np

    x: Any = np.ones(16, np.float32)
    text, nested = "a text of some length", [1, ["a longer text", None], {"k": (1.5, b"bytes")}]
    double = convert(lambda y: y)
    shared, table = List(nested), Dict(a=nested)

    def change() -> None:
        shared.append(text)
        shared[0:1] = [shared.pop(), text]
        del shared[1], table["a"]
        table["a"] = shared[:1]

    yield "nop", hand.three, 1
    yield "3 ints", lambda: hand.three(1, 2, 3), 1
    yield "keywords", lambda: hand.three(c=3, a=1), 1
    yield "str", lambda: hand.echo(text), 1
    yield "NumPy arrays", lambda: hand.nop(x, x, x), 1
    yield "returned array", lambda: hand.scale(x, 2.0), 1
    yield "tuple of arrays", lambda: hand.pair(x), 2
    yield "containers", lambda: functions.echo(nested), 10
    yield "List and Dict", change, 20
    yield "callback", lambda: functions.apply(lambda y: y, text), 2
    yield "converted callback", lambda: functions.apply(double, 3), 2
    yield "callback with array", lambda: functions.apply(lambda y: y, x), 4
    yield "callback on a new thread", lambda: functions.elsewhere(lambda y: y, text), 50
    yield "lent memory", lambda: functions.lend(lambda y: None), 10
    yield "returned function", lambda: functions.adder(1)(2), 2
    yield "exception", raising(hand.fail, "IndexError", text), 2
    yield "exception of a callback", raising(functions.apply, fail, text), 10
    yield "exception of another thread", raising(functions.elsewhere, fail, text), 50
    yield "wrong argument", raising(hand.nop, nested), 50
    yield "loading again", lambda: load_module(hand.path)["three"](), 500
    try:
        import torch
    except ImportError:
        return
    t: Any = torch.ones(16)
    yield "Torch tensors", lambda: hand.nop(t, t, t), 1
    yield "returned tensor", lambda: hand.scale(t, 2.0), 10


def grown(call: Callable[[], object], count: int) -> int:
    """KiB that `count` calls leave behind."""
    for _ in range(max(100, count // 10)):
        call()
    gc.collect()
    before = resident_kib()
    for _ in range(count):
        call()
    gc.collect()
    return resident_kib() - before


def campaign(functions: Module, hand: Module, calls: int) -> dict[str, int]:
    """KiB of growth by kind of call."""
    every = list(kinds(functions, hand))
    common = calls / sum(1 / rare for _, _, rare in every)
    return {name: grown(call, max(50, ceil(common / rare))) for name, call, rare in every}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--calls", type=int, default=10_000_000)
    parser.add_argument("--limit", type=int, default=1024, help="KiB (%(default)s)")
    options = parser.parse_args()
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        functions, hand = (build(Path(folder), name, "-O1") for name in ("functions", "hand"))
        growth = campaign(functions, hand, options.calls)
    for name, kib in growth.items():
        print(f"{name:30} {kib:6} KiB")
    total = sum(growth.values())
    print(f"{f'{options.calls} calls':30} {total:6} KiB in {time.monotonic() - start:.0f} s")
    if total > options.limit:
        raise SystemExit(f"the process grew by more than {options.limit} KiB")


if __name__ == "__main__":
    main()
