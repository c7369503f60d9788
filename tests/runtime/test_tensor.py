"""kdsl.runtime.Tensor: what comes back when no argument said which framework."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from kdsl.runtime import DType, Function, Module, Shape, Tensor, from_dlpack
from tests.house import plain


@pytest.fixture
def tensor(hand: Module) -> Tensor:
    return hand.scale(memoryview(np.arange(6, dtype=np.float32).reshape(2, 3)), 2.0)


@pytest.fixture
def bf16(hand: Module) -> Tensor:
    """A bf16 Tensor: made from another Tensor, as NumPy has no buffer for it."""

    class Source:
        array = jnp.arange(3, dtype=jnp.bfloat16)

        def __dlpack__(self, **keywords: object) -> object:
            return self.array.__dlpack__()

    return hand.scale(Source())


def test_a_tensor_tells_what_it_is(tensor: Tensor) -> None:
    assert tensor.shape == (2, 3)
    assert tensor.strides == (3, 1)
    assert tensor.ndim == 2
    assert tensor.dtype == "f32"
    assert type(tensor.dtype) is DType
    assert tensor.device == (1, 0)
    assert str(tensor.device) == "cpu:0"
    assert type(tensor.shape) is Shape
    assert tensor.size == 6
    assert tensor.byte_offset == 0
    assert tensor.data_ptr == np.asarray(tensor).ctypes.data
    assert tensor.is_contiguous()
    assert not tensor.read_only
    assert repr(tensor) == "<kdsl.runtime.Tensor f32[2, 3]>"
    assert tensor.__dlpack_device__() == (1, 0)


def test_each_framework_takes_a_tensor_without_a_copy(tensor: Tensor) -> None:
    array = np.asarray(tensor)
    assert array.flags.writeable
    assert array.tolist() == [[0.0, 2.0, 4.0], [6.0, 8.0, 10.0]]
    address = array.ctypes.data
    assert address % 64 == 0
    assert np.from_dlpack(tensor).ctypes.data == address
    assert torch.from_dlpack(tensor).data_ptr() == address
    assert torch.as_tensor(tensor).data_ptr() == address
    assert jax.dlpack.from_dlpack(tensor).unsafe_buffer_pointer() == address
    assert memoryview(tensor).tolist() == array.tolist()


def test_a_bf16_tensor_goes_everywhere(bf16: Tensor) -> None:
    assert bf16.dtype == "bf16"
    array = np.asarray(bf16)
    assert array.dtype == ml_dtypes.bfloat16
    assert array.tolist() == [0.0, 1.0, 2.0]
    assert np.asarray(bf16, np.float32).tolist() == [0.0, 1.0, 2.0]
    assert torch.from_dlpack(bf16).dtype is torch.bfloat16
    assert jax.dlpack.from_dlpack(bf16).dtype == jnp.bfloat16
    with pytest.raises(BufferError, match="has no form in the buffer protocol"):
        memoryview(bf16)


def test_a_tensor_is_an_argument_like_any_other(hand: Module, tensor: Tensor) -> None:
    assert hand.view(tensor) == "dtype 2:32:1 shape 2 3 strides 3 1 first 0"
    assert hand.increment(tensor, by=1.0) is None
    assert np.asarray(tensor)[0].tolist() == [1.0, 3.0, 5.0]
    assert type(hand.scale(tensor)) is Tensor


def test_memory_lives_as_long_as_anyone_looks(hand: Module) -> None:
    seen = []
    for make in (np.asarray, torch.from_dlpack, jax.dlpack.from_dlpack, memoryview):
        x = hand.scale(memoryview(np.full(5000, 3, np.float32)))
        seen.append(make(x))
        del x
    gc.collect()
    assert all(np.asarray(x).tolist() == [3.0] * 5000 for x in seen)


def test_capsules_that_nobody_takes_are_freed(tensor: Tensor) -> None:
    for version in (None, (0, 8), (1, 0), (1, 3)):
        capsule = tensor.__dlpack__(max_version=version)
        name = "dltensor_versioned" if version and version[0] else "dltensor"
        assert name in repr(capsule)
        del capsule
    with pytest.raises(TypeError):
        tensor.__dlpack__(max_version=(1,))  # type: ignore[arg-type]


def test_tensors_and_functions_are_not_made_by_hand(hand: Module, tensor: Tensor) -> None:
    for kind in (Tensor, Function):
        with pytest.raises(TypeError, match="cannot create"):
            kind()
        with pytest.raises(TypeError, match="not safe"):
            object.__new__(kind)
        with pytest.raises(TypeError, match="not an acceptable base type"):
            type("Sub", (kind,), {})
    for clone in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError):
            clone(tensor)


ARRAYS = {
    "numpy": np.arange(12, dtype=np.float32).reshape(3, 4),
    "torch": torch.arange(12.0).reshape(3, 4),
    "jax": jnp.arange(12.0, dtype=jnp.float32).reshape(3, 4),
    "bytes": memoryview(bytearray(48)).cast("f", (3, 4)),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_tensor_is_made_of_anyones_array(name: str) -> None:
    tensor = from_dlpack(ARRAYS[name], require_contiguous=True, require_alignment=4)
    assert type(tensor) is Tensor
    assert tensor.shape == (3, 4)
    assert tensor.strides == (4, 1)
    assert tensor.dtype == "f32"
    assert tensor.read_only == (name == "jax")
    assert tensor.numpy().tolist() == np.asarray(ARRAYS[name]).tolist()
    assert tensor.numpy().flags.writeable == (name != "jax")
    again = from_dlpack(tensor)
    assert again == tensor
    assert hash(again) == hash(tensor)
    assert tensor != from_dlpack(ARRAYS[name])
    assert (tensor == 3) is False


@pytest.mark.parametrize("kind", [np, torch])
def test_views_keep_strides_and_offsets(kind: Any) -> None:
    whole = kind.arange(24).reshape(2, 3, 4)
    part = whole[1:, :, ::2]
    tensor = from_dlpack(part)
    assert tensor.shape == (1, 3, 2)
    assert tensor.strides[1:] == (4, 2)
    assert tensor.numpy().tolist() == part.tolist()
    assert not tensor.is_contiguous()
    assert tensor.data_ptr == np.asarray(whole).ctypes.data + 12 * whole.dtype.itemsize
    with pytest.raises(ValueError) as caught:
        from_dlpack(part, require_contiguous=True)
    assert str(caught.value) == (
        f"from_dlpack: expected a contiguous array, got i64[1, 3, 2] with strides "
        f"{list(tensor.strides)}; pass a copy"
    )
    with pytest.raises(ValueError, match="expected memory aligned to 262144 bytes, got address 0x"):
        from_dlpack(whole[1], require_alignment=1 << 18)
    for dense in (whole[:1], whole[:, :0], whole[:0, :, ::2], whole[0, 0, :1]):
        assert from_dlpack(dense, require_contiguous=True).size == (
            dense.size if kind is np else dense.numel()
        )


def test_a_scalar_array_is_a_tensor() -> None:
    tensor = from_dlpack(np.array(3.5))
    assert tensor.shape == tensor.strides == ()
    assert tensor.size == 1
    assert tensor.numpy() == 3.5


@pytest.mark.parametrize("value", [3, "text", None, [1, 2], object(), {1: 2}, len, 1.5], ids=plain)
def test_what_is_no_array_makes_no_tensor(value: object) -> None:
    with pytest.raises(TypeError, match="from_dlpack: expected an array, got "):
        from_dlpack(value)


def test_arrays_that_nobody_can_read_make_no_tensor() -> None:
    for bad in (np.array(["a"]), np.zeros(2, "M8[s]"), np.zeros(2, ">f4"), np.ma.masked_array([1])):
        with pytest.raises((TypeError, ValueError), match=r"kdsl\.runtime: value: expected"):
            from_dlpack(bad)
    with pytest.raises(ValueError, match="conjugated lazily"):
        from_dlpack(torch.ones(2, dtype=torch.complex64).conj())


@pytest.mark.parametrize("name", ["uint8", "float16", "bfloat16", "float8_e4m3fn", "int4"])
def test_read_only_arrays_of_any_dtype_make_tensors(name: str) -> None:
    array = np.ones(3).astype(getattr(ml_dtypes, name, name))
    array.flags.writeable = False
    if name == "int4":  # a byte for each, which DLPack has no word for
        with pytest.raises(TypeError):
            from_dlpack(array)
        return
    tensor = from_dlpack(array)
    assert tensor.read_only
    assert tensor.numpy().dtype == array.dtype
    assert not tensor.numpy().flags.writeable
    assert tensor.numpy().tolist() == [1, 1, 1]


def test_a_copy_is_compact_and_its_own(hand: Module) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    for part in (array, array[::2, ::-3], array.T, array[:0], array[1:2]):
        tensor = from_dlpack(part)

        class Copied:
            def __init__(self, tensor: Tensor) -> None:
                self.tensor = tensor

            def __dlpack__(self, **keywords: object) -> object:
                return self.tensor.__dlpack__(copy=True, **keywords)  # type: ignore[arg-type]

            def __dlpack_device__(self) -> tuple[int, int]:
                return self.tensor.__dlpack_device__()

        copied = np.from_dlpack(Copied(tensor))
        assert copied.tolist() == part.tolist()
        assert copied.flags.c_contiguous
        assert not np.shares_memory(copied, array)
    assert np.array(tensor, copy=True).base is None
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64


def test_a_tensor_keeps_the_array_that_it_was_made_of() -> None:
    tensors = [from_dlpack(np.full(5000, n)) for n in range(10)]
    tensors += [from_dlpack(torch.full((5000,), n)) for n in range(10)]
    tensors += [from_dlpack(jnp.full(5000, n)) for n in range(10)]
    gc.collect()
    assert [t.numpy()[4999] for t in tensors] == [*range(10)] * 3


def test_a_tensor_says_why_it_is_not_pickled(tensor: Tensor) -> None:
    with pytest.raises(TypeError) as caught:
        pickle.dumps(tensor)
    assert str(caught.value) == (
        "cannot pickle kdsl.runtime.Tensor: it refers to memory of this process; pickle .numpy() "
        "of it"
    )
