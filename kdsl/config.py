"""What the environment sets. No other module of the compiler reads environment variables.

`VARIABLES` is the table of all of them; `python -m kdsl config` prints it with what they are now.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from pathlib import Path

from kdsl import paths

#: The folder within the cache's: changes when its layout does; an older one is never read.
CACHE_LAYOUT = "v1"

#: Every variable that kdsl or what it compiles reads: name, what holds without it, meaning.
VARIABLES: tuple[tuple[str, str, str], ...] = (
    ("KDSL_CACHE_DIR", "kdsl in the user's cache folder", "folder of compiled kernels"),
    ("XDG_CACHE_HOME", ".cache in the home folder", "the user's cache folder"),
    ("KDSL_KEEP", "0", "1: keep the generated C++ beside each compiled module"),
    (
        "KDSL_VARIANT",
        "the best of this machine",
        "CPU variant to compile for, and to run of an exported module: avx512, avx2, sse2, neon",
    ),
    (
        "KDSL_NUM_THREADS",
        "OpenMP's number if the process has OpenMP, else all CPUs",
        "threads of a call; read once by each compiled module, which ignores what is no number",
    ),
    (
        "KDSL_RUNTIME",
        "libtvm_ffi.so where the process or a module needs it, else kdsl's own",
        "who holds state shared with other TVM FFI modules: bundled or tvm_ffi",
    ),
    (
        "KDSL_CUDA_DRIVER",
        "libcuda.so.1",
        "the CUDA driver's library: a path, or sim for the simulator",
    ),
    (
        "KDSL_CUDA_COMPILER",
        "the first NVRTC of Python's packages and CUDA's folders, else the first nvcc",
        "the CUDA compiler: a libnvrtc.so or an nvcc",
    ),
    ("CUDA_HOME", "/usr/local/cuda*, /opt/cuda*", "where the CUDA toolkit is installed"),
    (
        "KDSL_CHECK",
        "0",
        "1: a call on a GPU waits for its kernels and raises what they find at once",
    ),
    ("KDSL_SIM_ARCH", "sm_80", "architecture of the simulated GPU"),
    ("KDSL_SIM_DIR", "the cache folder", "folder of the simulator's own compiled library"),
    ("CXX", "the first of g++, c++, clang++ on PATH", "the C++ compiler, with flags if need be"),
)

#: What values are fit, of the variables that do not name a file or a program.
_FIT: dict[str, tuple[str, Callable[[str], bool]]] = {
    "KDSL_KEEP": ("0 or 1", ("0", "1").__contains__),
    "KDSL_CHECK": ("0 or 1", ("0", "1").__contains__),
    "KDSL_RUNTIME": ("bundled or tvm_ffi", ("bundled", "tvm_ffi").__contains__),
    "KDSL_NUM_THREADS": (
        "a number of threads from 1 to 4096",
        lambda value: value.isascii() and value.isdecimal() and 1 <= int(value) <= 4096,
    ),
}


def problems() -> list[str]:
    """What is wrong with variables that are set: a text each, with what is expected."""
    found = []
    for name, (expected, fits) in _FIT.items():
        value = os.environ.get(name, "")
        if value and not fits(value):
            found.append(f"{name}: expected {expected}, got {value!r}")
    return found


def unknown() -> list[str]:
    """Variables that begin with KDSL_ and that nothing reads: names that may be typed wrongly."""
    known = {name for name, *_ in VARIABLES}
    return sorted(name for name in os.environ if name.startswith("KDSL_") and name not in known)


def check() -> None:
    """Raises ValueError for a variable whose value is not fit."""
    for problem in problems():
        raise ValueError(problem)


def cache_dir() -> Path:
    """The folder for compiled kernels; a private one of this process where the user's won't do."""
    chosen = user_cache_dir()
    if chosen is None:
        return private_cache_dir("the home folder")
    problem = cache_problem(chosen)
    return private_cache_dir(str(chosen), problem) if problem else chosen


def cache_problem(folder: Path) -> str:
    """Why compiled kernels cannot be kept in a folder; empty where they can."""
    if not paths.writable(folder):
        return "cannot write to {}"
    if not all(map(paths.trusted, (folder, folder / CACHE_LAYOUT))):
        return "does not trust {}, another user's folder that everyone may write to"
    return ""


def user_cache_dir() -> Path | None:
    """The folder for compiled kernels that the user asks for; None where there is no home."""
    return paths.user_cache_dir(os.environ)


def settings() -> list[dict[str, str]]:
    """Each variable: its name, its value, where that comes from, and what the variable means."""
    rows = []
    for name, default, meaning in VARIABLES:
        value = os.environ.get(name, "")
        source = "environment" if value else "default"
        if name == "KDSL_CACHE_DIR" and not value:
            default = str(user_cache_dir() or default)
        rows.append({"name": name, "value": value or default, "source": source, "meaning": meaning})
    return rows


def simulator_dir() -> Path:
    """The folder for the simulator's library."""
    chosen = os.environ.get("KDSL_SIM_DIR")
    return Path(chosen).expanduser().absolute() if chosen else cache_dir()


def keep_sources() -> bool:
    """Whether generated sources stay in the cache beside the compiled module."""
    return os.environ.get("KDSL_KEEP", "") not in ("", "0")


def variant() -> str | None:
    """The CPU variant the user asks for, if any."""
    return os.environ.get("KDSL_VARIANT") or None


def compiler() -> str | None:
    """The C++ compiler the user asks for, if any."""
    return os.environ.get("CXX") or None


def cuda_compiler() -> str | None:
    """The CUDA compiler the user asks for, if any: a libnvrtc.so or an nvcc."""
    return os.environ.get("KDSL_CUDA_COMPILER") or None


def cuda_home() -> str | None:
    """Where the user says that CUDA is installed, if anywhere."""
    return os.environ.get("CUDA_HOME") or None


def cuda_driver() -> str | None:
    """The library that takes the place of the CUDA driver, if any."""
    return os.environ.get("KDSL_CUDA_DRIVER") or None


def use_cuda_driver(path: str) -> None:
    """Let this library be the CUDA driver of all modules of the process, and of its children."""
    os.environ["KDSL_CUDA_DRIVER"] = path


@functools.cache
def private_cache_dir(wanted: str, problem: str = "cannot write to {}") -> Path:
    """A folder of this process alone, in place of one that is not fit; warns, once for each."""
    import tempfile
    import warnings

    folder = Path(tempfile.mkdtemp(prefix="kdsl-"))
    warnings.warn(
        f"kdsl {problem.format(wanted)}; compiled kernels go to {folder} and are not found again. "
        "Set KDSL_CACHE_DIR to a writable folder.",
        stacklevel=2,
    )
    return folder
