"""From a function in neutral form to its CPU plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kdsl.ir.depth import deep
from kdsl.ir.nodes import Func, Parallel
from kdsl.ir.walk import guards
from kdsl.passes.cpu.context import Context
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.lanes import choose_lanes
from kdsl.passes.cpu.plan import PhasePlan, Plan
from kdsl.passes.cpu.prepare import prepare, set_tiles
from kdsl.passes.cpu.schedule import plan_block
from kdsl.passes.cpu.storage import verify_storage


def plan(func: Func, tiles: Mapping[str, int] | None = None) -> Plan:
    """Decide how a function runs on a CPU.

    Args:
        func: in neutral form (`kdsl.passes.run_pipeline`).
        tiles: tile size by loop variable; others get a default.

    Raises:
        KernelTypeError: what this target cannot do yet, at the author's line.
    """
    func = prepare(func)
    with deep(func):
        lane_axes = {
            axis for phase in func.phases for axis in choose_lanes(Facts(func, phase)).values()
        }
        func = set_tiles(func, tiles or {}, frozenset(lane_axes))
        sites = {let.name: site for site, let in enumerate(guards(func))}
        return Plan(func, tuple(_phase(func, p, sites) for p in func.phases))


def _phase(func: Func, phase: Parallel, sites: dict[str, int]) -> PhasePlan:
    only = replace(func, phases=(phase,))
    facts = Facts(only, phase)
    cx = Context(facts, choose_lanes(facts), sites)
    steps = plan_block(cx, phase.body)
    used = {*cx.homes.values(), *cx.packs.values()}
    result = PhasePlan(
        steps,
        tuple(b for b in cx.buffers.values() if b.name in used),
        tuple(cx.homes.items()),
        tuple(cx.packs.items()),
    )
    verify_storage(cx, result)
    return result
