"""What kernel bodies use: dims, tiles, dtypes, elementwise functions, with their NumPy meaning."""

from kdsl.dims import dims
from kdsl.dtypes import (
    bf16, boolean, dtypes, f8e4m3, f8e5m2, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64,
)  # fmt: skip
from kdsl.lang.marks import InOut, Out, Static
from kdsl.lang.names import (
    LOG2E, abs, all, any, arange, argmax, argmin, ceil, cos, dot, erf, exp, exp2, floor, fma, fmax,
    fmin, full, inf, inline, log, log2, max, maximum, mean, min, minimum, nan, ones, parallel, prod,
    require, round, rsqrt, scratch, sigmoid, sin, sqrt, sum, tanh, tiles, where, zeros,
)  # fmt: skip

__all__ = [
    "LOG2E", "InOut", "Out", "Static", "abs", "all", "any", "arange", "argmax", "argmin", "bf16",
    "boolean", "ceil", "cos", "dims", "dot", "dtypes", "erf", "exp", "exp2", "f8e4m3", "f8e5m2",
    "f16", "f32", "f64", "floor", "fma", "fmax", "fmin", "full", "i8", "i16", "i32", "i64", "inf",
    "inline", "log", "log2", "max", "maximum", "mean", "min", "minimum", "nan", "ones", "parallel",
    "prod", "require", "round", "rsqrt", "scratch", "sigmoid", "sin", "sqrt", "sum", "tanh",
    "tiles", "u8", "u16", "u32", "u64", "where", "zeros",
]  # fmt: skip
