"""C and C++ programs call the exported module by the headers beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.hosts.conftest import run
from tests.house import ROOT

SIGNATURE = (
    "attention(q: T[B, H, M, D], k: T[B, G, N, D], v: T[B, G, N, D], scale: f32, "
    "o: Out[T[B, H, M, D]], lse: Out[f32[B, H, M]], *, causal: bool = False)"
)


@pytest.fixture
def folder(exported: Path, tmp_path: Path) -> Path:
    for name in ("attention.so", "attention.h", "attention.hpp"):
        shutil.copy(exported / name, tmp_path)
    return tmp_path


@pytest.mark.parametrize("standard", ["c11", "gnu17"])
def test_a_c_program_gets_the_bits_that_python_gets(folder, want, standard):
    source = str(ROOT / "examples/hosts/host.c")
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Werror", "-I."]
    built = run(["gcc", *flags, source, "./attention.so", "-o", "host"], folder)
    assert built.stderr == ""
    done = run(["./host", "out.bin"], folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "out.bin").read_bytes() == want
    lines = done.stdout.splitlines()
    assert lines[1] == "made again: the same"
    assert [line.partition(": ")[0] for line in lines[2:]] == [
        "ValueError",
        "TypeError",
        "ValueError",
        "TypeError",
        "ValueError",
    ]
    assert lines[2] == f"ValueError: {SIGNATURE}: require scale > 0 failed: scale=-1.0"
    assert lines[4].endswith("omitted outputs need a place for the result")


def test_a_cpp_program_gets_the_bits_that_python_gets(folder, want):
    source = str(ROOT / "examples/hosts/host.cc")
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-I."]
    built = run(["g++", *flags, source, "-o", "host", "-ldl"], folder)
    assert built.stderr == ""
    done = run(["./host", "out.bin"], folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "out.bin").read_bytes() == want
    lines = done.stdout.splitlines()
    assert lines[1:3] == ["made again: the same, 32 sums", "chained: 2048 elements"]
    assert [line.partition(": ")[0] for line in lines[3:]] == [
        "ValueError",
        "TypeError",
        "ValueError",
        "TypeError",
        "AttributeError",
        "OSError",
    ]


def test_the_headers_of_two_modules_and_kdsls_own_go_together(folder):
    text = (folder / "attention.h").read_text()
    (folder / "other.h").write_text(
        text.replace("KDSL_MODULE_ATTENTION", "KDSL_MODULE_OTHER").replace(
            "int attention", "int other"
        )
    )
    includes = '#include "attention.h"\n#include "other.h"\n#include <kdsl/ffi/c_abi.h>\n'
    includes += "#include <kdsl/hosts/c.h>\n"
    for name, compiler in (("both.c", "gcc"), ("both.cc", "g++")):
        (folder / name).write_text(includes)
        command = [compiler, "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I.", name]
        assert run([*command, f"-I{ROOT / 'include'}"], folder).stderr == ""


def test_the_headers_include_nothing_of_kdsls(folder):
    for name in ("attention.h", "attention.hpp"):
        assert "#include <kdsl" not in (folder / name).read_text()
