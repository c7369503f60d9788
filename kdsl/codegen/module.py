"""From kernels and their specialisations to the texts of a module."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kdsl.codegen import cpu
from kdsl.codegen.context import HostModule, KernelUnit
from kdsl.codegen.host import host_module
from kdsl.codegen.render import render
from kdsl.codegen.targets import Variant


def module_sources(
    name: str, kernels: Iterable[KernelUnit], variants: Sequence[Variant]
) -> dict[str, str]:
    """The files of a module by name: host side, the header between, the kernels.

    Args:
        name: of the module; a C identifier.
        variants: from the most demanding down.

    Raises:
        InternalError: a plan holds what generated code cannot say.
    """
    units = tuple(kernels)
    return {
        **host_sources(name, units, variants),
        f"{name}_cpu.cc": cpu.module_text(name, units),
    }


def host_sources(
    name: str, kernels: Iterable[KernelUnit], variants: Sequence[Variant]
) -> dict[str, str]:
    """The files of a module but for its kernels."""
    module: HostModule = host_module(name, kernels, variants)
    return {
        f"{name}.cc": render("host/module.cc.j2", m=module),
        f"{name}.h": render("host/module.h.j2", m=module),
    }


def public_header(name: str, kernels: Iterable[KernelUnit]) -> str:
    """The C header that goes beside an exported library."""
    return render("host/public.h.j2", m=host_module(name, kernels, ()))
