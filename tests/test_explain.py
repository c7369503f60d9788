"""`kernel.explain()`: why a specialisation runs as it does."""

from __future__ import annotations

import runpy

import pytest

import kdsl
from kdsl import InOut, Out, f32, i64
from tests.house import ROOT

M, N, D, V = kdsl.dims("M N D V")


@kdsl.kernel
def product(a: f32[M, D], b: f32[N, D], o: Out[f32[M, N]]):
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        o[m, n] = kdsl.dot(a[m], b[n].T) * 2


@kdsl.kernel
def gather(table: f32[V, D], ids: i64[N], hits: InOut[f32[V]], o: Out[f32[N, D]]):
    for n in kdsl.parallel(N):
        o[n] = table[ids[n]]
    for v in kdsl.parallel(kdsl.tiles(V, size=32)):
        hits[v] = hits[v] + 1


def line(kernel: kdsl.Kernel, text: str) -> int:
    """The line of this file on which a kernel has `text`."""
    lines = kernel.compiler.source.text.lines
    first = kernel.compiler.source.text.first_line
    return first + next(i for i, row in enumerate(lines) if text in row)


def test_a_dot_is_told_with_its_fixed_dim_its_tiles_its_packs_and_its_loops():
    kernel = kdsl.kernel(product.__wrapped__)
    kernel.tune("cpu", tiles={"m": 24})
    at = f"test_explain.py:{line(kernel, 'kdsl.dot')}"
    assert kernel.explain(dims={"D": 16}).splitlines() == [
        "product_D16 on a CPU",
        "",
        "fixed dims",
        f"  D = 16: a whole axis in the dot at {at}, which sums over it",
        "",
        "tile sizes",
        "  m: 24 of M at a time (tuned)",
        '  n: 48 of N at a time (default; tune("cpu", tiles={"n": ...}) sets it)',
        "",
        "phase 1: a task is (m: a tile of M; n: a tile of N)",
        "  pack `t_2` into t_2_pack (turned, so that its lanes lie next to each other)",
        f"  dot at {at}: rows m, lanes n, depth D, left in t_5",
        "    reads packed: t_2",
        "    computes up to `t_5` while the sums are in registers",
        "  one loop nest over m, n, vectors along n: writes o",
        "  held in memory, one set a thread: t_2_pack: f32[D, n]; t_5: f32[m, n]",
        "",
        "indices checked at run time",
        "  none: all are proven to be inside",
        "",
        "outputs",
        "  o: whole vectors go past the cache where it is large",
    ]


def test_the_general_variant_says_how_to_see_another():
    text = product.explain()
    assert "  D of any size: a whole axis in the dot at " in text
    assert '  this is the general variant; dims={"D": 64} shows one of its own\n' in text


def test_checks_sizes_of_the_kernel_and_inouts_are_told():
    text = gather.explain()
    assert "fixed dims\n  none: no dot has a whole axis, so one variant serves all sizes" in text
    assert "  v: 32 of V at a time (size= in the kernel, part of its meaning)\n" in text
    at = line(gather, "ids[n]")
    check = f"  dimension 0 of `table`, in [0, V) at test_explain.py:{at}\n"
    assert f"indices checked at run time\n{check}" in text
    assert "  hits: through the cache (it is read as well)\n" in text
    assert "phase 1: a task is (n: one of N)\n  check the index at " in text
    assert "phase 2: a task is (v: a tile of V)\n" in text


def test_a_choice_that_is_none_is_told():
    with pytest.raises(ValueError, match="product: no fixed dim is called 'M'; there are: D"):
        product.explain(dims={"M": 4})


EXAMPLES = [
    file.name for file in sorted(ROOT.glob("examples/*.py")) if not file.name.startswith("_")
]


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_explained(name, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    kernels = runpy.run_path(str(ROOT / "examples" / name), run_name="example")
    for kernel in kernels.values():
        source = kernel.compiler.source if isinstance(kernel, kdsl.Kernel) else None
        # A kernel whose static functions are open is none yet.
        if source is not None and set(source.signature.fixed) == set(dict(source.fixed)):
            open_statics = source.signature.of_kind("static")
            statics = {p.name: 4 for p in open_statics if p.type is int}
            text = kernel.explain(statics=statics)
            assert text.startswith(kernel.__name__)
            assert "phase 1: " in text
