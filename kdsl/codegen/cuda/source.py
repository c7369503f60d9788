"""From specialisations to the text of a module's CUDA kernels, and what the host knows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kdsl.codegen.context import VERSION, KernelUnit, origins
from kdsl.codegen.cuda.hostside import HostSizes
from kdsl.codegen.cuda.team import TeamPhase
from kdsl.codegen.cuda.text import DeviceModule, DeviceText
from kdsl.codegen.device import DeviceKernel
from kdsl.codegen.render import render
from kdsl.ir.nodes import Func
from kdsl.passes.cuda.team import team_plan


def device_source(
    module: str, units: Sequence[KernelUnit], tiles: Mapping[str, Mapping[str, int]] | None = None
) -> tuple[str, tuple[DeviceKernel, ...]]:
    """Text of `<module>_cuda.cu`, and what the host side needs of each specialisation.

    Args:
        module: its name; a C identifier.
        tiles: tile sizes by loop variable, by name of the kernel; others get a default.

    Raises:
        KernelTypeError: what this target cannot do yet, at the author's line.
    """
    texts: list[DeviceText] = []
    kernels: list[DeviceKernel] = []
    for unit in units:
        sizes = (tiles or {}).get(unit.name, {})
        for compiled in unit.specialisations:
            kernel, phases = _kernel(unit.name, compiled.func, sizes)
            kernels.append(kernel)
            texts += phases
    headers = sorted({h for t in texts for h in t.headers} | {"loops", "math"})
    shown = DeviceModule(VERSION, module, origins(units), tuple(headers), tuple(texts))
    return render("cuda/kernels.cu.j2", m=shown), tuple(kernels)


def _kernel(
    exported: str, func: Func, tiles: Mapping[str, int]
) -> tuple[DeviceKernel, list[DeviceText]]:
    team = team_plan(func, tiles)
    sizes = HostSizes(func)
    scratch = [sizes.scratch(s) for s in func.scratch]
    texts, phases = [], []
    for number in range(len(team.plan.phases)):
        text, phase = TeamPhase(exported, team, number, scratch).kernel()
        texts.append(text)
        phases.append(phase)
    total = f"kdsl::total_room({', '.join(scratch)})" if scratch else "0"
    return DeviceKernel(func.name, tuple(phases), total), texts
