"""Measure callables against each other in one process, turn by turn.

On a machine that others share, a minute's speed is not the next minute's: absolute times of two
runs say nothing. Here the contestants alternate call by call, each call is timed by the CPU time
of the process, and what is reported is a ratio.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

Call = Callable[[], object]


@dataclass(frozen=True)
class Times:
    """Seconds of CPU time of one contestant's calls."""

    name: str
    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        return min(self.seconds)

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)


def interleave(
    calls: Mapping[str, Call], *, rounds: int = 15, repeat: int = 1, warmup: int = 2
) -> dict[str, Times]:
    """Call everyone in turn, `rounds` times; each turn is `repeat` calls, timed together.

    CPU time leaves out what other processes do meanwhile; with one thread it is the time taken.
    """
    for _ in range(warmup):
        for call in calls.values():
            call()
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        # Every other turn runs backwards, so that nobody always follows the same neighbour.
        for name in list(calls) if turn % 2 == 0 else reversed(list(calls)):
            call = calls[name]
            start = time.process_time()
            for _ in range(repeat):
                call()
            seconds[name].append((time.process_time() - start) / repeat)
    return {name: Times(name, tuple(values)) for name, values in seconds.items()}


def report(title: str, ours: Times, peer: Times, *, limit: float | None = None) -> None:
    """One line: both times, and ours over the peer's by the best and by the median call."""
    best, median = ours.best / peer.best, ours.median / peer.median
    goal = "" if limit is None else f"  (goal {limit:.2f}: {'met' if best <= limit else 'MISSED'})"
    print(
        f"{title:34} {time_text(ours.best):>9} | {peer.name} {time_text(peer.best):>9} | "
        f"ratio {best:.2f} best, {median:.2f} median{goal}",
        flush=True,
    )


def time_text(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.2f} {unit}"
    return f"{seconds * 1e9:.0f} ns"


def machine() -> str:
    """What the numbers were measured on, for the head of a report."""
    model = "unknown CPU"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next(line.split(":")[1].strip() for line in file if "model name" in line)
    except (OSError, StopIteration):
        pass
    return f"{model}, Python {sys.version.split()[0]}"
