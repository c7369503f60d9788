"""What a cached module depends on besides its kernel: kdsl's own files, and the compiler.

Files are told apart by size and times, not by content: a start that hits the cache must not read a
megabyte to find that nothing changed. A touched file costs a lowering, not a compilation.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

from kdsl import paths
from kdsl.cache import digest

_SUFFIXES = (".py", ".lark", ".h", ".j2")


@functools.cache
def own_files() -> str:
    """Changes when a file of kdsl does that generated code may depend on."""
    roots = (paths.PACKAGE, paths.include_dir(), paths.template_dir())
    return digest(line for root in roots for line in _lines(str(root)))


def of_file(path: Path | str) -> str:
    """Changes when the file does, the one that links lead to: a compiler, for one."""
    real = os.path.realpath(path)
    status = os.stat(real)
    return f"{real} {status.st_size} {status.st_mtime_ns}"


def _lines(folder: str, prefix: str = "") -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda e: e.name):
            if entry.is_dir():
                yield from _lines(entry.path, f"{prefix}{entry.name}/")
            elif entry.name.endswith(_SUFFIXES):
                status = entry.stat()
                # The change time, too: tools that unpack archives set the modification time.
                times = f"{status.st_mtime_ns} {status.st_ctime_ns}"
                yield f"{prefix}{entry.name} {status.st_size} {times}"
