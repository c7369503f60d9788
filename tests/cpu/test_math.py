"""The header functions against float64 NumPy, in every variant that this machine runs."""

import ctypes
import subprocess
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from scipy import special

from kdsl import paths
from kdsl.codegen.targets import (
    COMMON_FLAGS,
    KERNEL_FLAGS,
    cpu_features,
    find_compiler,
    variants_of,
)

#: Function -> (float64 meaning, sample points, bound in units of the last place).
FUNCTIONS = {
    "exp": (np.exp, np.linspace(-110, 95, 200_001), 2),
    "exp2": (np.exp2, np.linspace(-155, 130, 200_001), 2),
    "log": (np.log, np.geomspace(1e-44, 3e38, 200_001), 2),
    "log2": (np.log2, np.geomspace(1e-44, 3e38, 200_001), 3),
    "sqrt": (np.sqrt, np.geomspace(1e-44, 3e38, 100_001), 0.5),
    "rsqrt": (lambda x: 1 / np.sqrt(x), np.geomspace(1e-37, 3e38, 100_001), 1.5),
    "tanh": (np.tanh, np.linspace(-12, 12, 200_001), 4),
    "sigmoid": (special.expit, np.linspace(-80, 30, 200_001), 4),
    "erf": (special.erf, np.linspace(-5, 5, 200_001), 4),
    "sin": (np.sin, np.linspace(-500, 500, 200_001), 4),
    "cos": (np.cos, np.linspace(-500, 500, 200_001), 4),
    "floor": (np.floor, np.linspace(-1e7, 1e7, 100_001), 0),
    "ceil": (np.ceil, np.linspace(-100, 100, 100_001), 0),
    "round": (np.round, np.arange(-200, 200, dtype=np.float64) / 2, 0),
}
#: Far beyond what a division by pi/2 in doubles tells apart.
FAR = np.concatenate([np.geomspace(1e6, 3e38, 50_001), -np.geomspace(6e7, 7e7, 1001)])
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 1.0, -1.0], np.float32)
VARIANTS = [v for v in variants_of() if v.features <= cpu_features()]
#: And vectors that no instruction set here has, as the compiler puts them together.
WIDTHS = [
    replace(VARIANTS[0], name=f"{n} lanes", flags=(*VARIANTS[0].flags, f"-DKDSL_LANES={n}"))
    for n in (2, 16)
]

SOURCE = """
#include <kdsl/cpu/dot.h>
#include <kdsl/cpu/loops.h>
#include <kdsl/cpu/math.h>
using namespace kdsl;
#define EXPORT extern "C" __attribute__((visibility("default")))
#define EACH(f)                                                                     \\
  EXPORT void vector_##f(const float* x, float* y, i64 n) {                         \\
    each_vector(n, [&](i64 i, auto real) KDSL_INLINE { st(y + i, f(ld(x + i, real)), real); }); \\
  }                                                                                 \\
  EXPORT void scalar_##f(const float* x, float* y, i64 n) {                         \\
    for (i64 i = 0; i < n; i++) y[i] = f(x[i]);                                     \\
  }
FUNCTIONS
#define LANES(text) each_vector(n, [&](i64 i, auto real) KDSL_INLINE { text; })
#define HALF(T)                                                                     \\
  EXPORT void decode_##T(const T* x, float* y, i64 n) {                             \\
    LANES(st(y + i, ld(x + i, real), real));                                        \\
  }                                                                                 \\
  EXPORT void encode_##T(const float* x, T* y, i64 n) {                             \\
    LANES(st(y + i, ld(x + i, real), real));                                        \\
  }                                                                                 \\
  EXPORT void round_##T(const float* x, float* y, i64 n) {                          \\
    LANES(st(y + i, round_to<T>(ld(x + i, real)), real));                           \\
  }
HALF(bf16)
HALF(f16)
HALF(f8e4m3)
HALF(f8e5m2)
EXPORT void to_i32(const float* x, int* y, i64 n) {
  LANES(st(y + i, saturate<i32>(ld(x + i, real)), real));
}
EXPORT void transposed(const float* x, float* y, i64 rows, i64 columns) {
  pack_transposed(y, padded(rows), padded(rows), x, columns, rows, columns);
}
"""


@pytest.fixture(scope="module", params=VARIANTS + WIDTHS, ids=lambda v: v.name)
def library(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param.name)
    text = SOURCE.replace("FUNCTIONS", "\n".join(f"EACH({f})" for f in FUNCTIONS))
    (folder / "math.cc").write_text(text, encoding="utf-8")
    command = [
        *find_compiler().command, *COMMON_FLAGS, *KERNEL_FLAGS, *request.param.flags, "-Wall",
        "-Wextra", "-Wno-psabi", "-Werror", "-shared", f"-I{paths.include_dir()}",
        str(folder / "math.cc"), "-o", str(folder / "math.so"),
    ]  # fmt: skip
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(folder / "math.so"))


def call(function, x, out_dtype=np.float32, padding=0):
    y = np.zeros(x.size, out_dtype)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y)]
    function(*pointers, ctypes.c_long(x.size))
    return y


def ulps(got, want):
    """Distance in units in the last place of the f32 result."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        unit = np.maximum(np.spacing(np.abs(rounded)).astype(np.float64), 2.0**-149)
        error = np.abs(got.astype(np.float64) - want) / unit
    same = (got == rounded) | (np.isnan(got) & np.isnan(rounded))
    return np.where(same, 0.0, error)


@pytest.mark.parametrize("kind", ["vector", "scalar"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_accuracy(library, name, kind):
    meaning, points, bound = FUNCTIONS[name]
    x = points.astype(np.float32)[: 20_001 if kind == "scalar" else None]
    got = call(library[f"{kind}_{name}"], x)
    with np.errstate(all="ignore"):
        error = ulps(got, meaning(x.astype(np.float64)))
    worst = int(np.argmax(error))
    assert error[worst] <= bound, f"{name}({x[worst]!r}) = {got[worst]!r}, {error[worst]} ulp"


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_large_angles_keep_their_accuracy(library, name):
    x = FAR.astype(np.float32)
    got = call(library[f"vector_{name}"], x)
    # NumPy's float64 functions reduce exactly, as these have to.
    error = ulps(got, FUNCTIONS[name][0](x.astype(np.float64)))
    assert error.max() <= 4


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_numbers(library, name):
    meaning, _, _ = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        want = meaning(SPECIAL.astype(np.float64)).astype(np.float32)
    got = call(library[f"vector_{name}"], SPECIAL)
    np.testing.assert_allclose(got, want, rtol=3e-7, atol=1e-44)


SMALL = [
    ("bf16", ml_dtypes.bfloat16),
    ("f16", np.float16),
    ("f8e4m3", ml_dtypes.float8_e4m3fn),
    ("f8e5m2", ml_dtypes.float8_e5m2),
]


@pytest.mark.parametrize(("name", "dtype"), SMALL)
def test_every_small_float_reads_and_writes_back(library, name, dtype):
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    bits = np.arange(256**word.itemsize).astype(word)
    want = bits.view(dtype).astype(np.float32)
    wide = call(library[f"decode_{name}"], bits)
    np.testing.assert_array_equal(wide, want)
    np.testing.assert_array_equal(np.signbit(wide), np.signbit(want))
    back = call(library[f"encode_{name}"], wide, word)
    number = ~np.isnan(want)
    np.testing.assert_array_equal(back[number], bits[number])
    assert np.isnan(back[~number].view(dtype).astype(np.float32)).all()


@pytest.mark.parametrize(("name", "dtype"), SMALL)
def test_rounding_is_to_nearest_even(library, name, dtype):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**32, 300_000, dtype=np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        want = x.astype(dtype)
    number = ~np.isnan(x)
    word = np.dtype(f"u{np.dtype(dtype).itemsize}")
    number &= ~np.isnan(want.astype(np.float32))  # too large may be NaN, of any sign
    got = call(library[f"encode_{name}"], x, word)
    np.testing.assert_array_equal(got[number], want.view(word)[number])
    rounded = call(library[f"round_{name}"], x)
    np.testing.assert_array_equal(rounded[number], want.astype(np.float32)[number])


def test_a_float_becomes_the_nearest_integer_that_fits(library):
    x = np.array([1.9, -1.9, 3e9, -3e9, np.inf, -np.inf, np.nan, 2147483520.0, 0.0], np.float32)
    most, least = 2**31 - 1, -(2**31)
    want = [1, -1, most, least, most, least, 0, 2147483520, 0]
    assert call(library.to_i32, x, np.int32).tolist() == want


@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (16, 16), (17, 33), (48, 20)])
def test_packing_transposes_and_pads_with_zeros(library, shape):
    rows, columns = shape
    room = (rows + 15) // 16 * 16
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    y = np.full((columns, room), np.nan, np.float32)
    pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, y)]
    library.transposed(*pointers, ctypes.c_long(rows), ctypes.c_long(columns))
    np.testing.assert_array_equal(y[:, :rows], x.T)
    np.testing.assert_array_equal(y[:, rows:], 0)
