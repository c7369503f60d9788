"""Array, List, Map and Dict: the manners of Python's own, and the layout that C++ code reads."""

from __future__ import annotations

import random
from collections.abc import MutableMapping, MutableSequence
from itertools import chain
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdsl.runtime import Array, Dict, List, Map, Module

# ---- sequences -----------------------------------------------------------------------------------

SLICES = [
    slice(None),
    slice(1, 3),
    slice(-2, None),
    slice(None, None, -1),
    slice(5, 2),
    slice(0, 9, 2),
]


@pytest.mark.parametrize("kind", [Array, List])
def test_a_sequence_behaves_as_pythons_own(kind: Any) -> None:
    items = [None, True, 3, 2.5, "text", "a longer text", b"bytes", b"more of bytes"]
    ours = kind(items)
    assert len(ours) == 8
    assert list(ours) == list(iter(ours)) == items
    assert list(reversed(ours)) == items[::-1]
    assert [ours[i] for i in range(-8, 8)] == items * 2
    for part in SLICES:
        assert ours[part] == items[part]
        assert type(ours[part]) is kind
    assert "text" in ours
    assert "none" not in ours
    assert ours.index(3) == 2
    assert ours.count(3) == 1
    assert repr(ours) == f"{kind.__name__}({items!r})"
    more = [1]
    assert ours + more == [*items, 1]
    assert more + ours == [1, *items]
    assert bool(ours)
    assert not kind()
    assert kind(x for x in "ab") == ["a", "b"]


@pytest.mark.parametrize("kind", [Array, List])
def test_wrong_indices_are_errors(kind: Any) -> None:
    ours = kind([1, 2])
    for at in (2, -3, 2**70):
        with pytest.raises(IndexError):
            ours[at]
    for at in ("0", 1.0, None):
        with pytest.raises(TypeError):
            ours[at]
    with pytest.raises(IndexError):
        kind()[0]
    with pytest.raises(TypeError):
        kind(3)
    with pytest.raises(TypeError):
        kind([1], [2])


def test_sequences_equal_sequences_of_equal_elements() -> None:
    assert Array([1, 2]) == List([1, 2]) == [1, 2] == Array((1, 2))
    assert Array([1, 2]) == (1, 2)
    assert Array([1]) == [1.0]
    assert Array([1, 2]) != [2, 1]
    assert Array([1]) != [1, 2]
    assert Array(["a"]) != "a"
    assert Array([1]) != {1}
    assert (Array([1]) == 1) is False
    assert hash(Array([1, "x", (2, 3)])) == hash((1, "x", (2, 3)))
    assert Array([float("nan")]) != Array([1.0])
    with pytest.raises(TypeError, match="unhashable"):
        hash(List())
    with pytest.raises(TypeError):
        sorted([Array([1]), Array([2])])  # type: ignore[type-var]


def test_an_array_does_not_change() -> None:
    array = Array([1, 2])
    for change in ("append", "insert", "__setitem__", "__delitem__"):
        assert not hasattr(array, change)
    for call in (lambda: array._insert(0, 1), lambda: array._replace(0, 1)):
        with pytest.raises(TypeError, match="an Array cannot change; make a List of it"):
            call()


def apply(sequence: Any, step: tuple[Any, ...]) -> Any:
    """One change; the text of the error if there is one."""
    what, *facts = step
    try:
        match what:
            case "set":
                sequence[facts[0]] = facts[1]
            case "del":
                del sequence[facts[0]]
            case "iadd":
                sequence += facts[0]
            case _:
                return getattr(sequence, what)(*facts)
    except (IndexError, ValueError) as err:
        return type(err)
    return None


places = st.integers(-6, 6)
parts = st.builds(slice, st.none() | places, st.none() | places, st.sampled_from([None, 1, 2, -1]))
elements = st.integers(-3, 3) | st.text(max_size=9)
lists = st.lists(elements, max_size=5)
steps = st.one_of(
    st.tuples(st.just("append"), elements),
    st.tuples(st.just("extend"), lists),
    st.tuples(st.just("iadd"), lists),
    st.tuples(st.just("insert"), places, elements),
    st.tuples(st.just("pop")),
    st.tuples(st.just("pop"), places),
    st.tuples(st.just("remove"), elements),
    st.tuples(st.just("reverse")),
    st.tuples(st.just("clear")),
    st.tuples(st.just("set"), places, elements),
    st.tuples(st.just("set"), parts, lists),
    st.tuples(st.just("del"), places | parts),
)


@settings(max_examples=200, deadline=None)
@given(start=lists, todo=st.lists(steps, max_size=12))
def test_a_list_changes_as_pythons_does(start: list[Any], todo: list[tuple[Any, ...]]) -> None:
    ours, theirs = List(start), list(start)
    assert isinstance(ours, MutableSequence)
    for step in todo:
        assert apply(ours, step) == apply(theirs, step)
        assert list(ours) == theirs


def test_a_list_is_one_list_for_everyone(containers: Module) -> None:
    ours = List([1, "two"])
    seen = containers.same(ours)
    containers.list_append(ours, "a text that is long")
    containers.list_insert(ours, 0, None)
    assert seen == ours == [None, 1, "two", "a text that is long"]
    containers.list_erase(seen, 1)
    assert containers.list_items(ours) == (None, "two", "a text that is long")
    for number in range(100):  # it grows in C++ and here in turn
        containers.list_append(ours, number)
        ours.append(number)
    assert len(ours) == 203
    assert ours[3:] == [n for n in range(100) for _ in range(2)]
    theirs = containers.list_made(["x"] * 5)
    assert type(theirs) is List
    theirs[1:2] = range(50)
    containers.list_append(theirs, "end")
    assert theirs == ["x", *range(50), "x", "x", "x", "end"]
    ours += ours
    assert len(ours) == 406


def test_a_failed_change_changes_nothing() -> None:
    ours = List([1, 2, 3])
    for change in (
        lambda: ours.append(2**70),
        lambda: ours.__setitem__(slice(0, 2), [7, 2**70]),
        lambda: ours.insert(0, [2**70]),
    ):
        with pytest.raises(OverflowError):
            change()
        assert ours == [1, 2, 3]
    ours_map = Dict(a=1)
    with pytest.raises(OverflowError):
        ours_map["a"] = 2**70
    with pytest.raises(OverflowError):
        ours_map[2**70] = 1
    assert ours_map == {"a": 1}


# ---- mappings ------------------------------------------------------------------------------------

KEYS: list[Any] = [
    None,
    *(f"{'long ' * (n % 5)}key {n}" for n in range(200)),
    *range(-50, 150),
    *(n + 0.5 for n in range(100)),
    *(b"bytes" * (n % 4) + bytes([n]) for n in range(60)),
    "",
    "\0",
    "\0\0",
    2**63 - 1,
    -(2**63),
    float("inf"),
]


def flat(pairs: dict[Any, Any]) -> list[Any]:
    return list(chain.from_iterable(pairs.items()))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 40, 128, 500])
@pytest.mark.parametrize("seed", range(4))
def test_cpp_finds_every_key_that_we_put(containers: Module, size: int, seed: int) -> None:
    keys = random.Random(seed).sample(KEYS, size)
    pairs = {key: place for place, key in enumerate(keys)}
    for ours, kind in ((Map(pairs), "map"), (Dict(pairs), "dict"), (pairs, "map")):
        assert containers[f"{kind}_found"](ours, flat(pairs)) == size
        assert list(containers[f"{kind}_flat"](ours)) == flat(pairs)
    grown = Dict()
    for key, place in pairs.items():
        grown[key] = place
    assert containers.dict_found(grown, flat(pairs)) == size
    assert list(containers.dict_flat(grown)) == flat(pairs)


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 5, 8, 16, 17, 128, 500])
def test_we_find_every_key_that_cpp_puts(containers: Module, size: int) -> None:
    keys = random.Random(size).sample(KEYS, size)
    pairs = {key: place for place, key in enumerate(keys)}
    as_map, as_dict = containers.map_made(flat(pairs)), containers.dict_made(flat(pairs))
    assert as_map == pairs
    assert type(as_map) is dict
    assert list(as_map) == keys
    assert type(as_dict) is Dict
    assert as_dict == pairs
    assert list(as_dict) == keys
    assert all(as_dict[key] == place for key, place in pairs.items())
    assert not any(key in as_dict for key in set(KEYS) - set(keys))


@pytest.mark.parametrize("seed", range(60))
def test_a_dict_is_one_dict_for_everyone(containers: Module, seed: int) -> None:
    """Both sides change it in turn; a Python dict says what must be in it."""
    chance = random.Random(seed)
    keys = chance.sample(KEYS, chance.choice([5, 20, 60, 300]))
    ours = Dict() if seed % 2 else containers.dict_made([])
    wanted: dict[Any, Any] = {}
    for _ in range(chance.choice([20, 100, 400])):
        key, value = chance.choice(keys), chance.randrange(1000)
        what = chance.choices(range(7), [30, 30, 15, 15, 1, 1, 8])[0]
        if what < 2:
            wanted[key] = value
        elif what < 4:
            wanted.pop(key, None)
        elif what < 6:
            wanted.clear()
        match what:
            case 0:
                ours[key] = value
            case 1:
                containers.dict_set(ours, key, value)
            case 2:
                ours.pop(key, None)
            case 3:
                containers.dict_erase(ours, key)
            case 4:
                ours.clear()
            case 5:
                containers.dict_clear(ours)
            case 6:
                assert ours.get(key, "none") == wanted.get(key, "none")
    assert len(ours) == len(wanted)
    assert ours == wanted
    assert containers.dict_found(ours, flat(wanted)) == len(wanted)
    assert set(containers.dict_flat(ours)[::2]) == set(wanted)


@pytest.mark.parametrize("kind", [Map, Dict])
def test_a_mapping_behaves_as_pythons_own(kind: Any) -> None:
    pairs = {"a": 1, 2: "b", None: 2.5, b"c": None, "a key that is long": (1, 2)}
    ours = kind(pairs)
    assert len(ours) == 5
    assert list(ours) == list(ours.keys()) == list(pairs)
    assert list(ours.values()) == list(pairs.values())
    assert list(ours.items()) == list(pairs.items())
    assert ours == pairs == dict(ours)
    assert ours["a"] == 1
    assert ours.get("z", 9) == 9
    assert "a" in ours
    assert "z" not in ours
    assert 2**80 not in ours
    assert repr(ours) == f"{kind.__name__}({pairs!r})"
    assert kind(a=1, b=2) == kind([("a", 1), ("b", 2)]) == {"a": 1, "b": 2}
    assert kind(ours) == ours
    assert ours != {"a": 1}
    assert (ours == 3) is False
    assert not kind()
    for key in ("z", 2**80):
        with pytest.raises(KeyError) as caught:
            ours[key]
        assert caught.value.args == (key,)
    with pytest.raises(TypeError):
        kind([1])


def test_a_dict_changes_as_pythons_does() -> None:
    ours = Dict(a=1)
    assert isinstance(ours, MutableMapping)
    ours["b"] = 2
    ours["a"] = 3
    assert list(ours.items()) == [("a", 3), ("b", 2)]
    assert ours.pop("a") == 3
    assert ours.pop("a", None) is None
    assert ours.setdefault("c", "x") == "x"
    ours.update({"d": 4}, e=5)
    assert ours.popitem() == ("b", 2)
    del ours["c"]
    assert ours == {"d": 4, "e": 5}
    other = ours.copy()
    ours.clear()
    assert not ours
    assert other == {"d": 4, "e": 5}
    for key in ("c", 2**80):
        with pytest.raises(KeyError):
            del ours[key]
    with pytest.raises(TypeError, match="unhashable"):
        hash(ours)
    assert hash(Map(a=1)) == hash(Map(a=1))


def test_a_map_does_not_change(containers: Module) -> None:
    ours = Map({n: n for n in range(40)})
    with pytest.raises(TypeError, match="a Map cannot change; make a Dict of it"):
        ours._put("x", 1)
    with pytest.raises(TypeError):
        ours["x"] = 1  # type: ignore[index]
    assert containers.map_with(ours, "x", 1) == {**ours, "x": 1}
    assert "x" not in ours


def test_keys_that_python_takes_for_one_stay_apart(containers: Module) -> None:
    made = containers.map_made([1, "int", True, "bool", 1.0, "float"])
    assert type(made) is Map
    assert len(made) == 3
    assert [made[1], made[True], made[1.0]] == ["int", "bool", "float"]
    assert list(made) == [1, True, 1.0]


def test_what_python_cannot_hash_keeps_a_map_a_map(containers: Module) -> None:
    made = containers.map_made([np.ones(2), 1])
    assert type(made) is Map
    assert [k.tolist() for k in made] == [[1.0, 1.0]]


@pytest.mark.parametrize("kind", [Map, Dict])
def test_many_keys_with_one_home_are_kept(containers: Module, kind: Any) -> None:
    """Multiples of a power of two share the low bits, text of one length much of its hash."""
    pairs = {n << 40: n for n in range(300)} | {f"{n:>50}": n for n in range(300)}
    ours = kind(pairs)
    assert ours == pairs
    assert containers[f"{kind.__name__.lower()}_found"](ours, flat(pairs)) == 600
