"""A module for GPUs of the samples' kernels, its device code by hand, and a driver that is none."""

from __future__ import annotations

import ctypes
import itertools
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kdsl import paths
from kdsl.codegen import targets
from kdsl.codegen.build import build
from kdsl.codegen.context import KernelUnit
from kdsl.codegen.device import DeviceCode, DeviceKernel, DevicePhase, Image
from kdsl.codegen.module import module_sources
from tests.codegen import samples

HERE = Path(__file__).parent

SOURCE = """#include "gpu_args.h"

using kdsl::i64;

extern "C" __global__ void axpy_rows(const __grid_constant__ axpy_args a) {
  const i64 m = blockIdx.x + (i64)blockIdx.y * gridDim.x;
  const float* x = (const float*)a.x + m * a.x_strides[0];
  const float* y = (const float*)a.y + m * a.y_strides[0];
  float* o = (float*)a.o + m * a.o_strides[0];
  for (i64 n = threadIdx.x; n < a.N; n += blockDim.x) o[n] = a.a * x[n] + y[n];
}

extern "C" __global__ void attention_empty(const __grid_constant__ attention_args a) {}

extern "C" __global__ void take_ids(const __grid_constant__ take_args a) {
  const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  if (i >= a.N) return;
  const i64 id = ((const i64*)a.ids)[i];
  if (id >= 0 && id < a.M) {
    ((float*)a.o)[i] = ((const float*)a.x)[id * a.x_strides[0]];
  } else if (atomicCAS(&a.fault->found, 0, 1) == 0) {
    a.fault->site = 0;
    a.fault->index = id;
    a.fault->size = a.M;
  }
}

extern "C" __global__ void take_count(const __grid_constant__ take_args a) {
  if (threadIdx.x == 0) ++*(int*)a.runs;
}

extern "C" __global__ void room_fill(const __grid_constant__ room_args a) {
  const i64 m = blockIdx.x + (i64)blockIdx.y * gridDim.x;
  if (m >= a.M) return;
  for (i64 n = threadIdx.x; n < a.N * a.K; n += blockDim.x) {
    ((float*)a.o)[m * a.o_strides[0] + n] = 1;
  }
}
"""

KERNELS = (
    DeviceKernel("axpy", (DevicePhase("axpy_rows", 128, 0, "a.M"),), "0", ("x",)),
    DeviceKernel("attention_f32_D64", (DevicePhase("attention_empty", 128, 98304, "a.B"),)),
    DeviceKernel(
        "take",
        (
            DevicePhase("take_ids", 64, 1024, "kdsl::blocks(a.N, 64)"),
            DevicePhase("take_count", 32, 0, "1"),
        ),
    ),
    DeviceKernel("room", (DevicePhase("room_fill", 32, 0, "a.each"),), "a.block"),
)

IMAGES = (Image("sm_80", "cubin"), Image("sm_80", "ptx"))


def on_cuda(unit: KernelUnit, on_cpu: bool = False) -> KernelUnit:
    """The unit with CUDA code of what KERNELS has, and without CPU code unless asked for."""
    names = {k.name for k in KERNELS}
    some = tuple(
        replace(s, on_cuda=s.func.name in names, on_cpu=on_cpu)
        for s in unit.specialisations
        if on_cpu or s.func.name in names
    )
    return replace(unit, specialisations=some, targets=("cuda:sm_80",))


def build_module(path: Path, images: Sequence[Image] = IMAGES) -> None:
    """The module with axpy, attention, take and room for GPUs alone."""
    build(sources(images), path, (), path.with_suffix(".log"), images)


def sources(images: Sequence[Image] = IMAGES) -> dict[str, str]:
    wanted = (samples.axpy(), samples.attention(), samples.take(), samples.room())
    units = [on_cuda(unit) for unit in wanted]
    return module_sources("gpu", units, (), DeviceCode(SOURCE, KERNELS, tuple(images)))


def build_driver(path: Path, *flags: str) -> None:
    command = [
        *targets.find_compiler().command,
        "-std=c++17",
        "-fPIC",
        "-shared",
        "-Wall",
        "-Wextra",
    ]
    files = [str(HERE / "fake_cuda.cc"), "-o", str(path)]
    subprocess.run([*command, "-Werror", f"-I{paths.include_dir()}", *flags, *files], check=True)


class Driver:
    """The driver of fake_cuda.cc."""

    Launch = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(ctypes.c_uint), ctypes.c_void_p,
        ctypes.c_void_p,
    )  # fmt: skip

    def __init__(self, path: Path) -> None:
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.fake_calls.restype = ctypes.c_char_p
        self.kept: object = None

    def reset(self) -> None:
        self.library.fake_reset()

    def fail(self, function: str, code: int = 999) -> None:
        self.library.fake_fail(function.encode(), code)

    def on_launch(self, run: Callable[[str, int], int]) -> None:
        """Let run(symbol, address of the arguments) answer launches."""
        self.kept = self.Launch(lambda name, _sizes, _stream, args: run(name.decode(), args))
        self.library.fake_launch(self.kept)

    def calls(self, *names: str) -> list[str]:
        """The calls since the last reset; of these functions alone where any are named."""
        lines = self.library.fake_calls().decode().splitlines()
        return [line for line in lines if not names or line.split()[0] in names]

    def live(self) -> tuple[int, int, int, int]:
        """Blocks of memory, pinned blocks, references to contexts, loaded code."""
        return tuple(self.library.fake_live(i) for i in range(4))  # type: ignore[return-value]


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Value(ctypes.Union):
    _fields_ = (("integer", ctypes.c_int64), ("real", ctypes.c_double), ("ptr", ctypes.c_void_p))


class Any(ctypes.Structure):
    _fields_ = (("type_index", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", Value))


def tensor(array: np.ndarray, device: int | None = 0) -> DLTensor:
    """The array as if it lay on that GPU; None: where it is."""
    codes = {"i": 0, "u": 1, "f": 2}
    sizes = ctypes.c_int64 * array.ndim
    place = (1, 0) if device is None else (2, device)
    strides = sizes(*(s // array.itemsize for s in array.strides))
    made = DLTensor(
        array.ctypes.data, *place, array.ndim, codes[array.dtype.kind], 8 * array.itemsize, 1,
        sizes(*array.shape), strides, 0,
    )  # fmt: skip
    made.owner = array
    return made


class Managed(ctypes.Structure):
    """DLManagedTensor."""

    _fields_ = (
        ("tensor", DLTensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class OnGpu:
    """An array of which DLPack says that it lies on a GPU; `array` is where it does."""

    def __init__(self, array: np.ndarray, number: int = 0) -> None:
        self.array = array
        self.dtype, self.shape = array.dtype, array.shape
        self._number = number
        self._managed = Managed(tensor(array, number))

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, self._number

    def __dlpack__(self, **_: object) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self._managed), b"dltensor", None)


class Module:
    """A freshly loaded copy of a module, called through C."""

    _count = itertools.count()

    def __init__(self, path: Path) -> None:
        copy = path.with_name(f"copy_{next(self._count)}_{path.name}")
        shutil.copyfile(path, copy)
        self.library = ctypes.CDLL(str(copy))
        self._last_error = self.library["__kdsl_last_error"]
        self._last_error.restype = ctypes.c_char_p

    def __call__(self, name: str, *args: object) -> object:
        """None, the address of what was made, or the text of the error."""
        values = (Any * max(len(args), 1))()
        for i, arg in enumerate(args):
            match arg:
                case None:
                    values[i] = Any(0, 0, Value(integer=0))
                case bool():
                    values[i] = Any(2, 0, Value(integer=arg))
                case int():
                    values[i] = Any(1, 0, Value(integer=arg))
                case float():
                    values[i] = Any(3, 0, Value(real=arg))
                case _:
                    values[i] = Any(7, 0, Value(ptr=ctypes.addressof(arg)))
        result = Any()
        function = self.library[f"__tvm_ffi_{name}"]
        if function(None, values, len(args), ctypes.byref(result)):
            return self._last_error().decode()
        return result.value.ptr if result.type_index >= 64 else None


def rows(*shape, dtype=np.float32):
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape)


class AxpyArgs(ctypes.Structure):
    _fields_ = (
        ("a", ctypes.c_float),
        ("x", ctypes.c_void_p),
        ("x_strides", ctypes.c_long * 2),
        ("y", ctypes.c_void_p),
        ("y_strides", ctypes.c_long * 2),
        ("o", ctypes.c_void_p),
        ("o_strides", ctypes.c_long * 2),
        ("scratch", ctypes.c_void_p),
        ("fault", ctypes.c_void_p),
        ("M", ctypes.c_long),
        ("N", ctypes.c_long),
    )


def view(address, strides, m, n):
    """A matrix of floats that a kernel was given; the last stride counts as 1."""
    size = (m - 1) * strides[0] + n
    flat = np.ctypeslib.as_array((ctypes.c_float * size).from_address(address))
    return np.lib.stride_tricks.as_strided(flat, (m, n), (4 * strides[0], 4))


def run_axpy(symbol, address):
    """What `axpy_rows` does; it refuses an `x` that is not aligned."""
    assert symbol == "axpy_rows"
    a = AxpyArgs.from_address(address)
    if a.x % 16 or a.x_strides[0] % 4 or 1 not in (a.x_strides[1], a.N):
        return 1
    x, y, o = (
        view(p, s, a.M, a.N)
        for p, s in ((a.x, a.x_strides), (a.y, a.y_strides), (a.o, a.o_strides))
    )
    o[...] = a.a * x + y
    return 0


def ready(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """The driver as if nobody had called it, and the one that modules find."""
    monkeypatch.setenv("KDSL_CUDA_DRIVER", str(driver.path))
    driver.reset()
    driver.library.fake_use(-1)
    return driver
