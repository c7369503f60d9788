"""The exported attention module, and what Python gets from it."""

from __future__ import annotations

import os
import runpy
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import kdsl
from tests.house import ROOT

HEADS, ROWS, SIZE = 4, 8, 64


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of attention.so, .h and .hpp."""
    folder = tmp_path_factory.mktemp("hosts")
    attention = runpy.run_path(str(ROOT / "examples/attention/attention.py"))["attention"]
    attention.export(folder / "attention.so", dtypes={"T": [kdsl.f32]}, dims={"D": [64]})
    return folder


@pytest.fixture(scope="session")
def want(exported: Path) -> bytes:
    """o and lse for the inputs that every host makes, as Python gets them from the module."""
    i = np.arange(HEADS * ROWS * SIZE)
    shape = (1, HEADS, ROWS, SIZE)
    divided = [(i % n).astype(np.float32) / np.float32(n) for n in (7, 5)]
    q, k, v = (x.reshape(shape) for x in (*divided, (i % 3).astype(np.float32)))
    module = kdsl.load_module(exported / "attention.so")
    o, lse = module.attention(q, k, v, 0.125, causal=True)
    return bytes(o.tobytes() + lse.tobytes())


def run(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "KDSL_NUM_THREADS": "2"}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=120
    )
