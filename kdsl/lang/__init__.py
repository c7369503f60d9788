"""What kernel bodies use: dims, tiles, dtypes, elementwise functions, with their NumPy meaning."""

from kdsl.dims import dims
from kdsl.dtypes import (
    bf16,
    boolean,
    dtypes,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
    u64,
)  # fmt: skip
from kdsl.lang import functions
from kdsl.lang.functions import *  # noqa: F403
from kdsl.lang.marks import InOut, Out, Static
from kdsl.lang.names import (
    LOG2E,
    all,
    any,
    arange,
    argmax,
    argmin,
    atomic_add,
    cumsum,
    dot,
    full,
    inf,
    inline,
    max,
    mean,
    min,
    nan,
    ones,
    parallel,
    prod,
    require,
    scratch,
    std,
    sum,
    tiles,
    var,
    zeros,
)  # fmt: skip

__all__ = [
    "LOG2E", "InOut", "Out", "Static", "all", "any", "arange", "argmax", "argmin", "atomic_add",
    "bf16", "boolean", "cumsum", "dims", "dot", "dtypes", "f8e4m3", "f8e5m2", "f16", "f32", "f64",
    "full", "i8", "i16", "i32", "i64", "inf", "inline", "max", "mean", "min", "nan", "ones",
    "parallel", "prod", "require", "scratch", "std", "sum", "tiles", "u8", "u16", "u32", "u64",
    "var", "zeros",
]  # fmt: skip
__all__ += functions.__all__
