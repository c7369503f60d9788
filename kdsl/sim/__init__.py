"""Run, check and profile CUDA kernels on a machine without a GPU.

    run = kdsl.sim.run(ptx, "kernel", grid=(8, 2), block=128, args=[x, y, 100], smem=4096)
    assert not run.reports, run

The simulator executes the PTX that a compiler really wrote, checks every access to memory, and
counts what it costs. docs/simulator.md says what it finds and what it cannot see.
"""

from __future__ import annotations

from kdsl.sim.driver import configure as configure
from kdsl.sim.driver import reports as reports
from kdsl.sim.driver import runs as runs
from kdsl.sim.launch import Module as Module
from kdsl.sim.launch import run as run
from kdsl.sim.library import driver_path as driver_path
from kdsl.sim.memory import Memory as Memory
from kdsl.sim.memory import array as array
from kdsl.sim.memory import empty as empty
from kdsl.sim.memory import numpy as numpy
from kdsl.sim.results import Counters as Counters
from kdsl.sim.results import Lines as Lines
from kdsl.sim.results import Place as Place
from kdsl.sim.results import Report as Report
from kdsl.sim.results import Run as Run
