"""Launches that came through the driver: how they run, and what they found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from kdsl.sim import library, results
from kdsl.sim.launch import LIMIT

#: What `runs` and `reports` are still to tell; each forgets what it told, and nothing of the other.
_runs: list[results.Run] = []
_reports: dict[results.Report, None] = {}
_lock = threading.Lock()


def configure(*, seed: int = 0, threads: int | None = None, limit: int = LIMIT) -> None:
    """How launches through the driver run from now on; arguments as of `sim.run`."""
    library.load().kdsl_sim_configure(seed, threads or 0, limit)


def runs() -> list[results.Run]:
    """The launches through the driver since `runs` was last asked, in order."""
    with _lock:
        _note(_taken())
        found = _runs[:]
        _runs.clear()
        return found


def reports() -> list[results.Report]:
    """What launches through the driver found since `reports` was last asked, each once."""
    with _lock:
        _note(_taken())
        found = list(_reports)
        _reports.clear()
        return found


@contextmanager
def separate() -> Iterator[list[results.Run]]:
    """The launches within the block, when it is over; `runs` and `reports` do not tell of them."""
    own: list[results.Run] = []
    with _lock:
        _note(_taken())
    yield own
    with _lock:
        own += _taken()


def _taken() -> list[results.Run]:
    text = library.load().kdsl_sim_take_log().decode("utf-8", "replace")
    return results.parse(text)


def _note(found: list[results.Run]) -> None:
    _runs.extend(found)
    _reports.update(dict.fromkeys(report for run in found for report in run.reports))
