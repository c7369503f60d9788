"""What all kernels have in common, whether teams run them or tensor cores."""

from __future__ import annotations

from functools import cache

from kdsl import paths
from kdsl.codegen.cpu.names import header_names
from kdsl.codegen.cpu.ops import STORED
from kdsl.codegen.cpu.source import PhasePrinter
from kdsl.ir.nodes import ScratchBuffer

#: Variables that generated kernels use themselves.
_OWN = frozenset("mi ci hi ei masked turn slot".split())


@cache
def reserved_names() -> frozenset[str]:
    """Names that a kernel must not hide."""
    folder = paths.include_dir() / "kdsl"
    return header_names(folder / "cuda") | header_names(folder) | _OWN


class KernelPrinter(PhasePrinter):
    """Prints one phase as a kernel."""

    def scratch_bytes(self, scratch: ScratchBuffer) -> str:
        dtype = self.scope.tensor_dtype(scratch.name)
        sizes = [self.scope.extent(e) for e in scratch.type.shape]
        return f"tensor_room<{STORED[dtype.name]}>({', '.join(sizes)})"

    def summary(self) -> str:
        return super().summary().replace("one task is", "a block takes", 1)
