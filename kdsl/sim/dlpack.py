"""DLPack capsules of memory of the simulated device."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from kdsl.dtypes import DTYPES
from kdsl.lang.arrays import numpy_dtype

#: Type of a CUDA device.
CUDA = 2

#: Type codes: of NumPy's kinds, and of types that ml_dtypes adds to NumPy.
_KINDS = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_NAMES = {"bfloat16": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}


class _Tensor(ctypes.Structure):
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


class _Managed(ctypes.Structure):
    _fields_ = (
        ("tensor", _Tensor),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


#: What consumers hold, by the address of its struct; a deleter takes it out.
_held: dict[int, tuple[object, ...]] = {}

_Callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_NAME = ctypes.create_string_buffer(b"dltensor")


def _delete(managed: int) -> None:
    _held.pop(managed, None)


def _destroy(capsule: int) -> None:
    # A consumer renames the capsule and then owns the struct.
    if _capsule_is_valid(capsule, _NAME):
        _held.pop(_capsule_pointer(capsule, _NAME), None)


_DELETE, _DESTROY = _Callback(_delete), _Callback(_destroy)

_capsule_new = ctypes.pythonapi.PyCapsule_New
_capsule_new.restype = ctypes.py_object
_capsule_new.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_capsule_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_capsule_is_valid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = (ctypes.c_void_p, ctypes.c_char_p)


def taken(
    tensor: Any,
) -> tuple[int, tuple[int, ...], tuple[int, ...], np.dtype[np.generic]]:
    """Address, shape, strides in bytes and dtype of a CUDA tensor of any framework's, which must
    live as long as they are used.

    Raises:
        TypeError: it speaks no DLPack, is on another device, or of a dtype that NumPy lacks.
    """
    device = getattr(tensor, "__dlpack_device__", None)
    if device is None:
        raise TypeError(f"expected an array on the simulated device, got {type(tensor).__name__}")
    if tuple(device()) != (CUDA, 0):
        raise TypeError("expected an array on the simulated device (cuda:0), got one elsewhere")
    made = tensor.__dlpack__()
    found = _Managed.from_address(_pointer_in(made, b"dltensor")).tensor
    kind = (found.code, found.bits, found.lanes)
    known = (d for d in DTYPES.values() if d.__dlpack_data_type__() == kind)
    dtype = next(map(numpy_dtype, known), None)
    if dtype is None:
        raise TypeError(f"kdsl has no dtype for DLPack's {kind}")
    shape = tuple(int(found.shape[i]) for i in range(found.ndim))
    if found.strides:
        strides = tuple(int(found.strides[i]) * dtype.itemsize for i in range(found.ndim))
    else:
        strides = np.empty(shape, dtype).strides
    return int(found.data or 0) + int(found.byte_offset), shape, strides, dtype


def _pointer_in(made: object, name: bytes) -> int:
    function = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    pointer: int = function(("PyCapsule_GetPointer", ctypes.pythonapi))(made, name)
    return pointer


def capsule(
    owner: object, address: int, shape: Sequence[int], dtype: np.dtype[np.generic]
) -> object:
    """A capsule of a contiguous CUDA tensor; `owner` lives as long as it does.

    Raises:
        BufferError: DLPack has no such dtype.
    """
    code = _NAMES.get(dtype.name, _KINDS.get(dtype.kind))
    if code is None:
        raise BufferError(f"DLPack has no dtype {dtype}")
    ndim = len(shape)
    sizes = (ctypes.c_int64 * max(ndim, 1))(*shape)
    strides = (ctypes.c_int64 * max(ndim, 1))()
    step = 1
    for axis in reversed(range(ndim)):
        strides[axis] = step
        step *= shape[axis]
    bits = 8 * dtype.itemsize
    tensor = _Tensor(address, CUDA, 0, ndim, code, bits, 1, sizes, strides, 0)
    managed = _Managed(tensor, None, ctypes.cast(_DELETE, ctypes.c_void_p).value)
    place = ctypes.addressof(managed)
    _held[place] = (managed, sizes, strides, owner)
    made: object = _capsule_new(place, _NAME, ctypes.cast(_DESTROY, ctypes.c_void_p).value)
    return made
