"""Which CUDA compiler there is: NVRTC, which is quick and comes as a wheel, or nvcc.

Both are found without environment variables: beside Python's packages, on PATH, where CUDA installs
itself. No GPU and no driver is needed.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from kdsl import config
from kdsl.errors import BuildError

#: Where CUDA installs itself, as cuda or cuda-13.0.
ROOTS = (Path("/usr/local"), Path("/opt"))

#: Seconds that nvcc may take to tell its version.
PATIENCE = 60.0

REMEDY = (
    "Install NVRTC (pip install nvidia-cuda-nvrtc; for a driver of CUDA 12: pip install "
    "nvidia-cuda-nvrtc-cu12) or NVIDIA's CUDA toolkit, or name libnvrtc.so or nvcc by "
    "KDSL_CUDA_COMPILER. A library that `kernel.export` wrote needs no compiler"
)


@dataclass(frozen=True, slots=True)
class Toolchain:
    """A CUDA compiler. `identity` changes when the compiler does, without running it."""

    kind: Literal["nvrtc", "nvcc"]
    path: Path
    identity: str

    @property
    def version(self) -> tuple[int, int]:
        """Of CUDA: (13, 0). (0, 0) where it does not tell."""
        return _version(self.kind, self.path)

    def command(self) -> tuple[str, ...]:
        """What compiles a file; see device_compile."""
        script = Path(__file__).with_name("device_compile.py")
        return (_python(), "-I", "-S", str(script), f"--{self.kind}", str(self.path))


def find_toolchain() -> Toolchain:
    """What KDSL_CUDA_COMPILER names, else the first NVRTC, else the first nvcc.

    Raises:
        BuildError: there is none; the text says where it was looked for and what to install.
    """
    return _find(config.cuda_compiler(), config.cuda_home(), os.pathsep.join(os.get_exec_path()))


@functools.cache
def _find(asked: str | None, home: str | None, path: str) -> Toolchain:
    if asked:
        file = Path(shutil.which(asked, path=path) or asked)
        if not file.is_file():
            raise BuildError(
                f"no CUDA compiler: KDSL_CUDA_COMPILER is {asked!r}, which is no file. {REMEDY}"
            )
        return _toolchain("nvrtc" if "nvrtc" in file.name else "nvcc", file)
    libraries, programs = list(_library_folders(home)), list(_program_folders(home, path))
    for folder in libraries:
        if library := _nvrtc_in(folder):
            return _toolchain("nvrtc", library)
    for folder in programs:
        if os.access(folder / "nvcc", os.X_OK):
            return _toolchain("nvcc", folder / "nvcc")
    looked = ", ".join(dict.fromkeys(map(str, (*libraries, *programs)))) or "no folder"
    raise BuildError(
        "no CUDA compiler: neither libnvrtc.so nor nvcc is among the packages of this Python, on "
        f"PATH or where CUDA installs itself ({looked}). {REMEDY}"
    )


def _toolchain(kind: Literal["nvrtc", "nvcc"], file: Path) -> Toolchain:
    real = file.resolve()
    stat = real.stat()
    return Toolchain(kind, real, f"{kind} {real} {stat.st_size} {stat.st_mtime_ns}")


def _nvrtc_in(folder: Path) -> Path | None:
    """The newest NVRTC in a folder, if its other half lies there too."""
    names = os.listdir(folder)
    found = [n for n in names if re.fullmatch(r"libnvrtc\.so\.[\d.]+", n)]
    if not found or not any(n.startswith("libnvrtc-builtins.so") for n in names):
        return None
    return folder / max(found, key=lambda n: [int(x) for x in re.findall(r"\d+", n)])


def _packages() -> Iterator[Path]:
    """Folders `nvidia/<package>` of the places where Python looks for packages."""
    for entry in dict.fromkeys(sys.path):
        nvidia = Path(entry, "nvidia")
        if nvidia.is_dir():
            yield from sorted((p for p in nvidia.iterdir() if p.is_dir()), reverse=True)


def _homes(home: str | None) -> Iterator[Path]:
    """Where CUDA may be installed, the newest first."""
    if home:
        yield Path(home)
    for parent in ROOTS:
        if parent.is_dir():
            yield from sorted(parent.glob("cuda*"), key=_numbers, reverse=True)


def _numbers(path: Path) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", path.name)]


def _existing(folders: Iterator[Path]) -> Iterator[Path]:
    return (f for f in folders if f.is_dir())


def _library_folders(home: str | None) -> Iterator[Path]:
    yield from _existing(p / "lib" for p in _packages())
    for root in _homes(home):
        yield from _existing(root / name for name in ("lib64", "lib", "targets/x86_64-linux/lib"))


def _program_folders(home: str | None, path: str) -> Iterator[Path]:
    if home:
        yield from _existing(iter([Path(home, "bin")]))
    yield from _existing(Path(p) for p in path.split(os.pathsep) if p)
    yield from _existing(root / "bin" for root in _homes(home))
    yield from _existing(p / "bin" for p in _packages())


@functools.cache
def _version(kind: str, path: Path) -> tuple[int, int]:
    if kind == "nvrtc":
        texts = [n for n in os.listdir(path.parent) if n.startswith("libnvrtc-builtins.so")]
    else:
        try:
            texts = [
                subprocess.run(
                    [str(path), "--version"],
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    errors="replace",
                    timeout=PATIENCE,
                ).stdout
            ]
        except (OSError, subprocess.TimeoutExpired):
            texts = []
    for text in texts:
        if found := re.search(r"(?:release |\.so\.)(\d+)\.(\d+)", text):
            return int(found[1]), int(found[2])
    return 0, 0


def _python() -> str:
    """A Python that runs a program of the standard library; an application may embed another."""
    own = sys.executable or ""
    if "python" in os.path.basename(own):
        return own
    return shutil.which("python3") or own
