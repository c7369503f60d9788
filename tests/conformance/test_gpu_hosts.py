"""Other runtimes call a module with tensors on a GPU: their streams, their errors."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import tvm_ffi

from tests.codegen import samples
from tests.ffi.conftest import cuda_driver as cuda_driver
from tests.ffi.conftest import driver as driver
from tests.ffi.conftest import gpu_path as gpu_path
from tests.ffi.gpu import OnGpu

AXPY = samples.axpy().signature.text


@pytest.fixture
def module(gpu_path, tmp_path):
    # A copy is a library of its own: nobody has loaded its code before.
    return tvm_ffi.load_module(shutil.copy(gpu_path, tmp_path / "gpu.so"))


X = np.ones((3, 4), np.float32)
ON_GPU = OnGpu(X), OnGpu(np.zeros_like(X))


def test_apache_tvm_ffi_says_which_stream(driver, module):
    x, o = map(tvm_ffi.from_dlpack, ON_GPU)
    module.axpy(1.0, x, x, o)
    with tvm_ffi.use_raw_stream(tvm_ffi.device("cuda:0"), 0x1230):
        module.axpy(1.0, x, x, o)
    launches = driver.calls("cuLaunchKernel")
    assert [line.rsplit(" ", 1)[1] for line in launches] == ["(nil)", "0x1230"]


def test_apache_tvm_ffi_gets_results_on_the_gpu_and_errors(driver, module):
    x = tvm_ffi.from_dlpack(ON_GPU[0])
    made = module.axpy(1.0, x, x, None)
    assert (tuple(made.shape), str(made.device)) == ((3, 4), "cuda:0")
    before = driver.live()[0]
    del made
    assert driver.live()[0] == before - 1
    with pytest.raises(ValueError) as err:
        module.axpy(1.0, x, tvm_ffi.from_dlpack(X), None)
    assert str(err.value) == (
        f"{AXPY}: argument 2 `y`: expected f32[M=3, N=4] on cuda:0, got f32[3, 4]"
    )
    driver.fail("cuLaunchKernel")
    with pytest.raises(RuntimeError, match="cuda:0: cuLaunchKernel: CUDA_ERROR_UNKNOWN"):
        module.axpy(1.0, x, x, x)
