"""Kernels where people write them: scripts, modules, prompts, IPython, text that exec runs."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.house import ROOT

AUTHOR = Path(__file__).with_name("author.py")

REFUSED = f"""\
a kernel is no method
   --> {AUTHOR}:LINE:20
    |
LINE |         def method(self, x: f32[N], o: Out[f32[N]]):
    |                    ^^^^
help: write a function, or a @staticmethod without `self`
a kernel is a function, got classmethod
a kernel is a function, got builtin_function_or_method
a kernel is a function, got partial
a kernel is a function, got type
a kernel is a plain function, without yield or async
a kernel is a plain function, without yield or async
fertig ✓
"""

#: Lines as they are typed; what a session answers stands after RESULT.
TYPED = """
import numpy as np, kdsl
from kdsl import Out, f32
N = kdsl.dims("N")[0]
def twice(v):
    return v * 2

@kdsl.kernel
def k(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = twice(x[n])

print("RESULT", k(np.ones(2, np.float32)))
def twice(v):
    return v * 4

print("RESULT", k(np.ones(2, np.float32)))
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{AUTHOR.parent}", **more}


ASCII = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "utf-8"}


@pytest.mark.parametrize(
    ("words", "variables"),
    [
        ((str(AUTHOR),), {}),
        ((str(AUTHOR),), ASCII),
        (("-OO", str(AUTHOR)), {}),
        (("-m", "author"), ASCII),
        (("-c", "import author"), {}),
        (("-c", f"import runpy; runpy.run_path({str(AUTHOR)!r})"), {}),
    ],
    ids=["script", "script, LC_ALL=C", "-OO", "-m, LC_ALL=C", "import", "runpy"],
)
def test_kernels_of_every_shape_are_captured_from(words, variables):
    run = subprocess.run(
        [sys.executable, *words],
        env=environment(**variables),
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert run.returncode == 0, run.stderr
    text = AUTHOR.read_text(encoding="utf-8")
    line = text[: text.index("def method")].count("\n") + 1
    assert run.stdout == REFUSED.replace("LINE", str(line))


def typed(command: list[str], lines: str) -> str:
    """What a terminal shows of a session in which these lines are typed."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(TERM="dumb"),
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    for line in [*lines.strip("\n").split("\n"), "", "print('END' + 'ED')", ""]:
        os.write(ours, f"{line}\n".encode())
    shown, deadline = b"", time.monotonic() + 120
    while b"ENDED" not in shown and time.monotonic() < deadline:
        if select.select([ours], [], [], 0.5)[0]:
            shown += os.read(ours, 65536)
    run.kill()
    run.wait()
    os.close(ours)
    return shown.decode(errors="replace")


def answers(shown: str) -> list[str]:
    lines = (line.rpartition("RESULT ") for line in shown.replace("\r", "\n").splitlines())
    return [text for _, word, text in lines if word and text.startswith("[")]


def test_a_kernel_typed_at_the_prompt_works_and_a_helper_may_be_typed_anew():
    shown = typed([sys.executable, "-i", "-q"], TYPED)
    assert answers(shown) == ["[2. 2.]", "[4. 4.]"], shown


def test_a_kernel_in_cells_of_ipython_works_and_a_cell_may_be_run_again(tmp_path):
    # As a notebook does: each cell as a whole, some of them twice.
    text = """
        from IPython.core.interactiveshell import InteractiveShell

        head = '''
        import numpy as np, kdsl
        from kdsl import Out, f32
        N = kdsl.dims("N")[0]
        def twice(v):
            return v * FACTOR
        '''
        kernel = '''
        @kdsl.kernel
        def k(x: f32[N], o: Out[f32[N]]):
            for n in kdsl.parallel(kdsl.tiles(N)):
                o[n] = twice(x[n])
        '''
        wrong = kernel.replace("twice", "thrice") + "k.show()"
        call = 'print("RESULT", k(np.ones(2, np.float32)))'
        shell = InteractiveShell.instance()
        for cell in (head, "FACTOR = 2", kernel, call, "FACTOR = 4", call, kernel, call, wrong):
            shell.run_cell(cell, store_history=True)
    """
    script = tmp_path / "cells.py"
    lines = [line[8:] for line in text.splitlines()]
    script.write_text("\n".join(lines))
    run = subprocess.run(
        [sys.executable, str(script)],
        env=environment(IPYTHONDIR=str(tmp_path), NO_COLOR="1"),
        capture_output=True,
        text=True,
    )
    assert answers(run.stdout) == ["[2. 2.]", "[4. 4.]", "[4. 4.]"], run.stderr
    assert "`thrice` is not defined" in run.stdout
    assert "o[n] = thrice(x[n])" in run.stdout


NO_TEXT = """
import numpy as np, kdsl
from kdsl import Out, f32
N = kdsl.dims("N")[0]
text = '''
def k(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(kdsl.tiles(N)):
        o[n] = x[n] * 2
'''
exec(text)
try:
    kdsl.kernel(k)
except kdsl.KernelSyntaxError as error:
    print(error)
print("RESULT", kdsl.kernel(source=text)(k)(np.ones(2, np.float32)))
"""


def test_where_no_text_is_kept_the_error_names_the_way_out_and_that_works():
    run = subprocess.run(
        [sys.executable, "-c", NO_TEXT], env=environment(), capture_output=True, text=True
    )
    assert run.stdout == textwrap.dedent("""\
        cannot read the source of `k`: there is no source for <string>
         --> <string>:2:1
          |
        help: keep the kernel in a file, or pass its text: @kdsl.kernel(source=...)
        RESULT [2. 2.]
        """), run.stderr


def test_a_program_on_standard_input_is_told_the_way_out():
    run = subprocess.run(
        [sys.executable, "-"], input=TYPED, env=environment(), capture_output=True, text=True
    )
    assert run.stderr.endswith(
        "cannot read the source of `k`: Python keeps no text of <stdin>\n"
        " --> <stdin>:8:1\n"
        "  |\n"
        "help: keep the kernel in a file, use IPython or a notebook, or pass its text: "
        "@kdsl.kernel(source=...)\n"
    )
