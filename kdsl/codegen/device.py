"""What the host side of a module knows of its CUDA kernels: names, launches, memory."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DevicePhase:
    """One parallel loop: one launch.

    Attributes:
        symbol: of the kernel, `extern "C" __global__ void symbol(const NAME_args args)`.
        threads: of a block.
        smem: bytes of dynamic shared memory.
        blocks: C++ expression (i64) over the arguments `a`: how many blocks there are. Never
            negative; 0 where there is nothing to launch.
    """

    symbol: str
    threads: int
    smem: int
    blocks: str


@dataclass(frozen=True, slots=True)
class DeviceKernel:
    """One specialisation.

    Attributes:
        name: of its function, `Compiled.func.name`.
        phases: run in order; a later one sees all writes of an earlier one.
        scratch: C++ expression over `a`: bytes of device memory that `a.scratch` points to.
        rows16: tensor parameters whose address and rows must be aligned to 16 bytes.
    """

    name: str
    phases: tuple[DevicePhase, ...]
    scratch: str = "0"
    rows16: tuple[str, ...] = ()
