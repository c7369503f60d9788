"""Random functions of the IR do on the CPU what the interpreter says, bit for bit."""

import os

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings

from kdsl.ir.interp import run
from kdsl.ir.printer import show
from tests.cpu.harness import Compiled
from tests.ir_random import arguments, funcs

SIZES = [(4, 5, 3), (1, 1, 1), (3, 17, 9), (2, 0, 4), (2, 4, 0), (3, 33, 20)]


# Shrinking would compile hundreds of candidates; the text of the function is in the message.
@settings(
    max_examples=20,
    deadline=None,
    database=None,
    derandomize="KDSL_TEST_SEED" not in os.environ,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(func=funcs(gathers=True))
def test_random_functions_keep_their_meaning(func):
    kernel = Compiled(func)
    for sizes in SIZES:
        got, want = arguments(*sizes), arguments(*sizes)
        with np.errstate(all="ignore"):
            run(func, want)
        kernel(**got)
        for name in ("z", "o"):
            np.testing.assert_array_equal(
                got[name], want[name], err_msg=f"{name} at {sizes}\n{show(func)}\n{kernel.text}"
            )
