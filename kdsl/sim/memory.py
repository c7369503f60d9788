"""Memory of the simulated device: arrays that live there, and copies of the host's arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kdsl.sim import dlpack, library


class Memory:
    """An array in simulated device memory.

    It is an allocation of exactly its bytes, with guard zones around it. Kernels of compiled
    modules take it as they take a CUDA tensor (DLPack says device cuda:0), where the module's
    driver is the simulator.

        x = kdsl.sim.array(numpy_array)
        x.numpy()       # a copy on the host
    """

    def __init__(
        self, shape: Sequence[int], dtype: npt.DTypeLike, *, written: bool, name: str
    ) -> None:
        self.shape = tuple(int(n) for n in shape)
        self.dtype = np.dtype(dtype)
        self.nbytes = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        lib = library.load()
        self._owned = lib.kdsl_sim_allocate(max(self.nbytes, 1), int(not written), name.encode())
        if not self._owned:
            raise MemoryError(f"no memory for {self.nbytes} bytes of the simulated device")
        #: Where kernels find it.
        self.address: int = self._owned

    def __del__(self) -> None:
        if getattr(self, "_owned", 0):
            library.load().kdsl_sim_free(self._owned)
            self._owned = 0

    def __repr__(self) -> str:
        return f"sim.array(shape={self.shape}, dtype={self.dtype}, address={self.address:#x})"

    @property
    def view(self) -> npt.NDArray[np.generic]:
        """The device's memory itself, as the host sees it; what it writes there counts as written
        only after `mark_written`."""
        raw = (ctypes.c_char * self.nbytes).from_address(self.address)
        return np.ndarray(self.shape, self.dtype, buffer=memoryview(raw))

    def numpy(self) -> npt.NDArray[np.generic]:
        """A copy on the host."""
        return self.view.copy()

    def write(self, values: npt.ArrayLike) -> None:
        """Copy values from the host."""
        self.view[...] = np.asarray(values, dtype=self.dtype)
        library.load().kdsl_sim_mark_written(self.address, self.nbytes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (dlpack.CUDA, 0)

    def __dlpack__(self, *, stream: object = None, **_: object) -> object:
        """The array for whoever takes DLPack; it stays alive as long as they hold it."""
        return dlpack.capsule(self, self.address, self.shape, self.dtype)


def array(values: npt.ArrayLike, dtype: npt.DTypeLike | None = None) -> Memory:
    """Copy an array to the simulated device."""
    source = np.asarray(values, dtype=dtype)
    memory = Memory(source.shape, source.dtype, written=True, name="array")
    memory.write(source)
    return memory


def empty(shape: int | Sequence[int], dtype: npt.DTypeLike = np.float32) -> Memory:
    """An array on the simulated device without values: reading before writing is reported."""
    sizes = (shape,) if isinstance(shape, int) else shape
    return Memory(sizes, dtype, written=False, name="empty array")


def numpy(tensor: object) -> npt.NDArray[np.generic]:
    """Copy an array of the simulated device to the host: `sim.array`, a result that a kernel made,
    or any other CUDA tensor that speaks DLPack.

    Raises:
        TypeError: it is none, or not on device cuda:0.
        ValueError: it lies outside of the simulated device's memory.
    """
    address, shape, strides, dtype = dlpack.taken(tensor)
    if 0 in shape:
        return np.empty(shape, dtype)
    # Where the first and the last byte lie; strides may go backwards.
    steps = [(n - 1) * s for n, s in zip(shape, strides, strict=True)]
    low = address + sum(min(s, 0) for s in steps)
    size = sum(map(abs, steps)) + dtype.itemsize
    if library.load().kdsl_sim_room(low) < size:
        raise ValueError(f"no memory of the simulated device at {low:#x}")
    raw = (ctypes.c_char * size).from_address(low)
    view: npt.NDArray[np.generic] = np.ndarray(
        shape, dtype, memoryview(raw), address - low, strides
    )
    return view.copy()


class Uploads:
    """Copies of the host's arrays on the device for the time of one launch.

    Arrays that overlap on the host share one allocation, so that they overlap on the device too.
    """

    def __init__(self) -> None:
        self._copies: list[_Copy] = []

    def add(self, source: npt.NDArray[np.generic], name: str) -> int:
        """The device address of a host array's first element."""
        low, high = np.lib.array_utils.byte_bounds(source)
        start = source.ctypes.data
        for copy in self._copies:
            if copy.low <= low and high <= copy.high:
                copy.writable |= source.flags.writeable
                return copy.address + int(start) - copy.low
            if low < copy.high and copy.low < high:
                raise ValueError(f"{name} overlaps another argument partly")
        copy = _Copy(low, high, source, name)
        self._copies.append(copy)
        return copy.address + int(start) - low

    def fetch(self) -> None:
        """Copy what kernels may have written back to the host."""
        for copy in self._copies:
            if copy.writable:
                ctypes.memmove(copy.low, copy.address, copy.high - copy.low)

    def free(self) -> None:
        for copy in self._copies:
            library.load().kdsl_sim_free(copy.address)
        self._copies.clear()


class _Copy:
    def __init__(self, low: int, high: int, source: npt.NDArray[np.generic], name: str) -> None:
        self.low, self.high, self.source = low, high, source
        self.writable = source.flags.writeable
        size = high - low
        label = f"{name} ({source.dtype}{list(source.shape)})"
        self.address: int = library.load().kdsl_sim_allocate(max(size, 1), 0, label.encode())
        if not self.address:
            raise MemoryError(f"no memory for {size} bytes of the simulated device")
        ctypes.memmove(self.address, low, size)
