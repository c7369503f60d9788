"""A Rust program calls the exported module through the crate in bindings/rust, offline."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.hosts.conftest import run
from tests.house import ROOT

CRATE = ROOT / "bindings" / "rust"

pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="there is no cargo")


def test_a_rust_program_gets_the_bits_that_python_gets(exported, want, tmp_path):
    built = subprocess.run(
        ["cargo", "build", "--offline", "--quiet", "--example", "attention"],
        capture_output=True,
        text=True,
        cwd=CRATE,
        env={**os.environ, "CARGO_TARGET_DIR": str(tmp_path / "target")},
    )
    assert (built.returncode, built.stderr) == (0, "")
    program = str(tmp_path / "target/debug/examples/attention")
    done = run([program, str(exported / "attention.so"), "out.bin"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "out.bin").read_bytes() == want
    lines = done.stdout.splitlines()
    assert lines[1] == "made again: [1, 4, 8, 64] true"
    assert "require scale > 0 failed: scale=-1.0" in lines[2]
    assert lines[3] == "TypeError: argument 4: the function writes it; pass a ViewMut"
    assert "expected 4 to 7 arguments, got 0" in lines[4]
    assert "argument 0 `q`: expected T[B, H, M, D]" in lines[5]
    assert lines[6] == "ValueError: a slice of 3 elements cannot be a tensor of shape [2, 2]"
    assert lines[7].startswith("TypeError: elements are DType")
    assert lines[8] == "AttributeError: the library has no function `softmax`"
    assert lines[9].startswith("OSError: ./missing.so: cannot open shared object file")
    assert len(lines) == 10
