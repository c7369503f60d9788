"""kdsl.runtime.Tensor: what comes back when no argument said which framework."""

from __future__ import annotations

import copy
import gc
import pickle

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
import torch

from kdsl.runtime import Function, Module, Tensor


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
