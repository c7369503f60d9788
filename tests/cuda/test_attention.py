"""The flagship on tensor cores, in the simulator: numbers, schedules, and what it costs."""

from __future__ import annotations

import importlib.util

import ml_dtypes
import numpy as np
import pytest

import kdsl
from kdsl.passes.cuda.tensor import Schedule
from tests.cuda.launch import build, run
from tests.house import ROOT

spec = importlib.util.spec_from_file_location("attention", ROOT / "examples/attention/attention.py")
attention = importlib.util.module_from_spec(spec)
spec.loader.exec_module(attention)
attention = attention.attention

NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}
SCHEDULES = {
    "usual": Schedule(),
    "early": Schedule(early=True),
    "two slots": Schedule(tiles={"m": 64, "n": 64}, slots=2),
    "small": Schedule(tiles={"m": 64, "n": 32}),
}


def problem(dtype: str, b: int, h: int, g: int, m: int, n: int, d: int):
    rng = np.random.default_rng([b, h, m, n])
    make = lambda *shape: rng.standard_normal(shape, np.float32).astype(NUMPY[dtype])  # noqa: E731
    return {"q": make(b, h, m, d), "k": make(b, g, n, d), "v": make(b, g, n, d), "scale": d**-0.5}


def wanted(values, causal: bool):
    q, k, v = (values[n].astype(np.float64) for n in "qkv")
    group, m, n = q.shape[1] // k.shape[1], q.shape[2], k.shape[2]
    k, v = (np.repeat(x, group, axis=1) for x in (k, v))
    s = q @ k.swapaxes(-1, -2) * values["scale"]
    if causal:
        s = np.where(np.arange(m)[:, None] + n - m >= np.arange(n), s, -np.inf)
    top = s.max(axis=-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isfinite(top), top, 0))
    den = p.sum(axis=-1, keepdims=True)
    with np.errstate(all="ignore"):
        return np.where(den > 0, p @ v / den, 0), (top + np.log(den))[..., 0]


def check(out, values, causal: bool, dtype: str):
    o, lse = wanted(values, causal)
    got = out["o"].astype(np.float64)
    rounding = {"f16": 5e-4, "bf16": 4e-3}[dtype]
    assert np.linalg.norm(got - o) <= rounding * max(np.linalg.norm(o), 1e-30)
    np.testing.assert_array_equal(np.isneginf(out["lse"]), np.isneginf(lse))
    finite = np.isfinite(lse)
    np.testing.assert_allclose(out["lse"][finite], lse[finite], rtol=0, atol=4e-6)


SHAPES = {
    "whole tiles": (1, 2, 2, 128, 128, 64),
    "grouped, ragged, rows that see nothing": (1, 4, 2, 150, 77, 64),
    "one query": (2, 2, 1, 1, 200, 64),
    "no keys": (1, 1, 1, 5, 0, 64),
    "D = 128": (1, 1, 1, 130, 70, 128),
    "D = 40": (1, 2, 1, 33, 65, 40),
    "D = 256, tiles of 64 rows": (1, 1, 1, 70, 100, 256),
}


#: bf16 is the same code but for one instruction.
DTYPES = [("f16", shape) for shape in SHAPES] + [("bf16", shape) for shape in list(SHAPES)[:2]]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("dtype", "shape"), DTYPES)
def test_attention_is_float64_s_within_rounding_and_nothing_is_reported(
    ptx_folder, shape, dtype, causal
):
    sizes = SHAPES[shape]
    values = problem(dtype, *sizes)
    built = build(
        attention, ptx_folder, dtypes={"T": getattr(kdsl, dtype)}, statics={"causal": causal},
        dims={"D": sizes[-1]},
    )  # fmt: skip
    for seed in range(3 if shape == "whole tiles" else 1):
        out, runs, _ = run(built, values, seed=seed)
        assert [str(r) for phase in runs for r in phase.reports] == []
        check(out, values, causal, dtype)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_changes_no_number_beyond_rounding(ptx_folder, name):
    values = problem("f16", 1, 2, 1, 100, 150, 64)
    built = build(
        attention, ptx_folder, dtypes={"T": kdsl.f16}, statics={"causal": True}, dims={"D": 64},
        schedules={"attention": SCHEDULES[name]},
    )  # fmt: skip
    out, runs, _ = run(built, values)
    assert [str(r) for phase in runs for r in phase.reports] == []
    check(out, values, True, "f16")


def test_bytes_and_flops_are_those_of_the_algorithm(ptx_folder):
    b, h, m, n, d = 1, 2, 256, 192, 64
    values = problem("f16", b, h, h, m, n, d)
    built = build(attention, ptx_folder, dtypes={"T": kdsl.f16}, dims={"D": d})
    _, (phase,), _ = run(built, values)
    counters = phase.counters
    assert counters.tensor_flops == 4 * b * h * m * n * d
    # Q once, K and V once for each block of 128 queries; O and the logarithms of the sums.
    assert counters.read_bytes == 2 * b * h * d * (m + 2 * n * (m // 128))
    assert counters.write_bytes == b * h * m * (2 * d + 4)
    assert counters.bank_factor <= 1.05
    assert counters.sector_efficiency >= 0.95


def test_generated_code_reads_as_written_by_hand(ptx_folder):
    built = build(attention, ptx_folder, dtypes={"T": kdsl.f16}, statics={"causal": True},
                  dims={"D": 128})  # fmt: skip
    lines = built.text.splitlines()
    assert len(lines) < 300
    assert max(map(len, lines)) <= 100
