"""Random values through callbacks, random metadata of functions: an answer or an error."""

from __future__ import annotations

import copy
import inspect
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kdsl.runtime import Module, load_module

fuzzed_settings = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

integers = st.integers(-(2**63), 2**63 - 1)
scalars = (
    st.none()
    | st.booleans()
    | integers
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=20)
    | st.binary(max_size=20)
)
keys = st.text(st.characters(codec="utf-8"), max_size=12) | integers
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.lists(inner, max_size=5).map(tuple)
        | st.dictionaries(keys, inner, max_size=6)
    ),
    max_leaves=25,
)


def as_returned(value: Any) -> Any:
    """What native code gives back for a value: lists come as tuples."""
    if isinstance(value, list | tuple):
        return tuple(map(as_returned, value))
    if isinstance(value, dict):
        return {key: as_returned(item) for key, item in value.items()}
    return value


@fuzzed_settings
@given(args=st.lists(values, max_size=20))
def test_values_go_through_a_callback_and_back(functions: Module, args: list[Any]) -> None:
    seen: list[Any] = []

    def note(*given: Any) -> Any:
        seen.extend(given)
        return list(given)

    expected = as_returned(args)
    assert functions.apply(note, *args) == expected
    assert tuple(seen) == expected
    assert functions.elsewhere(lambda *given: given, *args) == expected
    if args:
        assert functions.echo(args[0]) == expected[0]


@fuzzed_settings
@given(text=st.text(max_size=50), level=st.integers(0, 4), depth=st.integers(0, 3))
def test_exceptions_come_back_from_any_depth(
    functions: Module, text: str, level: int, depth: int
) -> None:
    error = [ValueError, KeyError, OSError, KeyboardInterrupt, GeneratorExit][level](text)

    def fail(left: int) -> None:
        if left == 0:
            raise error
        functions[("apply", "elsewhere")[left % 2]](fail, left - 1)

    with pytest.raises(type(error)) as caught:
        functions.apply(fail, depth)
    assert caught.value is error


@pytest.fixture(scope="module")
def fuzzed(build: Any) -> Module:
    return load_module(build("fuzzed.c", "-std=c11", "-Wall", "-Wextra", "-Werror"))


GOOD = {
    "kdsl": {"schema": 1, "version": "0"},
    "name": "fuzzed",
    "signature": "fuzzed(x: T[N], n: i64 = 3, o: Out[T[N]])",
    "params": [
        {"name": "x", "kind": "in", "type": "tensor", "dtype": "T", "shape": ["N"]},
        {"name": "o", "kind": "out", "type": "tensor", "dtype": "T", "shape": ["N"]},
        {"name": "n", "kind": "scalar", "type": "scalar", "dtype": "i64", "default": 3},
    ],
    "dims": ["N"],
    "dtypes": {"T": ["f32", "bf16"]},
    "differentiable": None,
    "type_schema": json.dumps({"type": "ffi.Function", "args": [{"type": "int"}]}),
}
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """Good metadata with some places replaced by others, or cut, or no JSON at all."""
    whole: Any = copy.deepcopy(GOOD)
    for _ in range(draw(st.integers(0, 3))):
        at = whole
        while True:
            places = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not places:
                break
            place = draw(st.sampled_from(places))
            if isinstance(at[place], dict | list) and at[place] and draw(st.booleans()):
                at = at[place]
                continue
            if draw(st.booleans()):
                at[place] = draw(json_values)
            else:
                del at[place]
            break
    text = json.dumps(whole).encode()
    if draw(st.integers(0, 9)) == 0:
        text = text[: draw(st.integers(0, len(text)))] + draw(st.binary(max_size=4))
    return text


@fuzzed_settings
@given(text=damaged(), args=st.lists(scalars, max_size=4))
def test_any_metadata_is_read_or_refused_by_name(
    fuzzed: Module, text: bytes, args: list[Any]
) -> None:
    fuzzed.set(text)
    function = load_module(fuzzed.path)["fuzzed"]
    texts: list[str] = []
    for use in (repr, inspect.signature, lambda f: f.metadata, lambda f: f.__doc__):
        try:
            use(function)
        except ValueError as err:
            texts.append(str(err))
    try:
        assert function(*args) == len(args)
    except (TypeError, ValueError, OverflowError) as err:
        texts.append(str(err))
    assert all("fuzzed" in each or "signature" in each for each in texts), texts
