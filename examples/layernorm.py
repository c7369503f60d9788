"""Layer normalisation and its gradient: both read each row once."""

import kdsl
from kdsl import Out, bf16, f16, f32, rsqrt

T = kdsl.dtypes("T", f16, bf16, f32)
M, N = kdsl.dims("M N")

PARTS = 16


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
    """Gradients of sum(o * do). Each task takes some rows, and their shares of dw and db."""
    dw_part = kdsl.scratch(f32, PARTS, N)
    db_part = kdsl.scratch(f32, PARTS, N)
    for p in kdsl.parallel(PARTS):
        dw_sum, db_sum = kdsl.zeros(N), kdsl.zeros(N)
        for m in range(M * p // PARTS, M * (p + 1) // PARTS):
            hat = (x[m] - mean[m]) * rstd[m]
            g = do[m] * w[:]
            dx[m] = (g - g.mean() - hat * (g * hat).mean()) * rstd[m]
            dw_sum += do[m] * hat
            db_sum += do[m]
        dw_part[p] = dw_sum
        db_part[p] = db_sum
    for n in kdsl.parallel(kdsl.tiles(N)):
        dw[n] = dw_part[:, n].sum(axis=0)
        db[n] = db_part[:, n].sum(axis=0)


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
