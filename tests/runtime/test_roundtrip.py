"""Whatever is put together of all kinds of values comes back equal, through either runtime; and
nothing is left behind."""

from __future__ import annotations

import gc
import math
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch
import tvm_ffi
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdsl.runtime import Device, Dict, DType, List, Module, Shape, from_dlpack

TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
KEYS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS | st.binary(max_size=12)
DTYPES = st.sampled_from(["f32", "bf16", "i8", "bool", "float8_e3m4", "u16x4", "int4"]).map(DType)
DEVICES = st.builds(Device, st.sampled_from(["cpu", "cuda", "rocm"]), st.integers(0, 9))
SHAPES = st.lists(st.integers(0, 2**40), max_size=4).map(Shape)
PLAIN = KEYS | st.floats() | DTYPES | DEVICES | SHAPES


class Mine:
    """A Python object that is nothing else."""


def containers_of(inner: Any) -> Any:
    pairs = st.dictionaries(KEYS, inner, max_size=7)
    items = st.lists(inner, max_size=5)
    return items | items.map(tuple) | items.map(List) | pairs | pairs.map(Dict)


VALUES = st.recursive(PLAIN | st.builds(Mine), containers_of, max_leaves=25)


def plain(value: Any) -> Any:
    """A value in Python's own terms: what a container comes back as, and NaN as a word."""
    if isinstance(value, float) and math.isnan(value):
        return "nan"
    if isinstance(value, (DType, Device, Shape)):
        return type(value).__name__, str(value)
    if isinstance(value, (list, tuple, List)):
        return [plain(item) for item in value]
    if isinstance(value, (dict, Dict)) or hasattr(value, "items"):
        # 1, 1.0 and True are three keys: tell them apart by their type.
        return [(type(k).__name__, k, plain(v)) for k, v in value.items()]
    return value


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(value=VALUES)
def test_a_nested_value_comes_back_equal(containers: Module, value: Any) -> None:
    wanted = plain(value)
    assert plain(containers.same(value)) == wanted
    containers.put(value)
    assert plain(containers.get()) == wanted
    containers.put(None)


THEIRS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | TEXTS | st.binary(max_size=12),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXTS, inner, max_size=7),
    max_leaves=25,
)


def structure(value: Any) -> Any:
    """The same for what the other package shows."""
    if isinstance(value, (list, tuple, tvm_ffi.Array, tvm_ffi.List)):
        return [structure(item) for item in value]
    if isinstance(value, (dict, tvm_ffi.Map, tvm_ffi.Dict)):
        return {str(k): structure(v) for k, v in value.items()}
    return value


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(value=THEIRS)
def test_a_nested_value_goes_around_through_the_other_runtime(
    containers: Module, value: Any
) -> None:
    other = tvm_ffi.load_module(containers.path)
    wanted = structure(value)
    containers.put(value)
    seen = other.get()
    assert structure(seen) == wanted
    other.put(seen)
    assert structure(containers.get()) == wanted
    other.put(value)
    assert structure(containers.get()) == wanted
    containers.put(None)


# ---- nothing is left behind --------------------------------------------------------------------


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def refused(function: Any, *args: Any) -> None:
    try:
        function(*args)
    except (OverflowError, ValueError):
        return
    raise AssertionError("no error")


def calls(containers: Module, hand: Module) -> dict[str, Any]:
    t, x, j = torch.ones(4), np.ones(4, np.float32), jnp.ones(4)
    half = jnp.ones(4, jnp.bfloat16)
    ours, pairs = List([1, t]), Dict(a=t)
    nested = {"a": [t, x, "a text that is long"], 3: {"b": (b"bytes that are long", Mine())}}
    tensor = from_dlpack(x)

    def change() -> None:
        ours.append("a text that is long")
        ours[0:1] = [1, 2]
        del ours[1], ours[-1]
        pairs["k"] = [1, "a text that is long"]
        for n in range(20):
            pairs[n] = n
        for n in range(20):
            del pairs[n]

    return {
        "arrays": lambda: (hand.nop(x, x, x), hand.nop(t, t, t), hand.nop(j, j)),
        "owned arrays": lambda: [containers.type_of(a) for a in (t, x, j, half, tensor)],
        "results": lambda: (hand.scale(t), hand.scale(x)),
        "nested": lambda: containers.same(nested),
        "containers": lambda: (containers.same(ours), containers.same(pairs)),
        "change": change,
        "text": lambda: (containers.text_of("a text that is long"), containers.bytes_of(b"b" * 30)),
        "plain": lambda: containers.same([DType("f32"), Device("cpu"), Shape([1, 2])]),
        "callable": lambda: containers.same([len, ValueError("x")]),
        "refused": lambda: refused(containers.same, [t, {"k": 2**70}]),
        "capsules": lambda: (tensor.__dlpack__(), tensor.__dlpack__(max_version=(1, 0), copy=True)),
    }


@pytest.mark.parametrize(
    "name",
    [
        "arrays",
        "owned arrays",
        "results",
        "nested",
        "containers",
        "change",
        "text",
        "plain",
        "callable",
        "refused",
        "capsules",
    ],
)
def test_many_calls_leave_the_memory_as_it_was(containers: Module, hand: Module, name: str) -> None:
    call = calls(containers, hand)[name]
    for _ in range(500):
        call()
    gc.collect()
    before = resident()
    for _ in range(6000):
        call()
    gc.collect()
    # A leak of one object a call would be above 400 kB; allocators keep some pages.
    assert resident() - before < 256 << 10


def test_python_objects_are_counted_right_through_every_kind(containers: Module) -> None:
    import sys

    mine = Mine()
    shapes: list[Any] = [
        mine,
        [mine],
        (mine, mine),
        {"k": mine},
        {"k": [mine, {"l": (mine,)}]},
        List([mine]),
        Dict(k=mine),
        [List([mine]), Dict(k=[mine])],
    ]
    gc.collect()
    before = sys.getrefcount(mine)
    for _ in range(100):
        for value in shapes:
            assert plain(containers.same(value)) == plain(value)
            containers.put(value)
            containers.get()
    containers.put(None)
    gc.collect()
    assert sys.getrefcount(mine) == before
