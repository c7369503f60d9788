"""From kernels and their specialisations to the texts of a module."""

from __future__ import annotations

from collections.abc import Sequence

from kdsl.codegen.context import VERSION, Compiled, KernelUnit, origins
from kdsl.codegen.cpu.source import kernel_source
from kdsl.codegen.cuda.text import with_lines
from kdsl.codegen.device import DeviceCode
from kdsl.codegen.host import host_module
from kdsl.codegen.render import render
from kdsl.codegen.targets import Variant
from kdsl.errors import InternalError
from kdsl.passes.cpu.plan import Plan


def module_sources(
    name: str,
    kernels: Sequence[KernelUnit],
    variants: Sequence[Variant],
    device: DeviceCode | None = None,
) -> dict[str, str]:
    """The files of a module by name: host side, the headers between, the kernels.

    Args:
        name: of the module; a C identifier.
        variants: from the most demanding down; none where it has no CPU code.
        device: its CUDA side, if it has one.

    Raises:
        InternalError: a plan holds what generated code cannot say.
    """
    some = [(unit.name, s) for unit in kernels for s in unit.specialisations if s.on_cpu]
    sources = host_sources(name, kernels, variants, device)
    if some:
        plans = [(kernel, _plan(s)) for kernel, s in some]
        sources[f"{name}_cpu.cc"] = kernel_source(name, origins(kernels), plans)
    if device:
        copy = "" if "kdsl_copy" in device.text else "\n#include <kdsl/cuda/copy_kernel.h>\n"
        file = f"{name}_cuda.cu"
        sources[file] = with_lines(device.text + copy, file)
        files = [(image.symbol, image.file(name)) for image in device.images]
        sources[f"{name}_images.s"] = render(
            "host/images.s.j2", version=VERSION, origin=origins(kernels), files=files
        )
    return sources


def host_sources(
    name: str,
    kernels: Sequence[KernelUnit],
    variants: Sequence[Variant],
    device: DeviceCode | None = None,
) -> dict[str, str]:
    """The files of a module but for its kernels."""
    module = host_module(name, kernels, variants, device)
    return {
        f"{name}.cc": render("host/module.cc.j2", m=module),
        f"{name}.h": render("host/module.h.j2", m=module),
        f"{name}_args.h": render("host/args.h.j2", m=module),
    }


def _plan(compiled: Compiled) -> Plan:
    if compiled.plan is None:
        raise InternalError(f"module_sources: {compiled.func.name} has no plan")
    return compiled.plan
