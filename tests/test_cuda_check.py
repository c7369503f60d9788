"""`kernel.check_cuda` and `python -m kdsl check`: a kernel's CUDA code without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kdsl.codegen import toolchain
from kdsl.errors import BuildError

ROOT = Path(__file__).resolve().parent.parent

try:
    toolchain.find_toolchain()
except BuildError:
    pytest.skip("no CUDA compiler", allow_module_level=True)


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, cwd=ROOT, env=environment
    )


def test_the_command_says_what_it_compared_and_that_nothing_was_found():
    done = run("-m", "kdsl", "check", "examples/softmax.py:softmax", "--dims", "M=5", "N=77")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("softmax(x: ") and ": ok; worst at [" in lines[1]
    assert lines[2].endswith(" 0 reports")


def test_a_name_that_the_kernel_has_not_is_an_error():
    done = run("-m", "kdsl", "check", "examples/softmax.py:softmax", "--dims", "Q=5")
    assert done.returncode != 0
    assert "no dim, dtype or parameter `Q`" in done.stderr


PROGRAM = """
import numpy as np
import kdsl
from examples.softmax import softmax

x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float16)
report = softmax.check_cuda(x)
assert report.ok and report.runs[0].blocks == 3
assert any(line.file.endswith("softmax.py") for line in report.runs[0].lines)
try:
    softmax.check_cuda(x.astype(np.float64))
except TypeError as err:
    assert "argument 0 `x`" in str(err)
y = kdsl.sim.array(x)
out = kdsl.sim.empty(x.shape, x.dtype)
softmax(y, out)
kdsl.synchronize()
assert kdsl.sim.reports() == [] and np.isclose(out.numpy().sum(), 3, atol=1e-2)
print("done")
"""


def test_a_program_checks_and_calls_kernels_on_the_simulated_gpu():
    done = run("-c", PROGRAM.replace("import kdsl\n", "import kdsl\nimport kdsl.sim\n"))
    assert (done.stdout, done.stderr) == ("done\n", "")
