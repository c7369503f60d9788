"""Random functions and kernels do in the simulator what NumPy says, bit for bit."""

from __future__ import annotations

import os

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from kdsl.ir.interp import run as interpret
from kdsl.ir.printer import show
from tests import random_kernels
from tests.cuda.launch import build, build_func, run
from tests.ir_random import arguments, funcs

SIZES = [(4, 5, 3), (1, 1, 1), (3, 17, 9), (2, 0, 4), (2, 4, 0), (2, 40, 33)]


# Shrinking would compile hundreds of candidates; the text of the function is in the message.
@settings(
    max_examples=8,
    deadline=None,
    database=None,
    derandomize="KDSL_TEST_SEED" not in os.environ,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(func=funcs(gathers=True, scans=True))
def test_random_functions_keep_their_meaning_on_teams(ptx_folder, func):
    built = build_func(func, ptx_folder)
    for sizes in SIZES:
        want = arguments(*sizes)
        with np.errstate(all="ignore"):
            interpret(func, want)
        got, runs, _ = run(built, arguments(*sizes))
        where = f"at {sizes}\n{show(func)}\n{built.text}"
        assert [str(r) for phase in runs for r in phase.reports] == [], where
        for name in ("z", "o"):
            np.testing.assert_array_equal(got[name], want[name], err_msg=f"{name} {where}")


@pytest.mark.parametrize("seed", random_kernels.SEEDS)
def test_a_random_kernel_keeps_its_meaning_on_tensor_cores(ptx_folder, seed):
    kernel = random_kernels.kernel(seed, ptx_folder)
    built = build(kernel, ptx_folder, dims={"D": 32} if seed % 2 else {})
    for sizes in random_kernels.SIZES:
        values = random_kernels.arguments(kernel, sizes, seed)
        got, runs, _ = run(built, values)
        assert [str(r) for phase in runs for r in phase.reports] == [], sizes
        for name, want in random_kernels.results(kernel, values).items():
            np.testing.assert_array_equal(got[name], want, f"{name} at {sizes}")
