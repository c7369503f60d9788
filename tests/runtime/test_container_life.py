"""What containers hold: arrays of frameworks, references, and what happens at the end."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

from kdsl.runtime import Array, Dict, List, Map, Module, Tensor

# ---- arrays of frameworks --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind"),
    [(torch.ones, torch.Tensor), (np.ones, np.ndarray), (jnp.ones, jax.Array)],
    ids=["torch", "numpy", "jax"],
)
def test_tensors_in_containers_come_back_as_their_kind(
    containers: Module, make: Any, kind: type
) -> None:
    def all_of(value: Any) -> list[Any]:
        if isinstance(value, (tuple, list, List)):
            return [x for item in value for x in all_of(item)]
        if isinstance(value, (dict, Dict)):
            return [x for item in value.values() for x in all_of(item)]
        return [value]

    one, two = make((2, 3)), make(4)
    nested = {"q": [one, (two,)], "rest": {"deep": [[one]]}, "list": List([two]), "d": Dict(k=one)}
    back = containers.same(nested)
    found = all_of(back)
    assert len(found) == 5
    assert all(isinstance(x, kind) for x in found)
    assert [tuple(x.shape) for x in found] == [(2, 3), (4,), (2, 3), (4,), (2, 3)]
    assert all(np.asarray(x).sum() == x.size if kind is not torch.Tensor else True for x in found)
    tensors = containers.tensors_of({"a": [one, two], "b": [one]})
    assert len(tensors) == 3
    assert all(isinstance(x, kind) for x in tensors)


def test_tensors_of_a_list_share_memory_with_where_they_came_from() -> None:
    x, y = torch.zeros(3), np.zeros(3)
    ours = List([x])
    ours[0][1] = 7
    assert x.tolist() == [0, 7, 0]
    assert type(ours[0]) is torch.Tensor
    numpys = Dict(y=y)
    numpys["y"][2] = 5
    assert y.tolist() == [0, 0, 5]
    mixed = List([y, x])  # of the kind of the first one
    assert type(mixed[1]) is np.ndarray
    assert type(List([memoryview(b"abc")])[0]) is Tensor


def test_tensors_in_containers_keep_their_memory(containers: Module) -> None:
    kept = List()
    for n in range(20):
        kept.append({"x": [torch.full((1000,), float(n)), np.full(1000, n)]})
    gc.collect()
    assert all(kept[n]["x"][0].sum() == 1000 * n for n in range(20))
    result = containers.same(kept)[3]["x"]
    del kept
    gc.collect()
    assert result[1].sum() == 3000


def test_a_tensor_that_cannot_be_read_is_named_with_its_place(containers: Module) -> None:
    bad = torch.ones(2, dtype=torch.complex64).conj()
    with pytest.raises(ValueError, match=r"argument 0, item 1, item 0: .* conjugated lazily"):
        containers.same({"k": [bad]})
    with pytest.raises(ValueError, match=r"kdsl\.runtime: item 1: expected .* conjugated lazily"):
        List([1, bad])


# ---- life ------------------------------------------------------------------------------------


def test_containers_that_contain_themselves_can_be_shown() -> None:
    ours = List([1])
    ours.append(ours)
    assert repr(ours) == "List([1, List([1, List(...)])])"
    ours.clear()
    pairs = Dict(a=1)
    pairs["me"] = pairs
    assert "Dict(...)" in repr(pairs)
    pairs.clear()
    endless: list[Any] = []
    endless.append(endless)
    for make in (List, Array, lambda x: Dict(k=x)):
        with pytest.raises(RecursionError):
            make(endless)


def test_deep_nesting_ends_in_an_error_or_a_value(containers: Module) -> None:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    assert containers.same(deep) == (lambda f: f(f, 100))(lambda f, n: (f(f, n - 1),) if n else ())
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        containers.same(deep)
    while deep:  # without recursion
        deep = deep[0]


def test_weak_references_of_cpp_see_the_end(containers: Module) -> None:
    for make in (lambda: List([1]), lambda: Dict(a=[1]), lambda: Map({n: n for n in range(9)})):
        ours = make()
        containers.watch(ours)
        assert containers.alive()
        other = containers.same(ours) if not isinstance(ours, Map) else ours
        del ours
        assert containers.alive()
        del other
        assert not containers.alive()
        containers.unwatch()


def test_containers_are_not_pickled_but_copied() -> None:
    for ours in (List([1]), Dict(a=1), Array([1]), Map(a=1)):
        with pytest.raises(TypeError, match=r"cannot pickle kdsl\.runtime\.\w+: it refers to mem"):
            pickle.dumps(ours)
    ours = List([1])
    other = copy.copy(ours)
    other.append(2)
    assert ours == [1]
    both = copy.copy(Dict(a=1))
    assert both == {"a": 1}


def test_only_the_public_classes_make_containers() -> None:
    from kdsl.runtime import _core

    for call in (
        lambda: _core.Sequence(3, ()),
        lambda: _core.Sequence(72, ()),
        lambda: _core.Mapping(71, ()),
        lambda: _core.Sequence(),  # type: ignore[call-arg]
        lambda: _core.Mapping("x", ()),  # type: ignore[arg-type]
        lambda: _core.Sequence(71, [1]),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError):
            call()


def test_no_reference_is_lost_or_kept(containers: Module) -> None:
    class Mine:
        pass

    mine = Mine()
    start = sys.getrefcount(mine)
    value = {"a": [mine, (mine, "x" * 20)], "b": {1: mine}, "c": [b"y" * 30] * 3}
    inside = sys.getrefcount(mine)
    for _ in range(50):
        back = containers.same(value)
        assert back == {**value, "a": (mine, (mine, "x" * 20)), "c": (b"y" * 30,) * 3}
        ours = List([value])
        ours.append(mine)
        ours[0:1] = [mine] * 4
        del ours[1:3]
        ours.pop()
        pairs = Dict(dict.fromkeys(range(30), mine))
        pairs[3] = mine
        for n in range(0, 30, 2):
            del pairs[n]
        with pytest.raises(OverflowError):
            containers.same([mine, [mine, 2**70]])
        with pytest.raises(OverflowError):
            Map({1: mine, 2: 2**70})
        containers.dict_set(pairs, "k", [mine])
    del back, ours, pairs
    gc.collect()
    assert sys.getrefcount(mine) == inside
    del value
    assert sys.getrefcount(mine) == start


def test_code_that_runs_when_an_element_goes_may_change_the_container() -> None:
    class Last:
        def __init__(self, then: Any) -> None:
            self.then = then

        def __del__(self) -> None:
            self.then()

    ours = List()
    ours.extend([Last(ours.clear), 1, 2, Last(lambda: ours.append("late")), 3])
    ours[0] = None
    assert ours == ["late"]
    ours[0:1] = [Last(lambda: ours.append("later"))]
    ours.clear()
    assert ours == ["later"]
    pairs = Dict()
    pairs.update({n: Last(lambda: pairs.update({"late": 1})) for n in range(20)})
    pairs.clear()
    assert pairs == {"late": 1}
    pairs["x"] = Last(pairs.clear)
    pairs["x"] = 1
    assert pairs == {}


def test_threads_share_a_list() -> None:
    ours = List()

    def fill(name: int) -> None:
        for n in range(200):
            ours.append((name, "text that is long", n))
            len(ours), ours[-1]

    threads = [threading.Thread(target=fill, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ours) == 1600
    assert [n for name, _, n in ours if name == 5] == list(range(200))


# ---- threads ---------------------------------------------------------------------------------


@pytest.fixture
def hasty_threads() -> Any:
    """Python gives every thread a turn as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*work: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def guarded(each: Callable[[], None]) -> None:
        try:
            each()
        except BaseException as err:
            failures.append(err)

    threads = [threading.Thread(target=guarded, args=(each,)) for each in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_pop_get_each_element_once() -> None:
    ours = List(range(4000))
    taken: list[list[int]] = [[] for _ in range(4)]

    def take(into: list[int], end: int) -> None:
        try:
            while True:
                into.append(ours.pop(end))
        except IndexError:
            pass

    together(*(partial(take, each, -(n % 2)) for n, each in enumerate(taken)))
    assert sorted(x for each in taken for x in each) == list(range(4000))


@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_append_while_others_shrink_and_look_lose_nothing() -> None:
    ours = List()
    popped: list[int | str] = []
    done = threading.Event()

    def grow(start: int) -> None:
        for n in range(start, start + 1500):
            ours.append(n)
            ours.insert(-(10**30), str(n))

    def shrink() -> None:
        while not done.is_set() or len(ours):
            try:
                popped.append(ours.pop())
            except IndexError:
                continue

    def look() -> None:
        while not done.is_set():
            assert all(type(x) in (int, str) for x in ours)
            assert all(type(x) in (int, str) for x in ours[10::-3])

    def fill() -> None:
        try:
            together(lambda: grow(0), lambda: grow(10_000))
        finally:
            done.set()

    together(fill, look, shrink)
    numbers = [*range(1500), *range(10_000, 11_500)]
    assert sorted(map(str, popped)) == sorted([*map(str, numbers), *map(str, numbers)])


@pytest.mark.usefixtures("hasty_threads")
def test_threads_that_pop_keys_get_each_value_once() -> None:
    ours = Dict({n: str(n) for n in range(2000)})
    taken: list[list[str]] = [[] for _ in range(4)]

    def take(into: list[str]) -> None:
        for n in range(2000):
            value = ours.pop(n, None)
            if value is not None:
                into.append(value)
            ours[f"k{n % 5}"] = n

    together(*(partial(take, each) for each in taken))
    assert sorted(int(x) for each in taken for x in each) == list(range(2000))
    assert len(ours) == 5


def test_pop_is_as_pythons_own() -> None:
    ours, their = List([1, 2, 3]), [1, 2, 3]
    for at in (-1, 0, -1):
        assert ours.pop(at) == their.pop(at)
    for wrong in (0, -1, 10**30, -(10**30)):
        with pytest.raises(IndexError):
            ours.pop(wrong)
    with pytest.raises(TypeError):
        ours.pop("one")
    with pytest.raises(TypeError, match="an Array cannot change"):
        Array([1])._pop(0)
    table = Dict(a=1)
    assert (table.pop("b", 2), table.pop("a"), table.pop(10**30, None)) == (2, 1, None)
    for key in ("a", 10**30):
        with pytest.raises(KeyError):
            table.pop(key)
    with pytest.raises(TypeError, match="a Map cannot change"):
        Map(a=1)._pop("a")
    assert len(Dict(a=1)) == 1


@pytest.mark.parametrize("step", [-3, -2, -1, 1, 2, 3])
def test_slices_are_as_pythons_own(step: int) -> None:
    for size in (0, 1, 5):
        items = list(range(size))
        for start in (None, -7, -2, 0, 2, 7):
            for stop in (None, -7, -2, 0, 2, 7):
                index = slice(start, stop, step)
                assert List(items)[index] == items[index]
                assert Array(items)[index] == tuple(items[index])
