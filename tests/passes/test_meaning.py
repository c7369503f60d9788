"""Every pass keeps what random functions mean, obeys the rules of the IR, and is idempotent."""

from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdsl.ir.parser import parse
from kdsl.ir.printer import show
from kdsl.ir.verify import verify
from kdsl.passes import run_pipeline, specialise
from kdsl.passes.accumulate import accumulate
from kdsl.passes.bounds import bounds
from kdsl.passes.contract import contract
from kdsl.passes.cse import cse
from kdsl.passes.dce import dce
from kdsl.passes.fold import fold
from kdsl.passes.hoist import hoist
from kdsl.passes.localise import localise
from kdsl.passes.sink_scale import sink_scale
from tests.ir_random import funcs, outputs

PASSES = (
    bounds, localise, fold, cse, hoist, dce, sink_scale, accumulate, contract,
    partial(specialise, dims={"K": 5}),
)  # fmt: skip
SIZES = st.sampled_from([(2, 4, 5), (1, 3, 5), (2, 7, 5), (0, 4, 5), (1, 0, 5)])

random_functions = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def name(step):
    return getattr(step, "__name__", "specialise")


def assert_same_outputs(new, old, sizes):
    for got, want in zip(outputs(new, sizes), outputs(old, sizes), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("step", PASSES, ids=name)
@random_functions
@given(func=funcs(gathers=True, scans=True), sizes=SIZES)
def test_a_pass_keeps_the_meaning_and_is_idempotent(step, func, sizes):
    verify(func)
    new = step(func)
    verify(new, name(step))
    assert_same_outputs(new, func, sizes)
    assert step(new) == new


@random_functions
@given(func=funcs(gathers=True, scans=True), sizes=SIZES)
def test_the_pipeline_keeps_the_meaning(func, sizes):
    assert_same_outputs(run_pipeline(func), func, sizes)


@random_functions
@given(func=funcs(gathers=True, scans=True))
def test_text_of_random_functions_reads_back(func):
    assert parse(show(func)) == func
