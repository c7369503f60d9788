"""Modules that the runtime's tests load, compiled once per run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kdsl.runtime import Module, load_module

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
            command = [compiler, "-shared", "-fPIC", "-O1", f"-I{INCLUDE}", *flags]
            subprocess.run([*command, str(HERE / "modules" / name), "-o", str(out)], check=True)
        return out

    return compile_source


@pytest.fixture(scope="session")
def hand_path(build: Build) -> Path:
    return build("hand.c", "-std=c11", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")


@pytest.fixture(scope="session")
def hand(hand_path: Path) -> Module:
    return load_module(hand_path)
