"""Room for recursion: passes follow values to what they are made of, however long the chain is."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kdsl.ir.nodes import Func
from kdsl.ir.walk import lets

#: Calls on the way from a value to the one before it.
_STEP = 12

_lock = threading.Lock()
_inside = 0  # threads that need more room than there was
_before = 0  # the limit without them


@contextmanager
def deep(func: Func) -> Iterator[None]:
    """Raise Python's limit on recursion by what the longest chain in a function may take.

    The limit is that of all threads: the last one to leave puts it back.
    """
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = sys.getrecursionlimit()
        _inside += 1
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _before + _STEP * len(lets(func))))
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                sys.setrecursionlimit(_before)
