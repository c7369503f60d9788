"""Random kernels around products do on the CPU what NumPy says, bit for bit."""

import numpy as np
import pytest

from tests.random_kernels import SEEDS, SIZES, arguments, kernel, results


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_kernel_keeps_its_meaning(tmp_path, seed):
    own = kernel(seed, tmp_path)
    for sizes in SIZES:
        values = arguments(own, sizes, seed)
        want = results(own, values)
        for got, (name, right) in zip(own(**values), want.items(), strict=True):
            np.testing.assert_array_equal(got, right, f"{name} at {sizes}")
