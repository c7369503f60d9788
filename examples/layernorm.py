"""Layer normalisation and its gradient: rows for dx, tiles of rows and columns for dw and db."""

import kdsl
from kdsl import Out, bf16, f16, f32, rsqrt

T = kdsl.dtypes("T", f16, bf16, f32)
M, N = kdsl.dims("M N")


@kdsl.kernel
def layernorm(
    x: T[M, N],
    w: T[N],
    b: T[N],
    o: Out[T[M, N]],
    mean: Out[f32[M]],
    rstd: Out[f32[M]],
    eps: f32 = 1e-5,
):
    """o[m] = (x[m] - mean) * rstd * w + b; the gradient wants mean and rstd again."""
    for m in kdsl.parallel(M):
        row = x[m]
        centre = row.mean()
        off = row - centre
        scale = rsqrt((off * off).mean() + eps)
        o[m] = off * scale * w[:] + b[:]
        mean[m] = centre
        rstd[m] = scale


@kdsl.kernel
def layernorm_grad(
    x: T[M, N],
    w: T[N],
    mean: f32[M],
    rstd: f32[M],
    do: T[M, N],
    dx: Out[T[M, N]],
    dw: Out[T[N]],
    db: Out[T[N]],
):
    """Gradients of sum(o * do): dx a row at a time, dw and db a tile of columns at a time."""
    for m in kdsl.parallel(M):
        hat = (x[m] - mean[m]) * rstd[m]
        g = do[m] * w[:]
        dx[m] = (g - g.mean() - hat * (g * hat).mean()) * rstd[m]
    for n in kdsl.parallel(kdsl.tiles(N)):
        dw_sum, db_sum = kdsl.zeros(n), kdsl.zeros(n)
        for r in kdsl.tiles(M):
            g = do[r, n]
            hat = (x[r, n] - mean[r][:, None]) * rstd[r][:, None]
            dw_sum += (g * hat).sum(axis=0)
            db_sum += g.sum(axis=0)
        dw[n] = dw_sum
        db[n] = db_sum


if __name__ == "__main__":
    import numpy as np
    import torch

    torch.manual_seed(0)
    x, do = (torch.randn(300, 777) for _ in range(2))
    w, b = (torch.randn(777) for _ in range(2))
    wide = [t.double().requires_grad_() for t in (x, w, b)]
    want = torch.nn.functional.layer_norm(wide[0], (777,), *wide[1:])
    want.backward(do.double())
    o, mean, rstd = layernorm(x, w, b)
    grads = layernorm_grad(x, w, mean, rstd, do)
    pairs = zip((o, *grads), (want.detach(), *(t.grad for t in wide)), strict=True)
    error = np.max([float((got - exact).abs().max() / exact.abs().max()) for got, exact in pairs])
    print(f"layernorm: largest error against float64, gradients too, {error:.1e} of the largest")
    assert error < 2e-6
