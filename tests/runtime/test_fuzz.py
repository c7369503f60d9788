"""Whatever is passed, a call returns or raises; it does not end the process."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdsl.runtime import Module

DTYPES = ["?", "i1", "u8", "f2", "f4", "f8", "c8", ">i4", "M8[s]", "S3", "O", "g", "V5"]
shapes = st.lists(st.integers(0, 3), max_size=9).map(tuple)


def numpy_array(shape: tuple[int, ...], dtype: str, steps: list[int]) -> Any:
    x = np.zeros(shape, dtype)
    return x[tuple(slice(None, None, step) for step in steps[: x.ndim])]


arrays = st.builds(
    numpy_array, shapes, st.sampled_from(DTYPES), st.lists(st.sampled_from([-2, -1, 1, 2]))
)
torch_dtypes = st.sampled_from([torch.float32, torch.bfloat16, torch.int8, torch.complex64])
tensors = st.builds(lambda shape, dtype: torch.zeros(shape, dtype=dtype), shapes, torch_dtypes)
views = tensors.map(lambda t: t.transpose(0, -1) if t.ndim else t.expand(2, 0, 3))
STRANGE = [
    np.float32,
    int,
    print,
    ...,
    NotImplemented,
    1j,
    range(3),
    slice(1),
    {1: 2},
    {3},
    decimal.Decimal("1.5"),
    datetime.date(2020, 1, 1),
    np.datetime64("2020"),
    np.ma.masked,
    np.void(b"abc"),
    np.zeros(2, ml_dtypes.int4),
    np.zeros(3, [("a", "u1"), ("b", "f4")]),
    np.rec.array([(1, 2.0)]),
    torch.device("cpu"),
    torch.strided,
    torch.Size([2]),
    torch.zeros(2).untyped_storage(),
    torch.nn.Linear(1, 1),
    jnp.float32,
    jnp.zeros(2),
    jnp.zeros((), jnp.bfloat16),
    memoryview(b""),
    memoryview(bytearray(12)).cast("i", (3, 1)),
    bytearray(b"abc"),
    Exception("no"),
    Module,
]
# By number: not all of these can be hashed.
strange = st.integers(0, len(STRANGE) - 1).map(STRANGE.__getitem__)
plain = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary()
values = st.recursive(
    plain | arrays | tensors | views | strange,
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)

EXPECTED = (TypeError, ValueError, IndexError, OverflowError, MemoryError)


def outcome(function: Any, *args: Any, **keywords: Any) -> str:
    """The text of the error, or the name after a result."""
    try:
        function(*args, **keywords)
    except EXPECTED as err:
        return str(err)
    return str(function.__name__)


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    args=st.lists(values, max_size=4),
    keywords=st.dictionaries(st.sampled_from(["x", "y", "o", "a", ""]), values, max_size=3),
)
def test_any_arguments_give_a_result_or_an_error(
    hand: Module, args: list[Any], keywords: dict[str, Any]
) -> None:
    for name in ("nop", "plain", "many", "view", "three"):
        assert outcome(hand[name], *args, **keywords).startswith(name)
    for value in args:
        assert outcome(hand.echo, value).startswith("echo")
