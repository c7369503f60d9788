"""Modules that the runtime's tests load, compiled once per run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kdsl.runtime import Module, load_module
from tests.conformance import matrix
from tests.runtime import environments

HERE = Path(__file__).parent
INCLUDE = HERE.parent.parent / "include"

Build = Callable[..., Path]


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """`build("hand.c", *flags)`: that source of modules/ as a shared library."""
    folder = tmp_path_factory.mktemp("modules")

    def compile_source(name: str, *flags: str) -> Path:
        out = folder / f"{name}.so"
        if not out.exists():
            compiler = shutil.which("g++" if name.endswith(".cc") else "gcc")
            assert compiler is not None
            # Headers of apache-tvm-ffi, where asked for, come before ours of the same name.
            command = [compiler, "-shared", "-fPIC", "-O1", *flags, f"-I{INCLUDE}"]
            subprocess.run([*command, str(HERE / "modules" / name), "-o", str(out)], check=True)
        return out

    return compile_source


@pytest.fixture(scope="session")
def hand_path(build: Build) -> Path:
    return build("hand.c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")


@pytest.fixture(scope="session")
def hand(hand_path: Path) -> Module:
    return load_module(hand_path)


@pytest.fixture(scope="session")
def functions(build: Build) -> Module:
    """Packed functions that call, keep and return functions."""
    flags = ("-std=c11", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")
    return load_module(build("functions.c", *flags))


@pytest.fixture(scope="session")
def containers(build: Build) -> Module:
    """Functions that look into values with the C++ headers of apache-tvm-ffi."""
    from tvm_ffi import libinfo

    library = Path(libinfo.find_libtvm_ffi()).parent
    include = f"-I{libinfo.find_include_path()}"
    dlpack = f"-I{libinfo.find_dlpack_include_path()}"
    flags = ("-std=c++17", "-O0", include, dlpack, f"-L{library}", "-ltvm_ffi")
    return load_module(build("containers.cc", *flags))


@pytest.fixture(scope="session")
def foreign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tests/conformance/foreign/foreign.cc, built with the headers of apache-tvm-ffi here."""
    import tvm_ffi

    library = tmp_path_factory.mktemp("foreign") / "foreign.so"
    matrix.compile_foreign(Path(tvm_ffi.__file__).parent, library)
    return library


@pytest.fixture(scope="session")
def numpy_only(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of packages with NumPy alone."""
    return environments.link(tmp_path_factory.mktemp("numpy"), "numpy")


@pytest.fixture(scope="session")
def official_site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder of packages with apache-tvm-ffi and what it needs."""
    folder = tmp_path_factory.mktemp("official")
    return environments.link(folder, "apache-tvm-ffi", "typing-extensions")
