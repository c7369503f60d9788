"""What kdsl finds on this machine, in lines that a bug report can carry."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from kdsl import config, paths
from kdsl.cache import Cache
from kdsl.codegen import targets
from kdsl.errors import BuildError

#: Distributions that kdsl cannot do without, and those it only works with.
NEEDED = ("numpy", "ml_dtypes", "jinja2", "lark", "ninja", "filelock")
WELCOME = ("torch", "jax", "apache-tvm-ffi")

#: Seconds that the compiler may take to tell its version, or for the smallest file.
PATIENCE = 60.0

_PROBE = """#include <kdsl/cpu/kernel.h>
extern "C" __attribute__((visibility("default"))) int kdsl_probe(int x) { return x + x; }
"""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `remedy` says what to do about what is missing."""

    name: str
    state: Literal["ok", "absent", "missing"]
    value: str
    remedy: str = ""

    def __str__(self) -> str:
        mark = "MISSING: " if self.state == "missing" else ""
        line = f"{self.name:15} {mark}{self.value}"
        return f"{line}\n{'':15} -> {self.remedy}" if self.remedy else line


def examine() -> list[Finding]:
    """The whole report; kernels can be compiled here unless a finding's state is "missing"."""
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs"
    findings = [
        Finding("kdsl", "ok", f"{_version('kdsl') or 'not installed'} ({paths.PACKAGE})"),
        Finding("python", "ok", f"{platform.python_version()} ({sys.executable})"),
        Finding("machine", "ok", machine),
        *_packages(),
        _folder("headers", paths.include_dir),
        _folder("templates", paths.template_dir),
        *_cpu(),
        *_compiler(),
        *_cuda(),
        _cache(),
        *_variables(),
    ]
    if not any(f.state == "missing" for f in findings):
        findings.append(_test_compile())
    return findings


def _packages() -> Iterator[Finding]:
    for name in NEEDED:
        version = _version(name)
        if version is None:
            yield Finding(name, "missing", "not installed", f"pip install {name}")
        else:
            yield Finding(name, "ok", version)
    for name in WELCOME:
        version = _version(name)
        yield Finding(name, "ok" if version else "absent", version or "not installed (optional)")


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _folder(name: str, find: Callable[[], Path]) -> Finding:
    try:
        return Finding(name, "ok", str(find()))
    except FileNotFoundError as err:
        return Finding(name, "missing", str(err), "pip install --force-reinstall kdsl")


def _cpu() -> Iterator[Finding]:
    """The variant, and of the features that some variant asks for those this CPU has."""
    try:
        choices = targets.variants_of()
        wanted = frozenset[str]().union(*(v.features for v in choices))
        have = sorted(wanted & targets.cpu_features())
        yield Finding("cpu features", "ok", " ".join(have) or "none that kdsl makes use of")
        best = targets.best_variant().name
        others = ", ".join(v.name for v in choices)
        yield Finding("cpu variant", "ok", f"{best} (of {others})")
    except BuildError as err:
        yield Finding(
            "cpu variant", "missing", str(err), "unset KDSL_VARIANT, or name one of these"
        )


def _compiler() -> Iterator[Finding]:
    asked = config.compiler()
    tried = f"CXX={asked}" if asked else f"the first of {', '.join(targets.COMPILERS)} on PATH"
    try:
        command = targets.find_compiler().command
        run = subprocess.run(
            [*command, "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=PATIENCE,
        )
    except BuildError as err:
        text, _, remedy = str(err).partition(". ")
        yield Finding("compiler", "missing", text, remedy)
        return
    except (OSError, subprocess.TimeoutExpired) as err:
        yield Finding("compiler", "missing", str(err), "set CXX to a C++ compiler that runs")
        return
    yield Finding("compiler", "ok", f"{' '.join(command)} ({tried})")
    version = run.stdout.partition("\n")[0] or run.stderr.strip() or "it tells none"
    yield Finding("version", "ok", version)


def _cuda() -> Iterator[Finding]:
    """What CUDA code is compiled with, and where it would run; nobody needs either for the CPU."""
    from kdsl import gpus
    from kdsl.codegen import archs, toolchain

    try:
        found = toolchain.find_toolchain()
        version = ".".join(map(str, found.version))
        yield Finding("cuda compiler", "ok", f"{found.kind} {version} ({found.path})")
        *others, last = archs.ARCHS
        yield Finding("cuda targets", "ok", f"cuda: {', '.join(others)} and {last}")
    except BuildError as err:
        text, _, remedy = str(err).partition(". ")
        yield Finding("cuda compiler", "absent", f"{text} (optional)", remedy)
    try:
        driver = gpus.driver()
        some = [driver.gpu(i) for i in range(driver.count())]
    except RuntimeError as err:
        yield Finding(
            "cuda driver",
            "absent",
            f"{err} (optional)",
            "CUDA code compiles all the same; KDSL_CUDA_DRIVER=sim runs it in the simulator",
        )
        return
    version = ".".join(map(str, driver.version))
    kind = "the simulator" if driver.is_simulator else f"CUDA {version}"
    yield Finding("cuda driver", "ok", f"{gpus.driver_path()} ({kind})")
    for gpu in some:
        arch = f"sm_{gpu.capability[0]}{gpu.capability[1]}"
        yield Finding(f"cuda:{gpu.ordinal}", "ok", f"{gpu.name or 'a GPU'} ({arch})")


def _cache() -> Finding:
    wanted = config.user_cache_dir()
    remedy = "Set KDSL_CACHE_DIR to a folder that you may write; until then nothing is kept"
    if wanted is None:
        return Finding("cache", "absent", "there is no home folder", remedy)
    if problem := config.cache_problem(wanted):
        return Finding("cache", "absent", f"kdsl {problem.format(wanted)}", remedy)
    modules, size = Cache(wanted).size()
    free = shutil.disk_usage(wanted).free / 1e9
    text = f"{wanted}: {modules} modules, {size / 1e6:.1f} MB, {free:.1f} GB free"
    return Finding("cache", "ok", text)


def _variables() -> Iterator[Finding]:
    """Environment variables that are wrong, or that begin as kdsl's and are none."""
    for problem in config.problems():
        yield Finding("environment", "missing", problem, "unset it, or set it as expected")
    for name in config.unknown():
        yield Finding("environment", "absent", f"{name} is set, and nothing reads it")


def _test_compile() -> Finding:
    """The smallest module there is, by the very path that kernels take."""
    import ctypes

    from kdsl.codegen.build import build

    with tempfile.TemporaryDirectory(prefix="kdsl-doctor-") as folder:
        library = Path(folder, "probe.so")
        log = Path(folder, "probe.log")
        try:
            build({"probe.cc": _PROBE}, library, (targets.best_variant(),), log)
            answer = ctypes.CDLL(str(library)).kdsl_probe(21)
        except (BuildError, OSError) as err:
            output = log.read_text(encoding="utf-8").strip() if log.exists() else ""
            lines = [str(err).partition("\n")[0], *output.splitlines()[-5:]]
            return Finding(
                "test compile",
                "missing",
                f"\n{'':15} ".join(lines),
                "this compiler must build shared libraries of C++17; set CXX to one that does",
            )
    if answer != 42:
        return Finding("test compile", "missing", f"it ran wrongly: {answer}", "set CXX to another")
    return Finding("test compile", "ok", "compiled, linked, loaded and run")
