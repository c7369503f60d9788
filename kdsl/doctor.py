"""What kdsl finds on this machine, in lines that a bug report can carry."""

from __future__ import annotations

import platform
import subprocess
import sys
from importlib import metadata

from kdsl import config, paths
from kdsl.cache import Cache
from kdsl.codegen import targets
from kdsl.errors import BuildError

#: Frameworks that kdsl works with, by the name of their distribution.
FRAMEWORKS = ("numpy", "ml_dtypes", "torch", "jax", "apache-tvm-ffi")


def examine() -> tuple[list[str], bool]:
    """Lines of a report, and whether kernels can be compiled here."""
    rows = [
        ("kdsl", _version("kdsl")),
        ("python", f"{platform.python_version()} ({sys.executable})"),
        ("machine", f"{platform.system()} {platform.machine()}"),
        ("headers", str(paths.include_dir())),
        ("templates", str(paths.template_dir())),
    ]
    modules, size = Cache(config.cache_dir()).size()
    rows.append(("cache", f"{config.cache_dir()}: {modules} modules, {size / 1e6:.1f} MB"))
    fine = True
    try:
        rows.append(("cpu variant", targets.best_variant().name))
        rows.append(("compiler", _compiler()))
    except BuildError as err:
        rows.append(("compiler", f"MISSING: {err}"))
        fine = False
    rows += [(name, _version(name)) for name in FRAMEWORKS]
    return [f"{name:15} {value}" for name, value in rows], fine


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _compiler() -> str:
    command = targets.find_compiler().command
    run = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False)
    return f"{' '.join(command)}: {run.stdout.partition(chr(10))[0] or run.stderr.strip()}"
