"""The disk cache of compiled modules: two keys, atomic publication, safe among processes.

A **lookup** record answers "what did this kernel, called like this, compile to?" from things that
are known without running the compiler: source text, captured values, dtypes, statics, sizes, kdsl's
own digest. A **store** folder holds one module under the digest of its generated text and flags.
Many lookups may lead to one module; a lookup miss with a store hit compiles nothing.

    <root>/lookup/<key>          a record: one short text
    <root>/store/<key>/module.so and, if the builder wrote them there, the sources
    <root>/failed/<key>/         for the builder to leave log and sources of a failure in
    <root>/locks/<key>.lock

What stands under its final name is complete: files and folders are made beside it and renamed.
Functions that only a miss calls import what they need themselves: a start that hits pays for none.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from kdsl import config

MODULE = "module.so"
#: Beside it: how many bytes it has.
SIZE = "size"

#: Seconds to wait for another process that builds the same module before building it here too.
PATIENCE = 120.0

#: Bytes that a compilation may need for a while.
LEAST_FREE = 32 << 20

#: Seconds after which nobody builds in a folder any more.
LEFT_BEHIND = 86400.0


def digest(parts: Iterable[str]) -> str:
    """A file-name-safe hash of texts; where one ends and the next begins matters."""
    state = hashlib.blake2b(digest_size=20)
    for part in parts:
        data = part.encode()
        state.update(len(data).to_bytes(8, "little"))
        state.update(data)
    return state.hexdigest()


class Cache:
    """The cache in one folder. Several processes and threads may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / config.CACHE_LAYOUT

    def lookup(self, key: str) -> str | None:
        """The record of a lookup key; None when there is none or it cannot be read."""
        try:
            return (self.root / "lookup" / key).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return None

    def remember(self, key: str, record: str) -> None:
        """Write the record of a lookup key; the last writer wins. A full disk costs the record."""
        import tempfile

        with contextlib.suppress(OSError):
            folder = self._folder("lookup")
            handle, name = tempfile.mkstemp(dir=folder, suffix=".tmp")
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(record)
            os.replace(name, folder / key)

    def find(self, key: str) -> Path | None:
        """The module stored under a key; None when there is none, or one of another size.

        The size guards against a file that a crash of the machine left short.
        """
        folder = self.root / "store" / key
        module = folder / MODULE
        try:
            whole = module.stat().st_size == int((folder / SIZE).read_text())
        except (OSError, ValueError):
            return None
        return module if whole else None

    def publish(self, key: str, build: Callable[[Path], None]) -> Path:
        """The module of a store key, built by `build(folder)` unless it is there.

        `build` writes `module.so` into a fresh folder; all that it leaves there is published. One
        process builds while others wait for it. What `build` raises goes on to the caller.
        """
        import shutil
        import tempfile

        with self._lock(key):
            if module := self.find(key):
                return module
            self._sweep()
            folder = Path(tempfile.mkdtemp(dir=self._folder("tmp"), prefix=f"{key[:12]}-"))
            try:
                build(folder)
                (folder / SIZE).write_text(str((folder / MODULE).stat().st_size))
                target = self._folder("store") / key
            except BaseException:
                shutil.rmtree(folder, ignore_errors=True)
                raise
            self._replace(folder, target)
            return target / MODULE

    def is_full(self) -> bool:
        """Whether a compiler may have failed for want of space here."""
        import shutil

        try:
            return shutil.disk_usage(self.root).free < LEAST_FREE
        except OSError:
            return False

    def failed(self, key: str) -> Path:
        """Where sources and log of a failed build of this key belong."""
        return self._folder("failed") / key

    def clear(self) -> int:
        """Remove everything; the number of modules that were stored."""
        import shutil

        count = len(self.modules())
        shutil.rmtree(self.root, ignore_errors=True)
        return count

    def size(self) -> tuple[int, int]:
        """Number of stored modules, and bytes of everything in the cache."""
        size = 0
        for path in self.root.rglob("*"):
            # Others may be at work here: a file that is gone by now has no size.
            with contextlib.suppress(OSError):
                size += path.stat().st_size if path.is_file() else 0
        return len(self.modules()), size

    def modules(self) -> list[Path]:
        """The stored modules, the newest at the end."""

        def time(path: Path) -> float:
            with contextlib.suppress(OSError):
                return path.stat().st_mtime
            return 0.0

        return sorted((self.root / "store").glob(f"*/{MODULE}"), key=time)

    def _folder(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _sweep(self) -> None:
        """Remove what builds left that were killed long ago."""
        import shutil
        import time

        for folder in self._folder("tmp").iterdir():
            with contextlib.suppress(OSError):
                if folder.stat().st_mtime < time.time() - LEFT_BEHIND:
                    shutil.rmtree(folder, ignore_errors=True)

    def _replace(self, folder: Path, target: Path) -> None:
        """Rename a folder to its final place; a complete one that is there already wins."""
        import shutil

        for _ in range(2):
            try:
                folder.rename(target)
                return
            except OSError:
                if self.find(target.name):
                    break
                shutil.rmtree(target, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)

    @contextlib.contextmanager
    def _lock(self, key: str) -> Iterator[None]:
        import filelock

        lock = filelock.FileLock(self._folder("locks") / f"{key}.lock", timeout=PATIENCE)
        try:
            lock.acquire()
        except (OSError, filelock.Timeout):
            # No locks on this file system, or a process that hangs: building twice is safe.
            yield
            return
        try:
            yield
        finally:
            lock.release()
