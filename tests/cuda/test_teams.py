"""Kernels that blocks run as teams of threads: where tensor cores do not help, or are not there."""

from __future__ import annotations

import numpy as np
import pytest

import kdsl
from kdsl import Out, f32, i64
from tests.cuda.launch import build, run
from tests.cuda.test_attention import attention, check, problem

M, N = kdsl.dims("M N")


@kdsl.kernel
def halvings(x: f32[M, N], o: Out[f32[M, N]], steps: Out[i64[M]]):
    """How often a row is halved until its sum is at most 1."""
    for m in kdsl.parallel(M):
        row, count = x[m], 0
        while row.sum() > 1:
            row = row * 0.5
            count += 1
        o[m] = row
        steps[m] = count


@kdsl.kernel
def neighbours(x: f32[M, N], o: Out[f32[M, N]]):
    """Each element plus the one that another lane wrote: a barrier has to lie between."""
    kept = kdsl.scratch(f32, M, N)
    for m in kdsl.parallel(M):
        kept[m] = x[m] * 2
        for n in range(N):
            o[m, n] = kept[m, N - 1 - n] + x[m, n]


@pytest.mark.parametrize("shape", [(3, 5), (2, 300)])
def test_a_while_loop_runs_on_a_team(ptx_folder, shape):
    x = np.random.default_rng(0).uniform(0, 9, shape).astype(np.float32)
    out, (phase,), _ = run(build(halvings, ptx_folder), {"x": x})
    assert phase.reports == ()
    o, steps = halvings.reference(x)
    np.testing.assert_array_equal(out["steps"], steps)
    np.testing.assert_allclose(out["o"], o, rtol=1e-6)


def test_lanes_that_read_what_others_wrote_wait_for_them(ptx_folder):
    x = np.random.default_rng(0).standard_normal((3, 100), np.float32)
    out, runs, _ = run(build(neighbours, ptx_folder), {"x": x})
    assert [r for phase in runs for r in phase.reports] == []
    np.testing.assert_array_equal(out["o"], x[:, ::-1] * 2 + x)


def test_attention_runs_without_tensor_cores_too(ptx_folder):
    values = problem("f16", 1, 2, 1, 40, 33, 32)
    built = build(attention, ptx_folder, dtypes={"T": kdsl.f16}, statics={"causal": True},
                  dims={"D": 32}, tensor_cores=False)  # fmt: skip
    assert "mma" not in built.text
    out, (phase,), _ = run(built, values)
    assert phase.reports == ()
    check(out, values, True, "f16")
