"""Whole calls on the simulated GPU: packing, launches and kernels, from Python and from C."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kdsl
import kdsl.sim
from kdsl import InOut, Out, dot, exp, f16, f32, i64
from tests.ffi.gpu import OnGpu
from tests.house import ROOT

M, N, K = kdsl.dims("M N K")
T = kdsl.dtypes("T", f32, f16)


@kdsl.kernel
def softmax(x: T[M, N], o: Out[T[M, N]]):
    for m in kdsl.parallel(M):
        e = exp(x[m] - x[m].max())
        o[m] = e / e.sum()


@kdsl.kernel
def product(a: T[M, K], b: T[K, N], c: Out[f32[M, N]]):
    for m, n in kdsl.parallel(kdsl.tiles(M), kdsl.tiles(N)):
        c[m, n] = dot(a[m], b[:, n])


@kdsl.kernel
def centre(x: InOut[f32[M, N]], mean: Out[f32[M]]):
    """Two phases, and scratch between them."""
    sums = kdsl.scratch(f32, M)
    for m in kdsl.parallel(M):
        sums[m] = x[m].sum()
    for m in kdsl.parallel(M):
        mean[m] = sums[m] / N
        x[m] = x[m] - sums[m] / N


@kdsl.kernel
def pick(x: f32[M, N], i: i64[K], o: Out[f32[K, N]]):
    for k in kdsl.parallel(K):
        o[k] = x[i[k]]


@kdsl.kernel
def put(x: f32[K, N], i: i64[K], o: InOut[f32[M, N]]):
    for k in kdsl.parallel(K):
        o[i[k]] = x[k]


@kdsl.kernel
def add(x: f32[K, N], i: i64[K], o: InOut[f32[M, N]]):
    for k in kdsl.parallel(K):
        kdsl.atomic_add(o[i[k]], x[k])


@pytest.fixture(autouse=True)
def simulator(monkeypatch):
    monkeypatch.setenv("KDSL_CUDA_DRIVER", str(kdsl.sim.driver_path()))
    kdsl.sim.reports()
    yield
    assert kdsl.sim.reports() == []


def random(*shape, dtype=np.float32):
    return np.random.default_rng(3).standard_normal(shape).astype(dtype)


def reference(x):
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 300), (2, 2048)])
@pytest.mark.parametrize(("dtype", "bound"), [(np.float32, 1e-6), (np.float16, 2**-11)])
def test_rows_of_any_length(shape, dtype, bound):
    x = random(*shape, dtype=dtype)
    out = kdsl.sim.empty(shape, dtype)
    softmax(kdsl.sim.array(x), out)
    kdsl.synchronize()
    np.testing.assert_allclose(out.numpy().astype(np.float64), reference(x), atol=bound)


def test_a_word_is_enough_to_get_the_simulator(tmp_path, library):
    script = tmp_path / "word.py"
    script.write_text(
        f"""
import numpy as np
import kdsl
import kdsl.sim

x = kdsl.sim.array(np.ones((2, 4), np.float32))
kdsl.load_module({str(library)!r}).softmax(x, x_ := kdsl.sim.empty((2, 4)))
print(x_.numpy().sum())
"""
    )
    run = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={**os.environ, "KDSL_CUDA_DRIVER": "sim", "PYTHONPATH": str(ROOT)},
    )
    assert (run.stdout, run.stderr) == ("2.0\n", "")


def test_a_result_that_was_not_passed_can_be_read():
    x = random(3, 40)
    made = softmax(kdsl.sim.array(x))
    assert made.__dlpack_device__() == (2, 0) and made.shape == (3, 40)
    with pytest.raises(ValueError, match=r"got one on cuda:0; copy it with .*kdsl.sim.numpy"):
        made.numpy()
    np.testing.assert_allclose(kdsl.sim.numpy(made), softmax(x), rtol=1e-6)


@pytest.mark.parametrize("wrong", [False, True])
def test_blocks_that_write_one_place_race_though_an_index_is_checked(wrong):
    rows = np.array([0, 2, 2 if wrong else 1, 3])
    out = kdsl.sim.array(np.zeros((5, 8), np.float32))
    put(kdsl.sim.array(random(4, 8)), kdsl.sim.array(rows), out)
    kdsl.synchronize()
    reports = kdsl.sim.reports()
    assert {report.kind for report in reports} == ({"race-write-write"} if wrong else set())
    assert all(
        r.line == put._source.line + 2 and "nothing orders blocks" in r.text for r in reports
    )


def test_blocks_that_add_atomically_do_not_race():
    out = kdsl.sim.array(np.zeros((5, 8), np.float32))
    add(kdsl.sim.array(random(4, 8)), kdsl.sim.array(np.array([1, 2, 2, 2])), out)
    kdsl.synchronize()
    assert kdsl.sim.reports() == []


def on_device(array):
    """Copy an array with all it is a part of; the same part of the copy."""
    base = array if array.base is None else array.base
    memory = kdsl.sim.array(base)
    offset = array.ctypes.data - base.ctypes.data
    part = np.lib.stride_tricks.as_strided(
        memory.view.reshape(-1).view(np.uint8)[offset:].view(array.dtype),
        array.shape,
        array.strides,
    )
    given = OnGpu(part)
    given.memory = memory
    return given


BASE = random(64, 96)
PARTS = {
    "columns apart": lambda a: a[:20, 0:60:2],
    "transposed": lambda a: a.T[:20, :30],
    "backwards": lambda a: a[20:0:-1, 30:0:-1],
    "address not aligned": lambda a: a[:20, 1:31],
    "rows not aligned": lambda a: a.reshape(-1)[:610].reshape(10, 61)[:, :30],
    "one column": lambda a: a[:20, 5:6],
}


@pytest.mark.parametrize("part", PARTS)
def test_views_of_any_strides_give_what_they_give_on_the_cpu(part):
    x = PARTS[part](BASE.copy())
    for kernel, args in ((softmax, (x,)), (product, (x, random(x.shape[1], 24)))):
        out = PARTS["columns apart"](np.zeros((64, 96), np.float32))[: x.shape[0], :24]
        if kernel is softmax:
            out = np.zeros((x.shape[0], 2 * x.shape[1]), np.float32)[:, ::2]
        given = [on_device(a) for a in (*args, out)]
        kernel(*given)
        kdsl.synchronize()
        np.testing.assert_allclose(given[-1].array, kernel(*args), rtol=1e-5, atol=1e-6)
        assert (given[-1].memory.numpy()[..., 1::2] == 0).all(), "what lies between is untouched"


@pytest.mark.parametrize("shape", [(16, 32, 16), (65, 72, 40), (1, 8, 8), (33, 17, 9)])
def test_products_of_halves(shape):
    m, k, n = shape
    a, b = random(m, k, dtype=np.float16), random(k, n, dtype=np.float16)
    out = kdsl.sim.empty((m, n))
    product(kdsl.sim.array(a), kdsl.sim.array(b), out)
    kdsl.synchronize()
    # f16 inputs, sums of k products in f32
    bound = k * 2.0**-22 * (np.abs(a).astype(float) @ np.abs(b).astype(float)).max()
    np.testing.assert_allclose(out.numpy(), a.astype(float) @ b.astype(float), rtol=0, atol=bound)


def test_phases_see_what_earlier_ones_wrote_and_scratch_lives_between_them():
    x = random(7, 50)
    given, mean = kdsl.sim.array(x), kdsl.sim.empty(7)
    centre(given, mean)
    kdsl.synchronize()
    np.testing.assert_allclose(mean.numpy(), x.mean(axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(given.numpy(), x - x.mean(axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)])
def test_nothing_is_done_to_nothing(shape):
    empty = OnGpu(np.zeros(shape, np.float32))
    assert softmax(empty, OnGpu(np.zeros(shape, np.float32))) is None
    kdsl.synchronize()


def test_an_index_out_of_range_writes_nothing_and_is_raised_later():
    x, i = kdsl.sim.array(random(5, 8)), kdsl.sim.array(np.array([1, 7, -1, 4]))
    out = kdsl.sim.array(np.full((4, 8), 9, np.float32))
    pick(x, i, out)
    with pytest.raises(IndexError) as err:
        kdsl.synchronize()
    assert str(err.value) in {
        f"{pick.signature}: index {wrong} is out of range for dimension 0 of `x` (M=5), at "
        f"test_cuda_sim.py:{pick._source.line + 2}, on cuda:0"
        for wrong in (7, -1)
    }
    found = out.numpy()
    np.testing.assert_array_equal(found[[0, 3]], x.numpy()[[1, 4]])
    pick(x, kdsl.sim.array(np.array([0, 1, 2, 3])), out)
    kdsl.synchronize()


def test_torn_rows_of_an_output_keep_what_the_kernel_does_not_write():
    memory = np.full((6, 20), 5, np.float32)
    x, out = on_device(random(6, 10)), on_device(memory[:, ::2])
    softmax(x, out)
    kdsl.synchronize()
    assert (out.memory.numpy()[:, 1::2] == 5).all()
    np.testing.assert_allclose(out.array.sum(axis=1), 1, rtol=1e-5)


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "softmax.so"
    softmax.export(path, targets=["cpu", "cuda:sm_80"], dtypes={"T": [f32]})
    return path


def test_an_exported_library_serves_both(library):
    module = kdsl.load_module(library)
    x = random(9, 33)
    out = kdsl.sim.empty(x.shape)
    module.softmax(kdsl.sim.array(x), out)
    kdsl.synchronize()
    np.testing.assert_allclose(out.numpy(), module.softmax(x), rtol=1e-5, atol=1e-7)


def test_a_program_in_c_calls_it_too(library, tmp_path):
    driver = kdsl.sim.driver_path()
    program = tmp_path / "host"
    command = ["gcc", "-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'include'}"]
    source = Path(__file__).parent / "conformance" / "gpu_host.c"
    subprocess.run([*command, str(source), "-o", str(program), "-ldl"], check=True)
    run = subprocess.run(
        [str(program), str(library), str(driver)],
        capture_output=True,
        text=True,
        env={"KDSL_CUDA_DRIVER": str(driver)},
    )
    assert run.stderr == ""
    assert run.stdout.splitlines() == [
        "row sums: 1.000000 1.000000 1.000000",
        "made on device 2:0",
        "ValueError: softmax(x: T[M, N], o: Out[T[M, N]]): argument 1 `o`: expected "
        "f32[M=3, N=4] on cuda:0, got f32[3, 4]",
    ]
