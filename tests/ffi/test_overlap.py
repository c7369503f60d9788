"""Whether views share memory, and copies between views, against NumPy and plain enumeration."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

MAX_DIMS = 8


class Region(ctypes.Structure):
    _fields_ = (
        ("base", ctypes.c_long),
        ("element_bytes", ctypes.c_long),
        ("ndim", ctypes.c_int),
        ("shape", ctypes.c_long * MAX_DIMS),
        ("strides", ctypes.c_long * MAX_DIMS),
    )


def region(base, element_bytes, shape, strides):
    pad = (0,) * (MAX_DIMS - len(shape))
    return Region(base, element_bytes, len(shape), (*shape, *pad), (*strides, *pad))


def of(array):
    return region(array.ctypes.data, array.itemsize, array.shape, array.strides)


def elements(r):
    sizes, strides = r.shape[: r.ndim], r.strides[: r.ndim]
    for index in itertools.product(*map(range, sizes)):
        yield r.base + sum(i * s for i, s in zip(index, strides, strict=True))


def covered(r):
    return {at + i for at in elements(r) for i in range(r.element_bytes)}


def views(max_ndim=3):
    @st.composite
    def view(draw):
        size = draw(st.sampled_from([1, 2, 4]))
        ndim = draw(st.integers(0, max_ndim))
        shape = draw(st.lists(st.integers(0, 4), min_size=ndim, max_size=ndim))
        steps = draw(st.lists(st.integers(-9, 9), min_size=ndim, max_size=ndim))
        return region(1000 + draw(st.integers(-30, 30)), size, shape, [s * size for s in steps])

    return view()


@settings(max_examples=200)
@given(views(), views())
def test_overlap_is_what_enumeration_says(unit, a, b):
    want = bool(covered(a) & covered(b))
    assert unit.unit_overlap(ctypes.byref(a), ctypes.byref(b)) == want


@settings(max_examples=150)
@given(views())
def test_a_view_that_meets_itself_is_found(unit, view):
    every = list(elements(view))
    meets = len(covered(view)) < len(every) * view.element_bytes
    found = unit.unit_overlaps_itself(ctypes.byref(view))
    # It may take views whose axes do not nest for such that meet themselves, never the reverse.
    assert found or not meets


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x[:, :64], x[:, 64:]),
        lambda x: (x[:, ::2], x[:, 1::2]),
        lambda x: (x[::-1, :64], x[:, 64:][::-1]),
        lambda x: (x.reshape(4, 32, 4, 32)[:, :, 0], x.reshape(4, 32, 4, 32)[:, :, 3]),
        lambda x: (x[:0], x),
        lambda x: (x.view(np.complex64).real, x.view(np.complex64).imag),
    ],
)
def test_disjoint_and_interleaved_parts_of_one_array_do_not_overlap(unit, make):
    a, b = make(np.zeros((128, 128), np.float32))
    assert not unit.unit_overlap(ctypes.byref(of(a)), ctypes.byref(of(b)))
    assert not unit.unit_overlap(ctypes.byref(of(b)), ctypes.byref(of(a)))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: (x, x),
        lambda x: (x[:-1], x[1:]),
        lambda x: (x, x.T),
        lambda x: (x[::2], x[::-3]),
        lambda x: (x[:, ::2], x[:, ::3]),
    ],
)
def test_shared_elements_are_found(unit, make):
    a, b = make(np.zeros((128, 128), np.float32))
    assert unit.unit_overlap(ctypes.byref(of(a)), ctypes.byref(of(b)))


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.T,
        lambda x: x[::-1, ::-2],
        lambda x: x.transpose(1, 2, 0),
        lambda x: x[:, :1],
        lambda x: x[..., ::3],
    ],
    ids=["same", "transposed", "negative", "rotated", "row", "steps"],
)
def test_copies_keep_every_element_in_its_place(unit, dtype, view):
    source = view(np.arange(7 * 33 * 35).reshape(7, 33, 35).astype(dtype))
    target = np.zeros(source.shape, dtype)
    array = ctypes.c_long * source.ndim
    size = source.itemsize
    unit.unit_copy(
        ctypes.c_long(size),
        ctypes.c_void_p(target.ctypes.data),
        array(*(s // size for s in target.strides)),
        ctypes.c_void_p(source.ctypes.data),
        array(*(s // size for s in source.strides)),
        array(*source.shape),
        source.ndim,
    )
    assert (target == source).all()
