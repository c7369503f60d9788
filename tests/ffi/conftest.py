"""`unit`: the C++ behind include/kdsl/ffi, compiled once, through ctypes. `module`: one for GPUs,
freshly loaded, with `driver` in place of CUDA's."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

import pytest

from kdsl import paths
from kdsl.codegen import targets
from tests.ffi import gpu

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def unit_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("unit") / "unit.so"
    command = [
        *targets.find_compiler().command,
        *targets.COMMON_FLAGS,
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        f"-I{paths.include_dir()}",
        str(HERE / "unit.cc"),
        *targets.LINK_FLAGS,
        *targets.LIBRARIES,
        "-o",
        str(out),
    ]
    subprocess.run(command, check=True)
    return out


@pytest.fixture(scope="session")
def unit(unit_path: Path) -> ctypes.CDLL:
    library = ctypes.CDLL(str(unit_path))
    for name in ("double", "float", "dtype", "long_text"):
        getattr(library, f"unit_{name}").restype = ctypes.c_char_p
    library.unit_double.argtypes = [ctypes.c_double]
    library.unit_float.argtypes = [ctypes.c_float]
    for name in ("floordiv", "mod"):
        function = getattr(library, f"unit_{name}")
        function.restype, function.argtypes = ctypes.c_long, [ctypes.c_long] * 2
    library.unit_inflate.argtypes = [ctypes.c_char_p, ctypes.c_size_t] * 2
    library.unit_parallel.argtypes = [ctypes.c_long, ctypes.c_void_p, *[ctypes.c_int] * 3]
    library.__kdsl_last_error.restype = ctypes.c_char_p
    return library


@pytest.fixture(scope="session")
def gpu_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("gpu") / "gpu.so"
    gpu.build_module(path)
    return path


@pytest.fixture(scope="session")
def cuda_driver(tmp_path_factory: pytest.TempPathFactory) -> gpu.Driver:
    path = tmp_path_factory.mktemp("driver") / "libcuda.so"
    gpu.build_driver(path)
    return gpu.Driver(path)


@pytest.fixture
def driver(cuda_driver: gpu.Driver, monkeypatch: pytest.MonkeyPatch) -> gpu.Driver:
    return gpu.ready(cuda_driver, monkeypatch)


@pytest.fixture
def module(gpu_path: Path) -> gpu.Module:
    return gpu.Module(gpu_path)
