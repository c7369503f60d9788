"""Functions of doubles, and of floats by way of doubles, against long doubles."""

import ctypes
import subprocess

import numpy as np
import pytest
from scipy import special

from kdsl import paths
from kdsl.codegen.targets import COMMON_FLAGS, KERNEL_FLAGS, find_compiler
from tests.cpu.test_math import SPECIAL, VARIANTS, WIDTHS

RNG = np.random.default_rng(0)
WIDE = np.longdouble


def even(low, high, n=20_000):
    return np.concatenate([RNG.uniform(low, high, n), np.linspace(low, high, n // 4)])


def by_size(low, high, n=20_000):
    return np.exp(RNG.uniform(np.log(low), np.log(high), n))


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


AROUND_ONE = np.concatenate([by_size(5e-324, 1.7e308), even(0.5, 2)])
SMALL = np.concatenate([by_size(1e-300, 1), -by_size(1e-300, 0.5)])
TURNS = np.concatenate([even(-1e6, 1e6), even(-10, 10), np.arange(1, 3000) * np.pi / 2])
FAR = np.concatenate([by_size(1e6, 1.7e308, 5000), [2.0**20, 2.0**54, 6381956970095103 * 2.0**797]])

#: Function -> (meaning, points, bound in units of the last place).
FUNCTIONS = {
    "exp": (np.exp, even(-746, 710), 1),
    "exp2": (np.exp2, even(-1075, 1024), 1.5),
    "expm1": (np.expm1, np.concatenate([even(-40, 709.7), even(-2, 2), SMALL]), 2),
    "sigmoid": (sigmoid, even(-745, 40), 2.5),
    "tanh": (np.tanh, np.concatenate([even(-20, 20), SMALL]), 2.5),
    "log": (np.log, AROUND_ONE, 1),
    "log1p": (np.log1p, np.concatenate([AROUND_ONE, SMALL, even(-0.9999999, 2)]), 1),
    "log2": (np.log2, AROUND_ONE, 1),
    # SciPy's own error is up to one unit
    "erf": (lambda x: special.erf(x.astype(np.float64)), even(-6, 6), 3),
    "sin": (np.sin, np.concatenate([TURNS, FAR]), 1),
    "cos": (np.cos, np.concatenate([TURNS, FAR]), 1),
    "atan": (np.arctan, np.concatenate([even(-10, 10), by_size(1e-300, 1e300)]), 1.5),
    "sqrt": (np.sqrt, by_size(1e-300, 1e300), 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), by_size(1e-300, 1e300), 1.5),
    "round": (np.rint, even(-100, 100), 0),
    "floor": (np.floor, even(-100, 100), 0),
    "ceil": (np.ceil, even(-100, 100), 0),
    "trunc": (np.trunc, even(-100, 100), 0),
}
BOTH = {
    "pow": (np.power, 2),
    "atan2": (np.arctan2, 2),
    "mod": (np.mod, 0),
    "floordiv": (np.floor_divide, 0),
}
FLOATS = ("expm1", "log1p", "atan")

SOURCE = """
#include <kdsl/cpu/division.h>
#include <kdsl/cpu/loops.h>
#include <kdsl/cpu/memory.h>
#include <kdsl/cpu/power.h>
using namespace kdsl;
#define EXPORT extern "C" __attribute__((visibility("default")))
#define LANES(text) each_vector(n, [&](i64 i, auto real) KDSL_INLINE { text; })
#define ONE(f, T)                                                  \\
  EXPORT void f##_##T(const T* x, T* y, i64 n) {                   \\
    LANES(st(y + i, f(ld(x + i, real)), real));                    \\
  }                                                                \\
  EXPORT void one_##f##_##T(const T* x, T* y, i64 n) {             \\
    for (i64 i = 0; i < n; i++) y[i] = f(x[i]);                    \\
  }
#define TWO(f, T)                                                  \\
  EXPORT void f##_##T(const T* x, const T* z, T* y, i64 n) {       \\
    LANES(st(y + i, f(ld(x + i, real), ld(z + i, real)), real));   \\
  }
"""


@pytest.fixture(scope="module", params=[*VARIANTS, WIDTHS[0]], ids=lambda v: v.name)
def library(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.name)
    lines = [f"ONE({f}, double)" for f in FUNCTIONS] + [f"ONE({f}, float)" for f in FLOATS]
    lines += [f"TWO({f}, {t})" for f in BOTH for t in ("double", "float")]
    (folder / "math.cc").write_text(SOURCE + "\n".join(lines) + "\n", encoding="utf-8")
    command = [
        *find_compiler().command, *COMMON_FLAGS, *KERNEL_FLAGS, *request.param.flags, "-Wall",
        "-Wextra", "-Wno-psabi", "-Werror", "-shared", f"-I{paths.include_dir()}",
        str(folder / "math.cc"), "-o", str(folder / "math.so"),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "math.so"))


def call(function, *inputs):
    y = np.zeros_like(inputs[0])
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*inputs, y)]
    function(*pointers, ctypes.c_long(y.size))
    return y


def check(got, want, bound):
    """Units of the last place of the result's dtype, and the same infinities and NaNs."""
    dtype = got.dtype.type
    with np.errstate(all="ignore"):
        rounded = np.asarray(want).astype(dtype)
        unit = np.maximum(np.spacing(np.abs(rounded)), np.finfo(dtype).smallest_subnormal)
        error = np.abs(got.astype(WIDE) - want) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    bad = ~same & ~(error <= max(bound, 0.5))
    assert not bad.any(), (got[bad][:3], np.asarray(want)[bad][:3], error[bad].max())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_doubles_are_accurate(library, name):
    meaning, x, bound = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        want = meaning(x.astype(WIDE))
    check(call(library[f"{name}_double"], x), want, bound)
    check(call(library[f"one_{name}_double"], x[:999].copy()), want[:999], bound)


@pytest.mark.parametrize("name", [*FUNCTIONS, *(f"{f} of floats" for f in FLOATS)])
def test_special_numbers_and_signs_of_zero(library, name):
    name, *short = name.split(" of ")
    x = np.concatenate([SPECIAL, [1.7e308, -1.7e308, 5e-324, -5e-324]])
    with np.errstate(all="ignore"):
        x = x.astype(np.float32 if short else np.float64)
        want = np.asarray(FUNCTIONS[name][0](x.astype(WIDE))).astype(x.dtype)
    got = call(library[f"{name}_{'float' if short else 'double'}"], x)
    np.testing.assert_allclose(got, want, rtol=1e-6 if short else 1e-15)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


def pairs(name):
    some = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 5e-324, -1e-310, 1.7e308, 2, -3, 0.5, -0.1,
         0.7, 2.0**53 - 1]
    )  # fmt: skip
    x, y = (v.ravel() for v in np.meshgrid(some, some))
    if name == "pow":
        base = np.concatenate([by_size(1e-300, 1e300, 4000), even(0.5, 2, 4000), even(-9, -1, 99)])
        most = 1075 / np.maximum(np.abs(np.log2(np.abs(base))), 1e-3)
        power = RNG.uniform(-1, 0.9, base.size) * most
        power[-123:] = np.round(power[-123:])
    else:
        base = np.concatenate([RNG.standard_normal(4000) * 10, by_size(1e-300, 1e300, 500)])
        power = np.concatenate([RNG.standard_normal(4000), -by_size(1e-300, 1e300, 500)])
    return np.concatenate([x, base]), np.concatenate([y, power])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", BOTH)
def test_functions_of_two_numbers(library, name, dtype):
    meaning, bound = BOTH[name]
    with np.errstate(all="ignore"):
        x, y = (v.astype(dtype) for v in pairs(name))
        wide = WIDE if bound else dtype
        want = meaning(x.astype(wide), y.astype(wide))
        got = call(library[f"{name}_{'double' if dtype is np.float64 else 'float'}"], x, y)
        check(got, want, bound)
        number = ~np.isnan(want.astype(dtype))
    np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])
