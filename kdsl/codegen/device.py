"""What the host side of a module knows of its CUDA code: kernels, launches, memory, images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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


@dataclass(frozen=True, slots=True)
class Image:
    """Device code as it lies in a module.

    Attributes:
        arch: "sm_80", "sm_90a".
        kind: machine code of it, or PTX for it and later ones.
    """

    arch: str
    kind: Literal["cubin", "ptx"]

    @property
    def symbol(self) -> str:
        """In C++: `kdsl_sm_80_cubin`."""
        return f"kdsl_{self.arch}_{self.kind}"

    @property
    def number(self) -> int:
        """80 for sm_80."""
        return int("".join(filter(str.isdigit, self.arch)))

    @property
    def is_exact(self) -> bool:
        """Whether it is for this architecture alone."""
        return not self.arch[-1].isdigit()

    def file(self, module: str) -> str:
        """The file it is compiled to: `attention_sm_80.cubin`."""
        return f"{module}_{self.arch}.{self.kind}"


@dataclass(frozen=True, slots=True)
class DeviceCode:
    """The CUDA side of a module: text of `<module>_cuda.cu`, its kernels, what becomes of it."""

    text: str
    kernels: tuple[DeviceKernel, ...]
    images: tuple[Image, ...]
