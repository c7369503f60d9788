"""Kernels in C++ that kdsl's headers and the official ones compile alike."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kdsl import paths

HERE = Path(__file__).parent
FLAGS = ["-std=c++17", "-O0", "-g0", "-fPIC", "-shared", "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1"]

Compile = Callable[[str, str], Path]


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Compile:
    """`compiled("values", "ours")`: kernels/values.cc as a library, with one kind of headers."""
    folder = tmp_path_factory.mktemp("kernels")

    def compile_kernels(name: str, headers: str) -> Path:
        out = folder / f"{headers}_{name}.so"
        if out.exists():
            return out
        if headers == "ours":
            own = ["-Wall", "-Wextra", "-Werror", f"-I{paths.include_dir()}"]
        else:
            libinfo = pytest.importorskip("tvm_ffi.libinfo")
            library = Path(libinfo.find_libtvm_ffi())
            own = [f"-I{libinfo.find_include_path()}", f"-L{library.parent}", "-ltvm_ffi"]
        source = str(HERE / "kernels" / f"{name}.cc")
        prefix = f'-DKDSL_TEST_PREFIX="{headers}"'
        command = ["g++", *FLAGS, prefix, source, "-o", str(out), *own]
        run = subprocess.run(command, capture_output=True, text=True)
        assert run.stderr == ""
        return out

    return compile_kernels
