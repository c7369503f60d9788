"""Where kdsl's own files lie: the same from a checkout, an editable install and a wheel."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Mapping
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def include_dir() -> Path:
    """The folder to give to a C++ compiler as `-I`: it holds `kdsl/ffi/` and `kdsl/cpu/`."""
    return _shared("include")


def template_dir() -> Path:
    """The folder of jinja2 templates: `host/`, `cpu/`."""
    return _shared("templates")


def user_cache_dir(environ: Mapping[str, str]) -> Path | None:
    """The user's folder for compiled kernels; None where the user has no home.

    `KDSL_CACHE_DIR` wins; else the platform's cache folder and `kdsl` in it.
    """
    if chosen := environ.get("KDSL_CACHE_DIR"):
        return Path(chosen).expanduser().absolute()
    if base := environ.get("XDG_CACHE_HOME"):
        return Path(base) / "kdsl"
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return home / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "kdsl"


def _shared(name: str) -> Path:
    # A wheel has share/; a checkout has the folder beside the package. share/ is asked first: a
    # folder of site-packages that happens to be called `include` is not ours.
    for folder in (PACKAGE / "share" / name, PACKAGE.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(
        f"kdsl's {name}/ is neither in {PACKAGE / 'share'} nor in {PACKAGE.parent}; reinstall kdsl"
    )


def writable(folder: Path) -> bool:
    """Whether files can be made in `folder`, which is created if it is missing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)


def trusted(folder: Path) -> bool:
    """Whether only people whom the user trusts can have put something into `folder`: what lies
    there is loaded and run. True for one that is not there yet.

    A folder that everyone may write to must be the user's own, or the system's.
    """
    try:
        status = folder.stat()
    except OSError:
        return True
    theirs = status.st_uid not in (os.geteuid(), 0)
    return not (theirs and status.st_mode & stat.S_IWOTH)
