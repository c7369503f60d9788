"""One line on the terminal while the compiler takes its time; nothing where stderr is none."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

#: Seconds between two looks, and before the line first appears.
INTERVAL = 1.0

_ERASE = "\r\x1b[K"


@contextlib.contextmanager
def line(text: str) -> Iterator[Callable[[], None]]:
    """Gives a function that shows `text` and the seconds so far; the line is gone at the end."""
    # As it is now: tests, notebooks and daemons replace it, and pythonw has none.
    stream = sys.stderr
    if stream is None or not stream.isatty():
        yield lambda: None
        return
    start = time.monotonic()
    shown = False

    def tick() -> None:
        nonlocal shown
        shown = True
        _write(f"{_ERASE}{text}: {time.monotonic() - start:.0f} s")

    def _write(words: str) -> None:
        # A terminal that has gone away is no reason for a build to fail.
        with contextlib.suppress(OSError, ValueError):
            stream.write(words)
            stream.flush()

    try:
        yield tick
    finally:
        if shown:
            _write(_ERASE)
