"""The short form of `python -m tools.stress` and `python -m tools.memory`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from kdsl.runtime import Module
from tools.memory import campaign
from tools.stress import stress


def test_sixteen_threads_call_raise_and_call_back(functions: Module, hand: Module) -> None:
    calls, wrong = stress(functions, hand, threads=16, seconds=2.0)
    assert wrong == []
    assert calls > 16


def test_children_that_are_forked_in_the_middle_call_raise_and_call_back() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-X", "faulthandler", "-m", "tools.stress", "--seconds=3", "--fork"]
    environment = {**os.environ, "KDSL_RUNTIME": "bundled", "PYTHONPATH": str(root)}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "0 of them wrong" in done.stdout


def test_calls_of_every_kind_leave_no_memory_behind(functions: Module, hand: Module) -> None:
    growth = campaign(functions, hand, calls=20_000)
    assert len(growth) >= 19
    assert sum(growth.values()) <= 1024, growth
