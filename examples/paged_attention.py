"""Attention of one new token a sequence over a cache of pages, found by a table of page numbers."""

import kdsl
from kdsl import Out, bf16, dot, exp2, f16, f32, i64, inf, maximum, where

T = kdsl.dtypes("T", f16, bf16, f32)
B, H, G, D, PAGES, SIZE, W = kdsl.dims("B H G D PAGES SIZE W")


@kdsl.kernel
def paged_attention(
    q: T[B, H, D],
    k: T[PAGES, G, SIZE, D],
    v: T[PAGES, G, SIZE, D],
    table: i64[B, W],
    lengths: i64[B],
    scale: f32,
    o: Out[T[B, H, D]],
):
    """o = softmax(q k^T scale) v over the first lengths[b] tokens; their pages are table[b, :].

    What lies behind a sequence's end is never read. An empty sequence gives 0.
    """
    kdsl.require(H % G == 0, scale > 0)
    for b, g in kdsl.parallel(B, G):
        length, share = lengths[b], H // G
        for h in kdsl.tiles(H, start=g * share, stop=(g + 1) * share):
            query = q[b, h]
            acc, den, top = kdsl.zeros(h, D), kdsl.zeros(h), kdsl.full(h, -inf)
            for i in range((length + SIZE - 1) // SIZE):
                page = table[b, i]
                for n in kdsl.tiles(SIZE, stop=length - i * SIZE):
                    s = dot(query, k[page, g, n].T) * (scale * kdsl.LOG2E)
                    new = maximum(top, s.max(axis=1))
                    p, fix = exp2(s - new[:, None]), exp2(top - new)
                    den = den * fix + p.sum(axis=1)
                    acc = acc * fix[:, None] + dot(p.astype(T), v[page, g, n])
                    top = new
            o[b, h] = where(den[:, None] == 0, 0, acc / den[:, None])


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    lengths, size, (heads, groups, dim) = np.array([70, 1, 0, 48]), 16, (4, 2, 32)
    q = rng.standard_normal((4, heads, dim), dtype=np.float32)
    k, v = rng.standard_normal((2, 24, groups, size, dim), dtype=np.float32)
    table = rng.permutation(24)[:20].reshape(4, 5)
    o = paged_attention(q, k, v, table, lengths, dim**-0.5)
    worst = 0.0
    for b, length in enumerate(lengths):
        for h in range(heads):
            keys, rows = (
                c[table[b], h // 2].reshape(-1, dim)[:length].astype(np.float64) for c in (k, v)
            )
            p = np.exp(keys @ q[b, h] * dim**-0.5)
            worst = max(worst, np.abs(o[b, h] - p @ rows / max(p.sum(), 1e-30)).max())
    print(f"paged_attention: largest error against float64 {worst:.1e}")
    assert worst < 2e-6
