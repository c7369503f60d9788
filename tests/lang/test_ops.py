"""The tables of operations and their NumPy meaning."""

from __future__ import annotations

import math
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import kdsl.lang
from kdsl.dtypes import DTYPES, bf16, boolean, f32, i8, i32, u8
from kdsl.lang import functions, names
from kdsl.lang.arrays import cast, kdsl_dtype, numpy_dtype
from kdsl.lang.ops import FUNCTIONS, OPS, REDUCTIONS, SCANS
from kdsl.lang.promote import Operand, PromotionError
from kdsl.lang.value import Value, elementwise, reduction

SPECIAL = np.array([-np.inf, -2.5, -1, -0.0, 0, 0.5, 1, 1.5, 2.5, 3e38, np.inf, np.nan], np.float32)


def test_every_function_of_the_language_is_an_operation_and_public():
    assert {f.__name__ for f in FUNCTIONS} == set(functions.__all__) <= set(OPS)
    assert set(kdsl.lang.__all__) >= set(functions.__all__)
    assert all(OPS[f.__name__] is info and f.__doc__ for f, info in FUNCTIONS.items())
    assert set(names.REDUCTIONS.values()) == {*REDUCTIONS, "mean", "var", "std"}
    assert set(names.SCANS.values()) == set(SCANS)


def operands(op, rng, dtype=np.float32, count=64):
    """Operands of an operation: numbers of any kind, the special ones too."""
    arrays = [rng.choice(SPECIAL, count).astype(dtype) for _ in op.parameters]
    return [a > 0 for a in arrays[: op.conditions]] + arrays[op.conditions :]


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_what_an_operation_says_of_itself_is_true(op):
    rng, of_floats = np.random.default_rng(0), "not" not in op.name
    try:
        op.rule(*[Operand(f32)] * (op.arity - op.conditions))
    except PromotionError:
        of_floats = False
    if op.commutative:
        a, b = operands(op, rng) if of_floats else rng.integers(-9, 9, (2, 64))
        np.testing.assert_array_equal(op.numpy(a, b), op.numpy(b, a))
    if op.positive:
        arrays = [rng.uniform(1e-30, 1e30, 64).astype(np.float32) for _ in op.parameters]
        assert (op.numpy(*arrays) > 0).all()
    if of_floats and not op.exact:  # of doubles, rounded once
        arrays = operands(op, rng)
        wide = op.numpy(*(a if a.dtype == np.bool_ else a.astype(np.float64) for a in arrays))
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(op.numpy(*arrays), wide.astype(np.float32))


@pytest.mark.parametrize("name", [f.__name__ for f, op in FUNCTIONS.items() if op.arity == 1])
def test_python_numbers_mean_what_arrays_mean(name):
    for x in SPECIAL.astype(np.float64).tolist():
        number = elementwise(OPS[name], x)
        array = OPS[name].numpy(np.array(x))
        assert isinstance(number, (bool, int, float))
        np.testing.assert_allclose(number, array, rtol=1e-15, equal_nan=True)


@pytest.mark.parametrize("name", ["maximum", "minimum", "fmax", "fmin"])
def test_extremes_agree_on_numbers_and_arrays_in_both_orders(name):
    for a in SPECIAL.tolist():
        for b in SPECIAL.tolist():
            array = float(OPS[name].numpy(np.array(a), np.array(b)))
            number = float(elementwise(OPS[name], a, b))
            # which zero is the larger is not said
            assert number == array or (math.isnan(number) and math.isnan(array))


def test_integer_division_floors_and_zero_and_overflow_are_defined():
    a = np.array([7, -7, 7, -7, 5, -(2**31)], np.int32)
    b = np.array([2, 2, -2, -2, 0, -1], np.int32)
    assert OPS["floordiv"].numpy(a, b).tolist() == [3, -4, -4, 3, 0, -(2**31)]
    assert OPS["mod"].numpy(a, b).tolist() == [1, 1, -1, -1, 0, 0]


@pytest.mark.parametrize("name", [d for d in DTYPES if DTYPES[d].is_int])
def test_integers_wrap(name):
    dtype = DTYPES[name]
    info = np.iinfo(numpy_dtype(dtype))
    one = np.ones(1, numpy_dtype(dtype))
    top = np.full(1, info.max, numpy_dtype(dtype))
    assert OPS["add"].numpy(top, one)[0] == info.min
    assert OPS["add"].numpy(top, one).dtype == numpy_dtype(dtype)


def test_elementary_functions_are_rounded_once():
    x = np.linspace(-20, 20, 1001, dtype=np.float32)
    exact = np.exp2(x.astype(np.longdouble)).astype(np.float32)
    assert (OPS["exp2"].numpy(x) == exact).all()
    assert OPS["exp2"].numpy(np.float32([-np.inf, np.inf])).tolist() == [0, np.inf]
    assert OPS["rsqrt"].numpy(np.float32([0, 4])).tolist() == [np.inf, 0.5]
    assert OPS["round"].numpy(np.float32([0.5, 1.5, 2.5, -0.5])).tolist() == [0, 2, 2, 0]
    assert OPS["erf"].numpy(np.float32([1]))[0] == np.float32(math.erf(1))


@pytest.mark.parametrize("name", ["max", "min", "sum", "prod", "any", "all"])
@pytest.mark.parametrize("dtype", [f32, i32, u8, boolean])
def test_reductions_of_nothing_give_their_neutral_element(name, dtype):
    info = REDUCTIONS[name]
    if (dtype is boolean) != (name in ("any", "all")):
        return
    empty = np.empty((3, 0), numpy_dtype(dtype))
    got = info.numpy(empty, 1)
    text = info.empty(dtype)
    neutral = {"True": True, "False": False}.get(text)
    assert got.tolist() == [float(text) if neutral is None else neutral] * 3


def test_reductions_propagate_nan_and_argmax_finds_it_first():
    x = Value(np.array([1, np.nan, 3, np.nan], np.float32))
    assert np.isnan(x.max().array)
    assert np.isnan(x.min().array)
    assert int(x.argmax().array) == int(x.argmin().array) == 1
    with pytest.raises(ValueError, match="argmax of an axis without elements"):
        Value(np.empty(0, np.float32)).argmax()


def test_running_sums_are_summed_in_double_and_rounded_once_at_each_place():
    x = Value(np.float32([1, 2**-24, 2**-24, np.nan, 1]))
    assert x.cumsum().array[:3].tolist() == [1, 1, 1 + 2**-23]
    assert np.isnan(x.cumsum().array[3:]).all()
    rows = Value(np.arange(6, dtype=np.int8).reshape(2, 3) + 100)
    assert rows.cumsum(axis=-1).dtype is i32
    assert rows.cumsum(axis=0).array.tolist() == [[100, 101, 102], [203, 205, 207]]
    assert names.cumsum(Value(np.ones(3, np.bool_))).array.tolist() == [1, 2, 3]
    assert Value(np.empty(0, np.float32)).cumsum().shape == (0,)
    with pytest.raises(TypeError, match=r"^`cumsum` needs one axis: say which, axis=...$"):
        rows.cumsum()


def test_sums_of_narrow_integers_and_bools_are_32_bit():
    assert reduction("sum", Value(np.full(300, 100, np.int8)), None, False).dtype is i32
    assert int(Value(np.full(300, 100, np.int8)).sum().array) == 30000
    assert Value(np.ones(3, np.bool_)).sum().dtype is i32


def test_casts_round_to_even_truncate_and_saturate():
    halves = np.array([1 + 2**-8, 1 + 3 * 2**-8], np.float32)
    assert cast(halves, bf16).astype(np.float32).tolist() == [1.0, 1.015625]
    wild = np.array([-1e30, -1.9, np.nan, 1.9, 1e30], np.float32)
    assert cast(wild, i8).tolist() == [-128, -1, 0, 1, 127]
    assert cast(wild, u8).tolist() == [0, 0, 0, 1, 255]
    assert cast(np.array([0, 2, -1]), boolean).tolist() == [False, True, True]
    assert cast(np.array([300, -1]), i8).tolist() == [44, -1]


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_dtype_has_a_numpy_dtype_and_back(dtype):
    assert kdsl_dtype(numpy_dtype(dtype)) is dtype
    assert numpy_dtype(dtype).itemsize == dtype.bytes


def test_foreign_dtypes_are_none_of_kdsl():
    assert kdsl_dtype(np.dtype(np.complex64)) is None
    assert kdsl_dtype(np.dtype(">f4")) is None
    assert kdsl_dtype(np.dtype("S3")) is None
    assert kdsl_dtype(np.dtype(ml_dtypes.float8_e4m3b11fnuz)) is None


def test_the_names_of_the_language_load_no_numpy():
    code = "import sys, kdsl.lang; print('numpy' in sys.modules, 'ml_dtypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
