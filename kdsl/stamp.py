"""What a cached module depends on besides its kernel: kdsl's own files.

For a lookup, files are told apart by size and times, not by content: a start that hits the cache
must not read a megabyte to find that nothing changed. A touched file costs a lowering, and no
compilation: what is stored goes by content.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

from kdsl import paths
from kdsl.cache import digest

_SUFFIXES = (".py", ".lark", ".h", ".j2")


@functools.cache
def own_files() -> str:
    """Changes when a file of kdsl does that generated code may depend on."""
    roots = (paths.PACKAGE, paths.include_dir(), paths.template_dir())
    return digest(line for root in roots for line in _lines(str(root)))


@functools.cache
def headers() -> str:
    """A digest of the text of every header; only a start that generates code asks for it."""
    files = sorted(paths.include_dir().rglob("*.h"))
    return digest(file.read_text(encoding="utf-8") for file in files)


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
