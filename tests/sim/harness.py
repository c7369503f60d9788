"""Tiny PTX kernels around a few instructions, run lane by lane."""

from __future__ import annotations

import numpy as np

from kdsl import sim

LANES = 32
_BYTES = {"8": 1, "16": 2, "32": 4, "64": 8}

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"

#: Registers that every snippet finds: its lane, and one of each kind to work with.
DECLARED = """
  .reg .pred %p<20>; .reg .b16 %h<40>; .reg .b32 %r<80>; .reg .b64 %rd<80>;
  .reg .f32 %f<40>; .reg .f64 %d<40>;
"""


def kernel(body: str, pointers: int, *, outside: str = "", name: str = "k") -> str:
    """PTX of one kernel with that many pointers; %rd0.. are the pointers plus 8 * thread."""
    params = ", ".join(f".param .u64 p{n}" for n in range(pointers))
    loads = "\n".join(
        f"  ld.param.u64 %rd{n}, [p{n}]; cvta.to.global.u64 %rd{n}, %rd{n}; "
        f"add.s64 %rd{n}, %rd{n}, %rd79;"
        for n in range(pointers)
    )
    return f"""{HEAD}{outside}
.visible .entry {name}({params}) {{
{DECLARED}
  mov.u32 %r79, %tid.x; mul.wide.u32 %rd79, %r79, 8;
{loads}
{body}
  ret;
}}
"""


def lanes(body: str, *inputs: np.ndarray, threads: int = LANES, outside: str = "") -> np.ndarray:
    """Run `body` with %rd0 at an i64 for results and %rd1.. at the inputs; the results.

    Each thread has eight bytes of each array.
    """
    words = [np.zeros(threads, np.uint64) for _ in range(len(inputs) + 1)]
    for word, values in zip(words[1:], inputs, strict=True):
        view = word.view(values.dtype).reshape(threads, -1)
        view[:, 0] = np.resize(values, threads)
    run = sim.run(kernel(body, len(words), outside=outside), "k", 1, threads, words, threads=1)
    assert not run.reports, run
    return words[0]


def binary(op: str, a: np.ndarray, b: np.ndarray, out: np.dtype | type | None = None) -> np.ndarray:
    """`op d, a, b` for 32 pairs, values in registers of the arrays' types."""
    return apply(op, [a, b], out or a.dtype)


def apply(op: str, operands: list[np.ndarray], out: np.dtype | type, tail: str = "") -> np.ndarray:
    """`op d, operands...tail` for as many lanes as the operands have values."""
    result = np.dtype(out)
    body = []
    names = []
    for n, values in enumerate(operands):
        name = _register(values.dtype, n + 1)
        body.append(f"ld.global.{_memory_type(values.dtype)} {name}, [%rd{n + 1}];")
        names.append(name)
    to = _register(result, 0)
    body.append(f"{op} {to}, {', '.join(names)}{tail};")
    body.append(f"st.global.{_memory_type(result)} [%rd0], {to};")
    count = max(map(len, operands))
    words = lanes("\n".join(body), *operands, threads=count)
    return words.view(result).reshape(count, -1)[:, 0].copy()


def _register(dtype: np.dtype, n: int) -> str:
    if dtype == np.float32:
        return f"%f{n}"
    if dtype == np.float64:
        return f"%d{n}"
    return {1: "%h", 2: "%h", 4: "%r", 8: "%rd"}[dtype.itemsize] + str(n + 10)


def _memory_type(dtype: np.dtype) -> str:
    kind = "u" if dtype.itemsize == 1 else "b"
    kind = "s" if dtype == np.int8 else kind
    return f"{kind}{8 * dtype.itemsize}"
