"""Calls that are wrong, each of them made, for docs/errors.md."""

from __future__ import annotations

import functools
import linecache
from dataclasses import dataclass

#: What the calls are of. It is shown on the page.
KERNELS = """\
import numpy as np
import jax.numpy as jnp
import torch

import kdsl
from kdsl import InOut, Out, Static, bf16, f32, i64

T = kdsl.dtypes("T", f32, bf16)
M, N, D, G = kdsl.dims("M N D G")


@kdsl.kernel
def rows(x: T[M, N], w: T[N], by: f32, o: Out[T[M, N]], s: Out[f32[M]],
         *, flip: Static[bool] = False):
    kdsl.require(by > 0)
    for m in kdsl.parallel(M):
        row = x[m] * w[:] * by
        o[m] = -row if flip else row
        s[m] = row.sum()


@kdsl.kernel
def take(ids: i64[M], table: f32[N, D], o: Out[f32[M, D]]):
    for m in kdsl.parallel(M):
        o[m] = table[ids[m]]


@kdsl.kernel
def double(x: InOut[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        x[n] = x[n] * 2


@kdsl.kernel
def groups(x: f32[N], G: i64, o: Out[f32[N // G]]):
    for g in kdsl.parallel(N // G):
        o[g] = x[g]


x, w = np.ones((2, 3), np.float32), np.ones(3, np.float32)
frozen = w.copy()
frozen.flags.writeable = False
"""


@dataclass(frozen=True)
class Group:
    """Calls that are wrong in one way."""

    about: str
    calls: tuple[str, ...]


def kernel(line: str) -> str:
    """A kernel of one line, compiled as far as its plan."""
    return f"""\
@kdsl.kernel
def k(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        {line}


k.show("plan")
"""


GROUPS = {
    "Compiling": Group(
        "A body is looked at when its kernel is first compiled; `show` does that much. What a "
        "target does not have is said in the same way, and runs under `kernel.reference`.",
        (
            kernel("o[n] = x[n + 1]"),
            kernel("o[n] = x[N]"),
            kernel("o[0] = x[n].sum()"),
            kernel("o[n] = o[n] + x[n]"),
        ),
    ),
    "Count and names": Group(
        "Each input has to come, once, and nothing else. Outs come all together or not at all.",
        (
            "rows(x)",
            "rows(x, w, 1.0, None, None, False, None)",
            "rows(x, by=1.0, o=None, s=None)",
            "rows(x, w, 1.0, scale=2.0)",
            "rows(x, w, 1.0, x=x)",
            "rows(x, w, 1.0, x.copy())",
        ),
    ),
    "Kinds": Group(
        "A tensor is an array of NumPy, Torch, JAX, or anything with DLPack or a buffer; lists are "
        "not converted. A number is no tensor, and a bool is no number.",
        (
            "rows([[1.0, 2.0, 3.0]], w, 1.0)",
            "rows(None, w, 1.0)",
            "rows(x, 3, 1.0)",
            "rows(x, w, True)",
            'rows(x, w, "1")',
            "rows(x, w, 1.0, flip=1)",
            "take(np.array([0]), np.ma.masked_array(x, x > 0))",
        ),
    ),
    "Dtypes and axes": Group(
        "Nothing is converted behind the caller's back: `.astype(...)` or `.to(...)` the argument. "
        "Dims and dtypes that earlier arguments have bound are shown.",
        (
            "rows(x.astype(np.float64), w, 1.0)",
            "rows(x, torch.ones(3, dtype=torch.bfloat16), 1.0)",
            "rows(x, x, 1.0)",
            "rows(x[0], w, 1.0)",
            'double(w.astype(">f4"))',
        ),
    ),
    "Sizes and ranges": Group(
        "A dim has one size in a call. The first argument that has it as an axis binds it.",
        (
            "rows(x, w[:2], 1.0)",
            "rows(x, w, 1.0, np.empty((3, 3), np.float32), np.empty(2, np.float32))",
            "rows(x, w, 1e300)",
            "groups(w, -1)",
        ),
    ),
    "Conditions": Group(
        "`require` is checked before anything runs, and division by a size of 0 is no size.",
        ("rows(x, w, -1.0)", "groups(w, 0)"),
    ),
    "Indices that a kernel computes": Group(
        "They are checked as they are used. Negative ones are outside: only a literal `x[-1]` "
        "counts from the end. Outputs may be half written then.",
        ("take(np.array([0, 2]), x)", "take(np.array([-1]), x)"),
    ),
    "Outputs and memory": Group(
        "An output needs memory of its own that may be written, no element of it shared.",
        (
            "double(frozen)",
            "rows(x, w, 1.0, x[::-1], np.empty(2, np.float32))",
            "rows(x, w, 1.0, torch.zeros(3).expand(2, 3), torch.empty(2))",
            "j = jnp.ones((2, 3)); rows(j, j[0], 1.0, j, j[:, 0])",
            "double(torch.frombuffer(bytearray(16), dtype=torch.float32, offset=1, count=3))",
        ),
    ),
    "Torch": Group(
        "A tensor whose value is not what its memory holds, or that autograd watches, is refused.",
        (
            "rows(torch.ones(2, 3, requires_grad=True), torch.ones(3), 1.0)",
            "double(torch.ones(3, dtype=torch.complex64).conj().imag)",
            'double(torch.ones(3, device="meta"))',
        ),
    ),
    "JAX": Group(
        "What JAX traces has no value yet. `jax.pure_callback` calls a kernel when it has.",
        ("import jax; jax.jit(double)(jnp.ones(3))",),
    ),
    "The reference run": Group(
        "`kernel.reference` takes NumPy arrays. It checks as a call does, and watches that "
        "iterations are independent.",
        ("rows.reference(x, w, -1.0)", "take.reference(np.array([2]), x)"),
    ),
    "Tuning, showing, exporting": Group(
        "Names of loops, dims, dtype variables and statics are the kernel's own.",
        (
            'double.tune("cpu", tiles={"m": 64})',
            'double.tune("cpu", tiles={"n": 0})',
            'double.tune("gpu", tiles={"n": 64})',
            'double.show("ptx")',
            'rows.export("rows.so", dims={"N": [64]})',
            'rows.export("rows.so", dtypes={"T": f32})',
            'rows.export("rows.so", statics={"flip": []})',
            'rows.export("rows")',
            'rows.export("rows.h")',
            'rows.export("/proc/rows.so")',
            'kdsl.export("kernels.so", [rows, take], dtypes={"U": [f32]})',
            'kdsl.export("kernels.so", [])',
            'kdsl.export("kernels.so", [take, take])',
        ),
    ),
    "Names": Group(
        "Dims and dtype variables are made with names.",
        ('kdsl.dims("M 2")', 'kdsl.dtypes("T")', "int(N)"),
    ),
}


@functools.cache
def namespace() -> dict[str, object]:
    """The kernels and arrays that the calls use."""
    names: dict[str, object] = {"__name__": "kernels"}
    run(KERNELS, "kernels.py", names)
    return names


def run(text: str, file: str, names: dict[str, object]) -> None:
    # Kernels need their text: this is where Python looks for text that is in no file.
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec"), names)


def made(call: str) -> str:
    """Class and text of what a call raises. Raises AssertionError if it raises nothing."""
    try:
        run(call, "call.py", dict(namespace()))
    except Exception as err:
        return f"{type(err).__name__}: {err}"
    raise AssertionError(f"{call} raises nothing")
