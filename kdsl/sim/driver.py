"""Launches that came through the driver: how they run, and what they found."""

from __future__ import annotations

from kdsl.sim import library, results
from kdsl.sim.launch import LIMIT


def configure(*, seed: int = 0, threads: int | None = None, limit: int = LIMIT) -> None:
    """How launches through the driver run from now on; arguments as of `sim.run`."""
    library.load().kdsl_sim_configure(seed, threads or 0, limit)


def runs() -> list[results.Run]:
    """The launches through the driver since this was last asked, in order."""
    text = library.load().kdsl_sim_take_log().decode("utf-8", "replace")
    return results.parse(text)


def reports() -> list[results.Report]:
    """What launches through the driver found since this was last asked, each once."""
    return list(dict.fromkeys(report for run in runs() for report in run.reports))
