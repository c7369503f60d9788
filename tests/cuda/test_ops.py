"""Every elementwise operation of the language on CUDA: what NumPy gives, in the simulator."""

from __future__ import annotations

import importlib.util
import re

import numpy as np
import pytest

from kdsl.dtypes import DTYPES
from kdsl.lang.arrays import numpy_dtype
from tests.cuda.launch import build, run

OPERATORS = {
    "add": "a + b", "sub": "a - b", "mul": "a * b", "div": "a / b", "floordiv": "a // b",
    "mod": "a % b", "neg": "-a", "pow": "a ** b",
}  # fmt: skip
FLOATS = (
    *"abs(a) sqrt(abs(a)) rsqrt(abs(a)+1) exp(a) exp2(a) log(abs(a)) log2(abs(a))".split(),
    *"log1p(abs(a)) expm1(a) tanh(a) sigmoid(a) erf(a) sin(a) cos(a) atan(a) atan2(a,b)".split(),
    *"floor(a) ceil(a) round(a) trunc(a) sign(a) maximum(a,b) minimum(a,b) fmax(a,b)".split(),
    *"fmin(a,b) clip(a,b,abs(b)) fma(a,b,a)".split(),
    "where(isnan(a) | isinf(b) | (a < b), a, b)", "where(isfinite(a) & (a >= b), a, b)",
)  # fmt: skip
INTEGERS = (
    *"abs(a) maximum(a,b) minimum(a,b) a<<(b&7) a>>(b&7) a&b a|b a^b ~a sign(a)".split(),
    *"clip(a,b,b+9) where(a==b,a,b) where(a!=b,a,b)".split(),
)


def expressions(dtype: str) -> list[str]:
    """One for each operation that the dtype has."""
    is_float = DTYPES[dtype].is_float
    operators = [t for n, t in OPERATORS.items() if is_float or n not in ("div", "pow")]
    return operators + [
        re.sub(r"\b([a-z]\w*)\(", r"kdsl.\1(", text) for text in (FLOATS if is_float else INTEGERS)
    ]


def kernel_of(dtype: str, folder):
    """A kernel with an output for each expression."""
    texts = expressions(dtype)
    outs = ", ".join(f"o{i}: Out[{dtype}[N]]" for i in range(len(texts)))
    lines = "".join(f"        o{i}[n] = {text}\n" for i, text in enumerate(texts))
    source = (
        "import kdsl\nfrom kdsl import Out, f32, f64, i8, i32, i64\n\nN = kdsl.dims('N')[0]\n\n\n"
        f"@kdsl.kernel\ndef ops(x: {dtype}[N], y: {dtype}[N], {outs}):\n"
        f"    for n in kdsl.parallel(kdsl.tiles(N)):\n        a, b = x[n], y[n]\n{lines}"
    )
    file = folder / f"ops_{dtype}.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ops


def inputs(dtype: str):
    rng = np.random.default_rng(0)
    kind = numpy_dtype(DTYPES[dtype])
    if DTYPES[dtype].is_float:
        x, y = (rng.standard_normal(300) * 4).astype(kind), rng.standard_normal(300).astype(kind)
        x[:6], y[:6] = [np.nan, np.inf, -np.inf, 0, -0.0, 2], [1, 2, np.nan, 0, np.inf, 0]
        return x, y
    return rng.integers(-100, 100, 300).astype(kind), rng.integers(-100, 100, 300).astype(kind)


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "i8"])
def test_each_operation_is_numpys(ptx_folder, tmp_path, dtype):
    own = kernel_of(dtype, tmp_path)
    x, y = inputs(dtype)
    with np.errstate(all="ignore"):
        want = own.reference(x, y)
    out, (phase,), _ = run(build(own, ptx_folder), {"x": x, "y": y})
    assert phase.reports == ()
    for i, text in enumerate(expressions(dtype)):
        got, right = out[f"o{i}"], np.asarray(want[i])
        if not DTYPES[dtype].is_float:
            np.testing.assert_array_equal(got, right, err_msg=text)
            continue
        # Elementary functions of the simulator are a few ulp off, as those of GPUs are.
        near = {"f32": 2e-6, "f64": 1e-14}[dtype]
        np.testing.assert_allclose(got, right, rtol=near, atol=near, err_msg=text)
