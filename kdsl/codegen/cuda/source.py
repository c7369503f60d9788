"""From specialisations to the text of a module's CUDA kernels, and what the host knows of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kdsl.codegen.context import VERSION, KernelUnit, origins
from kdsl.codegen.cuda.hostside import HostSizes
from kdsl.codegen.cuda.team import TeamPhase
from kdsl.codegen.cuda.tensor import TensorPhase
from kdsl.codegen.cuda.text import DeviceModule, DeviceText
from kdsl.codegen.device import DeviceKernel
from kdsl.codegen.render import render
from kdsl.ir.depth import deep
from kdsl.ir.nodes import Func
from kdsl.passes.cuda.layout import Misfit
from kdsl.passes.cuda.team import TeamPlan, team_plan
from kdsl.passes.cuda.tensor import Schedule, tensor_plan
from kdsl.passes.cuda.tensor_plan import TensorPlan


def device_source(
    module: str,
    units: Sequence[KernelUnit],
    schedules: Mapping[str, Schedule] | None = None,
    *,
    tensor_cores: bool = True,
) -> tuple[str, tuple[DeviceKernel, ...]]:
    """Text of `<module>_cuda.cu`, and what the host side needs of each specialisation.

    Args:
        module: its name; a C identifier.
        schedules: by name of the kernel; others get what fits them.
        tensor_cores: the code is for sm_80 and later alone; what came before has other ones.

    Raises:
        KernelTypeError: what this target cannot do yet, at the author's line.
    """
    texts: list[DeviceText] = []
    kernels: list[DeviceKernel] = []
    for unit in units:
        schedule = (schedules or {}).get(unit.name, Schedule())
        for compiled in unit.specialisations:
            with deep(compiled.func):
                kernel, phases = _kernel(unit.name, compiled.func, schedule, tensor_cores)
            kernels.append(kernel)
            texts += phases
    headers = sorted({h for t in texts for h in t.headers} | {"loops", "math"})
    shown = DeviceModule(VERSION, module, origins(units), tuple(headers), tuple(texts))
    return render("cuda/kernels.cu.j2", m=shown), tuple(kernels)


def _kernel(
    exported: str, func: Func, schedule: Schedule, tensor_cores: bool
) -> tuple[DeviceKernel, list[DeviceText]]:
    sizes = HostSizes(func)
    scratch = [sizes.scratch(s) for s in func.scratch]
    texts, phases = [], []
    rows16: dict[str, None] = {}
    many = len(func.phases) > 1
    team: TeamPlan | None = None
    for number in range(len(func.phases)):
        plan = _tensor_plan(func, number, schedule) if tensor_cores else "no tensor cores"
        if isinstance(plan, str):
            team = team or team_plan(func, schedule.tiles)
            text, phase = TeamPhase(exported, team, number, scratch, plan).kernel()
        else:
            printer = TensorPhase(exported, plan, number, many)
            text, phase = printer.kernel()
            rows16 |= printer.rows16
        texts.append(text)
        phases.append(phase)
    total = f"kdsl::total_room({', '.join(scratch)})" if scratch else "0"
    return DeviceKernel(func.name, tuple(phases), total, tuple(rows16)), texts


def _tensor_plan(func: Func, number: int, schedule: Schedule) -> TensorPlan | str:
    """The plan of a phase on tensor cores; why there is none where it is for a team of threads.

    Raises:
        ValueError: there is one, but not with what `tune` asks for.
    """
    try:
        return tensor_plan(func, number, schedule)
    except Misfit as reason:
        if schedule != Schedule() and not isinstance(_tensor_plan(func, number, Schedule()), str):
            raise ValueError(
                f"{func.name}: what `tune` asks for does not fit tensor cores: {reason}\n"
                "set other sizes, or go back to what the compiler chooses with `untune()`"
            ) from None
        return str(reason)
