"""Sizes of a launch as the host computes them: C++ over the arguments `a`."""

from __future__ import annotations

from kdsl.codegen.context import c_name
from kdsl.codegen.hostexpr import extent_c
from kdsl.dims import Extent
from kdsl.dtypes import DType
from kdsl.ir.nodes import Each, Func, ScratchBuffer


class HostSizes:
    """Expressions over the arguments of one specialisation."""

    def __init__(self, func: Func) -> None:
        self.func = func
        fixed = dict(func.fixed)
        params = {p.name for p in func.params}
        self.dims = {
            d: str(fixed[d]) if d in fixed else f"a.{f'dim_{d}' if d in params else c_name(d)}"
            for d in func.dims
        }

    def extent(self, extent: Extent) -> str:
        return extent_c(extent, self.dims)

    def tasks(self, variables: tuple[Each, ...]) -> str:
        """How many iterations a parallel loop has."""
        return " * ".join(map(self._count, variables)) or "1"

    def narrow_tasks(self, variables: tuple[Each, ...]) -> str:
        """The same for a phase that counts along slices in 32 bits; -1 where one is too long."""
        extents = (self.extent(a.extent) for a in self.func.axes if a.kind == "tile")
        limits = dict.fromkeys(f"kdsl::narrow({e})" for e in extents if not e.isdigit())
        return f"kdsl::grid({', '.join([*map(self._count, variables), *limits])})"

    def _count(self, each: Each) -> str:
        if each.is_tile:
            axis = self.func.axis(each.var)
            return f"kdsl::blocks({self.extent(axis.extent)}, {axis.size})"
        text = self.extent(each.extent)
        return f"({text})" if " " in text else text

    def scratch(self, scratch: ScratchBuffer) -> str:
        """Bytes of a scratch tensor; -1 where it cannot be."""
        dtype = scratch.type.dtype
        assert isinstance(dtype, DType)
        sizes = ", ".join(map(self.extent, scratch.type.shape))
        # Element types of generated kernels are named by size: the host has no bf16.
        return f"kdsl::tensor_room<char>({', '.join(filter(None, [sizes, str(_bytes(dtype))]))})"


def _bytes(dtype: DType) -> int:
    return max(1, dtype.bits // 8)
