"""Kernels that blocks run as teams of threads: where tensor cores do not help, or are not there."""

from __future__ import annotations

import numpy as np
import pytest

import kdsl
from kdsl import Out, dot, f16, f32, i8, i32, i64
from tests.cuda.launch import build, run
from tests.cuda.test_attention import attention, check, problem

M, N, D = kdsl.dims("M N D")


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


@kdsl.kernel
def squares(a: i8[M, D, D], b: i8[M, D, D], o: Out[i32[M, D, D]]):
    for m in kdsl.parallel(M):
        o[m] = dot(a[m], b[m])


@pytest.mark.parametrize("d", [1, 5, 40])
def test_lanes_along_rows_stay_in_their_buffers(ptx_folder, d):
    rng = np.random.default_rng(0)
    a, b = rng.integers(-9, 9, (2, 3, d, d)).astype(np.int8)
    out, (phase,), _ = run(build(squares, ptx_folder, dims={"D": d}), {"a": a, "b": b})
    assert phase.reports == ()
    np.testing.assert_array_equal(out["o"], a.astype(np.int32) @ b)


@kdsl.kernel
def by_index(a: f16[M, D], b: f16[D, N], o: Out[f32[M, N]]):
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        acc = kdsl.zeros(m, n)
        for d in kdsl.tiles(D):
            acc += dot(a[m, d], b[d, n.index])
        o[m, n] = acc


def test_elements_with_an_index_of_their_own_go_to_a_team_and_the_text_says_so(ptx_folder):
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-4, 5, s).astype(np.float16) for s in ((33, 70), (70, 78)))
    built = build(by_index, ptx_folder)
    assert "Not on tensor cores: each element has an index of its own." in built.text
    out, (phase,), _ = run(built, {"a": a, "b": b})
    assert phase.reports == ()
    np.testing.assert_array_equal(out["o"], a.astype(np.float32) @ b.astype(np.float32))


@pytest.mark.parametrize(("asked", "why"), [
    ({"slots": 20}, "bytes of shared memory"),
    ({"tiles": {"m": 100, "n": 64}}, "no multiple of 16"),
    ({"warps": 3}, "no multiple of"),
])  # fmt: skip
def test_what_tune_asks_for_and_tensor_cores_cannot_do_is_an_error(asked, why):
    @kdsl.kernel
    def tuned(a: f16[M, D], b: f16[N, D], o: Out[f32[M, N]]):
        for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
            acc = kdsl.zeros(m, n)
            for d in kdsl.tiles(D):
                acc += dot(a[m, d], b[n, d].T)
            o[m, n] = acc

    tuned.tune("cuda:sm_80", **asked)
    with pytest.raises(ValueError, match="what `tune` asks for does not fit") as err:
        tuned.show("cuda:sm_80")
    assert why in str(err.value)
    tuned.untune()
    assert "product<" in tuned.show("cuda:sm_80")


def test_a_slice_of_plain_elements_is_long_enough_for_a_block(ptx_folder):
    @kdsl.kernel
    def doubled(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] * 2

    built = build(doubled, ptx_folder)
    x = np.arange(2500, dtype=np.float32)
    out, (phase,), _ = run(built, {"x": x})
    np.testing.assert_array_equal(out["o"], x * 2)
    assert built.kernel.phases[0].threads == 256
    assert phase.counters.sector_efficiency >= 0.95
