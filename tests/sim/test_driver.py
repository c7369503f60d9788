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
    sim.reports()
    made = Driver()
    yield made
    # What a launch did wrong is an error of whoever synchronises next: no other test.
    made.code("cuCtxSynchronize")


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


def test_reports_and_runs_are_told_each_once_and_apart(driver):
    function = load(driver, kernel(DOUBLE, 2))
    x = sim.array(np.zeros(31))
    for _ in range(2):
        driver.launch(function, 32, [x.address, x.address])
    assert [report.kind for report in sim.reports()] == ["oob-global"]
    assert sim.reports() == []
    assert [len(run.reports) for run in sim.runs()] == [1, 1]
    assert sim.runs() == []
    driver.launch(function, 31, [x.address, x.address])
    assert [run.kernel for run in sim.runs()] == ["k"]
    driver.launch(function, 32, [x.address, x.address])
    assert len(sim.runs()) == 1 and len(sim.reports()) == 1
    driver.code("cuCtxSynchronize")


def test_what_a_kernel_prints_goes_to_the_output_of_the_process(driver, capfd):
    text = "".join(f"{byte}, " for byte in b"hi %d\n")
    outside = f"""
    .global .align 1 .b8 text[7] = {{{text}0}};
    .extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b);"""
    body = """
      .local .align 8 .b8 buffer[8]; .reg .b64 %at;
      mov.u64 %at, buffer; st.local.u32 [%at], 7; cvta.local.u64 %at, %at;
      mov.u64 %rd10, text; cvta.global.u64 %rd10, %rd10;
      .param .b64 a; .param .b64 b; .param .b32 r;
      st.param.b64 [a], %rd10; st.param.b64 [b], %at;
      call.uni (r), vprintf, (a, b);
    """
    driver.launch(load(driver, kernel(body, 0, outside=outside)), 1, [])
    assert capfd.readouterr().out == "hi 7\n"
    (run,) = sim.runs()
    assert run.printed == "hi 7\n"


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


class View:
    """A part of the device's memory, of any strides, as another library would give it."""

    def __init__(self, owner, array):
        self.owner, self.array = owner, array

    def __dlpack_device__(self):
        return self.owner.__dlpack_device__()

    def __dlpack__(self, **_):
        made = self.array.__dlpack__()
        pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
        place = pointer(("PyCapsule_GetPointer", ctypes.pythonapi))(made, b"dltensor")
        ctypes.c_int32.from_address(place + 8).value = 2
        return made


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "u4", "i8", "?", "bfloat16"])
def test_arrays_of_the_device_are_copied_back_whoever_holds_them(dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    x = np.arange(24).reshape(4, 6).astype(dtype)
    on_device = sim.array(x)
    found = sim.numpy(on_device)
    assert found.dtype == x.dtype
    np.testing.assert_array_equal(found, x)
    for part in (np.s_[::2, 1:], np.s_[::-1, ::-2], np.s_[2:2], np.s_[:, 3], np.s_[2:3, 3:4]):
        if x.dtype.kind != "V":  # NumPy hands out only its own
            view = np.asarray(on_device.view[part])
            np.testing.assert_array_equal(sim.numpy(View(on_device, view)), x[part])


def test_what_is_not_on_the_device_is_not_copied_back():
    x = np.arange(6.0)
    with pytest.raises(TypeError, match="expected an array on the simulated device, got list"):
        sim.numpy([1, 2])
    with pytest.raises(TypeError, match=r"\(cuda:0\), got one elsewhere"):
        sim.numpy(x)
    with pytest.raises(ValueError, match="no memory of the simulated device at 0x"):
        sim.numpy(View(sim.array(x), x))


def test_arrays_of_the_device_are_cuda_tensors_to_dlpack():
    x = sim.array(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert x.__dlpack_device__() == (2, 0)
    capsule = x.__dlpack__()
    assert "dltensor" in repr(capsule)
    del capsule
    assert x.numpy().tolist() == [[0, 1, 2], [3, 4, 5]]
    x.write(np.ones((2, 3)))
    assert x.numpy().sum() == 6
