"""PTX of the kernels in kernels/: committed, so that tests need no CUDA compiler.

`python -m tests.sim.fixtures` writes it anew with nvcc.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).with_name("kernels")
NAMES = ("matmul", "rows")


@cache
def ptx(name: str) -> str:
    """The committed PTX of kernels/<name>.cu."""
    return (FOLDER / f"{name}.ptx").read_text(encoding="utf-8")


def line(name: str, text: str, nth: int = 0) -> int:
    """The number of the nth line of kernels/<name>.cu that contains `text`."""
    lines = (FOLDER / f"{name}.cu").read_text(encoding="utf-8").splitlines()
    return [number for number, content in enumerate(lines, 1) if text in content][nth]


def compile_ptx(name: str) -> str:
    """The PTX that nvcc makes of kernels/<name>.cu; file names without folders."""
    command = ["nvcc", "-std=c++17", "-arch=sm_80", "-ptx", "-lineinfo", "-o", "-", f"{name}.cu"]
    run = subprocess.run(command, cwd=FOLDER, check=True, capture_output=True, text=True)
    text = re.sub(r'(\.file\s+\d+ ")[^"]*/', r"\1", run.stdout)
    # Sections of debug information name the folder too; nothing reads them.
    return re.sub(r"\n\s*\.section\s+\.debug_\w+\s*\{.*?\n\s*\}", "", text, flags=re.DOTALL)


def has_nvcc() -> bool:
    return shutil.which("nvcc") is not None


if __name__ == "__main__":
    for each in NAMES:
        (FOLDER / f"{each}.ptx").write_text(compile_ptx(each), encoding="utf-8")
