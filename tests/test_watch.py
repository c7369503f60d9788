"""What a kernel takes from outside: what may change in place is looked into at every call."""

from __future__ import annotations

import array
import collections
import dataclasses
import enum
import types

import numpy as np
import pytest
import torch

from kdsl import lang as kdsl
from kdsl.dtypes import f32
from kdsl.frontend.source import capture
from kdsl.lang import Out
from kdsl.watch import Watch
from tests.house import plain

(N,) = kdsl.dims("N")


def kernel_over(thing):
    """A kernel that takes `thing` from outside, and hands it whole to a helper."""

    def over(x: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(N):
            o[n] = weighed(x[n], thing)

    return capture(over)


def weighed(v, things):
    return v * things[0]


class Plain:
    kind = 1

    def __init__(self, **values):
        vars(self).update(values)


class Slotted:
    __slots__ = ("values",)

    def __init__(self, values):
        self.values = values


@dataclasses.dataclass(frozen=True)
class Frozen:
    scale: object


@dataclasses.dataclass
class Loose:
    scale: object


def put(key, value):
    return lambda thing: thing.__setitem__(key, value)


CHANGES = {
    "list": ([1, 2], put(0, 5)),
    "nested list": (([1], 2), lambda thing: thing[0].append(3)),
    "dict": ({"a": 1}, put("a", 2)),
    "set": ({1, 2}, lambda thing: thing.add(3)),
    "deque": (collections.deque([1, 2]), put(0, 5)),
    "bytearray": (bytearray(b"ab"), put(0, 5)),
    "array": (array.array("f", [1, 2]), put(0, 5.0)),
    "memoryview": (memoryview(bytearray(2)), put(0, 5)),
    "ndarray": (np.arange(3), put(0, 5)),
    "0-d ndarray": (np.zeros(()), put((), 5)),
    "view of an ndarray": (np.zeros((3, 2))[:, ::2], put((0, 0), 5)),
    "type of an ndarray": (np.zeros(2, "f4"), lambda thing: setattr(thing, "dtype", "i4")),
    "shape of an ndarray": (np.zeros(4), lambda thing: setattr(thing, "shape", (2, 2))),
    "torch tensor": (torch.zeros(3), put(0, 5)),
    "bf16 tensor in a dict": ({"w": torch.zeros(3)}, lambda thing: thing["w"].add_(1)),
    "object": (Plain(a=1), lambda thing: setattr(thing, "a", 2)),
    "array in an object": (Plain(a=np.zeros(2)), lambda thing: thing.a.fill(1)),
    "slots": (Slotted(1), lambda thing: setattr(thing, "values", 2)),
    "namespace": (types.SimpleNamespace(a=1), lambda thing: setattr(thing, "a", 2)),
    "array in a frozen dataclass": (Frozen(np.zeros(2)), lambda thing: thing.scale.fill(1)),
    "dataclass": (Loose(1), lambda thing: setattr(thing, "scale", 2)),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_change_in_place_is_seen(name):
    thing, change = CHANGES[name]
    source = kernel_over(thing)
    before, watch = source.captured(), Watch(source)
    assert source.captured() == before
    change(thing)
    assert watch.changed()
    assert source.captured() != before


class Colour(enum.Enum):
    RED = 1


FIXED = [
    None, 3, 1.5, True, "text", b"bytes", 1j, range(3), (1, (2.0, "x")), frozenset([1]), Colour.RED,
    np.float32(1.5), np.int64(3), types.ModuleType("settings"), Plain,
    len, weighed, f32, N, N // 2, f32[N], Frozen(1.5), Frozen((1, 2)), kdsl, kdsl.exp,
]  # fmt: skip


@pytest.mark.parametrize("thing", FIXED, ids=plain)
def test_what_cannot_change_is_not_looked_into_again(thing):
    assert not Watch(kernel_over(thing)).changed()


settings = Plain(size=2, table=np.zeros(2), inner=Plain(scale=3.0))


def by_paths(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(N):
        o[n] = x[n] * settings.size * settings.inner.scale * Plain.kind


def by_table(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(N):
        o[n] = x[n] * settings.table[0]


def by_class(x: f32[N], o: Out[f32[N]]):
    for n in kdsl.parallel(N):
        o[n] = x[n] * settings.kind


def test_of_an_object_only_what_a_path_leads_to_counts(monkeypatch):
    watch = Watch(capture(by_paths))
    settings.table[0] += 1
    assert not watch.changed()
    monkeypatch.setattr(settings.inner, "scale", 4.0)
    assert watch.changed()
    assert Watch(capture(by_table)).changed()


def test_an_attribute_of_the_class_is_looked_up_at_every_call(monkeypatch):
    source = capture(by_class)
    before = source.captured()
    assert Watch(source).changed()
    monkeypatch.setattr(Plain, "kind", 2)
    assert source.captured() != before
