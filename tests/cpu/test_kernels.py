"""Compiled kernels equal the interpreter: every dtype, around tile sizes, awkward strides."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdsl.dims import evaluate
from kdsl.dtypes import TensorType, bf16, f16, f32
from kdsl.frontend import capture, lower
from kdsl.ir.interp import run
from kdsl.lang.arrays import numpy_dtype
from kdsl.passes import specialise
from tests.cpu.harness import Compiled
from tests.kernels import KERNELS

CASES = [
    (name, dtype, causal)
    for name in KERNELS
    for dtype in (f32, bf16, f16)
    for causal in ((False, True) if name == "attention" else (None,))
]
#: Sizes that meet the ends of tiles (48 lanes, 96 rows, 256 deep) and of vectors (4, 8, 16).
SIZE = st.sampled_from([0, 1, 2, 3, 7, 8, 15, 16, 17, 31, 47, 48, 49, 95, 96, 97, 101, 257])
#: One rounding of a result, and of a sum of a few hundred products before it.
TOLERANCE = {"f32": 2e-6, "bf16": 2**-7, "f16": 2**-9}


@cache
def compiled(name, dtype, causal, fixed=()):
    source = capture(KERNELS[name])
    dtypes = {v.name: dtype for v in source.signature.dtype_vars}
    func = lower(source, dtypes, {} if causal is None else {"causal": causal})
    func = specialise(func, dict(fixed)) if fixed else func
    return func, Compiled(func)


def arguments(func, sizes, rng, layout="plain"):
    """Arrays whose rows lie as `layout` says; outputs full of NaN."""
    args = {}
    for p in func.params:
        if not isinstance(p.type, TensorType):
            args[p.name] = 0.25
            continue
        shape = tuple(evaluate(e, sizes) for e in p.type.shape)
        dtype = numpy_dtype(p.type.dtype)
        room = tuple(n + 3 for n in shape)
        full = np.full(room, np.nan, dtype)
        cut = full[(..., *(slice(1, n + 1) for n in shape))] if layout != "plain" else None
        array = cut if cut is not None else np.full(shape, np.nan, dtype)
        if layout == "reversed" and len(shape) > 1:
            array = array[::-1]
        if p.kind != "out":
            array[...] = rng.standard_normal(shape).astype(dtype)
        args[p.name] = array
    return args


def check(func, kernel, sizes, layout="plain"):
    rng = np.random.default_rng(7)
    got = arguments(func, sizes, rng, layout)
    want = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in got.items()}
    kernel(**got)
    with np.errstate(all="ignore"):
        run(func, want)
    for p in func.params:
        if p.kind not in ("out", "inout"):
            continue
        a, b = got[p.name].astype(np.float64), want[p.name].astype(np.float64)
        np.testing.assert_array_equal(np.isfinite(a), np.isfinite(b), err_msg=str(sizes))
        both = np.isfinite(a)
        scale = np.abs(b[both]).max(initial=1.0)
        bound = TOLERANCE[p.type.dtype.name] * scale * (16 if "matmul" in func.name else 1)
        error = np.abs(a[both] - b[both]).max(initial=0.0)
        assert error <= bound, f"{p.name}: {error} > {bound} at {sizes}"


@pytest.mark.parametrize(("name", "dtype", "causal"), CASES, ids=str)
def test_compiled_equals_interpreted(name, dtype, causal):
    func, kernel = compiled(name, dtype, causal)

    @settings(max_examples=12, deadline=None, database=None)
    @given(sizes=st.fixed_dictionaries({d: SIZE for d in func.dims if d not in ("B", "H", "G")}),
           heads=st.sampled_from([(1, 1, 1), (1, 2, 1), (2, 4, 2)]),
           layout=st.sampled_from(["plain", "cut", "reversed"]))  # fmt: skip
    def run_it(sizes, heads, layout):
        batch = dict(zip(("B", "H", "G"), heads, strict=True))
        sizes = {**sizes, **{d: batch[d] for d in func.dims if d in batch}}
        if "D" in sizes:  # a long head dim adds nothing but time
            sizes["D"] = sizes["D"] % 50
        check(func, kernel, sizes, layout)

    run_it()


@pytest.mark.parametrize("d", [1, 17, 64, 128])
@pytest.mark.parametrize("dtype", [f32, bf16], ids=str)
def test_a_fixed_dim_changes_nothing(dtype, d):
    func, kernel = compiled("attention", dtype, True, (("D", d),))
    for m, n in ((1, 1), (49, 97), (97, 49), (48, 0)):
        check(func, kernel, {"B": 1, "H": 2, "G": 1, "M": m, "N": n, "D": d})


def test_a_nan_in_one_key_reaches_the_rows_that_see_it():
    func, kernel = compiled("attention", f32, True)
    sizes = {"B": 1, "H": 1, "G": 1, "M": 60, "N": 70, "D": 16}
    got = arguments(func, sizes, np.random.default_rng(0))
    got["k"][0, 0, 30, 3] = np.nan
    want = {k: v.copy() if isinstance(v, np.ndarray) else v for k, v in got.items()}
    kernel(**got)
    with np.errstate(all="ignore"):
        run(func, want)
    for name in ("o", "lse"):
        np.testing.assert_array_equal(np.isnan(got[name]), np.isnan(want[name]))
        rows = np.isnan(got[name]).reshape(60, -1)
        # Causal, aligned at the bottom right: row i sees keys up to i + 10.
        assert not rows[:20].any() and rows[20:].all(), name


@pytest.mark.parametrize("tiles", [{"m": 5, "n": 7}, {"m": 16, "n": 96}, {"m": 100, "n": 33}])
def test_tile_sizes_change_nothing_but_rounding(tiles):
    source = capture(KERNELS["attention"])
    func = lower(source, {"T": f32}, {"causal": True})
    kernel = Compiled(func, tiles)
    for m, n in ((50, 101), (7, 3), (0, 5)):
        check(func, kernel, {"B": 1, "H": 2, "G": 2, "M": m, "N": n, "D": 20})
