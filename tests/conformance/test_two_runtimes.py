"""One module that two runtimes have loaded in one process: each sees the errors of its calls."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tvm_ffi

from kdsl.runtime import load_module

LOADERS = {"kdsl": load_module, "tvm": tvm_ffi.load_module}


@pytest.mark.parametrize("order", [("kdsl", "tvm"), ("tvm", "kdsl")], ids=" ".join)
def test_both_runtimes_call_and_see_errors_in_either_order(samples_path, tmp_path, order):
    # A copy is a library of its own: whoever loads it first is new to it.
    path = shutil.copy(samples_path, tmp_path)
    modules = [LOADERS[name](path) for name in order]
    x, wrong = np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)
    for module in modules * 2:
        assert (np.from_dlpack(module.axpy(1.0, x, x)) == 2).all()
        with pytest.raises(ValueError, match=r"expected f32\[M=2, N=3\], got f32\[2, 4\]$"):
            module.axpy(1.0, x, wrong)
