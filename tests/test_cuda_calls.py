"""Calls of kernels with arrays on a GPU, up to the launch: a driver that runs nothing stands in."""

from __future__ import annotations

import ctypes
import os
import runpy
import subprocess
import sys
import threading

import numpy as np
import pytest

import kdsl
from kdsl import Out, Static, dot, f16, f32, i64
from kdsl.codegen import toolchain
from kdsl.errors import BuildError
from kdsl.runtime.streams import use_stream
from tests.ffi.conftest import cuda_driver as cuda_driver
from tests.ffi.conftest import driver as driver
from tests.ffi.gpu import OnGpu
from tests.house import ROOT

M, N, K = kdsl.dims("M N K")
T = kdsl.dtypes("T", f32, f16)


@kdsl.kernel
def scale(x: T[N], y: Out[T[N]], *, twice: Static[bool] = False):
    """A factor."""
    for n in kdsl.parallel(kdsl.tiles(N)):
        y[n] = x[n] * (4 if twice else 2)


@kdsl.kernel
def product(a: f32[M, K], b: f32[K, N], c: Out[f32[M, N]]):
    for m in kdsl.parallel(kdsl.tiles(M)):
        c[m] = dot(a[m], b[:])


@kdsl.kernel
def pick(x: f32[M], i: i64[N], y: Out[f32[N]]):
    for n in kdsl.parallel(N):
        y[n] = x[i[n]]


@kdsl.kernel
def shift(x: f32[N], y: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        y[n] = x[n] + 1


def fresh(kernel):
    """The kernel as if nothing had been called in this process."""
    return kdsl.kernel(kernel._source.function)


X = np.arange(8, dtype=np.float32)


def test_a_call_compiles_for_the_gpu_of_its_arguments_and_the_cpu_stays_as_it_was(driver):
    kernel = fresh(scale)
    np.testing.assert_array_equal(kernel(X), 2 * X)
    assert driver.calls() == []
    out = np.zeros_like(X)
    assert kernel(OnGpu(X), OnGpu(out)) is None
    launches = driver.calls("cuLaunchKernel")
    assert len(launches) == 1 and launches[0].startswith("cuLaunchKernel scale_f32 ")
    np.testing.assert_array_equal(kernel(X), 2 * X)
    np.testing.assert_array_equal(kernel(X, twice=True), 4 * X)
    assert len(driver.calls("cuLaunchKernel")) == 1


def test_a_known_call_asks_nobody_and_other_devices_find_their_own_code(driver):
    kernel = fresh(shift)  # nobody else's: its code is loaded once in a process
    arrays = [OnGpu(X, number) for number in (0, 1)]
    outs = [OnGpu(np.zeros_like(X), number) for number in (0, 1)]
    for array, out in zip(arrays, outs, strict=True):
        kernel(array, out)
    images = driver.calls("cuLibraryLoadData")
    assert images == ["cuLibraryLoadData cubin", "cuLibraryLoadData cubin"]  # sm_80 and sm_90
    for number, (array, out) in enumerate(zip(arrays, outs, strict=True)):
        driver.reset()
        kernel(array, out)
        assert [line.split("(")[0] for line in driver.calls()] == [
            "cuCtxGetCurrent",
            f"cuCtxSetCurrent {number}",
            "cuLaunchKernel shift ",
            "cuCtxSetCurrent -1",
        ]


def test_results_that_were_not_passed_lie_on_the_gpu(driver):
    made = fresh(scale)(OnGpu(X))
    assert made.__dlpack_device__() == (2, 0)
    assert (made.shape, made.dtype) == ((8,), "f32")
    before = driver.live()[0]
    del made
    assert driver.live()[0] == before - 1


def test_work_goes_to_the_stream_that_the_caller_names(driver):
    kernel, array = fresh(scale), OnGpu(X)
    with use_stream(0x1230):
        kernel(array, OnGpu(np.zeros_like(X)))
    kernel(array, OnGpu(np.zeros_like(X)))
    launches = driver.calls("cuLaunchKernel")
    assert [line.rsplit(" ", 1)[1] for line in launches] == ["0x1230", "(nil)"]


def test_wrong_calls_say_where_arrays_are(driver):
    kernel = fresh(scale)
    text = kernel.signature
    on_0, on_1 = "f32[8] on cuda:0", "f32[8] on cuda:1"
    for args, kind, message in (
        ((OnGpu(X), X.copy()), ValueError, "1 `y`: expected f32[N=8] on cuda:0, got f32[8]"),
        ((X, OnGpu(X)), ValueError, f"1 `y`: expected f32[N=8], got {on_0}"),
        ((OnGpu(X), OnGpu(X, 1)), ValueError, f"1 `y`: expected f32[N=8] on cuda:0, got {on_1}"),
        (
            (OnGpu(X.reshape(8, 1)),),
            TypeError,
            "0 `x`: expected T[N] with T one of f32, f16, got f32[8, 1] on cuda:0",
        ),
    ):
        with pytest.raises(kind) as err:
            kernel(*args)
        assert str(err.value) == f"{text}: argument {message}"
    with pytest.raises(RuntimeError) as error:
        kernel(OnGpu(X, 5))
    assert str(error.value) == f"{text}: cuda:5: cuDeviceGet: 101"


def test_without_a_driver_a_call_says_what_is_missing(monkeypatch):
    monkeypatch.delenv("KDSL_CUDA_DRIVER", raising=False)
    kernel = fresh(scale)
    with pytest.raises(RuntimeError) as err:
        kernel(OnGpu(X))
    assert str(err.value).startswith(
        f"{kernel.signature}: cuda:0: no CUDA driver: libcuda.so.1: cannot open shared object"
    )
    assert "KDSL_CUDA_DRIVER=sim" in str(err.value)
    np.testing.assert_array_equal(kernel(X), 2 * X)


def test_without_a_compiler_a_call_says_what_to_install(driver, monkeypatch, tmp_path):
    monkeypatch.setenv("KDSL_CUDA_COMPILER", str(tmp_path / "nvcc"))
    kernel = fresh(scale)
    with pytest.raises(BuildError) as err:
        kernel(OnGpu(X))
    assert str(err.value) == (
        f"no CUDA compiler: KDSL_CUDA_COMPILER is '{tmp_path / 'nvcc'}', which is no file. "
        f"{toolchain.REMEDY}"
    )
    np.testing.assert_array_equal(kernel(X), 2 * X)


def test_a_second_process_finds_the_code_in_the_cache(driver, tmp_path):
    script = tmp_path / "again.py"
    script.write_text(
        """
import sys
import numpy as np
import kdsl
from kdsl import Out, f32
from tests.ffi.gpu import OnGpu

N, = kdsl.dims("N")

@kdsl.kernel
def twofold(x: f32[N], y: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        y[n] = x[n] * 2

twofold(OnGpu(np.zeros(4, np.float32)))
print("jinja2" in sys.modules, "lark" in sys.modules)
"""
    )
    places = {"KDSL_CACHE_DIR": str(tmp_path), "KDSL_CUDA_DRIVER": str(driver.path)}
    runs = [
        subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            env={**os.environ, **places, "PYTHONPATH": str(ROOT)},
        )
        for _ in range(2)
    ]
    # The helper module of the tests brings jinja2 itself: it builds modules.
    assert [run.returncode for run in runs] == [0, 0], runs[0].stderr
    assert len(list(tmp_path.glob("v1/store/*/module.so"))) == 1


def test_a_run_time_index_is_raised_by_synchronize(driver):
    kernel = fresh(pick)

    def find(symbol, address):
        words = (ctypes.c_long * 9).from_address(address)
        fault = words[7]  # x, its stride, i, its stride, y, its stride, scratch, fault
        ctypes.c_int.from_address(fault).value = 1
        ctypes.c_long.from_address(fault + 8).value = 12
        ctypes.c_long.from_address(fault + 16).value = 8
        return 0

    driver.on_launch(find)
    kernel(OnGpu(X), OnGpu(np.array([12])), OnGpu(np.zeros(1, np.float32)))
    with pytest.raises(IndexError) as err:
        kdsl.synchronize()
    assert str(err.value) == (
        f"{kernel.signature}: index 12 is out of range for dimension 0 of `x` (M=8), "
        f"at test_cuda_calls.py:{pick._source.line + 2}, on cuda:0"
    )
    kdsl.synchronize()


def test_several_threads_may_call_at_once(driver):
    kernel = fresh(scale)
    errors = []

    def call():
        try:
            for _ in range(20):
                kernel(OnGpu(X), OnGpu(np.zeros_like(X)))
        except Exception as err:
            errors.append(err)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert len(driver.calls("cuLaunchKernel")) == 80


def test_one_library_serves_cpu_and_gpu(driver, tmp_path):
    path = tmp_path / "kernels.so"
    scale.export(path, targets=["cpu", "cuda:sm_80"], statics={"twice": [False]})
    module = kdsl.load_module(path)
    np.testing.assert_array_equal(module.scale(X), 2 * X)
    assert module.scale(OnGpu(X), OnGpu(np.zeros_like(X))) is None
    assert driver.calls("cuLibraryLoadData") == ["cuLibraryLoadData cubin"]
    assert module.scale(OnGpu(X, 1), OnGpu(np.zeros_like(X), 1)) is None
    assert driver.calls("cuLibraryLoadData")[1:] == ["cuLibraryLoadData ptx"]
    assert module.scale.metadata["targets"] == ["cpu", "cuda:sm_80"]
    with pytest.raises(ValueError) as err:
        module.scale(OnGpu(X), twice=True)
    assert str(err.value) == (
        f"{scale.signature}: no CUDA code for T=f32, twice=True; "
        "compiled: T=f32, twice=False; T=f16, twice=False"
    )


def test_sizes_of_fixed_dims_are_listed_for_cuda(driver, tmp_path):
    with pytest.raises(ValueError) as err:
        product.export(tmp_path / "p.so", targets="cuda:sm_80", dims={"N": [16]})
    assert str(err.value) == (
        "export: CUDA code of `product` is for given sizes of K; list them, "
        'e.g. dims={"K": [64, 128]}'
    )
    with pytest.raises(ValueError, match="name at least one target"):
        product.export(tmp_path / "p.so", targets=[])


def test_generated_code_can_be_looked_at_without_a_gpu():
    assert 'extern "C" __global__' in scale.show("cuda:sm_80")
    ptx = scale.show("ptx:sm_86")
    assert ".version 7.1\n.target sm_86\n" in ptx
    assert "test_cuda_calls.py" in ptx, "lines of the author"


def test_tuning_for_cuda_leaves_the_cpu_alone(driver):
    kernel = fresh(scale)
    before = kernel.show("cpu"), kernel.show("cuda:sm_80")
    kernel.tune("cuda:sm_80", tiles={"n": 4096})
    after = kernel.show("cpu"), kernel.show("cuda:sm_80")
    assert before[0] == after[0] and before[1] != after[1]
    for knobs, message in (
        ({"warps": 0}, "scale: warps must be an integer above 0, got 0"),
        ({"slots": "2"}, "scale: slots must be an integer above 0, got '2'"),
        ({"early": 1}, "scale: early is True or False, got 1"),
    ):
        with pytest.raises(ValueError) as err:
            kernel.tune("cuda:sm_80", **knobs)
        assert str(err.value) == message
    with pytest.raises(ValueError) as err:
        kernel.tune("cpu", warps=4)
    assert str(err.value) == "scale: the CPU has no `warps` to tune"


def test_knobs_of_the_pipeline_change_the_code():
    attention = runpy.run_path(str(ROOT / "examples/attention/attention.py"))["attention"]
    which = {"dtypes": {"T": f16}, "dims": {"D": 64}, "statics": {"causal": True}}
    texts = set()
    for knobs in ({"early": True}, {"early": False}, {"slots": 2, "early": False}):
        attention.tune("cuda:sm_80", **knobs)
        texts.add(attention.show("cuda:sm_80", **which))
    assert len(texts) == 3
