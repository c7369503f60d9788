"""What all kernels have in common, whether teams run them or tensor cores."""

from __future__ import annotations

from functools import cache

from kdsl import paths
from kdsl.codegen.context import c_name
from kdsl.codegen.cpu.names import header_names
from kdsl.codegen.cpu.ops import STORED
from kdsl.codegen.cpu.source import PhasePrinter
from kdsl.ir.nodes import ScratchBuffer

#: Variables that generated kernels use themselves.
_OWN = frozenset("mi ci hi ei masked turn slot tasks failed low down along".split())
#: Functions that device compilers know without a declaration: a kernel cannot have their names.
_BUILT_IN = frozenset(
    """abort abs acos acosh asin asinh assert atan atan2 atanh calloc cbrt ceil clock copysign cos
    cosh cospi cyl_bessel_i0 cyl_bessel_i1 div erf erfc erfcinv erfcx erfinv exit exp exp10 exp2
    expm1 fabs fdim fdivide floor fma fmax fmin fmod free frexp hypot ilogb isfinite isinf isnan j0
    j1 jn labs ldexp ldiv lgamma llabs llmax llmin llrint llround log log10 log1p log2 logb lrint
    lround main malloc max memchr memcmp memcpy memmove memset min modf nan nearbyint nextafter norm
    norm3d norm4d normcdf normcdfinv pow powi printf putchar puts rcbrt realloc remainder remquo
    rhypot rint rnorm rnorm3d rnorm4d round rsqrt scalbln scalbn signbit sin sincos sincospi sinh
    sinpi sqrt strcat strchr strcmp strcpy strlen strncmp tan tanh tgamma trunc umax umin ullmax
    ullmin vprintf y0 y1 yn""".split()
)


@cache
def reserved_names() -> frozenset[str]:
    """Names that a kernel must not hide."""
    folder = paths.include_dir() / "kdsl"
    return header_names(folder / "cuda") | header_names(folder) | _OWN


class KernelPrinter(PhasePrinter):
    """Prints one phase as a kernel."""

    def symbol(self, place: str = "") -> str:
        """What the kernel is called in machine code; `place` tells phases apart."""
        name = c_name(self.func.name) if not place else f"{self.func.name}_{place}"
        taken = name in reserved_names() or name in _BUILT_IN
        taken |= name.removesuffix("f").removesuffix("l") in _BUILT_IN
        return f"{name}_kernel" if taken else name

    def scratch_bytes(self, scratch: ScratchBuffer) -> str:
        dtype = self.scope.tensor_dtype(scratch.name)
        sizes = [self.scope.extent(e) for e in scratch.type.shape]
        return f"tensor_room<{STORED[dtype.name]}>({', '.join(sizes)})"

    def summary(self) -> str:
        return super().summary().replace("one task is", "a block takes", 1)
