"""From device kernels to what the host templates print of them."""

from __future__ import annotations

from collections.abc import Iterable

from kdsl.codegen.context import Compiled, DeviceForm, Launch, Site
from kdsl.codegen.covers import covers
from kdsl.codegen.device import DeviceKernel
from kdsl.errors import InternalError
from kdsl.frontend.signature import Signature


class DeviceForms:
    """The device kernels of a module; numbers what the host looks up by number."""

    def __init__(self, kernels: Iterable[DeviceKernel]) -> None:
        self._kernels = {k.name: k for k in kernels}
        self._functions = 0
        self._faults = 0

    def form(self, compiled: Compiled, signature: Signature, sites: tuple[Site, ...]) -> DeviceForm:
        """A specialisation on a GPU; each is asked for once.

        Raises:
            InternalError: there is no kernel of that name, or it says what no host can do.
        """
        kernel = self._kernels.get(compiled.func.name)
        if kernel is None:
            raise InternalError(f"host_module: no device kernel of {compiled.func.name}")
        launches = []
        for phase in kernel.phases:
            if not 1 <= phase.threads <= 1024 or phase.smem < 0:
                raise InternalError(f"host_module: no host can launch {phase}")
            number, self._functions = self._functions, self._functions + 1
            launches.append(Launch(phase.symbol, number, phase.threads, phase.smem, phase.blocks))
        fault = None
        if sites:
            fault, self._faults = self._faults, self._faults + 1
        bits = {p.name: 1 << i for i, p in enumerate(signature.parameters)}
        outs = (p.name for p in signature.of_kind("out"))
        covered = sum(bits[name] for name in outs if covers(compiled.func, name))
        aligned = sum(bits[name] for name in kernel.rows16)
        return DeviceForm(tuple(launches), kernel.scratch, aligned, covered, fault)
