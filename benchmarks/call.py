"""What a call costs: kdsl beside apache-tvm-ffi, pybind11, nanobind, ctypes, torch.ops, bare C.

One run, everyone in turn. Both runtimes release the GIL, as they do by default; pybind11 and
nanobind do too, a bare METH_FASTCALL method does not. Nanoseconds of CPU time per call, the least
of all turns; the loop's own 20 ns are in every column. The ratio is kdsl's time over
apache-tvm-ffi's of the same turn: the median, and in brackets where 8 of 10 turns lie.

"callback" passes a Python function and calls it once; the row below it calls one 100 times and
divides. kdsl's checks are part of its columns: whether a Torch tensor requires grad or is lazily
conjugated, whether memory is there and aligned. `differentiable=False` is a function that says it
has no gradient, and takes tensors that require one.

"exception" is the row that is asked for: a packed function reports an error through the C API, and
Python catches it. "C++ throw" is a C++ function that throws, built with each runtime's own headers;
in "C++ throw, their headers" both call the same file, made with apache-tvm-ffi's: of that time the
row below it is spent in C++ and in libtvm_ffi.so, before either runtime sees the error.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import peers
import torch
import tvm_ffi
from harness import machine

import kdsl
import kdsl.runtime
from kdsl import Out, f32

CALLBACKS = 100  # in one call
EACH = "callback, each of 100"
FOREIGN = "C++ throw, their headers"
THROWN = "of it in C++, each of 100"

#: row: (most that the ratio may be, what would be good).
GOALS: dict[str, tuple[float, float]] = {
    "nop": (0.80, 0.70),
    "3 ints": (0.70, 0.70),
    "3 torch": (0.80, 0.65),
    "3 torch, differentiable=False": (0.45, 0.45),
    "3 numpy": (0.40, 0.20),
    "3 jax": (0.25, 0.25),
    "returned torch tensor": (0.90, 0.90),
    "callback": (0.75, 0.75),
    EACH: (0.75, 0.75),
    "exception": (0.35, 0.35),
    "C++ throw": (0.35, 0.35),
    "jitted kernel, 3 torch": (1.00, 1.00),
}
SIZE = 16
(N,) = kdsl.dims("N")

Call = tuple[Callable[..., object], tuple[object, ...]]


@kdsl.kernel
def add(x: f32[N], y: f32[N], o: Out[f32[N]]):
    """A kernel that does next to nothing: what is left is the call."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] + y[n]


def callback() -> None:
    """What native code calls."""


def arrays() -> dict[str, Any]:
    return {
        "torch": torch.ones(SIZE),
        "numpy": np.ones(SIZE, np.float32),
        "jax": jnp.ones(SIZE),
    }


def of_module(
    module: Any, own: Any, thrower: Any, kernel: Any, values: dict[str, Any]
) -> dict[str, Call]:
    """The rows of a runtime that has loaded these."""
    t, x, j = values["torch"], values["numpy"], values["jax"]
    return {
        "nop": (module.nop, ()),
        "3 ints": (module.ints, (1, 2, 3)),
        "str": (module.text, ("some text",)),
        "3 torch": (module.tensors, (t, t, t)),
        "3 torch, differentiable=False": (module.constants, (t, t, t)),
        "3 numpy": (module.tensors, (x, x, x)),
        "3 jax": (module.tensors, (j, j, j)),
        "returned torch tensor": (module.like, (t,)),
        "callback": (module.repeat, (1, callback)),
        EACH: (module.repeat, (CALLBACKS, callback)),
        "exception": (module.fail, ()),
        "C++ throw": (own.throws, ()),
        FOREIGN: (thrower.throws, ()),
        THROWN: (thrower.caught, (CALLBACKS,)),
        "jitted kernel, 3 torch": (kernel, (t, t, t)),
    }


def contestants(rows: list[str]) -> dict[str, dict[str, Call]]:
    """Everyone's calls by row; whoever cannot be built here is left out, with a word why."""
    values = arrays()
    add(*[values["torch"]] * 3)  # compiles
    exported = peers.BUILT / "add.so"
    exported.parent.mkdir(parents=True, exist_ok=True)
    add.export(exported)
    thrower = str(peers.official())
    load, load_theirs = kdsl.runtime.load_module, tvm_ffi.load_module
    ours, native = load(peers.module("kdsl")), load(peers.native())
    theirs, foreign = load_theirs(str(peers.module("tvm_ffi"))), load_theirs(thrower)
    their_add = load_theirs(str(exported)).add
    everyone = {
        "kdsl": of_module(ours, native, load(thrower), add, values),
        "tvm_ffi": of_module(theirs, foreign, foreign, their_add, values),
    }
    for name, make in peers.PEERS.items():
        try:
            everyone[name] = make(values, callback, CALLBACKS)
        except (ImportError, OSError, peers.BuildError) as err:
            print(f"no column {name}: {err}", file=sys.stderr)
    unknown = set(rows) - set(everyone["kdsl"])
    if unknown:
        known = ", ".join(everyone["kdsl"])
        raise SystemExit(f"no row {', '.join(sorted(unknown))}; there are {known}")
    return everyone


def turn(function: Callable[..., object], args: tuple[object, ...], count: int) -> float:
    """Nanoseconds of CPU time per call."""
    calls = range(count)
    start = time.process_time_ns()
    for _ in calls:
        function(*args)
    return (time.process_time_ns() - start) / count


def failing_turn(function: Callable[..., object], args: tuple[object, ...], count: int) -> float:
    """The same where each call raises."""
    calls = range(count)
    start = time.process_time_ns()
    for _ in calls:
        try:
            function(*args)
        except (ValueError, RuntimeError):
            continue
        raise AssertionError("no error")
    return (time.process_time_ns() - start) / count


def measure(row: str, calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """Each contestant's nanoseconds, round by round; the order turns round every time."""
    clock = failing_turn if row.startswith(("exception", "C++ throw")) else turn
    each = CALLBACKS if row in (EACH, THROWN) else 1
    counts: dict[str, int] = {}
    for name, (function, args) in calls.items():
        clock(function, args, 3)
        once = clock(function, args, 20)
        counts[name] = max(5, min(20000, int(1.0e6 / max(once, 20.0))))
    times: dict[str, list[float]] = {name: [] for name in calls}
    order = list(calls)
    for number in range(rounds):
        for name in order if number % 2 == 0 else reversed(order):
            function, args = calls[name]
            times[name].append(clock(function, args, counts[name]) / each)
    return times


def summary(row: str, times: dict[str, list[float]]) -> dict[str, Any]:
    ratios = sorted(a / b for a, b in zip(times["kdsl"], times["tvm_ffi"], strict=True))
    tenth = len(ratios) // 10
    facts: dict[str, Any] = {"min": {name: min(values) for name, values in times.items()}}
    facts["median"] = {name: statistics.median(values) for name, values in times.items()}
    facts["ratio"] = statistics.median(ratios)
    facts["spread"] = [ratios[tenth], ratios[-1 - tenth]]
    if row in GOALS:
        facts["goal"] = GOALS[row]
    return facts


def verdict(facts: dict[str, Any]) -> str:
    if "goal" not in facts:
        return ""
    most, good = facts["goal"]
    if facts["ratio"] > most:
        return f"goal {most:.2f} MISSED"
    return f"goal {most:.2f} met" + (f", {good:.2f} too" if facts["ratio"] <= good < most else "")


def show(table: dict[str, dict[str, Any]], columns: list[str]) -> None:
    width = max(map(len, table))
    print(" " * width + "".join(f"{name:>15}" for name in columns) + "   kdsl / tvm_ffi")
    for row, facts in table.items():
        cells = (facts["min"].get(name) for name in columns)
        text = "".join(f"{'-' if ns is None else f'{ns:.0f}':>15}" for ns in cells)
        low, high = facts["spread"]
        ratio = f"{facts['ratio']:.2f} ({low:.2f} to {high:.2f})"
        print(f"{row:{width}}{text}   {ratio}  {verdict(facts)}")


def show_floor(table: dict[str, dict[str, Any]]) -> None:
    """What no Python binding can save in the row whose file is made with their headers."""
    if THROWN not in table or FOREIGN not in table:
        return
    whole, native = (table[row]["min"]["kdsl"] for row in (FOREIGN, THROWN))
    print(
        f'"{FOREIGN}": {native:.0f} of {whole:.0f} ns are its own C++ and libtvm_ffi.so; '
        'the row asked for is "exception"'
    )


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all numbers there")
    parser.add_argument("--rounds", type=int, default=40, help="turns of each (%(default)s)")
    parser.add_argument("--rows", nargs="+", default=[], metavar="ROW", help="these rows only")
    options = parser.parse_args()
    everyone = contestants(options.rows)
    print(machine(), "- nanoseconds per call")
    table = {}
    for row in options.rows or everyone["kdsl"]:
        calls = {name: rows[row] for name, rows in everyone.items() if row in rows}
        table[row] = summary(row, measure(row, calls, options.rounds))
    show(table, list(everyone))
    show_floor(table)
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")


if __name__ == "__main__":
    main()
