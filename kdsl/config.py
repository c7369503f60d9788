"""What the environment sets. No other module of the compiler reads environment variables.

| variable           | meaning                                                        |
|--------------------|----------------------------------------------------------------|
| `KDSL_CACHE_DIR`   | folder of compiled kernels                                     |
| `KDSL_KEEP`        | "1": keep generated sources and build logs beside a module     |
| `KDSL_VARIANT`     | CPU variant to compile for instead of this machine's best      |
| `KDSL_NUM_THREADS` | threads of a call (read by the compiled module itself)         |
| `KDSL_RUNTIME`     | provider of process-wide state (read by `kdsl.runtime`)        |
| `CXX`              | the C++ compiler                                               |
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

from kdsl import paths


def cache_dir() -> Path:
    """The folder for compiled kernels; a private one of this process where the user's won't do."""
    chosen = paths.user_cache_dir(os.environ)
    if chosen is not None and paths.writable(chosen):
        return chosen
    return _private_cache_dir(str(chosen) if chosen else "the home folder")


def keep_sources() -> bool:
    """Whether generated sources stay in the cache beside the compiled module."""
    return os.environ.get("KDSL_KEEP", "") not in ("", "0")


def variant() -> str | None:
    """The CPU variant the user asks for, if any."""
    return os.environ.get("KDSL_VARIANT") or None


def compiler() -> str | None:
    """The C++ compiler the user asks for, if any."""
    return os.environ.get("CXX") or None


@functools.cache
def _private_cache_dir(wanted: str) -> Path:
    import tempfile
    import warnings

    folder = Path(tempfile.mkdtemp(prefix="kdsl-"))
    warnings.warn(
        f"kdsl cannot write to {wanted}; compiled kernels go to {folder} and are not found again. "
        "Set KDSL_CACHE_DIR to a writable folder.",
        stacklevel=2,
    )
    return folder
