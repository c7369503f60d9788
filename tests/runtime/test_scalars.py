"""Numbers, strings, bytes, lists and None as arguments and as results."""

from __future__ import annotations

import enum
from fractions import Fraction

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch


import kdsl
from kdsl.runtime import Module


class Colour(enum.IntEnum):
    RED = 7


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (None, 0),
        (3, 1),
        (-(2**63), 1),
        (2**63 - 1, 1),
        (Colour.RED, 1),
        (np.int8(-3), 1),
        (np.uint64(3), 1),
        (True, 2),
        (np.True_, 2),
        (1.5, 3),
        (np.float64(1.5), 3),
        (np.float32(1.5), 3),
        (np.float16(1.5), 3),
        (Fraction(3, 2), 3),
        (float("inf"), 3),
        ("", 11),
        ("seven77", 11),
        ("eight888", 8),
        ("é" * 4, 8),
        ("with\0zeros inside", 65),
        (b"", 12),
        (b"seven77", 12),
        (b"bytes\0and more", 66),
    ],
)
def test_a_value_arrives_as_its_kind(hand: Module, value: object, kind: int) -> None:
    assert hand.plain(value) == str(kind)


@pytest.mark.parametrize(
    "value", [None, 3, -(2**63), True, False, 1.5, "", "seven77", "eight888", "é" * 9, b"", b"\0b"]
)
def test_a_value_comes_back_as_it_went(hand: Module, value: object) -> None:
    got = hand.echo(value)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("dtype", "name"),
    [
        (kdsl.bf16, "bf16"),
        (torch.float32, "f32"),
        (torch.bfloat16, "bf16"),
        (torch.bool, "bool"),
        (torch.float8_e5m2, "f8e5m2"),
        (np.dtype("int64"), "i64"),
        (np.dtype(ml_dtypes.bfloat16), "bf16"),
        (np.dtype("complex64"), "complex64"),
    ],
)
def test_a_dtype_goes_and_comes_as_its_name(hand: Module, dtype: object, name: str) -> None:
    assert hand.plain(dtype) == "5"
    assert hand.echo(dtype) == name


def test_a_dtype_without_a_code_is_refused(hand: Module) -> None:
    with pytest.raises(TypeError, match=r"that cannot be read \(DLPack has no code for <U3\)"):
        hand.echo(np.dtype("U3"))


def test_nan_comes_back(hand: Module) -> None:
    assert np.isnan(hand.echo(float("nan")))


def test_functions_without_metadata_get_owned_tensors_and_arrays(hand: Module) -> None:
    x, t, j = np.ones(2), torch.ones(2), jnp.ones(2)
    assert hand.plain(x, t, j, jnp.ones(2, jnp.bfloat16), memoryview(b"ab")) == "70 70 70 70 70"
    assert hand.plain([1, 2.0, "text that is long"], (x, [t, j])) == "71 71"
    assert hand.plain() == ""


INTEGERS = "a packed call carries integers from -2**63 to 2**63 - 1"


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1, 2**100, np.uint64(2**64 - 1)])
def test_a_float_takes_integers_of_any_size(hand: Module, value: int) -> None:
    assert hand.scale(np.ones(1, np.float32), value) == np.float32(value)
    with pytest.raises(ValueError) as caught:
        hand.echo(value)
    name = "u64" if isinstance(value, np.uint64) else "int"
    assert str(caught.value).endswith(f", got {name} {value}; {INTEGERS}")
    with pytest.raises(OverflowError) as overflow:  # no signature says that it is a number
        hand.plain(value)
    assert str(overflow.value).endswith(f", got {name} {value}; {INTEGERS}")


def test_integers_larger_than_any_float_are_refused_in_short(hand: Module) -> None:
    with pytest.raises(ValueError, match="expected f64, got int of 3001 bits, which is out"):
        hand.scale(np.ones(1), 2**3000)
    with pytest.raises(ValueError) as caught:
        hand.echo(-(10**5000))
    assert str(caught.value).endswith(f", got int of 16610 bits; {INTEGERS}")


def test_lists_that_contain_themselves_are_refused(hand: Module) -> None:
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        hand.plain(endless)


def test_any_number_of_arguments_arrives(hand: Module) -> None:
    for count in (0, 1, 15, 16, 17, 100):
        assert hand.many(*range(count)) == count
        assert hand.many(*[np.ones((2, 3))] * count) == count
        assert hand.many(*[jnp.ones((2, 3))] * count) == count
        assert hand.many(*[["x", [np.ones(1)]]] * count) == count


def test_keywords_and_defaults_find_their_places(hand: Module) -> None:
    x = np.ones(2, np.float32)
    assert hand.scale(x).tolist() == [1.0, 1.0]
    assert hand.scale(x=x).tolist() == [1.0, 1.0]
    assert hand.scale(x, factor=3.0).tolist() == [3.0, 3.0]
    assert hand.scale(factor=3, x=x).tolist() == [3.0, 3.0]
    assert hand.scale(x, None).tolist() == [1.0, 1.0]
    assert hand.scale(**{"".join(["fac", "tor"]): 4.0, "x": x}).tolist() == [4.0, 4.0]
    assert hand.nop(y=x, x=x) is None
    assert hand.nop(x, x, o=None) is None
