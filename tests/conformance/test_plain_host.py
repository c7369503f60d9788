"""A module in a C program without Python, first without and then with a runtime."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from kdsl import paths

HOST = Path(__file__).parent / "host.c"

WANT = """\
functions axpy
attention
pick
drop
take
error ''
given 0, type 0, o 0 .. 147453
omitted 0, type 70, o 0 .. 147453, aligned 1, stride 16384
wrong -1, error 'TypeError: axpy(a: f32, x: f32[M, N], y: f32[M, N], o: Out[f32[M, N]]): \
expected 3 to 4 arguments, got 2'
doc 'o = a * x + y', type 65
outside -1, runs 0, error 'IndexError: take(ids: i64[N], x: f32[M, 4], runs: InOut[i32[()]], \
o: Out[f32[N]], *, wide: bool = False): index -3 is out of range for dimension 0 of `x` (M=2), \
at kernels.py:82'
child 0
table 0, o 0 .. 147453, ran 1
raise MemoryError: the host has no memo...
raise MemoryError: axpy(a: f32, x: f32[...
no memory -1
raise TypeError: axpy(a: f32, x: f32[...
wrong -1, raised 3, allocated 1
"""


def test_a_c_program_calls_a_module_without_and_with_a_runtime(samples_path, tmp_path):
    program = tmp_path / "host"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{paths.include_dir()}"]
    subprocess.run(["gcc", *flags, str(HOST), "-o", str(program), "-ldl"], check=True)
    run = subprocess.run(
        [str(program), str(samples_path)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "KDSL_NUM_THREADS": "2"},
    )
    assert run.stderr == ""
    assert run.stdout == WANT
    assert run.returncode == 0


def test_the_c_program_of_the_attention_example_compiles(tmp_path):
    source = paths.include_dir().parent / "examples" / "attention" / "host.c"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", f"-I{paths.include_dir()}"]
    command = ["gcc", *flags, str(source), "-o", str(tmp_path / "host"), "-ldl"]
    assert subprocess.run(command, capture_output=True, text=True).stderr == ""
