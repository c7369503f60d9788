"""The host side of GPU calls against a driver that runs nothing and fails on demand."""

from __future__ import annotations

import ctypes
import threading

import numpy as np
import pytest

from kdsl import gpus
from tests.codegen import samples
from tests.ffi import gpu
from tests.ffi.gpu import rows, run_axpy, tensor

AXPY = samples.axpy().signature.text
TAKE = samples.take().signature.text
ROOM = samples.room().signature.text
ATTENTION = samples.attention().signature.text


def test_a_call_queues_its_kernel_and_returns(driver, module):
    x = rows(3, 4)
    assert module("axpy", 2.0, tensor(x), tensor(x), tensor(np.zeros_like(x))) is None
    assert driver.calls("cuLaunchKernel") == [
        "cuLaunchKernel axpy_rows (3, 1, 1) x (128, 1, 1), 0, (nil)"
    ]
    assert driver.calls("cuStreamSynchronize", "cuCtxSynchronize") == []
    assert driver.live() == (0, 1, 1, 1)
    assert driver.library.fake_current() == -1, "the caller had no context and has none again"
    driver.reset()
    module("axpy", 2.0, tensor(x), tensor(x), tensor(np.zeros_like(x)))
    assert driver.calls() == [
        "cuCtxGetCurrent",
        "cuCtxSetCurrent 0",
        "cuLaunchKernel axpy_rows (3, 1, 1) x (128, 1, 1), 0, (nil)",
        "cuCtxSetCurrent -1",
    ]


def test_a_context_of_the_same_gpu_stays_and_one_of_another_comes_back(driver, module):
    x, o = rows(3, 4), np.zeros((3, 4), np.float32)
    module("axpy", 2.0, tensor(x), tensor(x), tensor(o))
    for device, switches in ((0, []), (1, ["cuCtxSetCurrent 0", "cuCtxSetCurrent 1"])):
        driver.reset()
        driver.library.fake_use(device)
        assert module("axpy", 2.0, tensor(x), tensor(x), tensor(o)) is None
        assert driver.calls("cuCtxSetCurrent") == switches
        assert driver.library.fake_current() == device


def test_each_gpu_gets_the_code_that_it_can_run(driver, module):
    x, o = rows(3, 4), np.zeros((3, 4), np.float32)
    for device in (0, 1, 0, 1):
        assert module("axpy", 2.0, tensor(x, device), tensor(x, device), tensor(o, device)) is None
    assert driver.calls("cuDevicePrimaryCtxRetain", "cuLibraryLoadData") == [
        "cuDevicePrimaryCtxRetain 0",
        "cuLibraryLoadData cubin",
        "cuDevicePrimaryCtxRetain 1",
        "cuLibraryLoadData ptx",  # sm_90 does not run machine code of sm_80
    ]


@pytest.mark.parametrize("flag", ["-DFAKE_OLD", "-DFAKE_SIMULATOR"])
def test_older_drivers_and_the_simulator_are_enough(tmp_path, monkeypatch, module, flag):
    path = tmp_path / "libcuda.so"
    gpu.build_driver(path, flag)
    driver = gpu.ready(gpu.Driver(path), monkeypatch)
    x, o = rows(3, 5), np.zeros((3, 5), np.float32)
    driver.on_launch(run_axpy)
    driver.library.fake_use(0)
    assert module("axpy", 2.0, tensor(x), tensor(x), tensor(o)) is None
    assert (o == 3 * x).all()
    # The simulator runs PTX; a driver before 12.0 has modules, one before 11.2 no pools.
    is_old = flag == "-DFAKE_OLD"
    assert driver.calls("cuModuleLoadData", "cuLibraryLoadData") == [
        "cuModuleLoadData cubin" if is_old else "cuLibraryLoadData ptx"
    ]
    assert driver.calls("cuMemFree", "cuMemFreeAsync", "cuStreamSynchronize") == (
        ["cuStreamSynchronize (nil)", "cuMemFree"] if is_old else ["cuMemFreeAsync"]
    )
    assert driver.live() == (0, 1, 1, 1)


def test_a_driver_too_old_for_the_machine_code_gets_ptx(driver, module):
    x = tensor(rows(3, 4))
    driver.fail("cuLibraryLoadData", 218)
    text = module("axpy", 2.0, x, x, None)
    assert text == f"RuntimeError: {AXPY}: cuda:0: cuLibraryLoadData: error 218"
    assert driver.calls("cuLibraryLoadData") == ["cuLibraryLoadData cubin", "cuLibraryLoadData ptx"]


def test_without_a_driver_a_call_says_what_is_missing(monkeypatch, module):
    monkeypatch.delenv("KDSL_CUDA_DRIVER", raising=False)
    x = tensor(rows(3, 4))
    text = module("axpy", 2.0, x, x, None)
    start = f"RuntimeError: {AXPY}: cuda:0: no CUDA driver: libcuda.so.1: cannot open shared object"
    assert text.startswith(start)
    assert text.endswith(f"; {gpus.HINT}")
    monkeypatch.setenv("KDSL_CUDA_DRIVER", "/nowhere/libcuda.so")
    assert module("axpy", 2.0, x, x, None) == (
        f"RuntimeError: {AXPY}: cuda:0: no CUDA driver: /nowhere/libcuda.so: cannot open shared "
        "object file: No such file or directory; KDSL_CUDA_DRIVER names it"
    )


def test_a_host_without_python_is_told_how_to_name_the_simulator(monkeypatch, module):
    monkeypatch.setenv("KDSL_CUDA_DRIVER", "sim")
    x = tensor(rows(3, 4))
    assert module("axpy", 2.0, x, x, None) == (
        f"RuntimeError: {AXPY}: cuda:0: no CUDA driver: sim: cannot open shared object file: No "
        "such file or directory; for the simulator KDSL_CUDA_DRIVER is what "
        "kdsl.sim.driver_path() gives"
    )


def test_a_library_that_is_no_driver_is_named(monkeypatch, module):
    monkeypatch.setenv("KDSL_CUDA_DRIVER", "libm.so.6")
    x = tensor(rows(3, 4))
    assert module("axpy", 2.0, x, x, None) == (
        f"RuntimeError: {AXPY}: cuda:0: the CUDA driver libm.so.6 has no cuInit"
    )


FIRST_CALL = (
    "cuInit",
    "cuDeviceGet",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxGetCurrent",
    "cuCtxSetCurrent",
    "cuMemHostAlloc",
    "cuMemHostGetDevicePointer",
    "cuLibraryLoadData",
    "cuLibraryGetKernel",
    "cuMemAllocAsync",
)


@pytest.mark.parametrize("function", FIRST_CALL)
def test_any_function_of_the_driver_may_fail_and_nothing_is_left_behind(driver, module, function):
    x, o = rows(3, 5), np.zeros((3, 5), np.float32)  # rows of 20 bytes: `x` needs a copy
    before = driver.live()
    driver.fail(function)
    text = module("axpy", 2.0, tensor(x), tensor(x), tensor(o))
    asked = {"cuMemAllocAsync": ", for a temporary copy", "cuLibraryGetKernel": ", kdsl_copy"}
    assert text == (
        f"RuntimeError: {AXPY}: cuda:0: {function}: CUDA_ERROR_UNKNOWN (unknown error)"
        f"{asked.get(function, '')}"
    )
    if function not in asked:
        assert driver.live() == before
    driver.reset()
    driver.library.fake_use(-1)
    driver.on_launch(run_axpy)
    assert module("axpy", 2.0, tensor(x), tensor(x), tensor(o)) is None
    assert (o == 3 * x).all()
    assert driver.live()[0] == before[0]


def test_a_failed_launch_tells_kernel_grid_and_memory(driver, module):
    q = np.zeros((2, 1, 3, 64), np.float32)
    lse = np.zeros((2, 1, 3), np.float32)
    driver.fail("cuLaunchKernel")
    args = (tensor(q), tensor(q), tensor(q), 1.0, tensor(np.zeros_like(q)), tensor(lse))
    assert module("attention", *args) == (
        f"RuntimeError: {ATTENTION}: cuda:0: cuLaunchKernel: CUDA_ERROR_UNKNOWN (unknown error), "
        "attention_empty with a grid of 2 x 1 blocks of 128 threads and 98304 bytes of shared "
        "memory"
    )
    assert driver.calls("cuKernelSetAttribute") == ["cuKernelSetAttribute 8 98304 0"]
    driver.fail("cuLaunchKernel", 2)
    assert module("attention", *args).startswith("MemoryError: ")


def test_sizes_that_were_not_compiled_are_listed(driver, module):
    q = np.zeros((2, 1, 3, 32), np.float32)
    assert module("attention", tensor(q), tensor(q), tensor(q), 1.0) == (
        f"ValueError: {ATTENTION}: no CUDA code for T=f32, causal=False, D=32; "
        "compiled: T=f32, causal=False, D=64"
    )
    q = np.zeros((2, 1, 3, 64), np.float32)
    assert module("attention", tensor(q), tensor(q), tensor(q), 1.0, None, None, True) == (
        f"ValueError: {ATTENTION}: no CUDA code for T=f32, causal=True, D=64; "
        "compiled: T=f32, causal=False, D=64"
    )


def test_tensors_of_a_call_are_on_one_device(driver, module):
    x, o = rows(3, 4), np.zeros((3, 4), np.float32)
    assert module("axpy", 2.0, tensor(x), tensor(x, None), tensor(o)) == (
        f"ValueError: {AXPY}: argument 2 `y`: expected f32[M=3, N=4] on cuda:0, got f32[3, 4]"
    )
    assert module("axpy", 2.0, tensor(x), tensor(x, 1), tensor(o)) == (
        f"ValueError: {AXPY}: argument 2 `y`: expected f32[M=3, N=4] on cuda:0, "
        "got f32[3, 4] on cuda:1"
    )
    assert module("axpy", 2.0, tensor(x, None), tensor(x), tensor(o)) == (
        f"ValueError: {AXPY}: argument 2 `y`: expected f32[M=3, N=4], got f32[3, 4] on cuda:0"
    )
    assert module("axpy", 2.0, *[tensor(a, None) for a in (x, x, o)]) == (
        f"ValueError: {AXPY}: no CPU code; its tensors are on the CPU"
    )
    assert module("axpy", 2.0, *[tensor(a, 7) for a in (x, x, o)]) == (
        f"RuntimeError: {AXPY}: cuda:7: cuDeviceGet: error 101"
    )
    assert module("axpy", 2.0, *[tensor(a, 64) for a in (x, x, o)]) == (
        f"RuntimeError: {AXPY}: cuda:64: there is no such GPU"
    )


def test_grids_are_folded_and_empty_ones_not_launched(driver, module):
    x, out = tensor(rows(3, 4)), tensor(np.zeros((3, 4, 1), np.float32))
    grids = {
        0: [],
        1: ["cuLaunchKernel room_fill (1, 1, 1) x (32, 1, 1), 0, (nil)"],
        2**31 - 1: ["cuLaunchKernel room_fill (2147483647, 1, 1) x (32, 1, 1), 0, (nil)"],
        2**31: ["cuLaunchKernel room_fill (1073741824, 2, 1) x (32, 1, 1), 0, (nil)"],
        2**40 + 1: ["cuLaunchKernel room_fill (2143297521, 513, 1) x (32, 1, 1), 0, (nil)"],
    }
    for blocks, launches in grids.items():
        driver.reset()
        assert module("room", x, 0, blocks, out) is None
        assert driver.calls("cuLaunchKernel") == launches
    assert module("room", x, 0, 2**62, out) == (
        f"ValueError: {ROOM}: a grid has a number of blocks that does not fit in 64 bits"
    )
    assert module("room", x, -1, 1, out) == (
        f"ValueError: {ROOM}: scratch memory has a negative size, or one that does not fit in 64 "
        "bits"
    )


def test_a_call_without_elements_queues_nothing(driver, module):
    x = np.zeros((0, 4), np.float32)
    assert module("axpy", 2.0, tensor(x), tensor(x), tensor(np.zeros_like(x))) is None
    assert driver.calls("cuLaunchKernel") == []


class TakeArgs(ctypes.Structure):
    _fields_ = (
        ("ids", ctypes.c_void_p),
        ("ids_strides", ctypes.c_long * 1),
        ("x", ctypes.c_void_p),
        ("x_strides", ctypes.c_long * 2),
        ("runs", ctypes.c_void_p),
        ("o", ctypes.c_void_p),
        ("o_strides", ctypes.c_long * 1),
        ("scratch", ctypes.c_void_p),
        ("fault", ctypes.c_void_p),
        ("N", ctypes.c_long),
        ("M", ctypes.c_long),
    )


def find_fault(symbol, address):
    """What `take_ids` reports of an index 9 where there are 3 rows."""
    if symbol == "take_ids":
        fault = TakeArgs.from_address(address).fault
        ctypes.c_int.from_address(fault).value = 1
        ctypes.c_int.from_address(fault + 4).value = 0
        ctypes.c_long.from_address(fault + 8).value = 9
        ctypes.c_long.from_address(fault + 16).value = 3
    return 0


def take(module):
    ids, x = np.array([0, 9]), rows(3, 4)
    return module(
        "take",
        tensor(ids),
        tensor(x),
        tensor(np.array(0, np.int32)),
        tensor(np.zeros(2, np.float32)),
    )


FAULT = (
    f"IndexError: {TAKE}: index 9 is out of range for dimension 0 of `x` (M=3), at kernels.py:82, "
    "on cuda:0"
)


def test_an_index_out_of_range_is_raised_by_the_next_call_of_the_module(driver, module):
    driver.on_launch(find_fault)
    assert take(module) is None, "the kernel may not even have begun"
    x = tensor(rows(3, 4))
    driver.reset()
    assert module("axpy", 2.0, x, x, None) == f"{FAULT}, in an earlier call"
    assert driver.calls() == [
        "cuCtxGetCurrent", "cuCtxSetCurrent 0", "cuCtxSynchronize", "cuCtxSetCurrent -1",
    ]  # fmt: skip
    assert take(module) is None, "told once"


def test_synchronize_waits_and_raises_what_was_found(driver, module):
    assert module("__kdsl_synchronize") is None, "nothing was used yet"
    driver.on_launch(find_fault)
    take(module)
    assert module("__kdsl_synchronize") == FAULT
    assert module("__kdsl_synchronize") is None
    driver.fail("cuCtxSynchronize")
    assert module("__kdsl_synchronize") == (
        "RuntimeError: kdsl.synchronize: cuda:0: cuCtxSynchronize: CUDA_ERROR_UNKNOWN "
        "(unknown error)"
    )


def test_kdsl_check_raises_at_once(driver, module, monkeypatch):
    monkeypatch.setenv("KDSL_CHECK", "1")
    driver.on_launch(find_fault)
    assert take(module) == FAULT
    assert driver.calls("cuStreamSynchronize") == ["cuStreamSynchronize (nil)"]
    driver.reset()
    driver.fail("cuStreamSynchronize")
    assert take(module) == (
        f"RuntimeError: {TAKE}: cuda:0: cuStreamSynchronize: CUDA_ERROR_UNKNOWN (unknown error), "
        "take_ids, take_count"
    )
    driver.fail("cuStreamSynchronize", 900)  # a stream that is being captured cannot be waited for
    assert take(module) is None


class Runtime(ctypes.Structure):
    """The start of KdslRuntime."""

    Stream = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int, ctypes.c_int)
    _fields_ = (
        ("version", ctypes.c_uint32),
        ("size", ctypes.c_uint32),
        ("raise_", ctypes.c_void_p),
        ("stream", Stream),
        ("alloc_tensor", ctypes.c_void_p),
        ("parallel_for", ctypes.c_void_p),
        ("symbol", ctypes.c_void_p),
    )


def test_work_goes_to_the_stream_of_the_caller(driver, module):
    table = Runtime(
        1, ctypes.sizeof(Runtime), None, Runtime.Stream(lambda kind, n: 0x100 * kind + n)
    )
    ctypes.c_void_p.in_dll(module.library, "__kdsl_rt").value = ctypes.addressof(table)
    x = rows(3, 5)
    module("axpy", 2.0, tensor(x, 1), tensor(x, 1), tensor(np.zeros_like(x), 1))
    launches = driver.calls("cuLaunchKernel")
    assert [line.rsplit(" ", 1)[1] for line in launches] == ["0x201", "0x201"]


def test_threads_that_come_first_together_load_the_code_once(driver, module):
    x = rows(3, 4)
    outs = [np.zeros_like(x) for _ in range(8)]
    barrier = threading.Barrier(8)

    def call(out):
        barrier.wait()
        module("axpy", 2.0, tensor(x), tensor(x), tensor(out))

    threads = [threading.Thread(target=call, args=(out,)) for out in outs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    once = ("cuInit", "cuDevicePrimaryCtxRetain", "cuLibraryLoadData", "cuLibraryGetKernel")
    assert len(driver.calls(*once)) == 4
    assert len(driver.calls("cuLaunchKernel")) == 8
