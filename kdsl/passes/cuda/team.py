"""The plan of a kernel whose blocks work as teams: lanes are threads, loops are the CPU's.

A block takes one iteration of a phase. Where the CPU has vectors the block has its threads, so the
planner is the CPU's; only tile sizes, the number of threads and barriers are CUDA's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kdsl.ir.nodes import Dot, ForTiles, Func, Let
from kdsl.ir.walk import statements, value_types, walk
from kdsl.passes.cpu.build import plan as cpu_plan
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.lanes import choose_lanes
from kdsl.passes.cpu.plan import Plan
from kdsl.passes.cpu.prepare import prepare
from kdsl.passes.cuda.sync import synchronise

#: Threads of a block: along axes of unknown length, and where blocks are multiplied.
LONG, PRODUCT = 256, 128
#: Tile sizes: along threads, across them, along what a product adds up.
LANES, ROWS, DEPTH = 128, 32, 32
#: Rows of a task where nothing is multiplied; elements of a slice that is all that values have.
FEW, RUN = 8, 1024


@dataclass(frozen=True, slots=True)
class TeamPlan:
    """A plan with barriers, and the threads of a block, phase by phase."""

    plan: Plan
    threads: tuple[int, ...]


def team_plan(func: Func, tiles: Mapping[str, int] | None = None) -> TeamPlan:
    """Decide how a function runs on teams of threads.

    Args:
        func: in neutral form (`kdsl.passes.run_pipeline`).
        tiles: tile size by loop variable; others get a default.

    Raises:
        KernelTypeError: what this target cannot do yet, at the author's line.
    """
    plan = cpu_plan(func, {**_tiles(func), **(tiles or {})})
    phases, threads = [], []
    for phase, steps in zip(plan.func.phases, plan.phases, strict=True):
        facts = Facts(replace(plan.func, phases=(phase,)), phase)
        phases.append(synchronise(facts, steps))
        multiplies = any(isinstance(s, Let) and isinstance(s.op, Dot) for s in walk(phase.body))
        threads.append(PRODUCT if multiplies else _threads(plan.func, steps.lane_axes()))
    return TeamPlan(replace(plan, phases=tuple(phases)), tuple(threads))


def _tiles(func: Func) -> dict[str, int]:
    """Sizes of the tile axes that the author left open."""
    ready = prepare(func)
    lanes = {a for p in ready.phases for a in choose_lanes(Facts(ready, p)).values()}
    looped = {s.axis for s in statements(ready) if isinstance(s, ForTiles)}
    depths = {s.op.axis for s in statements(ready) if isinstance(s, Let) and isinstance(s.op, Dot)}
    rows = {
        a for s in statements(ready) if isinstance(s, Let) and isinstance(s.op, Dot)
        for a in s.type.axes
    }  # fmt: skip

    shared = {a for t in value_types(ready).values() if len(t.axes) > 1 for a in t.axes}

    def size(axis: str) -> int:
        if axis in lanes:
            return LANES
        if axis not in shared:
            return RUN
        if axis in rows:
            return ROWS
        if axis in depths:
            return DEPTH
        return ROWS if axis in looped else FEW

    return {a.name: size(a.name) for a in ready.axes if a.kind == "tile" and a.size is None}


def _threads(func: Func, lanes: frozenset[str]) -> int:
    """As many as the longest lane axis has elements: a power of two of whole warps."""
    most = 32
    for name in lanes:
        axis = func.axis(name)
        size = axis.size if axis.kind == "tile" else axis.extent
        if not isinstance(size, int):
            return LONG
        most = max(most, size)
    return min(LONG, 1 << (most - 1).bit_length())
