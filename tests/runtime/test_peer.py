"""Values cross between kdsl's runtime and apache-tvm-ffi's Python package, and stay one object."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import tvm_ffi

from kdsl.runtime import Array, Device, Dict, DType, List, Map, Module, Shape, Tensor, from_dlpack


@pytest.fixture(scope="session")
def official(containers: Module) -> Any:
    """The same functions, loaded by apache-tvm-ffi."""
    return tvm_ffi.load_module(containers.path)


PLAIN: list[Any] = [
    None,
    True,
    False,
    -(2**63),
    2**63 - 1,
    1.5,
    float("-inf"),
    "",
    "seven77",
    "eight888",
    "é" * 50,
    "\0zero\0",
    b"",
    b"seven77",
    b"eight888" * 9,
]


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_a_plain_value_of_ours_is_theirs_and_back(
    containers: Module, official: Any, value: Any
) -> None:
    containers.put(value)
    theirs = official.get()
    assert theirs == value
    official.put(value)
    assert containers.get() == value
    containers.put([value, {"key": value}])
    nested = official.get()
    assert nested[0] == value
    assert nested[1]["key"] == value
    official.put([value, {"key": value}])
    assert containers.get() == (value, {"key": value})


def test_dtypes_devices_and_shapes_are_theirs_and_back(containers: Module, official: Any) -> None:
    containers.put([DType("bf16"), Device("cuda:3"), Shape([2, 3])])
    dtype, device, shape = official.get()
    assert str(dtype) == "bfloat16"
    assert str(device) == "cuda:3"
    assert tuple(shape) == (2, 3)
    official.put([tvm_ffi.dtype("float8_e4m3fn"), tvm_ffi.device("rocm:1"), tvm_ffi.Shape((4, 5))])
    assert containers.get() == ("f8e4m3", (10, 1), (4, 5))
    for given, kind in (
        (tvm_ffi.dtype("float32x4"), 5),
        (tvm_ffi.device("cpu"), 6),
        (tvm_ffi.Shape((4, 5)), 69),
    ):
        assert containers.type_of(given) == kind
    assert containers.same(tvm_ffi.dtype("float32x4")) == "f32x4"
    assert type(containers.same(tvm_ffi.Shape((4, 5)))) is Shape


def test_their_containers_are_our_arguments(containers: Module) -> None:
    assert containers.same(tvm_ffi.Array([1, "a text that is long"])) == (1, "a text that is long")
    assert containers.same(tvm_ffi.Map({"a": 1})) == {"a": 1}
    theirs = tvm_ffi.Dict({"a": 1})
    ours = containers.same(theirs)
    assert type(ours) is Dict
    ours["b"] = 2
    assert dict(theirs.items()) == {"a": 1, "b": 2}
    their_list = tvm_ffi.List([1])
    our_list = containers.same(their_list)
    our_list.extend(range(100))
    their_list.append("end")
    assert list(their_list) == [1, *range(100), "end"] == our_list


def test_our_containers_are_their_arguments(official: Any) -> None:
    ours = List([1, 2])
    theirs = official.same(ours)
    assert type(theirs) is tvm_ffi.List
    theirs.append("a text that is long")
    assert ours == [1, 2, "a text that is long"]
    ours_dict = Dict(a=1)
    their_dict = official.same(ours_dict)
    for n in range(100):
        their_dict[n] = n
        ours_dict[f"s{n}"] = n
    assert len(ours_dict) == len(their_dict) == 201
    assert dict(their_dict.items()) == dict(ours_dict.items())
    for n in range(0, 100, 3):
        del their_dict[n]
        del ours_dict[f"s{n}"]
    assert dict(their_dict.items()) == dict(ours_dict.items())
    assert dict(official.same(Map({n: str(n) for n in range(40)})).items()) == {
        n: str(n) for n in range(40)
    }
    assert list(official.same(Array([1, None]))) == [1, None]
    assert list(official.list_items(ours))[:2] == [1, 2]


def test_tensors_cross_without_a_copy(containers: Module, official: Any) -> None:
    x = np.arange(6.0).reshape(2, 3)
    ours = from_dlpack(x)
    theirs = official.same(ours)
    assert np.from_dlpack(theirs).ctypes.data == x.ctypes.data
    assert theirs.shape == (2, 3)
    back = containers.same(tvm_ffi.from_dlpack(x))
    assert np.from_dlpack(back).ctypes.data == x.ctypes.data
    t = torch.ones(3)
    containers.put({"deep": [t]})
    assert official.get()["deep"][0].shape == (3,)
    official.put({"deep": [t]})
    kept = containers.get()["deep"][0]
    assert type(kept) is Tensor
    assert kept.data_ptr == t.data_ptr()


def test_functions_and_errors_cross(containers: Module, official: Any) -> None:
    their_function = tvm_ffi.convert(lambda x: x + 1)
    assert containers.type_of(their_function) == 68
    assert containers.same(their_function)(3) == 4
    assert official.same(containers.same)("x") == "x"
    containers.put(ValueError("a reason"))
    error = official.get()
    assert (error.kind, error.message) == ("ValueError", "a reason")
    official.put(ValueError("another"))
    back = containers.get()
    assert type(back) is ValueError
    assert str(back) == "another"


def test_python_objects_cross_as_themselves(containers: Module, official: Any) -> None:
    class Mine:
        pass

    mine = Mine()
    containers.put(mine)
    held = official.get()
    assert held.pyobject() is mine if hasattr(held, "pyobject") else held is mine
    official.put(mine)
    assert containers.get() is mine
    containers.put(None)


def test_their_objects_of_any_type_are_arguments(containers: Module, official: Any) -> None:
    strange = official.strange()
    ours = containers.same(strange)
    assert ours.type_index >= 128
    assert containers.same([strange]) == (ours,)
    assert official.same(ours).same_as(strange)


def test_without_their_package_ours_says_what_is_missing() -> None:
    script = """
import sys
from kdsl.runtime import List
try:
    List([1]).__tvm_ffi_object__()
except TypeError as err:
    print(err)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "__tvm_ffi_object__: tvm_ffi was not imported\n"


@pytest.mark.parametrize("first", ["kdsl", "tvm_ffi"])
def test_either_may_be_imported_first(
    containers: Module, build: Callable[..., Path], first: str
) -> None:
    second = {"kdsl": "tvm_ffi", "tvm_ffi": "kdsl"}[first]
    imports = {
        "kdsl": f"import kdsl.runtime; ours = kdsl.runtime.load_module({containers.path!r})",
        "tvm_ffi": f"import tvm_ffi; theirs = tvm_ffi.load_module({containers.path!r})",
    }
    script = f"""
{imports[first]}
{imports[second]}
made = kdsl.runtime.Dict(a=[1, "a text that is long"], b=kdsl.runtime.List([2]))
ours.put(made)
seen = theirs.get()
seen["c"] = {{"x": 1}}
seen["b"].append(3)
theirs.put(seen)
assert ours.get() == {{"a": (1, "a text that is long"), "b": [2, 3], "c": {{"x": 1}}}}
assert made == ours.get()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
