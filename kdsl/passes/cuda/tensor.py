"""Plan phases whose products run on tensor cores.

What such a phase may hold: products of f16 or bf16 operands with two result axes each, elementwise
work and reductions over the same axes, loops, loads and stores along axes. Anything else raises
`Misfit`, and the phase is planned for a team of threads instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kdsl.ir.nodes import Dot, Func, Let, Parallel, Reduce
from kdsl.ir.types import Axis
from kdsl.ir.walk import guards, value_types, walk
from kdsl.passes.cpu.prepare import own_carries, plain_reductions, widen_operands
from kdsl.passes.cuda.layout import Misfit, solve
from kdsl.passes.cuda.pad import pad, tile_loads
from kdsl.passes.cuda.planner import Planner
from kdsl.passes.cuda.tensor_plan import TensorPlan


@dataclass(frozen=True, slots=True)
class Schedule:
    """What `tune` may set for a CUDA target; None: what fits the kernel.

    Attributes:
        tiles: size by loop variable.
        warps: of a block along rows, and along columns.
        slots: turns that a copied tile holds at once.
        early: waits move up to where they free a slot: copies start sooner, but more values are
            in registers at once. None: where a turn masks nothing but its end, which is where
            ptxas has the registers.
    """

    tiles: Mapping[str, int] = field(default_factory=dict)
    warps: tuple[int, int] | None = None
    slots: int | None = None
    early: bool | None = None


#: Tile sizes: of parallel loops and rows, along columns, along the depth.
ROWS, COLS, DEPTH = 128, 64, 64
#: Bytes of shared memory that a block may have on any GPU since sm_80.
SHARED = 99 << 10
#: Registers that a thread has for fragments; addresses, sums and operands need the rest of 255.
ROOM = 220


def tensor_plan(func: Func, number: int, schedule: Schedule) -> TensorPlan:
    """Plan one phase.

    Args:
        func: in neutral form.
        number: of the phase.

    Raises:
        Misfit: the phase is not for tensor cores; the text says what is in the way.
    """
    func = own_carries(plain_reductions(widen_operands(func)))
    _check_products(func, func.phases[number])
    reduces = any(
        isinstance(s, Let) and isinstance(s.op, Reduce) for s in walk(func.phases[number].body)
    )
    plans = [_planned(func, number, schedule, rows, reduces) for rows in (ROWS, ROWS // 2)]
    shared = [p for p in plans if p.smem <= SHARED]
    if not shared:
        raise Misfit(f"a block would need {plans[-1].smem} bytes of shared memory")
    return next((p for p in shared if not reduces or p.registers <= ROOM), shared[-1])


def _planned(func: Func, number: int, schedule: Schedule, rows: int, reduces: bool) -> TensorPlan:
    """The plan with tiles of so many rows, where neither author nor schedule says how many."""
    func = replace(func, axes=_sized(func, func.phases[number], schedule, rows))
    for axis in func.axes:
        if axis.kind == "tile" and (axis.size or 16) % 16:
            raise Misfit(f"{axis.size} elements of a slice are no multiple of 16")
    func = replace(func, phases=(func.phases[number],))
    tiles = tile_loads(func)
    func = pad(func, tiles)
    sites = {let.name: site for site, let in enumerate(guards(func))}
    if schedule.warps is not None:
        shapes = [schedule.warps]
    else:
        # Square parts read the least; what stays in registers needs all columns in one warp.
        shapes = [(4, 1)] if reduces else [(2, 2), (4, 1)]
    layouts = [(solve(func, func.phases[0], tiles, warps), warps) for warps in shapes]
    layout, warps = min(layouts, key=lambda found: len(found[0].staged))
    slots = schedule.slots or (1 if reduces else 2)
    return Planner(func, tiles, layout, warps, sites, slots, schedule.early).plan()


def _check_products(func: Func, phase: Parallel) -> None:
    types = value_types(func)
    dots = [s for s in walk(phase.body) if isinstance(s, Let) and isinstance(s.op, Dot)]
    if not dots:
        raise Misfit("nothing is multiplied")
    for s in dots:
        assert isinstance(s.op, Dot)
        operands = [types[x] for x in (s.op.a, s.op.b)]
        if s.type.dtype.name != "f32" or any(t.dtype.name not in ("f16", "bf16") for t in operands):
            raise Misfit(f"{s.name} multiplies {operands[0].dtype} and {operands[1].dtype}")
        if operands[0].dtype is not operands[1].dtype:
            raise Misfit(f"{s.name} multiplies two dtypes")
        if len(s.type.axes) != 2 or any(len(t.axes) != 2 for t in operands):
            raise Misfit(f"{s.name} is no product of two matrices")


def _sized(func: Func, phase: Parallel, schedule: Schedule, rows: int) -> tuple[Axis, ...]:
    """Axes with the tile sizes that the author left open."""
    outer = {each.var for each in phase.vars if each.is_tile}
    depths = {s.op.axis for s in walk(phase.body) if isinstance(s, Let) and isinstance(s.op, Dot)}
    results = {
        a for s in walk(phase.body) if isinstance(s, Let) and isinstance(s.op, Dot)
        for a in s.type.axes
    }  # fmt: skip

    def size(axis: Axis) -> int | None:
        if axis.kind == "whole" or axis.size is not None:
            return axis.size
        if axis.name in schedule.tiles:
            return schedule.tiles[axis.name]
        if axis.name in outer:
            return rows
        if axis.name in results and axis.name not in depths:
            return ROWS
        return COLS if axis.name in results else DEPTH

    return tuple(replace(a, size=size(a)) for a in func.axes)
