"""What the core asks of NumPy through Python; NumPy is there already, its arrays were passed."""

from __future__ import annotations

import sys
from typing import Any

_ML_DTYPES = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}


def numpy_samples() -> list[Any]:
    """Arrays whose fields all differ, to compare the mirrored struct with."""
    numpy: Any = sys.modules["numpy"]
    cube = numpy.arange(2 * 3 * 5, dtype=numpy.int16).reshape(2, 3, 5)
    frozen = numpy.ones((4, 7), numpy.float32)
    frozen.flags.writeable = False
    return [cube, cube[::-1, 1:, ::2].transpose(2, 0, 1), frozen, numpy.array(3.0)]


def extended_dtype(name: str) -> Any:
    """The NumPy dtype of a kdsl dtype that NumPy itself lacks ("bf16")."""
    numpy: Any = sys.modules["numpy"]
    if name not in _ML_DTYPES:
        raise TypeError(f"NumPy has no dtype for {name or 'this result'}")
    import ml_dtypes

    return numpy.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))


def array_of(tensor: Any) -> Any:
    """An array over a Tensor's memory, by the buffer protocol."""
    return sys.modules["numpy"].asarray(tensor)
