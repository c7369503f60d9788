"""Attention whose scores a function of the caller's changes: ALiBi, a soft cap, a window."""

from collections.abc import Callable

import kdsl
from kdsl import Out, Static, bf16, dot, exp2, f16, f32, inf, maximum, tanh, where

T = kdsl.dtypes("T", f16, bf16, f32)
B, H, M, N, D = kdsl.dims("B H M N D")


@kdsl.kernel
def attention_with(
    q: T[B, H, M, D],
    k: T[B, H, N, D],
    v: T[B, H, N, D],
    slopes: f32[H],
    scale: f32,
    o: Out[T[B, H, M, D]],
    *,
    score_mod: Static[Callable],
):
    """o = softmax(score_mod(q k^T scale, head, query, key)) v; a score of -inf is a key not seen.

    What else score_mod names is a parameter of this kernel: `slopes`, or a dim.
    """
    kdsl.require(scale > 0)
    for b, h, m in kdsl.parallel(B, H, kdsl.tiles(M)):
        acc, den, top = kdsl.zeros(m, D), kdsl.zeros(m), kdsl.full(m, -inf)
        for n in kdsl.tiles(N):
            s = score_mod(dot(q[b, h, m], k[b, h, n].T) * scale, h, m.index[:, None], n.index)
            new = maximum(top, s.max(axis=1))
            ref = where(new > -inf, new, 0)
            p = exp2((s - ref[:, None]) * kdsl.LOG2E)
            fix = exp2((top - ref) * kdsl.LOG2E)
            den = den * fix + p.sum(axis=1)
            acc = acc * fix[:, None] + dot(p.astype(T), v[b, h, n])
            top = new
        o[b, h, m] = where(den[:, None] == 0, 0, acc / den[:, None])


def alibi(s, h, i, j, slopes):
    """Causal, and the farther back the less, by a slope of the head's own."""
    return where(j <= i, s + slopes[h] * (j - i), -inf)


def soft_cap(s, h, i, j):
    """No score beyond 20 in size."""
    return 20 * tanh(s / 20)


def window(s, h, i, j):
    """The 64 keys up to the query's own."""
    return where((j <= i) & (i - j < 64), s, -inf)


attention_alibi = attention_with.bind(score_mod=alibi, name="attention_alibi")
attention_soft_cap = attention_with.bind(score_mod=soft_cap, name="attention_soft_cap")
attention_window = attention_with.bind(score_mod=window, name="attention_window")


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 1, 4, 200, 32), dtype=np.float32)
    slopes = 2.0 ** -np.arange(2, 10, 2, dtype=np.float32)
    s = q.astype(np.float64) @ k.swapaxes(-1, -2) * 32**-0.5
    ahead = np.arange(200)[:, None] - np.arange(200)
    wants = {
        attention_alibi: np.where(ahead >= 0, s - slopes[:, None, None] * ahead, -np.inf),
        attention_soft_cap: 20 * np.tanh(s / 20),
        attention_window: np.where((ahead >= 0) & (ahead < 64), s, -np.inf),
    }
    worst = 0.0
    for attend, score in wants.items():
        p = np.exp(score)
        want = p @ v / p.sum(axis=-1, keepdims=True)
        worst = max(worst, np.abs(attend(q, k, v, slopes, 32**-0.5) - want).max())
    print(f"score_mod: largest error against float64 {worst:.1e}")
    assert worst < 2e-6
