"""Rotary position embedding in place: halves of each head turn by angles of the position."""

import kdsl
from kdsl import InOut, bf16, f16, f32

T = kdsl.dtypes("T", f16, bf16, f32)
B, S, H, D = kdsl.dims("B S H D")


@kdsl.kernel
def rope(cos: f32[S, D // 2], sin: f32[S, D // 2], x: InOut[T[B, S, H, D]]):
    """Each pair (x[..., i], x[..., i + D / 2]) turns by the angle that cos and sin are of."""
    kdsl.require(D % 2 == 0)
    for b, s, h in kdsl.parallel(B, S, H):
        c, d = cos[s], sin[s]
        left, right = x[b, s, h, : D // 2], x[b, s, h, D // 2 :]
        x[b, s, h, : D // 2] = left * c - right * d
        x[b, s, h, D // 2 :] = right * c + left * d


if __name__ == "__main__":
    import numpy as np

    x = np.random.default_rng(0).standard_normal((2, 100, 3, 48), dtype=np.float32)
    angle = np.arange(100)[:, None] * 10000.0 ** -(np.arange(24) / 24)
    left, right = x[..., :24].astype(np.float64), x[..., 24:].astype(np.float64)
    turned = (left + 1j * right) * np.exp(1j * angle)[:, None]
    rope(np.cos(angle).astype(np.float32), np.sin(angle).astype(np.float32), x)
    error = np.abs(x - np.concatenate([turned.real, turned.imag], axis=-1)).max()
    print(f"rope: largest error against float64 {error:.1e}")
    assert error < 1e-6
