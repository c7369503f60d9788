"""`kernel.check_cuda` and `python -m kdsl check`: a kernel's CUDA code without a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from kdsl import cuda_check
from kdsl.__main__ import main

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.usefixtures("cuda_compiler")


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
    assert done.stderr.endswith(": no dim `Q`; there are: `M`, `N`\n")


SCATTER = """
import kdsl
from kdsl import InOut, Out, f32, i64

K, M, N = kdsl.dims("K M N")

@kdsl.kernel
def scatter(x: f32[K, N], ids: i64[K], o: InOut[f32[M, N]]):
    for k in kdsl.parallel(K):
        o[ids[k]] = x[k]

@kdsl.kernel
def far(x: f32[K, N], o: Out[f32[K]]):
    for k in kdsl.parallel(K):
        o[k] = x[k, 70]
"""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", "expected FILE:KERNEL, got 'ks.py'; ks.py has scatter, far"),
        (":", "expected FILE:KERNEL, got 'ks.py:'; ks.py has scatter, far"),
        (":scatter --dtypes T=f32", "{scatter}: no dtype variable `T`; there are: none"),
        (":scatter --values y=1", "{scatter}: no parameter `y`; there are: `x`, `ids`, `o`"),
        (":scatter --values ids=[[0]]", "`ids`: expected 1 dimensions, got 2"),
        (":scatter --values ids=no.npy", "[Errno 2] No such file or directory: 'no.npy'"),
        (
            ":scatter",
            "ks.py:10: `o`: two iterations of kdsl.parallel write one element; `ids` held random "
            "integers: give others, e.g. --values ids=permutation, or a list or FILE.npy",
        ),
        (
            ":far",
            "ks.py:15: index 70 is outside `x`, whose axis has 64 elements; the inputs were "
            "random: kernel.check_cuda(*inputs) takes your own",
        ),
    ],
)
def test_what_cannot_be_checked_is_told_with_what_to_do(
    words, message, tmp_path, monkeypatch, capsys
):
    (tmp_path / "ks.py").write_text(SCATTER)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cuda_check, "use_simulator", lambda: None)
    scatter = "scatter(x: f32[K, N], ids: i64[K], o: InOut[f32[M, N]])"
    assert main(["check", *f"ks.py{words}".split()]) == 1
    assert capsys.readouterr().err == f"kdsl: {message.format(scatter=scatter)}\n"


@pytest.mark.parametrize("ids", ["permutation", "[0,3,1]", "ids.npy"])
def test_indices_can_be_given(ids, tmp_path):
    (tmp_path / "ks.py").write_text(SCATTER)
    np.save(tmp_path / "ids.npy", np.array([4, 2, 0]))
    place = f"{tmp_path / 'ks.py'}:scatter"
    ids = str(tmp_path / ids) if ids.endswith(".npy") else ids
    done = run("-m", "kdsl", "check", place, "--values", f"ids={ids}")
    assert (done.returncode, done.stderr) == (0, "")


def test_sizes_that_are_not_given_keep_the_work_small():
    from examples.attention.attention import attention

    signature = attention.compiler.source.signature
    inputs = cuda_check.random_inputs(signature, dtypes={}, dims={}, values={"scale": 1.0})
    assert all(x.size <= cuda_check.MOST for x in inputs.values() if isinstance(x, np.ndarray))
    given = cuda_check.random_inputs(signature, dtypes={}, dims={"N": 77}, values={"scale": 1.0})
    assert given["k"].shape[2] == 77


PROGRAM = """
import numpy as np
import kdsl
from examples.softmax import softmax

x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float16)
report = softmax.check_cuda(x)
assert report.ok and report.runs[0].blocks == 3
given = np.full(x.shape, 7, np.float16)
assert softmax.check_cuda(x, given).ok and (given == 7).all()
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
