"""The kernels that all tests share mean the same after the pipeline, over ragged sizes."""

import numpy as np
import pytest

from kdsl.dtypes import bf16, f32
from kdsl.frontend import capture, lower
from kdsl.ir.interp import run
from kdsl.ir.parser import parse
from kdsl.ir.printer import show
from kdsl.lang.arrays import numpy_dtype
from kdsl.passes import fixed_dims, run_pipeline, specialise
from tests.kernels import KERNELS

#: Sizes by dim, around the tile of 4 that these tests use.
SIZES = [
    {"B": 1, "H": 2, "G": 1, "M": 5, "N": 7, "D": 8, "K": 4},
    {"B": 2, "H": 2, "G": 2, "M": 4, "N": 3, "D": 3, "K": 9},
    {"B": 1, "H": 1, "G": 1, "M": 1, "N": 1, "D": 1, "K": 1},
    {"B": 1, "H": 3, "G": 3, "M": 2, "N": 0, "D": 2, "K": 0},
]
CASES = [
    (name, dtype, statics)
    for name in KERNELS
    for dtype in (f32, bf16)
    for statics in (({"causal": False}, {"causal": True}) if name == "attention" else ({},))
]


def arguments(func, sizes):
    rng = np.random.default_rng(1)
    values = {}
    for p in func.params:
        if p.kind == "scalar":
            values[p.name] = 0.25
            continue
        dtype = numpy_dtype(p.type.dtype)
        shape = tuple(e if isinstance(e, int) else sizes[e.name] for e in p.type.shape)
        values[p.name] = rng.standard_normal(shape).astype(dtype)
    return values


@pytest.mark.parametrize("sizes", SIZES, ids=lambda s: "x".join(map(str, s.values())))
@pytest.mark.parametrize(("name", "dtype", "statics"), CASES)
def test_the_pipeline_keeps_what_a_kernel_means(name, dtype, statics, sizes):
    func = lower(capture(KERNELS[name]), {"T": dtype}, statics)
    new = run_pipeline(specialise(func, {d: sizes[d] for d in fixed_dims(func)}))
    assert parse(show(new)) == new
    before, after = arguments(func, sizes), arguments(func, sizes)
    tiles = dict.fromkeys("mnk", 4)
    run(func, before, tiles)
    run(new, after, tiles)
    # sums in another order and fused multiply-adds: some ulp of f32, which can flip a bf16
    rtol = 1e-5 if dtype is f32 else 2**-7
    for p in func.params:
        if p.kind == "out":
            got, want = (v[p.name].astype(np.float64) for v in (after, before))
            np.testing.assert_allclose(got, want, rtol=rtol, atol=rtol)
