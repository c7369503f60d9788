"""One attention kernel, called from four frameworks, beside torch's own: what `make demo` runs."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch
import tvm_ffi
from attention import attention

import kdsl

BATCH, HEADS, LENGTH, DIM = 1, 8, 1024, 128
SCALE = DIM**-0.5
ROUNDS = 5

WIDTHS = (18, 5, 14, 8, 7, 7)

Array = np.ndarray
Call = Callable[[], object]
#: caller, dtype, case, error, seconds
Row = tuple[str, str, str, float, float]


@dataclass(frozen=True)
class Case:
    """One problem: its inputs as NumPy arrays, and the answer in float64."""

    title: str
    dtype: str
    causal: bool
    q: Array
    k: Array
    v: Array
    want: Array


def make_case(title: str, dtype: str, *, causal: bool, groups: int) -> Case:
    """Normally distributed inputs, rounded to `dtype` before the float64 answer is computed."""
    rng = np.random.default_rng(0)
    kind = np.float32 if dtype == "f32" else ml_dtypes.bfloat16
    q, k, v = (
        rng.standard_normal((BATCH, heads, LENGTH, DIM), dtype=np.float32).astype(kind)
        for heads in (HEADS, groups, groups)
    )
    return Case(title, dtype, causal, q, k, v, exact(q, k, v, causal))


def exact(q: Array, k: Array, v: Array, causal: bool) -> Array:
    """Attention in float64."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * SCALE
    if causal:
        s = np.where(np.tri(LENGTH, dtype=bool), s, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return p @ v / p.sum(axis=-1, keepdims=True)


def to_torch(x: Array) -> torch.Tensor:
    # torch reads no bfloat16 from NumPy; the bits are the same.
    if x.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def callers(case: Case, module: tvm_ffi.Module) -> Iterator[tuple[str, Call]]:
    """(name, function of no arguments that returns o) for each framework, and torch's own."""
    arrays = (case.q, case.k, case.v)
    tensors = tuple(to_torch(x) for x in arrays)
    jax_arrays = tuple(jnp.asarray(x) for x in arrays)
    sdpa = torch.nn.functional.scaled_dot_product_attention
    causal = case.causal
    yield "numpy", lambda: attention(*arrays, SCALE, causal=causal)[0]
    yield "torch", lambda: attention(*tensors, SCALE, causal=causal)[0]
    yield "jax", lambda: attention(*jax_arrays, SCALE, causal=causal)[0]
    # apache-tvm-ffi knows positions only: signature order, None for an output it shall make.
    yield "apache-tvm-ffi", lambda: module.attention(*tensors, SCALE, None, None, causal)[0]
    yield "torch SDPA", lambda: sdpa(*tensors, scale=SCALE, is_causal=causal, enable_gqa=True)


def to_numpy(x: object) -> Array:
    if not isinstance(x, (np.ndarray, jax.Array)):
        return torch.from_dlpack(x).to(torch.float64).numpy()
    return np.asarray(x).astype(np.float64)


def measure(case: Case, module: tvm_ffi.Module) -> list[Row]:
    """One row a caller; they take turns, the best turn counts."""
    calls = dict(callers(case, module))
    size = np.abs(case.want).max()
    errors = {
        name: float(np.abs(to_numpy(call()) - case.want).max() / size)
        for name, call in calls.items()
    }
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            best[name] = min(best[name], time.perf_counter() - start)
    return [(name, case.dtype, case.title, errors[name], best[name]) for name in calls]


def progress(text: str = "", start: float | None = None) -> None:
    """A line that the next one overwrites; given `start`, one that stays and says how long."""
    if start is not None:
        print(f"{text} {time.perf_counter() - start:.1f} s", flush=True)
    elif sys.stdout.isatty():
        print(f"{text + ' ...' if text else '':90}", end="\r", flush=True)


def compile_kernel(folder: Path) -> tvm_ffi.Module:
    """Export what the table needs to one .so, and open it with the official runtime."""
    text = "compiling attention to one .so: f32 and bf16, causal and not, every CPU variant"
    progress(text)
    start = time.perf_counter()
    path = folder / "attention.so"
    attention.export(path, dtypes={"T": [kdsl.f32, kdsl.bf16]}, dims={"D": [DIM]})
    progress(text, start)
    return tvm_ffi.load_module(str(path))


def line(fields: Sequence[str]) -> str:
    """Names to the left, numbers to the right."""
    columns = zip(fields, WIDTHS, strict=True)
    return "  ".join(f"{f:{'<' if i < 3 else '>'}{width}}" for i, (f, width) in enumerate(columns))


def print_table(rows: list[Row]) -> None:
    print(line(("case", "dtype", "caller", "error", "ms", "x SDPA")))
    peers = {(title, dtype): t for name, dtype, title, _, t in rows if name == "torch SDPA"}
    group = None
    for name, dtype, title, error, seconds in rows:
        if group != (group := (title, dtype)):
            print("-" * (sum(WIDTHS) + 2 * len(WIDTHS) - 2))
        ratio = seconds / peers[group]
        print(line((title, dtype, name, f"{error:.1e}", f"{seconds * 1e3:.1f}", f"{ratio:.2f}")))


def main() -> None:
    threads = os.environ.get("KDSL_NUM_THREADS") or torch.get_num_threads()
    print(
        f"kdsl {kdsl.__version__}, torch {torch.__version__}, jax {jax.__version__}, "
        f"apache-tvm-ffi {tvm_ffi.__version__}; {platform.machine()}, {threads} threads"
    )
    print(
        f"q is ({BATCH}, {HEADS}, {LENGTH}, {DIM}); error is the largest difference from float64 "
        "over the\nlargest value; ms is the best of "
        f"{ROUNDS} calls that took turns with the others'."
    )
    with tempfile.TemporaryDirectory() as folder:
        module = compile_kernel(Path(folder))
        rows = []
        for dtype in ("f32", "bf16"):
            for title, causal, groups in (
                ("full", False, HEADS),
                ("causal", True, HEADS),
                ("grouped, 4 per key", False, HEADS // 4),
                ("grouped, causal", True, HEADS // 4),
            ):
                progress(f"running {dtype} {title}")
                rows += measure(make_case(title, dtype, causal=causal, groups=groups), module)
        progress()
        print_table(rows)


if __name__ == "__main__":
    main()
