"""The simulator in place of libcuda: what a program sees that loads it as the driver."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from kdsl import sim
from tests.sim.harness import kernel

DOUBLE = """
  ld.global.f64 %d1, [%rd1]; add.f64 %d1, %d1, %d1; st.global.f64 [%rd0], %d1;
"""


class Driver:
    """libcuda's functions by name; a result that is not 0 is an error with its name and text."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL(str(sim.driver_path()))
        self.call("cuInit", 0)

    def code(self, name, *args):
        return getattr(self.lib, name)(*args)

    def call(self, name, *args):
        result = self.code(name, *args)
        if result:
            raise RuntimeError(
                f"{self.text('cuGetErrorName', result)}: {self.text('cuGetErrorString', result)}"
            )

    def text(self, function, result):
        out = ctypes.c_char_p()
        getattr(self.lib, function)(result, ctypes.byref(out))
        return out.value.decode()

    def pointer(self, name, *args):
        out = ctypes.c_void_p()
        self.call(name, ctypes.byref(out), *args)
        return out

    def number(self, name, *args):
        out = ctypes.c_int()
        self.call(name, ctypes.byref(out), *args)
        return out.value

    def launch(self, function, threads, pointers, *, grid=(1, 1, 1), smem=0):
        cells = [ctypes.c_uint64(p) for p in pointers]
        args = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(c) for c in cells))
        self.call("cuLaunchKernel", function, *grid, threads, 1, 1, smem, None, args, None)


@pytest.fixture
def driver():
    sim.runs()
    return Driver()


def allocate(driver, size):
    out = ctypes.c_uint64()
    driver.call("cuMemAlloc_v2", ctypes.byref(out), ctypes.c_size_t(size))
    return out.value


def load(driver, ptx, name="k"):
    library = driver.pointer("cuLibraryLoadData", ptx.encode(), None, None, 0, None, None, 0)
    return driver.pointer("cuLibraryGetKernel", library, name.encode())


def test_a_program_runs_a_kernel_from_load_to_copy_back(driver):
    function = load(driver, kernel(DOUBLE, 2))
    x = np.arange(32.0)
    source, result = allocate(driver, x.nbytes), allocate(driver, x.nbytes)
    driver.call(
        "cuMemcpyHtoD_v2",
        ctypes.c_uint64(source),
        x.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_size_t(x.nbytes),
    )
    driver.launch(function, 32, [result, source])
    driver.call("cuCtxSynchronize")
    y = np.zeros_like(x)
    driver.call(
        "cuMemcpyDtoH_v2",
        y.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_uint64(result),
        ctypes.c_size_t(y.nbytes),
    )
    assert list(y) == list(2 * x)
    assert sim.reports() == []
    for address in (source, result):
        driver.call("cuMemFree_v2", ctypes.c_uint64(address))


def test_what_a_launch_found_is_an_error_at_the_next_synchronisation(driver):
    function = load(driver, kernel(DOUBLE, 2))
    source, result = allocate(driver, 256), allocate(driver, 248)
    driver.call("cuMemsetD8_v2", ctypes.c_uint64(source), 0, ctypes.c_size_t(256))
    driver.launch(function, 32, [result, source])
    with pytest.raises(
        RuntimeError, match="CUDA_ERROR_ILLEGAL_ADDRESS: kernel k: oob-global: write of 8"
    ):
        driver.call("cuCtxSynchronize")
    driver.call("cuCtxSynchronize")  # said once
    (report,) = sim.reports()
    assert report.kind == "oob-global" and report.thread == 31
    assert report.text == "write of 8 bytes: 0 bytes past the end of device memory (248 bytes)"
    assert sim.reports() == []


def test_device_memory_has_no_values_until_something_writes_it(driver):
    function = load(driver, kernel(DOUBLE, 2))
    driver.launch(function, 32, [allocate(driver, 256), allocate(driver, 256)])
    (report,) = sim.reports()
    assert report.kind == "uninit-global"
    assert report.text == "read of device memory at byte 0, which nothing has written"


def test_freed_memory_is_told_from_memory_that_never_was(driver):
    function = load(driver, kernel(DOUBLE, 2))
    source, result = allocate(driver, 256), allocate(driver, 256)
    driver.call("cuMemFree_v2", ctypes.c_uint64(source))
    driver.launch(function, 32, [result, source])
    (report,) = sim.reports()
    assert report.text == "read of 8 bytes: memory that was freed (device memory)"


def test_the_device_is_an_sm_80_unless_asked_for_another(driver, monkeypatch):
    assert driver.number("cuDeviceGetCount") == 1
    device = driver.number("cuDeviceGet", 0)
    name = ctypes.create_string_buffer(64)
    driver.call("cuDeviceGetName", name, 64, device)
    assert name.value == b"kdsl simulator sm_80"
    assert [driver.number("cuDeviceGetAttribute", n, device) for n in (75, 76, 97)] == [
        8,
        0,
        166912,
    ]
    assert driver.code("cuDeviceGet", ctypes.byref(ctypes.c_int()), 1) == 101


@pytest.mark.parametrize(("ptx", "error"), [
    (kernel("  frobnicate.b32 %r1, %r2;", 0),
     "CUDA_ERROR_INVALID_PTX: kernel k: the simulator does not know `frobnicate.b32 %r1, %r2`"),
    ("\x7fELF", "CUDA_ERROR_NO_BINARY_FOR_GPU: the simulator runs PTX; this image is machine code"),
    (kernel("", 0).replace("sm_80", "sm_90"),
     "CUDA_ERROR_NO_BINARY_FOR_GPU: the PTX is for sm_90, the simulated device is sm_80"),
    ("int main() {}", "CUDA_ERROR_INVALID_PTX: PTX line 1: expected a directive, found `int`"),
    (kernel("", 0, name="other"), "CUDA_ERROR_NOT_FOUND: named symbol not found"),
])  # fmt: skip
def test_what_cannot_run_is_refused_when_it_is_loaded(driver, ptx, error):
    with pytest.raises(RuntimeError) as caught:
        load(driver, ptx)
    assert str(caught.value).startswith(error)


def test_more_shared_memory_than_48_kb_must_be_asked_for(driver):
    function = load(driver, kernel("", 0))
    with pytest.raises(
        RuntimeError,
        match="CUDA_ERROR_INVALID_VALUE: kernel k: 65536 bytes of shared memory, it may have 49152",
    ):
        driver.launch(function, 32, [], smem=65536)
    with pytest.raises(RuntimeError, match="200000 bytes of shared memory; the device has 166912"):
        driver.call("cuKernelSetAttribute", 8, 200000, function, 0)
    driver.call("cuKernelSetAttribute", 8, 65536, function, 0)
    driver.launch(function, 32, [], smem=65536)
    with pytest.raises(RuntimeError, match=r"block \(2048, 1, 1\): a block has 1 to 1024 threads"):
        driver.launch(function, 2048, [])
    with pytest.raises(RuntimeError, match=r"grid \(1, 70000, 1\)"):
        driver.launch(function, 32, [], grid=(1, 70000, 1))


def test_pinned_memory_is_the_same_on_both_sides(driver):
    function = load(driver, kernel(DOUBLE, 2))
    block = driver.pointer("cuMemHostAlloc", ctypes.c_size_t(256), 2)
    device = ctypes.c_uint64()
    driver.call("cuMemHostGetDevicePointer_v2", ctypes.byref(device), block, 0)
    x = np.ctypeslib.as_array(ctypes.cast(block, ctypes.POINTER(ctypes.c_double)), (32,))
    x[:] = 21
    driver.launch(function, 32, [device.value, device.value])
    assert list(x) == [42.0] * 32
    driver.call("cuMemFreeHost", block)


def test_arrays_of_the_device_are_cuda_tensors_to_dlpack():
    x = sim.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert x.__dlpack_device__() == (2, 0)
    capsule = x.__dlpack__()
    assert "dltensor" in repr(capsule)
    del capsule
    assert x.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    x.write(np.ones((2, 3)))
    assert x.numpy().sum() == 6
