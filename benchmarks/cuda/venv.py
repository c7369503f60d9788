"""The peers of CUDA benchmarks, in an environment of their own: Triton, NVIDIA's disassembler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "build" / "cuda-peers"
PACKAGES = ("triton==3.9.0", "nvidia-cuda-cuobjdump", "nvidia-cuda-nvdisasm")


class Missing(Exception):
    """A peer cannot be had on this machine."""


def python() -> Path:
    """The interpreter that has the peers; installs them once."""
    program, done = FOLDER / "bin" / "python", FOLDER / "complete"
    if not done.exists():
        print("installing Triton and NVIDIA's disassembler", file=sys.stderr, flush=True)
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        install = [str(program), "-m", "pip", "install", "-q", *PACKAGES]
        if subprocess.run(install, check=False).returncode:
            raise Missing(f"pip could not install {', '.join(PACKAGES)}")
        done.touch()
    return program


def cuobjdump() -> Path:
    """NVIDIA's program that prints machine code."""
    python()
    found = next(FOLDER.rglob("bin/cuobjdump"), None)
    if found is None:
        raise Missing("the package nvidia-cuda-cuobjdump has no cuobjdump")
    return found
