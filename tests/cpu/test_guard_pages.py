"""Kernels touch nothing but their tensors: each ends, or starts, where a page may not be read."""

import ctypes
import mmap

import numpy as np
import pytest

from kdsl.dims import evaluate
from kdsl.dtypes import TensorType, bf16, f32
from kdsl.lang.arrays import numpy_dtype
from tests.cpu.test_kernels import compiled
from tests.kernels import KERNELS

PAGE = mmap.PAGESIZE
LIBC = ctypes.CDLL(None, use_errno=True)
NO_ACCESS = 0


class Fenced:
    """An array whose last (or first) byte lies next to a page that nobody may touch."""

    def __init__(self, shape, dtype, *, end):
        size = int(np.prod(shape)) * dtype.itemsize
        pages = -(-max(size, 1) // PAGE)
        self.memory = mmap.mmap(-1, (pages + 2) * PAGE)
        base = np.frombuffer(self.memory, np.uint8)
        for fence in (0, pages + 1):
            address = ctypes.c_void_p(base.ctypes.data + fence * PAGE)
            assert LIBC.mprotect(address, ctypes.c_size_t(PAGE), NO_ACCESS) == 0
        start = (pages + 1) * PAGE - size if end else PAGE
        self.array = base[start : start + size].view(dtype).reshape(shape)


@pytest.mark.parametrize("end", [True, False], ids=["before a fence", "behind a fence"])
@pytest.mark.parametrize("dtype", [f32, bf16], ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_nothing_outside_a_tensor_is_touched(name, dtype, end):
    func, kernel = compiled(name, dtype, False if name == "attention" else None)
    rng = np.random.default_rng(0)
    for m, n, d in ((1, 1, 1), (5, 17, 3), (49, 97, 33), (48, 96, 16), (3, 0, 5)):
        sizes = {"B": 1, "H": 2, "G": 1, "M": m, "N": n, "D": d, "K": d}
        fences, args = [], {}
        for p in func.params:
            if not isinstance(p.type, TensorType):
                args[p.name] = 0.25
                continue
            shape = tuple(evaluate(e, sizes) for e in p.type.shape)
            fences.append(Fenced(shape, np.dtype(numpy_dtype(p.type.dtype)), end=end))
            args[p.name] = fences[-1].array
            args[p.name][...] = rng.standard_normal(shape).astype(args[p.name].dtype)
        kernel(**args)
