"""Masks on tensor cores: comparisons of a row, a column and a number, whichever side each is on."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from tests.cuda.launch import build, run

MASKS = (
    "i >= j", "i > j", "i <= j", "i < j", "j >= i", "j < i",
    "i + w >= j", "i + w < j", "j - w > i", "w - j <= i", "j + w <= i - 3",
    "j < w", "j >= w", "w > j", "i < w", "w >= i",
    "(j <= i) & (j > i - w)", "(j - i < w) & (i - j < w)", "(j >= i) | (j < w)", "~(j <= i + w)",
    "i - j == w", "j % 3 == 0", "2 * j <= i", "(j <= i) & (j % 2 == 1)",
)  # fmt: skip
GROUPS = [MASKS[at : at + 6] for at in range(0, len(MASKS), 6)]


def text_of(number: int, masks: tuple[str, ...]) -> str:
    """A kernel that sums the products that each mask takes."""
    at = range(len(masks))
    outs = ", ".join(f"o{n}: Out[f32[M]]" for n in at)
    lines = [
        "@kdsl.kernel",
        f"def masks_{number}(a: f16[M, K], b: f16[N, K], w: i64, {outs}):",
        "    for m in kdsl.parallel(kdsl.tiles(M)):",
        "        am, i = a[m], m.index[:, None]",
        *(f"        t{n} = kdsl.zeros(m)" for n in at),
        "        for n in kdsl.tiles(N):",
        "            s, j = dot(am, b[n].T), n.index",
        *(f"            t{n} += where({mask}, s, 0).sum(axis=1)" for n, mask in enumerate(masks)),
        *(f"        o{n}[m] = t{n}" for n in at),
    ]
    return "\n\n\n" + "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def kernels(ptx_folder):
    file = ptx_folder / "masks_on_tensor_cores.py"
    head = "import kdsl\nfrom kdsl import Out, dot, f16, f32, i64, where\n\n"
    head += 'M, N, K = kdsl.dims("M N K")\n'
    file.write_text(head + "".join(text_of(n, masks) for n, masks in enumerate(GROUPS)))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_masks_take_what_numpy_takes(kernels, ptx_folder, number):
    m, n, k = 75, 150, 16
    rng = np.random.default_rng(number)
    a, b = (rng.integers(-4, 5, (rows, k)).astype(np.float16) for rows in (m, n))
    s = a.astype(np.int64) @ b.T.astype(np.int64)
    built = build(getattr(kernels, f"masks_{number}"), ptx_folder, dims={"K": k})
    assert "mma" in built.ptx
    i, j = np.arange(m)[:, None], np.arange(n)
    for w in (5, 64, -70, 2**40, -(2**40)):
        out, runs, _ = run(built, {"a": a, "b": b, "w": w})
        assert [str(r) for phase in runs for r in phase.reports] == []
        for at, text in enumerate(GROUPS[number]):
            mask = np.broadcast_to(eval(text, {"i": i, "j": j, "w": w}), s.shape)
            want = np.where(mask, s, 0).sum(axis=1)
            np.testing.assert_array_equal(out[f"o{at}"], want, f"{text}, w = {w}")
