"""Tensors as no framework of this machine makes them: by hand, through ctypes."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.codegen import samples

AXPY = samples.axpy().signature.text

F32 = (2, 32, 1)
CPU = (1, 0)


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class Value(ctypes.Union):
    _fields_ = (("integer", ctypes.c_int64), ("real", ctypes.c_double), ("ptr", ctypes.c_void_p))


class Any(ctypes.Structure):
    _fields_ = (("type_index", ctypes.c_int32), ("padding", ctypes.c_uint32), ("value", Value))


def tensor(data, shape, strides=None, *, dtype=F32, device=CPU, byte_offset=0):
    sizes = ctypes.c_int64 * len(shape)
    steps = None if strides is None else sizes(*strides)
    address = data.ctypes.data if isinstance(data, np.ndarray) else data
    return DLTensor(address, *device, len(shape), *dtype, sizes(*shape), steps, byte_offset)


@pytest.fixture(scope="module")
def axpy(samples_path):
    """`axpy(x, y, o)` with a = 1; the text of the error, None without one."""
    library = ctypes.CDLL(str(samples_path))
    function = getattr(library, "__tvm_ffi_axpy")
    last_error = getattr(library, "__kdsl_last_error")
    last_error.restype = ctypes.c_char_p

    def call(*tensors):
        args = (Any * 4)(Any(3, 0, Value(real=1.0)))
        for i, t in enumerate(tensors, 1):
            args[i] = Any(7, 0, Value(ptr=ctypes.addressof(t)))
        result = Any()
        failed = function(None, args, len(tensors) + 1, ctypes.byref(result))
        return last_error().decode() if failed else None

    return call


X = np.arange(12, dtype=np.float32)
GOOD = tensor(X, (3, 4))


def test_no_strides_mean_rows_without_gaps(axpy):
    out = np.zeros((3, 4), np.float32)
    assert axpy(GOOD, GOOD, tensor(out, (3, 4))) is None
    assert (out == 2 * X.reshape(3, 4)).all()


def test_byte_offset_and_negative_strides_count(axpy):
    out = np.zeros((3, 4), np.float32)
    backwards = tensor(X, (3, 4), (-4, -1), byte_offset=11 * 4)
    assert axpy(backwards, backwards, tensor(out, (3, 4))) is None
    assert (out == 2 * X[::-1].reshape(3, 4)).all()


def test_strides_of_axes_of_size_1_carry_no_meaning(axpy):
    out = np.zeros((3, 1), np.float32)
    odd = tensor(X, (3, 1), (1, -(2**60)))
    assert axpy(odd, odd, tensor(out, (3, 1), (1, 0))) is None
    assert (out[:, 0] == 2 * X[:3]).all()


def test_an_empty_tensor_may_point_nowhere(axpy):
    empty = tensor(None, (0, 4))
    assert axpy(empty, empty, empty) is None


BAD = {
    "null": (
        tensor(None, (3, 4)),
        "ValueError",
        "the data pointer is null",
    ),
    "misaligned": (
        tensor(X.ctypes.data + 2, (3, 4)),
        "ValueError",
        "the data is not aligned to its element size",
    ),
    "cuda": (
        tensor(X, (3, 4), device=(2, 1)),
        "ValueError",
        "expected f32[M=3, N=4], got f32[3, 4] on cuda:1",
    ),
    "other device": (
        tensor(X, (3, 4), device=(14, 0)),
        "ValueError",
        "expected f32[M=3, N=4], got f32[3, 4] on device type 14:0",
    ),
    "lanes": (
        tensor(X, (3, 4), dtype=(2, 32, 4)),
        "TypeError",
        "expected f32[M=3, N=4], got f32x4[3, 4]",
    ),
    "f8": (
        tensor(X, (3, 4), dtype=(10, 8, 1)),
        "TypeError",
        "expected f32[M=3, N=4], got f8e4m3[3, 4]",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_memory_that_cannot_be_used_is_an_error(axpy, name):
    bad, kind, text = BAD[name]
    out = tensor(np.zeros(12, np.float32), (3, 4))
    assert axpy(GOOD, bad, out) == f"{kind}: {AXPY}: argument 2 `y`: {text}"


def test_a_module_without_cuda_code_says_so(axpy):
    on_gpu = tensor(X, (3, 4), device=(2, 0))
    assert axpy(on_gpu, on_gpu, on_gpu) == (
        f"ValueError: {AXPY}: argument 1 `x`: expected f32[M, N], got f32[3, 4] on cuda:0; "
        "this module has no CUDA code"
    )


@pytest.mark.parametrize("device", [(3, 0), (11, 0), (13, 0)], ids=["cuda", "rocm", "managed"])
def test_memory_of_a_gpu_that_the_cpu_can_read_is_fine(axpy, device):
    out = np.zeros((3, 4), np.float32)
    pinned = tensor(X, (3, 4), device=device)
    assert axpy(pinned, pinned, tensor(out, (3, 4))) is None
    assert (out == 2 * X.reshape(3, 4)).all()


def test_two_outputs_that_share_memory_are_an_error(samples_path):
    library = ctypes.CDLL(str(samples_path))
    attention = getattr(library, "__tvm_ffi_attention")
    last_error = getattr(library, "__kdsl_last_error")
    last_error.restype = ctypes.c_char_p
    data, base = np.zeros(64, np.float32), np.zeros(64, np.float32)
    q = tensor(data, (1, 1, 1, 64))
    tensors = {0: q, 1: q, 2: q, 4: tensor(base, (1, 1, 1, 64)), 5: tensor(base[5:], (1, 1, 1))}
    args = (Any * 6)()
    args[3] = Any(3, 0, Value(real=1.0))
    for i, t in tensors.items():
        args[i] = Any(7, 0, Value(ptr=ctypes.addressof(t)))
    assert attention(None, args, 6, ctypes.byref(Any())) == -1
    assert last_error().decode() == (
        f"ValueError: {samples.attention().signature.text}: argument 5 `lse`: shares memory with "
        "argument 4 `o`; pass a buffer of its own"
    )


@pytest.mark.parametrize("shape", [(2**32, 2**32), (2**31, 2**32), (3, 2**62)])
def test_more_elements_than_64_bits_count_are_an_error(axpy, shape):
    endless = tensor(X, shape, (0, 0))
    assert axpy(endless, endless) == (
        f"ValueError: {AXPY}: argument 1 `x`: it has 2**63 elements or more"
    )


@pytest.fixture(scope="module")
def raw(samples_path):
    """`axpy` with any arguments and place for the result: (its code, the text of the error)."""
    library = ctypes.CDLL(str(samples_path))
    function = getattr(library, "__tvm_ffi_axpy")
    last_error = getattr(library, "__kdsl_last_error")
    last_error.restype = ctypes.c_char_p

    def call(values, result):
        args = (Any * len(values))(*values)
        place = None if result is None else ctypes.byref(result)
        code = function(None, args, len(values), place)
        return code, last_error().decode() if code else None

    return call


def tensors(*values):
    found = [Any(3, 0, Value(real=1.0))]
    for t in values:
        found.append(Any(7, 0, Value(ptr=None if t is None else ctypes.addressof(t))))
    return found


def test_pointers_that_are_null_are_errors(raw):
    x, y, o = (tensor(np.ones(3, np.float32), (3, 1)) for _ in range(3))
    code, text = raw(tensors(None, y, o), Any())
    assert (code, text) == (
        -1, f"TypeError: {AXPY}: argument 1 `x`: expected f32[M, N], got a null tensor pointer"
    )  # fmt: skip
    x.shape = None
    code, text = raw(tensors(x, y, o), Any())
    assert (code, text) == (
        -1, f"ValueError: {AXPY}: argument 1 `x`: expected f32[M, N], got f32 without a shape"
    )  # fmt: skip


def test_a_result_needs_a_place_only_where_there_is_one(raw):
    data = [np.ones(3, np.float32) for _ in range(3)]
    x, y, o = (tensor(d, (3, 1)) for d in data)
    assert raw(tensors(x, y, o), None) == (0, None)
    assert raw(tensors(x, y), None) == (
        -1, f"ValueError: {AXPY}: omitted outputs need a place for the result"
    )  # fmt: skip
