"""Each kernel of examples/ on CUDA, in the simulator: right, and without a report."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

import kdsl
from kdsl.dtypes import TensorType
from tests.cuda.launch import build, run
from tests.test_breadth import CASES, DTYPES, TOLERANCE, Problem, kernel


def picked() -> list[tuple[object, str, str, tuple[int, ...]]]:
    """One size of each kernel for most dtypes, the empty ones for f32 too."""
    groups = defaultdict(list)
    for make, name, dtype, size in CASES:
        groups[name, dtype].append((make, name, dtype, size))
    rows = []
    for (_, dtype), cases in groups.items():
        few = [cases[len(cases) // 2], cases[-1]]
        rows += [cases[0], *few] if dtype == "f32" else few[:1] if dtype == "f64" else few
    return rows


def specialisation(name: str, dtype: str, problem: Problem):
    """What a call would choose: (values by parameter, dtypes, statics, fixed dims)."""
    args, keywords, _ = problem
    compiler = kernel(name)._compiler
    signature = compiler.source.signature
    tensors = [p for p in signature.parameters if p.kind in ("in", "inout", "scalar")]
    values = {p.name: p.default for p in tensors if p.kind == "scalar"}
    values |= dict(zip((p.name for p in tensors), args, strict=False))
    values |= {n: v for n, v in keywords.items() if n in values}
    statics = {n: v for n, v in keywords.items() if n not in values}
    dtypes = {
        v.name: getattr(kdsl, dtype)
        for v in signature.dtype_vars
        if getattr(kdsl, dtype) in v.choices
    }
    fixed = compiler.fixed_dims(compiler.default(dtypes, statics, {}))
    dims = {
        str(extent): size
        for p in tensors
        if isinstance(p.type, TensorType)
        for extent, size in zip(p.type.shape, np.shape(values[p.name]), strict=True)
        if str(extent) in fixed
    }
    return values, dtypes, statics, dims


@pytest.mark.parametrize(
    ("make", "name", "dtype", "size"), picked(), ids=lambda v: v if isinstance(v, str) else None
)
def test_an_example_is_right_and_nothing_is_reported(ptx_folder, make, name, dtype, size):
    problem = make(DTYPES[dtype], *size)
    values, dtypes, statics, dims = specialisation(name, dtype, problem)
    built = build(kernel(name), ptx_folder, dtypes=dtypes, statics=statics, dims=dims)
    out, runs, fault = run(built, values)
    assert [str(r) for phase in runs for r in phase.reports] == []
    assert fault[0] == 0
    order = [p.name for kind in ("inout", "out") for p in built.func.params if p.kind == kind]
    for got, want in zip((out[n] for n in order), problem[2], strict=True):
        largest = np.abs(want[np.isfinite(want)]).max(initial=0)
        np.testing.assert_allclose(
            got.astype(np.float64), want, rtol=0, atol=TOLERANCE[dtype] * max(largest, 1e-30)
        )
