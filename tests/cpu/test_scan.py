"""Running sums: along the lanes of a vector, along rows, and over a carried loop."""

import numpy as np
import pytest

from kdsl.ir.interp import run
from kdsl.ir.parser import parse
from tests.cpu.harness import Compiled

ROWS = """\
kernel rows(x: {dtype}[M, N], o: Out[{dtype}[M, N]], p: Out[{dtype}[M, N]]) {{
  dims M, N
  axis N = whole(N)
  host {{
  }}
  parallel i in M {{
    at: i64 = var(i)
    row: {dtype}[N] = x[at, N]
    two: {dtype}[N] = add(row, row)
    all: {dtype}[N] = cumsum(two; N)
    total: {dtype} = max(all; N)
    rest: {dtype}[N] = sub(total, all)
    o[at, N] = all
    p[at, N] = rest
  }}
}}
"""
TILES = """\
kernel tiles(x: {dtype}[M, N], o: Out[{dtype}[M, N]], p: Out[{dtype}[M, N]]) {{
  dims M, N
  axis M = whole(M)
  axis n = tiles(N, {tile})
  host {{
  }}
  parallel n in tiles(N) {{
    block: {dtype}[M, n] = x[M, n]
    down: {dtype}[M, n] = cumsum(block; M)
    right: {dtype}[M, n] = cumsum(block; n)
    o[M, n] = down
    p[M, n] = right
  }}
}}
"""


@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "i32"])
@pytest.mark.parametrize(("text", "tile"), [(ROWS, 0), (TILES, 5), (TILES, 64)])
def test_a_running_sum_is_numpys(text, tile, dtype):
    func = parse(text.format(dtype=dtype, tile=tile))
    kernel = Compiled(func)
    name = {"f32": "float32", "f64": "float64", "i64": "int64", "i32": "int32"}[dtype]
    for shape in ((3, 7), (1, 1), (4, 0), (0, 4), (5, 100), (17, 33)):
        x = np.random.default_rng(0).integers(-9, 9, shape).astype(name)
        got = {"x": x, "o": np.full(shape, 5, name), "p": np.full(shape, 5, name)}
        want = {k: v.copy() for k, v in got.items()}
        kernel(**got)
        run(func, want)
        for output in ("o", "p"):
            np.testing.assert_array_equal(got[output], want[output], err_msg=f"{output} {shape}")
