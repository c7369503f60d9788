"""Memory of a call on a GPU: packed copies, outputs that it makes, what is over what."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.codegen import samples
from tests.ffi import gpu
from tests.ffi.gpu import rows, run_axpy, tensor, view

AXPY = samples.axpy().signature.text
ROOM = samples.room().signature.text


def test_outputs_over_inputs_are_found_by_their_addresses(driver, module):
    memory = np.zeros(40, np.float32)
    x, o = memory[:12].reshape(3, 4), memory[4:16].reshape(3, 4)
    assert module("axpy", 2.0, tensor(x), tensor(rows(3, 4)), tensor(o)) == (
        f"ValueError: {AXPY}: argument 3 `o`: shares memory with argument 1 `x`; pass a buffer of "
        "its own, or declare one parameter InOut"
    )
    assert driver.calls() == []


def strided(kind):
    """Three views of 5 x 6 floats, of which the last is written."""
    memory = rows(3, 24, 24)
    view = {
        "columns apart": memory[:, :5, :12:2],
        "transposed": memory[:, :6, :5].transpose(0, 2, 1),
        "backwards": memory[:, 5:0:-1, 6:0:-1],
        "rows not aligned": memory[:, :5, :6],
        "address not aligned": memory[:, :5, 1:7],
        "one row, not aligned": memory[:, :1, 3:9],
        "padded": memory.reshape(3, 18, 32)[:, :5, :6],
    }[kind]
    return memory, view


@pytest.mark.parametrize(
    ("kind", "copies"),
    [
        ("columns apart", 3),  # inputs in, the output back
        ("transposed", 3),
        ("backwards", 3),
        ("rows not aligned", 0),
        ("address not aligned", 1),  # the kernel wants `x` alone to be aligned
        ("one row, not aligned", 1),
        ("padded", 0),
    ],
)
def test_views_that_a_kernel_cannot_read_are_packed(driver, module, kind, copies):
    memory, (x, y, o) = strided(kind)
    before = memory.copy()
    expected = memory.copy()
    offset = (o.ctypes.data - memory.ctypes.data) // 4
    steps = [s // 4 for s in o.strides]
    flat = expected.reshape(-1)
    for i in range(o.shape[0]):
        for j in range(o.shape[1]):
            flat[offset + i * steps[0] + j * steps[1]] = 2 * x[i, j] + y[i, j]
    driver.on_launch(run_axpy)
    assert module("axpy", 2.0, tensor(x), tensor(y), tensor(o)) is None
    assert (memory == expected).all() and (memory != before).any()
    assert len(driver.calls("cuLaunchKernel")) == copies + 1
    assert driver.live()[0] == 0
    freed = driver.calls("cuMemFreeAsync", "cuLaunchKernel")
    assert freed.count("cuMemFreeAsync") == copies
    assert all(line == "cuMemFreeAsync" for line in freed[copies + 1 :]), "freed behind all work"


def test_omitted_outputs_are_made_on_the_gpu(driver, module):
    x = rows(3, 4)
    driver.on_launch(run_axpy)
    made = module("axpy", 2.0, tensor(x), tensor(x), None)
    found = gpu.DLTensor.from_address(made + 24)
    assert (found.device_type, found.device_id, found.ndim) == (2, 0, 2)
    assert list(found.shape[:2]) == [3, 4] and list(found.strides[:2]) == [4, 1]
    assert (view(found.data, (4, 1), 3, 4) == 3 * x).all()
    assert driver.live()[0] == 1
    deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)
    deleter(ctypes.c_void_p.from_address(made + 16).value)(made, 3)
    assert driver.live()[0] == 0
    assert driver.library.fake_current() == -1


def test_memory_that_cannot_be_had_is_an_error_and_nothing_is_left(driver, module):
    x = rows(3, 4)
    driver.fail("cuMemAlloc", 2)
    assert module("axpy", 2.0, tensor(x), tensor(x), None) == (
        f"MemoryError: {AXPY}: argument 3 `o`: no memory for f32[3, 4] on cuda:0"
    )
    driver.fail("cuMemAllocAsync", 2)
    out = tensor(np.zeros((3, 4, 1), np.float32))
    assert module("room", tensor(x), 1000, 1, out) == (
        f"MemoryError: {ROOM}: cuda:0: cuMemAllocAsync: CUDA_ERROR_OUT_OF_MEMORY (out of memory), "
        "for scratch memory"
    )
    assert driver.live()[0] == 0
