"""The simulator's shared library: compiled once per compiler into the cache, opened by ctypes."""

from __future__ import annotations

import ctypes
import functools
import os
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kdsl import cache, config
from kdsl.codegen import targets
from kdsl.errors import BuildError

SOURCES = Path(__file__).with_name("csrc")

#: What is compiled together, and how: each unit reads the headers once, and what seldom runs needs
#: no time of the optimiser.
UNITS = (
    ("-O2", "ops_float ops_special ops_integer ops_bit"),
    ("-O2", "block access order ops_memory ops_move ops_async ops_matrix ops_warp ops_compare"),
    ("-O1", "types ops_convert ops_half ops_control ops_atomic"),
    ("-O1", "lexer parser decode operands rows module launch heap result device"),
    ("-O1", "api driver driver_memory"),
)

#: -ffp-contract=off: an `fma` is one where the PTX says so and nowhere else.
FLAGS = (
    *("-std=c++17", "-ftree-vectorize", "-fPIC", "-fvisibility=hidden", "-pthread"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math", "-fno-strict-aliasing"),
    *("-fwrapv", "-w"),
)
LINK = ("-shared", "-pthread", "-Wl,-Bsymbolic", "-Wl,-z,nodelete", "-ldl")


def driver_path() -> Path:
    """The library that executes PTX and that programs may load in place of libcuda.so.1.

    It is compiled when this is first asked; later processes find it in the cache.

    Raises:
        BuildError: there is no C++ compiler, or it failed.
    """
    return _path(str(config.simulator_dir()))


@functools.cache
def load() -> ctypes.CDLL:
    """The library with the types of its functions."""
    lib = ctypes.CDLL(str(driver_path()))
    if config.cuda_driver() == "sim":  # what modules are told is a path
        config.use_cuda_driver(str(driver_path()))
    pointer, text, u64, i32 = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_uint64, ctypes.c_int
    for name, result, arguments in (
        ("error", text, ()),
        ("load", pointer, (text,)),
        ("unload", None, (pointer,)),
        ("kernels", text, (pointer,)),
        ("params", text, (pointer, text)),
        ("allocate", u64, (u64, i32, text)),
        ("free", i32, (u64,)),
        ("mark_written", None, (u64, u64)),
        ("room", u64, (u64,)),
        ("start", pointer, (pointer, text, ctypes.POINTER(Options), text, u64)),
        ("wait", i32, (pointer, i32)),
        ("cancel", None, (pointer,)),
        ("result", text, (pointer,)),
        ("close", None, (pointer,)),
        ("take_log", text, ()),
        ("configure", None, (u64, i32, u64)),
    ):
        function = getattr(lib, f"kdsl_sim_{name}")
        function.restype, function.argtypes = result, arguments
    return lib


class Options(ctypes.Structure):
    """How to launch, as csrc/api.cc takes it."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("threads", ctypes.c_int32),
        ("seed", ctypes.c_uint64),
        ("limit", ctypes.c_uint64),
    )


def error() -> str:
    """What the last function that failed on this thread said."""
    return str(load().kdsl_sim_error().decode("utf-8", "replace"))


@functools.cache
def _path(folder: str) -> Path:
    compiler = targets.find_compiler()
    # Every x86 processor of the last ten years has these; the others run the plain form.
    fast = next((v for v in targets.variants_of() if v.name == "avx2"), None)
    wide = fast.flags if fast and fast.features <= targets.cpu_features() else ()
    texts = [file.read_text(encoding="utf-8") for file in sorted(SOURCES.iterdir())]
    key = cache.digest(["sim", compiler.identity, *FLAGS, *wide, *LINK, repr(UNITS), *texts])
    store = cache.Cache(Path(folder))
    command = [*compiler.command, *FLAGS, *wide]
    return store.publish(key, lambda out: _build(command, out, store.failed(key)))


def _build(command: list[str], folder: Path, failed: Path) -> None:
    def compile_one(index: int) -> Path:
        level, names = UNITS[index]
        source = folder / f"unit{index}.cc"
        source.write_text("".join(f'#include "{name}.cc"\n' for name in names.split()))
        result = source.with_suffix(".o")
        flags = [level, f"-I{SOURCES}", "-c", str(source), "-o", str(result)]
        _run([*command, *flags], source.name, failed)
        return result

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        objects = list(pool.map(compile_one, range(len(UNITS))))
    _run([*command, *map(str, objects), *LINK, "-o", str(folder / cache.MODULE)], "sim", failed)
    for file in objects:
        file.unlink()
        file.with_suffix(".cc").unlink()


def _run(command: list[str], name: str, failed: Path) -> None:
    run = subprocess.run(command, capture_output=True, text=True, errors="replace")
    if run.returncode == 0:
        return
    failed.mkdir(parents=True, exist_ok=True)
    log = failed / f"{name}.log"
    log.write_text(f"{shlex.join(command)}\n{run.stderr}", encoding="utf-8")
    first = next((line for line in run.stderr.splitlines() if "error" in line), "it gave no text")
    raise BuildError(
        f"the simulator: the C++ compiler failed: {first.strip()}\nThe full log is {log}."
    )
