"""Numbers, dtypes and errors as messages of modules show them."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdsl.dtypes import DTYPES


@given(st.floats())
def test_a_double_shows_as_python_shows_it(unit, value):
    shown = unit.unit_double(value).decode()
    # A digit more where the shortest decimal is no rounding of printf: 5.960464477539063e-08.
    assert shown == repr(value) or (float(shown) == value and len(shown) == len(repr(value)) + 1)


@given(st.floats(width=32))
def test_a_float_shows_the_shortest_decimal_that_is_that_float(unit, value):
    shown = unit.unit_float(value).decode()
    assert float(np.float32(shown)) == value or math.isnan(value)
    digits = shown.partition("e")[0].replace(".", "").strip("-0")
    assert len(digits) <= 17 if shown.endswith(".0") else len(digits) <= 9


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=str)
def test_every_dtype_shows_by_its_name(unit, dtype):
    assert unit.unit_dtype(dtype.dlpack, dtype.bits, 1).decode() == dtype.name


def test_other_dtypes_show_what_they_are(unit):
    assert unit.unit_dtype(5, 64, 1) == b"complex64"
    assert unit.unit_dtype(2, 32, 4) == b"f32x4"
    assert unit.unit_dtype(17, 4, 1) == b"dtype(17, 4)"


def test_a_text_that_is_too_long_ends_with_dots(unit):
    text = unit.unit_long_text(10_000).decode()
    assert len(text) == 4000
    assert text.endswith("3456...")


def last_error(unit):
    return getattr(unit, "__kdsl_last_error")()


def test_the_last_error_stays_with_its_thread(unit):
    unit.unit_raise(b"ValueError", b"here")
    other = []

    def raise_there():
        unit.unit_raise(b"TypeError", b"there")
        other.append(last_error(unit))

    thread = threading.Thread(target=raise_there)
    thread.start()
    thread.join()
    assert other[0] == b"TypeError: there"
    assert last_error(unit) == b"ValueError: here"


@pytest.mark.parametrize("a", [-7, -6, -1, 0, 1, 6, 7, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("b", [-7, -3, -2, 2, 3, 7])
def test_division_on_the_host_is_pythons(unit, a, b):
    assert unit.unit_floordiv(a, b) == a // b
    assert unit.unit_mod(a, b) == a % b


def test_division_by_minus_one_wraps(unit):
    assert unit.unit_floordiv(-(2**63), -1) == -(2**63)
    assert unit.unit_mod(-(2**63), -1) == 0
