"""What the reference run takes, and refuses as the compiled kernel does."""

from __future__ import annotations

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch
from kdsl import lang as kdsl
from kdsl.frontend import capture
from kdsl.frontend.reference import reference
from kdsl.lang import Out, Static, bf16, f32

T = kdsl.dtypes("T", bf16, f32)
M, N, G = kdsl.dims("M N G")


def double(x: T[N], o: Out[T[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * 2


@pytest.mark.parametrize("make", [
    lambda: torch.arange(4.0), lambda: torch.arange(4.0).bfloat16(), lambda: jnp.arange(4.0),
    lambda: jnp.arange(4.0, dtype=jnp.bfloat16), lambda: torch.arange(8.0)[::2] / 2,
])  # fmt: skip
def test_arrays_of_other_frameworks_are_taken(make):
    got = reference(capture(double), [make()], {})
    assert got.dtype in (np.float32, ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got.astype(np.float32), [0, 2, 4, 6])


def test_an_output_of_torch_is_written():
    out = torch.zeros(3)
    assert reference(capture(double), [torch.ones(3), out], {}) is None
    assert out.tolist() == [2, 2, 2]


def test_an_output_of_jax_cannot_be():
    with pytest.raises(ValueError, match=r"argument 1 `o`: expected f32\[N=3\] that may be writ"):
        reference(capture(double), [jnp.ones(3), jnp.zeros(3)], {})


def of_another_dim(x: f32[N], y: f32[M], o: Out[f32[N]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        o[m] = x[m]


@pytest.mark.parametrize("sizes", [(4, 3), (4, 4)])
def test_a_tile_of_another_dim_is_refused_whatever_the_sizes(sizes):
    n, m = sizes
    with pytest.raises(TypeError) as caught:
        reference(capture(of_another_dim), [np.ones(n, np.float32), np.ones(m, np.float32)], {})
    assert str(caught.value) == (
        "a tile of M does not fit this axis of `x`, which is N: walk kdsl.tiles(N) instead"
    )


def static_sizes(x: f32[M], o: Out[f32[M]], *, M: Static[int], G: Static[int]):
    for m in kdsl.parallel(kdsl.tiles(G)):
        o[m] = x[m]


def test_dims_known_at_compile_time_are_the_numbers_that_they_are():
    x = np.ones(4, np.float32)
    assert reference(capture(static_sizes), [x], {"M": 4, "G": 4}).tolist() == [1, 1, 1, 1]


def by_zero(x: f32[N], y: f32[G], o: Out[f32[N]]):
    part = N // G
    for i in kdsl.parallel(N):
        o[i] = x[i] + part


def test_a_size_divided_by_zero_is_the_error_of_the_host():
    with pytest.raises(ValueError, match=r"division by zero in N // G: N=2, G=0$"):
        reference(capture(by_zero), [np.ones(2, np.float32), np.ones(0, np.float32)], {})
