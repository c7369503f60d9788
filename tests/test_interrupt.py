"""A compilation that takes its time: what the terminal shows, and what Ctrl-C leaves behind."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kdsl.codegen import progress
from tests.house import ROOT

SCRIPT = """
    import fcntl, os, sys, termios
    import numpy as np
    import kdsl
    from kdsl import Out, f32

    (N,) = kdsl.dims("N")

    @kdsl.kernel
    def double(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] + x[n]

    if sys.stderr.isatty():
        fcntl.ioctl(2, termios.TIOCSCTTY, 0)
    one = np.ones(3, np.float32)
    try:
        double(one)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        os.environ.pop("CXX")
    print(double(one).tolist())
"""

Program = Callable[[str], tuple[list[str], dict[str, str]]]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """`program(lines)`: command and environment of SCRIPT, whose compiler runs `lines` first."""

    def make(lines: str) -> tuple[list[str], dict[str, str]]:
        compiler = tmp_path / "slow g++"
        compiler.write_text(f'#!/bin/sh\n{lines}\nexec {shutil.which("g++")} "$@"\n')
        compiler.chmod(0o755)
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(SCRIPT))
        environment = {
            **os.environ,
            "CXX": f"'{compiler}'",
            "KDSL_CACHE_DIR": str(tmp_path / "cache"),
            "PYTHONPATH": str(ROOT),
        }
        return [sys.executable, str(script)], environment

    return make


def on_terminal(
    command: list[str], environment: dict[str, str], press: Callable[[], bool] | None = None
) -> tuple[str, str]:
    """Output, and what a terminal as stderr shows; Ctrl-C is pressed once `press()` is true."""
    ours, theirs = pty.openpty()
    run = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=theirs,
        start_new_session=True,
        text=True,
    )
    if press is not None:
        deadline = time.monotonic() + 60
        while not press() and run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        os.write(ours, b"\x03")
    output, _ = run.communicate(timeout=120)
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:  # how a terminal without programs ends
        pass
    os.close(ours)
    return output, shown.decode()


SLOW = 'case "$*" in *_cpu.cc*) sleep 1.3;; esac'


def test_a_terminal_shows_a_line_while_the_compiler_works_and_none_afterwards(program):
    output, shown = on_terminal(*program(SLOW))
    assert output == "[2.0, 2.0, 2.0]\n"
    assert shown.startswith("\r\x1b[Kkdsl: compiling double: 1 s")
    assert shown.endswith("\r\x1b[K")


BOTH = """
import kdsl
from kdsl import Out, Static, f32

(N,) = kdsl.dims("N")


@kdsl.kernel
def scale(x: f32[N], o: Out[f32[N]], y: f32[N] | None = None, *, twice: Static[bool] = False):
    for n in kdsl.parallel(kdsl.tiles(N)):
        v = x[n] * (2 if twice else 1)
        o[n] = v if y is None else v + y[n]


scale.export("both.so", statics={"y": [True]})
"""


def test_an_export_says_on_a_terminal_how_much_it_compiles(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command, environment = program(SLOW)
    (tmp_path / "script.py").write_text(BOTH)
    _, shown = on_terminal(command, environment)
    assert shown.startswith("\r\x1b[Kkdsl: compiling both (2 specialisations): 1 s")
    assert shown.endswith("\r\x1b[K") and (tmp_path / "both.so").exists()


def test_what_is_no_terminal_shows_nothing(program):
    command, environment = program(SLOW)
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (run.stdout, run.stderr) == ("[2.0, 2.0, 2.0]\n", "")


def test_a_fast_compilation_shows_nothing_on_a_terminal_and_a_terminal_that_broke_harms_none(
    monkeypatch,
):
    class Broken:
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> None:
            raise OSError("gone")

    monkeypatch.setattr(sys, "stderr", Broken())
    with progress.line("kdsl: compiling"):
        pass
    with progress.line("kdsl: compiling") as tick:
        tick()
    monkeypatch.setattr(sys, "stderr", None)
    with progress.line("kdsl: compiling") as tick:
        tick()


def test_ctrl_c_stops_the_compiler_and_leaves_nothing_behind(program, tmp_path):
    pids = tmp_path / "pids"
    command, environment = program(f'echo $$ >> "{pids}"; exec sleep 60')

    def compiling() -> bool:
        return pids.exists() and bool(pids.read_text())

    output, shown = on_terminal(command, environment, compiling)
    assert output == "interrupted\n[2.0, 2.0, 2.0]\n", shown
    assert "Traceback" not in shown
    assert [pid for pid in pids.read_text().split() if Path("/proc", pid).exists()] == []
    assert list(tmp_path.glob("cache/*/tmp/*")) == []
    assert len(list(tmp_path.glob("cache/*/store/*"))) == 1
    assert list(tmp_path.glob("cache/*/failed/*")) == []
