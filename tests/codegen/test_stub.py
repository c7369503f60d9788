"""The stub beside an exported library: what it says, and what mypy makes of a program with it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kdsl.codegen.stub import stub
from tests.codegen import samples
from tests.house import ROOT

STUB = stub("samples.so", samples.kernels())[1]


def test_stub_beside_an_exported_library(golden):
    golden("host/samples_module.pyi", STUB)


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("kernels.so", "kernels_module.pyi"),
        ("my-kernels.v2.so", "my_kernels_module.pyi"),
        ("3d.so", "_3d_module.pyi"),
        ("class.so", "class_module.pyi"),
    ],
)
def test_the_file_can_be_imported_and_is_no_source_of_kernels(library, name):
    assert stub(library, [samples.axpy()])[0] == name


def test_any_docstring_and_any_name_give_python(tmp_path):
    docs = ['ends in "', '"""quoted"""', "back\\slash \\N", "two\n\n  lines\n", "", "ü {{ x }}"]
    for doc in docs:
        for name in ("class", "path", "axpy"):
            unit = replace(samples.axpy(), doc=doc)
            unit = replace(unit, signature=replace(unit.signature, name=name))
            (module,) = (n for n in ast.parse(stub("a.so", [unit])[1]).body if _is_module(n))
            functions = [n for n in module.body if isinstance(n, ast.FunctionDef)]
            assert len(functions) == (2 if name == "axpy" else 0)
            for function in functions:
                shown = ast.get_docstring(function)
                assert shown is not None
                assert shown.startswith("axpy(a: f32, x: f32[M, N]")
                assert shown.endswith(
                    "\n\n" + "\n".join(doc.split("\n")).strip("\n") if doc else ""
                )


def _is_module(node: ast.stmt) -> bool:
    return isinstance(node, ast.ClassDef) and node.name == "Module"


def check(folder: Path, program: str) -> list[tuple[str, str]]:
    """What `mypy --strict` says of a program beside the stub: lines and errors."""
    (folder / "samples_module.pyi").write_text(STUB)
    (folder / "program.py").write_text(HEAD + program)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "program.py"]
    command += ["--cache-dir", str(ROOT / ".mypy_cache" / "stubs")]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"MYPYPATH": str(ROOT), "PATH": "/usr/bin"},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    found = [re.match(r"program\.py:(\d+): error: (.*)", line) for line in done.stdout.splitlines()]
    return [(match[1], match[2]) for match in found if match]


HEAD = """
from typing import TYPE_CHECKING, cast
import numpy as np
import kdsl
if TYPE_CHECKING:
    from samples_module import Module
module = cast("Module", kdsl.load_module("samples.so"))
x = np.ones((2, 3), np.float32)
"""

GOOD = """
sums: np.ndarray[tuple[int, int], np.dtype[np.float32]] = module.axpy(1.0, x, x)
module.axpy(1, x, x, x)
module.axpy(a=2.0, x=x, y=x, o=x)
o, lse = module.attention(x, x, x, 0.125, causal=True)
print(o.shape, lse.shape, list(module), module["axpy"](1.0, x, x), module.path)
"""

BAD = """
module.axpy(x, x, x)
module.axpy(1.0, x)
module.axpy("one", x, x)
module.attention(x, x, x, 0.125, None, None, True)
module.attention(x, x, x, 0.125, x)
module.pick(x, x, x, flag=True)
module.axpy(1.0, [1.0], x).shape
"""


def test_mypy_accepts_calls_that_fit_and_knows_what_comes_back(tmp_path):
    assert check(tmp_path, GOOD) == []


def test_mypy_refuses_calls_that_do_not_fit(tmp_path):
    first = len(HEAD.splitlines()) + 2
    places = {int(place) for place, _ in check(tmp_path, BAD)}
    assert places == set(range(first, first + len(BAD.splitlines()) - 1))
