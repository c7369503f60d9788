"""The interpreter of the IR against NumPy in double, over ragged sizes; and what it refuses."""

import ml_dtypes
import numpy as np
import pytest

from kdsl.ir.interp import run
from kdsl.ir.parser import parse
from kdsl.passes.bounds import bounds
from tests.ir_texts import ATTENTION, CONTROL, MATMUL, MEAN_OF_SQUARES, SOFTMAX

rng = np.random.default_rng(0)


def normal(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("m", "n", "k"), [(1, 1, 1), (5, 4, 3), (4, 8, 4), (0, 3, 2), (3, 0, 2), (3, 2, 0), (7, 9, 11)]
)
def test_matmul_is_numpys(m, n, k):
    a, b, bias, out = normal(m, k), normal(k, n), normal(n), np.full((m, n), np.nan, np.float32)
    run(parse(MATMUL), {"a": a, "b": b, "bias": bias, "out": out}, {"m": 4, "n": 4, "k": 4})
    want = np.tanh(a.astype(np.float64) @ b + bias)
    np.testing.assert_allclose(out, want, rtol=2e-6, atol=2e-6)  # f32, sums of 11 terms


@pytest.mark.parametrize(("m", "n"), [(1, 1), (5, 17), (3, 2), (0, 4)])
def test_softmax_in_bf16_is_numpys(m, n):
    x = normal(m, n).astype(ml_dtypes.bfloat16)
    out = np.zeros_like(x)
    run(parse(SOFTMAX), {"x": x, "out": out})
    e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True))
    want = e / e.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(out.astype(np.float64), want, rtol=2**-8)  # one rounding to bf16


def test_a_later_phase_sees_the_scratch_of_an_earlier_one():
    x, out = normal(7, 5), np.zeros((), np.float32)
    run(parse(MEAN_OF_SQUARES), {"x": x, "out": out})
    np.testing.assert_allclose(out, (x.astype(np.float64) ** 2).mean(), rtol=1e-6)


def attention(q, k, v, scale):
    """Bottom-right causal attention in double: (output, base-2 log-sum-exp over log2(e))."""
    q, k, v = (t.astype(np.float64) for t in (q, k, v))
    k, v = (np.repeat(t, q.shape[1] // t.shape[1], axis=1) for t in (k, v))
    s = np.einsum("bhmd,bhnd->bhmn", q, k) * scale
    m, n = s.shape[2:]
    s = np.where(np.arange(m)[:, None] + (n - m) >= np.arange(n), s, -np.inf)
    with np.errstate(divide="ignore"):
        lse = np.log(np.exp(s).sum(axis=-1))
    p = np.exp(s - np.where(np.isfinite(lse), lse, 0)[..., None])
    return np.einsum("bhmn,bhnd->bhmd", p, v), lse


@pytest.mark.parametrize(("m", "n"), [(1, 1), (8, 8), (9, 5), (5, 13), (3, 0), (0, 3)])
def test_attention_is_numpys(m, n):
    q, k, v = normal(2, 4, m, 8), normal(2, 2, n, 8), normal(2, 2, n, 8)
    o, lse = np.full_like(q, np.nan), np.full(q.shape[:3], np.nan, np.float32)
    args = {"q": q, "k": k, "v": v, "scale": 0.3, "o": o, "lse": lse}
    run(parse(ATTENTION), args, {"m": 4, "n": 4})
    want, want_lse = attention(q, k, v, 0.3)
    np.testing.assert_allclose(o, want, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(lse, want_lse, rtol=2e-6, atol=2e-6)


def test_control_flow_gathers_and_steps():
    x, pick = normal(5, 6), np.array([4, 0, 2, 2, 1], np.int32)
    half, seen = np.zeros((5, 3), np.float32), np.arange(5, dtype=np.int32)
    run(parse(CONTROL), {"x": x, "pick": pick, "limit": 7, "half": half, "seen": seen}, {"m": 2})
    np.testing.assert_array_equal(half, x[pick, 1::2])
    above_one = 3  # of 0, 2, 4, 6
    np.testing.assert_array_equal(seen, np.arange(5) + above_one + x.argmax(axis=1))


SCATTER = """\
kernel f(at: i32[N], x: f32[N], o: InOut[f32[M]], total: InOut[f32[()]], all: InOut[f32[M]]) {
  dims N, M
  axis n = tiles(N)
  axis M = whole(M)
  parallel n in tiles(N) {
    i: i32[n] = at[n]
    v: f32[n] = x[n]
    o[i] += v
    t: f32 = sum(v; n)
    total[()] += t
    all[M] += t
  }
}
"""


def test_additions_to_one_element_add_up():
    at, x = np.array([1, 1, 0, 1, 3, 0, 1], np.int32), np.arange(1, 8, dtype=np.float32)
    o, total, every = np.ones(4, np.float32), np.array(1, np.float32), np.zeros(4, np.float32)
    run(parse(SCATTER), {"at": at, "x": x, "o": o, "total": total, "all": every}, {"n": 2})
    np.testing.assert_array_equal(o, [1 + 3 + 6, 1 + 1 + 2 + 4 + 7, 1, 1 + 5])
    assert total == 1 + 28
    np.testing.assert_array_equal(every, [28] * 4)


def arguments(**changes):
    a, b, bias, out = normal(2, 3), normal(3, 4), normal(4), normal(2, 4)
    return {"a": a, "b": b, "bias": bias, "out": out, **changes}


def test_sizes_that_do_not_agree_are_an_error():
    with pytest.raises(ValueError, match=r"`bias` must have shape \(4,\), got \(5,\)"):
        run(parse(MATMUL), arguments(bias=normal(5)))


def test_another_dtype_is_an_error():
    with pytest.raises(TypeError, match=r"`a` must be f32\[M, K\], got float64 of ndim 2"):
        run(parse(MATMUL), arguments(a=np.zeros((2, 3))))


def test_a_missing_argument_is_an_error():
    with pytest.raises(TypeError, match="argument `bias` is missing"):
        run(parse(MATMUL), {k: v for k, v in arguments().items() if k != "bias"})


def test_a_requirement_that_does_not_hold_is_an_error():
    q, k = normal(1, 3, 2, 4), normal(1, 2, 2, 4)
    args = {"q": q, "k": k, "v": k, "scale": 1.0, "o": q.copy(), "lse": normal(1, 3, 2)}
    with pytest.raises(ValueError, match="requires H % G == 0"):
        run(parse(ATTENTION), args)


@pytest.mark.parametrize("at", [-1, 5])
def test_an_index_outside_its_tensor_is_an_error(at):
    args = {"x": normal(5, 6), "pick": np.full(5, at, np.int32), "limit": 0,
            "half": normal(5, 3), "seen": np.zeros(5, np.int32)}  # fmt: skip
    message = rf"control: index {at} is out of range for dimension 0 of `x` \(M=5\)"
    for func in (parse(CONTROL), bounds(parse(CONTROL))):
        with pytest.raises(IndexError, match=message):
            run(func, args)


GUARD = """\
kernel f(ids: i32[N], table: f32[4, 3], o: Out[f32[N]]) {
  dims N
  axis n = tiles(N)
  parallel n in tiles(N) {
    id: i32[n] = ids[n]
    id_2: i32[n] = guard(id; table, 1)
    t: f32[n] = cast(id_2)
    o[n] = t
  }
}
"""


def test_a_guard_gives_its_index_or_an_error_that_names_one_outside():
    o = np.zeros(5, np.float32)
    args = {"table": np.zeros((4, 3), np.float32), "o": o}
    run(parse(GUARD), {**args, "ids": np.array([0, 2, 1, 0, 2], np.int32)})
    np.testing.assert_array_equal(o, [0, 2, 1, 0, 2])
    message = r"index 3 is out of range for dimension 1 of `table` \(size 3\)"
    with pytest.raises(IndexError, match=message):
        run(parse(GUARD), {**args, "ids": np.array([0, 2, 3, -7, 2], np.int32)})
    run(parse(GUARD), {**args, "o": o[:0], "ids": np.zeros(0, np.int32)})


SCAN = """\
kernel f(x: f32[M, N], o: Out[f32[M, N]], tiles: Out[f32[M, N]], down: Out[f32[M, N]]) {
  dims M, N
  axis n = tiles(N, 4)
  axis M = whole(M)
  axis N = whole(N)
  parallel i in M {
    i: i64 = var(i)
    row: f32[N] = x[i, N]
    sums: f32[N] = cumsum(row; N)
    o[i, N] = sums
    for n in tiles() {
      part: f32[n] = x[i, n]
      of_tile: f32[n] = cumsum(part; n)
      tiles[i, n] = of_tile
    }
  }
  parallel {
    all: f32[M, N] = x[M, N]
    t: f32[M, N] = cumsum(all; M)
    down[M, N] = t
  }
}
"""


@pytest.mark.parametrize(("m", "n"), [(3, 10), (1, 1), (0, 4), (2, 0)])
def test_a_running_sum_takes_in_each_place_itself_and_starts_again_in_each_tile(m, n):
    x = normal(m, n)
    o, tiles, down = (np.full_like(x, np.nan) for _ in range(3))
    run(parse(SCAN), {"x": x, "o": o, "tiles": tiles, "down": down})
    wide = x.astype(np.float64)
    np.testing.assert_array_equal(o, wide.cumsum(axis=1).astype(np.float32))
    np.testing.assert_array_equal(down, wide.cumsum(axis=0).astype(np.float32))
    for at in range(0, n, 4):
        want = wide[:, at : at + 4].cumsum(axis=1).astype(np.float32)
        np.testing.assert_array_equal(tiles[:, at : at + 4], want)
