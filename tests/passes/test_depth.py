"""Long chains of statements, each of which reads the one before it twice, as generators write."""

from __future__ import annotations

import importlib.util
import sys

import numpy as np
import pytest

HEAD = """import kdsl
from kdsl import Out, dot, f16, f32

M, N, K = kdsl.dims("M N K")


@kdsl.kernel
def chain("""
KINDS = {
    "elements": (
        "x: f32[M], o: Out[f32[M]]):\n    for m in kdsl.parallel(kdsl.tiles(M)):\n        t = x[m]",
        "o[m] = {}",
    ),
    "products": (
        "x: f16[M, K], y: f16[N, K], o: Out[f32[M, N]]):\n"
        "    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):\n"
        "        t = dot(x[m], y[n].T)",
        "o[m, n] = {0} - {0}.max(axis=1)[:, None]",
    ),
}


def kernel(folder, kind: str, length: int):
    head, store = KINDS[kind]
    lines, last = [HEAD + head], "t"
    for i in range(length):
        lines.append(f"        v{i} = kdsl.maximum({last} * 0.5, {last} - {i % 7})")
        last = f"v{i}"
    file = folder / f"chain_of_{kind}.py"
    file.write_text("\n".join([*lines, "        " + store.format(last)]) + "\n")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.chain


@pytest.mark.parametrize("kind", KINDS)
def test_a_chain_of_hundreds_has_code_for_both_targets(tmp_path, kind):
    limit = sys.getrecursionlimit()
    own = kernel(tmp_path, kind, 250)
    for target in ("cpu", "cuda:sm_80"):
        assert (
            own.show(target, dims={"K": 16} if kind == "products" else {}).count("maximum") == 250
        )
    assert sys.getrecursionlimit() == limit


def test_a_chain_means_what_numpy_says(tmp_path):
    own = kernel(tmp_path, "elements", 40)
    x = np.linspace(-3, 3, 50, dtype=np.float32)
    np.testing.assert_array_equal(own(x), own.reference(x))
