"""Causal attention that sees the last `window` keys: tiles outside the window are not visited."""

import kdsl
from kdsl import Out, bf16, dot, exp2, f16, f32, i64, inf, maximum, where

T = kdsl.dtypes("T", f16, bf16, f32)
B, H, M, N, D = kdsl.dims("B H M N D")


@kdsl.kernel
def sliding_window(
    q: T[B, H, M, D],
    k: T[B, H, N, D],
    v: T[B, H, N, D],
    scale: f32,
    window: i64,
    o: Out[T[B, H, M, D]],
):
    """Query m stands at key m + N - M and sees that one and the window - 1 before it."""
    kdsl.require(scale > 0, window > 0)
    for b, h, m in kdsl.parallel(B, H, kdsl.tiles(M)):
        qm, shift = q[b, h, m], N - M
        acc, den, top = kdsl.zeros(m, D), kdsl.zeros(m), kdsl.full(m, -inf)
        for n in kdsl.tiles(N, start=m.start + shift - window + 1, stop=m.stop + shift):
            s = dot(qm, k[b, h, n].T) * (scale * kdsl.LOG2E)
            ahead = m.index[:, None] + shift - n.index
            s = where((ahead >= 0) & (ahead < window), s, -inf)
            new = maximum(top, s.max(axis=1))
            ref = where(new > -inf, new, 0)
            p, fix = exp2(s - ref[:, None]), exp2(top - ref)
            den = den * fix + p.sum(axis=1)
            acc = acc * fix[:, None] + dot(p.astype(T), v[b, h, n])
            top = new
        o[b, h, m] = where(den[:, None] == 0, 0, acc / den[:, None])


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 1, 2, 300, 32), dtype=np.float32)
    s = q.astype(np.float64) @ k.swapaxes(-1, -2) * 32**-0.5
    ahead = np.arange(300)[:, None] - np.arange(300)
    p = np.exp(np.where((ahead >= 0) & (ahead < 50), s, -np.inf))
    error = np.abs(sliding_window(q, k, v, 32**-0.5, 50) - p @ v / p.sum(-1, keepdims=True)).max()
    print(f"sliding_window: largest error against float64 {error:.1e}")
    assert error < 2e-6
