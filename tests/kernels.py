"""Kernels that several tests use, as their authors would write them."""

from kdsl import lang as kdsl
from kdsl.lang import (
    Out, Static, bf16, dot, exp, exp2, f16, f32, inf, log2, maximum, rsqrt, tanh, where,
)  # fmt: skip

T = kdsl.dtypes("T", f32, bf16, f16)
B, H, G, M, N, D, K = kdsl.dims("B H G M N D K")


def add(x: T[N], y: T[N], out: Out[T[N]]):
    """Elementwise sum."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        out[n] = x[n] + y[n]


def scale_rows(x: T[M, N], w: T[N], alpha: f32, out: Out[T[M, N]]):
    """alpha * x * w, a row at a time: broadcasting over a row of any length."""
    for m in kdsl.parallel(M):
        out[m] = x[m] * w[:] * alpha


def softmax(x: T[M, N], out: Out[T[M, N]]):
    """Softmax of each row."""
    for i in kdsl.parallel(M):
        row = x[i]
        e = exp(row - row.max())
        out[i] = e / e.sum()


def rmsnorm(x: T[M, N], w: T[N], eps: f32, out: Out[T[M, N]]):
    """Each row over its root mean square, times a weight."""
    for i in kdsl.parallel(M):
        row = x[i]
        out[i] = row * rsqrt((row * row).mean() + eps) * w[:]


def gelu(x):
    """The tanh form of gelu."""
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + tanh(inner))


def matmul_gelu(a: T[M, K], b: T[K, N], bias: T[N], out: Out[T[M, N]]):
    """gelu(a @ b + bias)."""
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        acc = kdsl.zeros(m, n)
        for k in kdsl.tiles(K):
            acc += dot(a[m, k], b[k, n])
        out[m, n] = gelu(acc + bias[n])


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
    """Softmax attention, grouped heads, bottom-right causal; a fully masked row gives 0."""
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


def mean_of_squares(x: T[M, N], out: Out[f32[()]]):
    """Mean of the squares of a matrix: partial sums of rows first, then their sum."""
    part = kdsl.scratch(f32, M)
    for i in kdsl.parallel(M):
        row = x[i]
        part[i] = (row * row).sum()
    for _ in kdsl.parallel(1):
        out[()] = part[:].sum() / (M * N)


#: Every kernel here by name.
KERNELS = {
    f.__name__: f
    for f in (add, scale_rows, softmax, rmsnorm, matmul_gelu, attention, mean_of_squares)
}
