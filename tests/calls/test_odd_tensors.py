"""Tensors that are odd but right, for every kind of kernel: the result is what NumPy makes of them.

Layouts, frameworks, memory that may not be written, sizes of 0 and 1, places of more than 2**31
elements.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from kdsl.dims import evaluate
from tests.calls import kinds
from tests.calls.expect import signature
from tests.calls.kinds import KINDS, Kind, numbers

Array = np.ndarray
each_kind = pytest.mark.parametrize("kind", KINDS, ids=repr)


def as_array(value: Any) -> Array:
    return value if isinstance(value, Array) else np.asarray(value)


def results(kind: Kind, face: Callable[..., Any], arguments: dict[str, Any]) -> list[Array]:
    """What a call leaves in InOuts and returns, in signature order."""
    returned = face(**arguments)
    many = isinstance(returned, (tuple, list)) or type(returned).__name__ == "Array"
    outs = iter(returned if many else (returned,))
    found = []
    for p in signature(kind):
        if p.kind == "inout":
            # An array of JAX stays as it is: a new one comes back.
            keeps = type(arguments[p.name]).__module__.startswith("jax")
            found.append(next(outs) if keeps else arguments[p.name])
        elif p.kind == "out":
            found.append(next(outs) if arguments.get(p.name) is None else arguments[p.name])
    return [as_array(a) for a in found]


def is_right(kind: Kind, face: Callable[..., Any], arguments: dict[str, Any]) -> None:
    inputs = {
        n: np.asarray(v).copy() if hasattr(v, "shape") else v
        for n, v in arguments.items()
        if signature(kind)[n].kind != "out"
    }
    wants = kind.meaning(**inputs)
    for got, want in zip(results(kind, face, arguments), wants, strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=2e-6)


# ---- layouts of inputs and of what is written


def backwards(a: Array) -> Array:
    """The same values, every stride negative."""
    return np.flip(np.flip(a).copy()) if a.ndim else a


def spread(a: Array) -> Array:
    """The same values, two elements apart along each axis, in the midst of others."""
    if not a.ndim:
        return a
    wide = np.full([2 * n + 3 for n in a.shape], 77, a.dtype)
    view = wide[tuple(slice(1, 2 * n + 1, 2) for n in a.shape)]
    view[...] = a
    return view


def behind(a: Array) -> Array:
    """The same values somewhere within a buffer, aligned to their own size alone."""
    buffer = np.zeros(a.size + 3, a.dtype)
    view = buffer[1 : a.size + 1].reshape(a.shape)
    view[...] = a
    return view


def frozen(a: Array) -> Array:
    a = a.copy()
    a.flags.writeable = False
    return a


def odd_strides(a: Array) -> Array:
    """Axes of size 1 that step nowhere sensible."""
    strides = [8 * 12345678 if n == 1 else s for n, s in zip(a.shape, a.strides, strict=True)]
    return np.lib.stride_tricks.as_strided(a, strides=strides)


class Named(np.ndarray):
    """A subclass of NumPy's array."""


def in_columns(a: Array) -> Array:
    """In Fortran's order. (NumPy makes an axis for what has none.)"""
    return np.asfortranarray(a) if a.ndim else a


LAYOUTS: dict[str, Callable[[Array], Any]] = {
    "in Fortran's order": in_columns,
    "backwards": backwards,
    "spread": spread,
    "behind others": behind,
    "with odd strides of size 1": odd_strides,
    "of a subclass": lambda a: a.view(Named),
    "of torch": torch.from_numpy,
    "of torch, transposed": lambda a: torch.from_numpy(in_columns(a)),
    "of torch, with an offset": lambda a: torch.from_numpy(behind(a)),
}
READ_ONLY: dict[str, Callable[[Array], Any]] = {
    "read-only": frozen,
    "one value for all": lambda a: np.broadcast_to(
        a.reshape(-1)[:1].reshape((1,) * a.ndim), a.shape
    ),
    "one row for all": lambda a: np.broadcast_to(a[:1], a.shape) if a.ndim else a,
    "of torch, expanded": lambda a: torch.from_numpy(a[:1]).expand(a.shape) if a.ndim else a,
    "of jax": lambda a: jnp.asarray(a) if a.dtype != np.int64 else a,
    "a memoryview": memoryview,
}


@pytest.mark.parametrize("layout", [*LAYOUTS, *READ_ONLY])
@each_kind
def test_inputs_may_be(layout, kind, faces):
    make = (LAYOUTS | READ_ONLY)[layout]
    for face in faces(kind):
        arguments = kind.arguments()
        for name, value in arguments.items():
            if isinstance(value, Array) and signature(kind)[name].kind == "in":
                arguments[name] = make(value)
        is_right(kind, face, arguments)


@pytest.mark.parametrize("layout", LAYOUTS)
@each_kind
def test_outputs_may_be_and_nothing_beside_them_is_written(layout, kind, faces):
    for face in faces(kind):
        arguments = kind.arguments()
        made = results(kind, kind.kernel, kind.arguments())
        inner: list[tuple[Array, Array]] = []
        written = [p for p in signature(kind) if p.kind in ("out", "inout")]
        for p, array in zip(written, made, strict=True):
            value = arguments.get(p.name, np.full_like(array, 99))
            arguments[p.name] = view = LAYOUTS[layout](value)
            base = view.base if isinstance(view, Array) else None
            if isinstance(base, Array):
                inner.append((view, base))
        before = [base.copy() for _, base in inner]
        is_right(kind, face, arguments)
        for (view, base), old in zip(inner, before, strict=True):
            touched = np.zeros(base.shape, bool)
            steps = np.lib.stride_tricks.as_strided(
                touched.reshape(-1)[(view.ctypes.data - base.ctypes.data) // view.itemsize :],
                view.shape,
                [s // view.itemsize for s in view.strides],
            )
            steps[...] = True
            np.testing.assert_array_equal(base[~touched], old[~touched])


def test_arrays_of_ctypes_are_tensors(faces):
    kind = next(k for k in KINDS if k.kernel is kinds.scan)
    for face in faces(kind):
        x = (ctypes.c_float * 5 * 3)()
        x[1][0] = 2.0
        got = np.from_dlpack(face(x)) if not isinstance(face(x), Array) else face(x)
        np.testing.assert_array_equal(got, np.cumsum(np.ctypeslib.as_array(x), axis=1))


@each_kind
def test_an_array_of_jax_that_a_kernel_changes_stays_and_a_new_one_comes_back(kind, faces):
    for face in faces(kind):
        arguments = kind.arguments()
        changed = [p.name for p in signature(kind) if p.kind == "inout"]
        for name in changed:
            arguments[name] = jnp.asarray(arguments[name])
        before = {name: np.array(arguments[name]) for name in changed}
        is_right(kind, face, arguments)
        for name in changed:
            np.testing.assert_array_equal(arguments[name], before[name])


# ---- outputs and inputs in one buffer


@each_kind
def test_an_input_and_an_output_may_lie_between_one_another(kind, faces):
    for face in faces(kind):
        arguments = kind.arguments()
        made = results(kind, kind.kernel, kind.arguments())
        names = [p.name for p in signature(kind) if p.kind == "out"]
        partner = next(
            (n for n, v in arguments.items() if isinstance(v, Array) and v.dtype == np.float32),
            None,
        )
        if not names or partner is None:
            continue
        source, target = arguments[partner], made[0]
        buffer = np.zeros(2 * max(source.size, target.size), np.float32)
        arguments[partner] = view = buffer[::2][: source.size].reshape(source.shape)
        view[...] = source
        arguments |= dict(zip(names, made, strict=True))
        arguments[names[0]] = buffer[1::2][: target.size].reshape(target.shape)
        is_right(kind, face, arguments)


@pytest.mark.parametrize("kernel", [kinds.scan, kinds.optional, kinds.deep])
def test_a_kernel_that_reads_what_it_writes_where_it_writes_it_may_work_in_place(kernel, faces):
    kind = next(k for k in KINDS if k.kernel is kernel)
    for face in faces(kind):
        arguments = kind.arguments()
        wants = kind.meaning(**{n: v.copy() for n, v in arguments.items()})
        arguments["o"] = arguments["x"]
        assert face(**arguments) is None
        np.testing.assert_allclose(arguments["x"], wants[0], rtol=1e-6)


# ---- sizes


def sized(kind: Kind, sizes: dict[str, int]) -> dict[str, Any]:
    """Arguments for these sizes of dims; all indices are 0."""
    arguments = kind.arguments()
    for p in signature(kind):
        if p.is_tensor and p.name in arguments:
            shape = tuple(evaluate(e, sizes) for e in p.tensor.shape)
            made = np.array(2.0, "f4") if shape == () else numbers(*shape)
            arguments[p.name] = made.astype(arguments[p.name].dtype)
            if p.name == "ids":
                arguments[p.name][:] = 0
    return arguments


def base_sizes(kind: Kind) -> dict[str, int]:
    sizes = {"G": 2}
    for p in signature(kind):
        if p.is_tensor and p.kind != "out":
            shape = np.shape(kind.arguments()[p.name])
            sizes |= {str(e): n for e, n in zip(p.tensor.shape, shape, strict=True)}
    return sizes


@pytest.mark.parametrize("size", [0, 1])
@each_kind
def test_any_dim_may_have_size(size, kind, faces):
    base = base_sizes(kind)
    changes = [{dim: size} for dim in signature(kind).dims if dim != "G"]
    for change in [*changes, {dim: size for row in changes for dim in row}]:
        if kind.kernel is kinds.int8 and "K" in change:
            change["K"] *= 2
        outcomes = []
        for face in (kind.kernel.reference, *faces(kind)):
            arguments = sized(kind, base | change)
            try:
                outcomes.append(results(kind, face, arguments))
            except (IndexError, ValueError) as err:
                outcomes.append(type(err))
        want, *rest = outcomes
        for got in rest:
            if isinstance(want, type):
                assert got is want
                continue
            for g, w in zip(got, want, strict=True):
                assert g.shape == w.shape
                np.testing.assert_allclose(g, w, rtol=2e-6, atol=2e-6)


# ---- places of more than 2**31 elements


@pytest.fixture(scope="module")
def far() -> Callable[[Array], Array]:
    """`far(a)`: the same values in memory whose first axis steps over 2**31 elements."""
    # Only what is touched costs memory: MAP_NORESERVE, which Python 3.11 does not name.
    memory = mmap.mmap(-1, 72 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)

    def place(a: Array) -> Array:
        if a.ndim < 2:
            return a
        buffer = np.frombuffer(memory, a.dtype)
        step = (2**31 + 64) * a.itemsize
        view = np.lib.stride_tricks.as_strided(buffer[64:], a.shape, (step, *a.strides[1:]))
        view[...] = a
        return view

    return place


@each_kind
def test_a_tensor_may_reach_over_2_to_the_31_elements(kind, far, faces):
    for face in faces(kind):
        for name, value in kind.arguments().items():
            if isinstance(value, Array):
                is_right(kind, face, kind.arguments() | {name: far(value)})
        made = results(kind, kind.kernel, kind.arguments())
        names = [p.name for p in signature(kind) if p.kind == "out"]
        if names:
            outs = dict(zip(names, made, strict=True))
            outs[names[0]] = far(np.full_like(made[0], 99))
            is_right(kind, face, kind.arguments() | outs)


@pytest.mark.parametrize("kernel", [kinds.gather, kinds.scatter])
def test_an_index_is_checked_even_where_there_is_nothing_to_write(kernel, faces):
    kind = next(k for k in KINDS if k.kernel is kernel)
    for face in (kernel.reference, *faces(kind)):
        for change in ({"D": 0}, {"D": 0, "V": 0}):
            arguments = sized(kind, base_sizes(kind) | change)
            arguments["ids"][:] = 5
            with pytest.raises(IndexError):
                face(**arguments)


def test_an_index_may_be_beyond_2_to_the_31(faces):
    kind = next(k for k in KINDS if k.kernel is kinds.gather)
    row = np.arange(4, dtype=np.float32)
    table = np.lib.stride_tricks.as_strided(row, (2**31 + 5, 4), (0, 4))
    for face in faces(kind):
        got = face(np.array([2**31 + 4, 0]), table)
        np.testing.assert_array_equal(got, [row, row])
        with pytest.raises(IndexError) as caught:
            face(np.array([0, 2**31 + 5]), table)
        text = "index 2147483653 is out of range for dimension 0 of `table` (V=2147483653)"
        assert text in str(caught.value)
