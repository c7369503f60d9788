"""What a call costs: kdsl's runtime against apache-tvm-ffi's on the same module, turn by turn.

`--json FILE` writes all numbers; `--rounds N` measures longer. Nanoseconds per call, the loop's own
20 ns included on both sides.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import torch
import tvm_ffi
from harness import machine

import kdsl
import kdsl.runtime
from kdsl import Out, f32

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "tests" / "runtime" / "modules" / "hand.c"
GOALS = {
    "nop, 3 torch tensors": 0.9,
    "nop, 3 NumPy arrays": 0.5,
    "jitted kernel, 3 torch tensors": 1.5,
}
SIZE = 16
(N,) = kdsl.dims("N")


@kdsl.kernel
def add(x: f32[N], y: f32[N], o: Out[f32[N]]):
    """A kernel that does next to nothing: what is left is the call."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] + y[n]


#: name: (our function, theirs, arguments, calls per turn).
Rows = dict[str, tuple[Any, Any, tuple[object, ...], int]]


def build(folder: Path) -> Path:
    """The test module, optimised."""
    out = folder / "hand.so"
    compiler = shutil.which("gcc") or "cc"
    flags = ["-std=c11", "-O2", "-shared", "-fPIC", f"-I{ROOT / 'include'}"]
    subprocess.run([compiler, *flags, str(SOURCE), "-o", str(out)], check=True)
    return out


def time_calls(function: Callable[..., object], args: tuple[object, ...], count: int) -> float:
    """Nanoseconds of CPU time per call."""
    turns = range(count)
    start = time.process_time_ns()
    for _ in turns:
        function(*args)
    return (time.process_time_ns() - start) / count


def failing(function: Callable[..., object]) -> Callable[..., object]:
    """A call that is expected to raise."""

    def call(*args: object) -> None:
        try:
            function(*args)
        except ValueError:
            return
        raise AssertionError("no error")

    return call


def rows(ours: Any, theirs: Any) -> Rows:
    """Functions of one module that both load."""
    t, n, j = torch.ones(SIZE), np.ones(SIZE, np.float32), jnp.ones(SIZE)
    mine, other = ours.nop, theirs.nop
    return {
        "nop": (ours.three, theirs.three, (), 20000),
        "nop, 3 ints": (ours.three, theirs.three, (1, 2, 3), 20000),
        "nop, 3 torch tensors": (mine, other, (t, t, t), 10000),
        "nop, 3 torch views": (mine, other, (t[1:], t[1:], t[1:]), 10000),
        "nop, 3 NumPy arrays": (mine, other, (n, n, n), 10000),
        "nop, 2 JAX arrays": (mine, other, (j, j), 1000),
        "error": (failing(ours.fail), failing(theirs.fail), ("ValueError", "text"), 300),
    }


def alone(ours: Any) -> dict[str, tuple[Any, tuple[object, ...], int]]:
    """Rows without a peer: apache-tvm-ffi returns neither NumPy's kind nor JAX's, and in a module
    that our loader has filled it takes our memory for results."""
    n, j, t = np.ones(SIZE, np.float32), jnp.ones(SIZE), torch.ones(SIZE)
    return {
        "returned torch tensor": (ours.scale, (t,), 5000),
        "returned NumPy array": (ours.scale, (n,), 5000),
        "returned JAX array": (ours.scale, (j,), 500),
        "torch.empty_like, for comparison": (torch.empty_like, (t,), 5000),
    }


def jitted(theirs: Any) -> Rows:
    """The jitted kernel, against what apache-tvm-ffi makes of its exported module."""
    t, n = torch.ones(SIZE), np.ones(SIZE, np.float32)
    add(t, t, t)  # compiles
    return {
        "jitted kernel, 3 torch tensors": (add, theirs.add, (t, t, t), 10000),
        "jitted kernel, 3 NumPy arrays": (add, theirs.add, (n, n, n), 10000),
    }


def compare(table: Rows, ours: Any, rounds: int) -> dict[str, dict[str, float]]:
    """Measure every row, print one line each, return the numbers."""
    results: dict[str, dict[str, float]] = {}
    for name, (mine, other, args, count) in table.items():
        times: tuple[list[float], list[float]] = ([], [])
        for turn in range(rounds):
            for side in (0, 1) if turn % 2 == 0 else (1, 0):
                times[side].append(time_calls((mine, other)[side], args, count))
        a, b = times
        ratios = sorted(x / y for x, y in zip(a, b, strict=True))
        numbers = {
            "kdsl_min": min(a),
            "tvm_ffi_min": min(b),
            "kdsl_median": statistics.median(a),
            "tvm_ffi_median": statistics.median(b),
            "ratio_min": min(a) / min(b),
            "ratio_median": statistics.median(ratios),
            "ratio_low": ratios[len(ratios) // 10],
            "ratio_high": ratios[-1 - len(ratios) // 10],
        }
        results[name] = numbers
        goal = GOALS.get(name)
        met = "met" if goal and numbers["ratio_median"] <= goal else "MISSED"
        print(
            f"{name:34} {numbers['kdsl_min']:8.0f} ns | tvm_ffi {numbers['tvm_ffi_min']:8.0f} ns | "
            f"ratio of mins {numbers['ratio_min']:.2f}, median {numbers['ratio_median']:.2f} "
            f"({numbers['ratio_low']:.2f} to {numbers['ratio_high']:.2f})"
            + (f"  goal {goal:.2f}: {met}" if goal else ""),
            flush=True,
        )
    for name, (function, args, count) in alone(ours).items():
        seen = [time_calls(function, args, count) for _ in range(rounds)]
        results[name] = {"kdsl_min": min(seen), "kdsl_median": statistics.median(seen)}
        print(f"{name:34} {min(seen):8.0f} ns", flush=True)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--json", type=Path, help="write the numbers there")
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        path = build(Path(folder))
        ours, theirs = kdsl.runtime.load_module(path), tvm_ffi.load_module(str(path))
        exported = Path(folder) / "add.so"
        add.export(exported)
        table = rows(ours, theirs) | jitted(tvm_ffi.load_module(str(exported)))
        results = compare(table, ours, options.rounds)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
