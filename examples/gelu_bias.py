"""A bias and GELU after it, in one pass over the tensor."""

import kdsl
from kdsl import Out, bf16, erf, f16, f32, f64

T = kdsl.dtypes("T", f16, bf16, f32, f64)
M, N = kdsl.dims("M N")

SQRT_HALF = 0.7071067811865476


@kdsl.kernel
def gelu_bias(x: T[M, N], bias: T[N], o: Out[T[M, N]]):
    """o[m] = gelu(x[m] + bias), with the exact normal distribution."""
    for m in kdsl.parallel(M):
        y = x[m] + bias[:]
        o[m] = 0.5 * y * (1 + erf(y * SQRT_HALF))


if __name__ == "__main__":
    import math

    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 777), dtype=np.float32)
    bias = rng.standard_normal(777, dtype=np.float32)
    y = x.astype(np.float64) + bias
    want = 0.5 * y * (1 + np.vectorize(math.erf)(y * SQRT_HALF))
    error = np.abs(gelu_bias(x, bias) - want).max()
    print(f"gelu_bias: largest error against float64 {error:.1e}")
    assert error < 2e-6
