"""argmax of nothing is an error of the call."""

import numpy as np
import pytest

import kdsl
from kdsl import Out, f32, i64
from kdsl.frontend import capture, lower
from kdsl.ir import nodes as ir
from kdsl.passes import run_pipeline
from kdsl.passes.nonempty import nonempty

M, N = kdsl.dims("M N")


def best(x: f32[M, N], o: Out[i64[M]]):
    for m in kdsl.parallel(M):
        o[m] = x[m].argmax()


def test_an_argmax_requires_elements_once():
    func = lower(capture(best), {}, {})
    asked = nonempty(func)
    assert [s.text for s in asked.host if isinstance(s, ir.Require)] == ["N > 0"]
    assert nonempty(asked) is asked
    assert any(isinstance(s, ir.Require) for s in run_pipeline(func).host)


def test_a_call_without_elements_is_told():
    with pytest.raises(ValueError, match=r"require N > 0 failed: N=0$"):
        kdsl.kernel(best)(np.zeros((3, 0), np.float32))
