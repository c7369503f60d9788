"""Values that are neither numbers nor arrays: dtypes, devices, shapes, pointers, Python objects."""

from __future__ import annotations

import copy
import ctypes
import gc
import pickle
import sys
import types
from collections import OrderedDict, namedtuple
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

import kdsl
from kdsl.runtime import Device, DType, Function, Module, Object, Shape
from tests.house import plain

Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    ("given", "name", "facts"),
    [
        (kdsl.f32, "f32", (2, 32, 1)),
        (torch.float16, "f16", (2, 16, 1)),
        (torch.bfloat16, "bf16", (4, 16, 1)),
        (torch.float8_e4m3fn, "f8e4m3", (10, 8, 1)),
        (torch.float8_e5m2fnuz, "float8_e5m2fnuz", (13, 8, 1)),
        (torch.complex64, "complex64", (5, 64, 1)),
        (np.dtype("int64"), "i64", (0, 64, 1)),
        (np.dtype(ml_dtypes.bfloat16), "bf16", (4, 16, 1)),
        (np.dtype(ml_dtypes.float8_e8m0fnu), "float8_e8m0fnu", (14, 8, 1)),
        (np.dtype(ml_dtypes.int4), "int4", (0, 4, 1)),
        (np.dtype(ml_dtypes.float4_e2m1fn), "float4_e2m1fn", (17, 4, 1)),
        (jnp.dtype("uint8"), "u8", (1, 8, 1)),
        (DType("float16x8"), "f16x8", (2, 16, 8)),
        (DType("bool"), "bool", (6, 8, 1)),
        (DType("handle"), "handle", (3, 64, 1)),
    ],
    ids=str,
)
def test_a_dtype_of_anyone_goes_and_comes(
    containers: Module, given: object, name: str, facts: tuple[int, int, int]
) -> None:
    assert containers.type_of(given) == 5
    back = containers.same(given)
    assert type(back) is DType
    assert back == name
    assert (back.code, back.bits, back.lanes) == facts
    assert back.__dlpack_data_type__() == facts
    assert DType(given) is back
    assert DType(str(back)) is back


@pytest.mark.parametrize("given", [np.float32, "float32", jnp.float32, np.dtype("f4"), "f32"])
def test_a_dtype_is_made_from_what_names_it(given: object) -> None:
    dtype = DType(given)
    assert dtype == "f32"
    assert hash(dtype) == hash("f32")
    assert dtype.itemsize == 4
    assert dtype.numpy() == np.float32
    assert repr(dtype) == "DType('f32')"
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert copy.deepcopy(dtype) is dtype


@pytest.mark.parametrize("name", ["int4", "bf16", "f8e4m3", "float8_e5m2fnuz", "float4_e2m1fn"])
def test_small_dtypes_have_their_form_in_ml_dtypes(name: str) -> None:
    assert DType(DType(name).numpy()) == name


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("float", "DLPack has no code for float"),
        ("f0", "DLPack has no code for f0"),
        ("int300", "DLPack has no code for int300"),
        ("f32x", "DLPack has no code for f32x"),
        ("f32x70000", "DLPack has no code for f32x70000"),
        (np.dtype("U3"), "DLPack has no code for <U3"),
        (np.dtype(">i4"), "DLPack has no code for >i4"),
        (np.dtype("M8[s]"), "DLPack has no code for datetime64[s]"),
        (torch.quint8, "DLPack has no code for quint8"),
        (object, "DLPack has no code for object"),
        (None, "DLPack has no code for None"),
    ],
    ids=str,
)
def test_what_names_no_dtype_is_a_type_error(given: object, text: str) -> None:
    with pytest.raises(TypeError) as caught:
        DType(given)
    assert str(caught.value) == text


def test_numpy_lacks_some_dtypes() -> None:
    for name in ("f32x4", "handle", "int7"):
        with pytest.raises(TypeError, match=f"NumPy has no dtype for {name}"):
            DType(name).numpy()


@pytest.mark.parametrize(
    ("given", "pair", "name"),
    [
        (torch.device("cpu"), (1, 0), "cpu:0"),
        (torch.device("cuda", 3), (2, 3), "cuda:3"),
        (torch.device("mps"), (8, 0), "metal:0"),
        (jax.devices("cpu")[0], (1, 0), "cpu:0"),
        (Device("rocm", 1), (10, 1), "rocm:1"),
        (Device("gpu:2"), (2, 2), "cuda:2"),
        (Device((99, 5)), (99, 5), "device99:5"),
    ],
    ids=str,
)
def test_a_device_of_anyone_goes_and_comes(
    containers: Module, given: object, pair: tuple[int, int], name: str
) -> None:
    assert containers.type_of(given) == 6
    back = containers.same(given)
    assert type(back) is Device
    assert back == pair
    assert str(back) == name
    assert repr(back) == f"Device('{name}')"
    assert (back.type, back.index) == (name.partition(":")[0], pair[1])
    assert pickle.loads(pickle.dumps(back)) == back
    assert containers.next(given).index == pair[1] + 1


@pytest.mark.parametrize("wrong", ["", "cuda:", "cuda:x", "cuda:-1", "toaster", "cpu:0:0"])
def test_a_device_that_does_not_exist_is_a_value_error(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"no device '.*'; the types are cpu, cuda"):
        Device(wrong)
    with pytest.raises(TypeError, match="expected a device, got list"):
        Device([])
    with pytest.raises(ValueError, match="has an index already"):
        Device("cuda:1", 2)


def test_a_shape_goes_as_a_shape(containers: Module) -> None:
    shape = Shape([2, 3, 4])
    assert shape == (2, 3, 4)
    assert hash(shape) == hash((2, 3, 4))
    assert repr(shape) == "Shape(2, 3, 4)"
    assert containers.type_of(shape) == 69
    assert containers.type_of((2, 3, 4)) == 71
    assert containers.type_of(torch.Size([2])) == 71
    assert containers.product(shape) == containers.product([2, 3, 4]) == 24
    back = containers.same(shape)
    assert type(back) is Shape
    assert back == shape
    assert containers.same(Shape()) == ()
    assert containers.shape_of(np.ones((0, 5))) == (0, 5)
    assert pickle.loads(pickle.dumps(shape)) == shape
    with pytest.raises(TypeError):
        Shape([1.5])  # type: ignore[list-item]
    with pytest.raises(OverflowError, match="64-bit integers, got 9223372036854775808"):
        Shape([2**63])


def test_pointers_go_and_come(containers: Module) -> None:
    class Says:
        def __tvm_ffi_opaque_ptr__(self) -> int:
            return 0x1234

    for given in (ctypes.c_void_p(0x1234), Says()):
        assert containers.type_of(given) == 4
        back = containers.same(given)
        assert type(back) is ctypes.c_void_p
        assert back.value == 0x1234
    assert containers.same(ctypes.c_void_p(None)).value is None
    assert containers.same(ctypes.c_void_p(2**64 - 1)).value == 2**64 - 1

    class Lies:
        def __tvm_ffi_opaque_ptr__(self) -> str:
            return "no"

    with pytest.raises(TypeError, match="that cannot be read"):
        containers.same(Lies())


def test_streams_of_anyone_go_as_pointers(containers: Module) -> None:
    class Stream:
        def __cuda_stream__(self) -> tuple[int, int]:
            return 0, 77

    class Torchs:
        cuda_stream = 78

    assert [containers.same(s()).value for s in (Stream, Torchs)] == [77, 78]


def test_objects_that_say_a_number_are_that_number(containers: Module) -> None:
    class Whole:
        def __tvm_ffi_int__(self) -> int:
            return 7

    class Part:
        def __tvm_ffi_float__(self) -> float:
            return 1.5

    assert containers.same(Whole()) == 7
    assert containers.same(Part()) == 1.5
    assert containers.type_of(Part()) == 3


@pytest.mark.parametrize("value", [object(), {3}, 1j, range(3), ..., slice(1), types], ids=plain)
def test_other_python_objects_come_back_as_themselves(containers: Module, value: object) -> None:
    assert containers.type_of(value) == 74
    assert containers.same(value) is value
    assert containers.same([value, {"k": value}])[1]["k"] is value


def test_a_python_object_lives_as_long_as_native_code_holds_it(containers: Module) -> None:
    class Mine:
        pass

    import weakref

    mine = Mine()
    seen = weakref.ref(mine)
    count = sys.getrefcount(mine)
    containers.put([mine])
    assert sys.getrefcount(mine) == count + 1
    del mine
    gc.collect()
    assert seen() is not None
    containers.put(None)
    assert seen() is None


def test_callables_and_exceptions_go_in_containers(containers: Module) -> None:
    error = ValueError("reason")
    function, same_error = containers.same([len, error])
    assert function is len
    assert same_error is error
    first, second = containers.same([containers.same, "x"])
    assert isinstance(first, Function)
    assert first(second) == "x"


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ([], 71),
        ((1,), 71),
        (Point(1, 2), 71),
        ({}, 72),
        (OrderedDict(a=1), 72),
        (types.MappingProxyType({"a": 1}), 72),
    ],
    ids=repr,
)
def test_containers_of_python_go_as_array_or_map(containers: Module, value: Any, kind: int) -> None:
    assert containers.type_of(value) == kind
    back = containers.same(value)
    assert back == (tuple(value) if kind == 71 else dict(value))
    assert type(back) is (tuple if kind == 71 else dict)


def test_text_of_any_length_arrives(containers: Module) -> None:
    for size in (*range(10), 100, 5000):
        text = "é" * (size // 2) + "x" * (size % 2)
        assert containers.text_of(text) == f"<{text}>"
        assert containers.same([text]) == (text,)
        data = bytes(range(256)) * (size // 256) + bytes(size % 256)
        assert containers.bytes_of(data) == data
        assert containers.same([data]) == (data,)
    assert containers.same("\0" * 9) == "\0" * 9


@pytest.mark.parametrize(
    ("value", "kind"), [("s" * 7, 11), ("s" * 8, 8), (b"b" * 7, 12), (b"b" * 8, 66)], ids=repr
)
def test_seven_bytes_fit_inside_a_value(containers: Module, value: object, kind: int) -> None:
    assert containers.type_of(value) == kind
    inside = {11: 11, 8: 65, 12: 12, 66: 66}[kind]
    assert containers.types_of([value, value]) == (inside, inside)


def test_integers_keep_64_bits_and_no_more(containers: Module) -> None:
    for value in (0, 1, -1, 2**63 - 1, -(2**63)):
        assert containers.same(value) == value
        assert containers.same([value]) == (value,)
    for value in (2**63, -(2**63) - 1, 2**200):
        with pytest.raises(OverflowError) as caught:
            containers.same(["fine", [value]])
        assert str(caught.value) == (
            f"same(...): argument 0, item 1, item 0: expected a value that TVM FFI has, got "
            f"{f'int {value}' if value < 2**128 else 'int of 201 bits'}; a packed call carries "
            "integers from -2**63 to 2**63 - 1"
        )


def test_text_without_utf8_is_refused_where_it_stands(containers: Module) -> None:
    with pytest.raises(TypeError, match=r"argument 0, item 1: expected .*, got str that cannot"):
        containers.same(["a", "\udc80"])


def test_objects_of_other_types_can_be_passed_back(containers: Module) -> None:
    thing = containers.strange()
    assert type(thing) is Object
    assert thing.type_index >= 128
    again = containers.same(thing)
    assert again == thing
    assert hash(again) == hash(thing)
    assert thing != containers.strange()
    assert (thing == 3) is False
    assert repr(thing).startswith(f"<kdsl.runtime.Object of type index {thing.type_index} at 0x")
    assert containers.same([thing, {"k": thing}])[1]["k"] == thing
    for refused in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match=r"cannot pickle kdsl\.runtime\.Object: it refers"):
            refused(thing)
    with pytest.raises(TypeError, match="cannot create"):
        Object()


def test_a_kernel_takes_no_such_values(hand: Module) -> None:
    for value in ([1], {"a": 1}, object(), len, ValueError("x"), kdsl.runtime.List([1])):
        with pytest.raises(TypeError, match="argument 0 `x`: expected T"):
            hand.nop(value, value, value)
