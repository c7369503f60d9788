"""FlashAttention-style attention, written once: the kernel that README and `make demo` show."""

import kdsl
from kdsl import Out, Static, bf16, dot, exp2, f16, f32, inf, log2, maximum, where

T = kdsl.dtypes("T", f16, bf16, f32)  # one specialisation per dtype, all in one .so
B, H, G, M, N, D = kdsl.dims("B H G M N D")  # symbolic sizes, integers in the body


@kdsl.kernel
def attention(
    q: T[B, H, M, D],
    k: T[B, G, N, D],
    v: T[B, G, N, D],
    scale: f32,
    o: Out[T[B, H, M, D]],
    lse: Out[f32[B, H, M]],
    *,
    causal: Static[bool] = False,
):
    """Softmax attention, grouped heads, bottom-right causal; a masked row gives 0 and -inf."""
    kdsl.require(H % G == 0, scale > 0)
    for b, h, m in kdsl.parallel(B, H, kdsl.tiles(M)):
        g, qm = h // (H // G), q[b, h, m]
        acc, den, top = kdsl.zeros(m, D), kdsl.zeros(m), kdsl.full(m, -inf)
        for n in kdsl.tiles(N, stop=m.stop + N - M if causal else N):
            s = dot(qm, k[b, g, n].T) * (scale * kdsl.LOG2E)
            if causal:
                s = where(m.index[:, None] + (N - M) >= n.index, s, -inf)
            new = maximum(top, s.max(axis=1))
            ref = where(new > -inf, new, 0)
            p, fix = exp2(s - ref[:, None]), exp2(top - ref)
            den = den * fix + p.sum(axis=1)
            acc = acc * fix[:, None] + dot(p.astype(T), v[b, g, n])
            top = new
        o[b, h, m] = where(den[:, None] == 0, 0, acc / den[:, None])
        lse[b, h, m] = (top + log2(den)) / kdsl.LOG2E
