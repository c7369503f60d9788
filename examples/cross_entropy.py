"""Cross entropy of logits with integer labels, some of them to be ignored."""

import kdsl
from kdsl import Out, bf16, exp, f16, f32, i64, log, where

T = kdsl.dtypes("T", f16, bf16, f32)
M, V = kdsl.dims("M V")

IGNORE = -100


@kdsl.kernel
def cross_entropy(x: T[M, V], labels: i64[M], loss: Out[f32[M]], lse: Out[f32[M]]):
    """loss[m] = log(sum(exp(x[m]))) - x[m, labels[m]], 0 where the label is -100.

    Any other label outside the classes is an IndexError.
    """
    for m in kdsl.parallel(M):
        row, label = x[m], labels[m]
        top = row.max()
        total = log(exp(row - top).sum()) + top
        # There is no element -100 to read; element 0 is as good as any where none counts.
        chosen = x[m, where(label == IGNORE, 0, label)]
        loss[m] = where(label == IGNORE, 0, total - chosen)
        lse[m] = total


if __name__ == "__main__":
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((500, 777), dtype=np.float32)
    labels = rng.integers(0, 777, 500)
    labels[::7] = IGNORE
    want = np.log(np.exp(x.astype(np.float64)).sum(axis=1)) - x[np.arange(500), labels]
    want[::7] = 0
    error = np.abs(cross_entropy(x, labels)[0] - want).max()
    print(f"cross_entropy: largest error against float64 {error:.1e}")
    assert error < 2e-6
