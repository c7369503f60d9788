"""The GPUs of this machine, asked for through the CUDA driver itself: what to compile for.

Nothing is asked before a call has tensors on a GPU. `KDSL_CUDA_DRIVER` names another library than
the driver's; `sim` is the simulator, whose library stands for the word from then on.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

from kdsl import config
from kdsl.codegen import archs, toolchain
from kdsl.codegen.device import Image

#: What KDSL_CUDA_DRIVER calls the simulator.
SIMULATOR = "sim"

_LIBRARY = "libcuda.so.1"

#: What to do where there is no driver; include/kdsl/ffi/cuda.h says the same.
HINT = "install the NVIDIA driver of this GPU, or let KDSL_CUDA_DRIVER=sim simulate one"
_MAJOR, _MINOR = 75, 76


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. `capability` is (8, 0) for sm_80."""

    ordinal: int
    name: str
    capability: tuple[int, int]

    @property
    def arch(self) -> str:
        """What to compile for. Raises ValueError where it is too old."""
        return archs.arch_for(self.capability)


class Driver:
    """The CUDA driver, or a library that takes its place.

    Attributes:
        version: of CUDA that it knows: (13, 0).
        is_simulator: whether it runs PTX on the CPU.

    Raises:
        RuntimeError: it cannot be loaded, or refuses to start; the text says why.
    """

    def __init__(self, path: str) -> None:
        try:
            self._library = ctypes.CDLL(path)
            self._init = self._library.cuInit
        except (OSError, AttributeError) as err:
            hint = HINT if path == _LIBRARY else "KDSL_CUDA_DRIVER names it"
            raise RuntimeError(f"no CUDA driver: {err}; {hint}") from None
        self._check("cuInit", self._init(0))
        version = ctypes.c_int()
        self._check("cuDriverGetVersion", self._library.cuDriverGetVersion(ctypes.byref(version)))
        self.version = (version.value // 1000, version.value % 1000 // 10)
        self.is_simulator = hasattr(self._library, "kdsl_sim_version")

    def count(self) -> int:
        """How many GPUs there are. Raises RuntimeError."""
        count = ctypes.c_int()
        self._check("cuDeviceGetCount", self._library.cuDeviceGetCount(ctypes.byref(count)))
        return count.value

    def gpu(self, ordinal: int) -> Gpu:
        """A GPU by number. Raises RuntimeError."""
        device = ctypes.c_int()
        self._check("cuDeviceGet", self._library.cuDeviceGet(ctypes.byref(device), ordinal))
        name = ctypes.create_string_buffer(100)
        if hasattr(self._library, "cuDeviceGetName"):
            self._library.cuDeviceGetName(name, len(name), device)
        capability = (self._attribute(_MAJOR, device), self._attribute(_MINOR, device))
        return Gpu(ordinal, name.value.decode(errors="replace"), capability)

    def _attribute(self, number: int, device: ctypes.c_int) -> int:
        value = ctypes.c_int()
        asked = self._library.cuDeviceGetAttribute(ctypes.byref(value), number, device)
        self._check("cuDeviceGetAttribute", asked)
        return value.value

    def _check(self, function: str, result: int) -> None:
        if result:
            name = ctypes.c_char_p()
            self._library.cuGetErrorName(result, ctypes.byref(name))
            raise RuntimeError(f"{function}: {name.value.decode() if name.value else result}")


def driver() -> Driver:
    """The driver of this process. Raises RuntimeError: there is none."""
    return _driver(driver_path())


@functools.cache
def _driver(path: str) -> Driver:
    return Driver(path)


def driver_path() -> str:
    """The driver's library: a path, or a name that the system's loader finds."""
    asked = config.cuda_driver()
    if asked == SIMULATOR:
        from kdsl.sim import driver_path as simulator

        asked = str(simulator())
        # Compiled modules look there too.
        config.use_cuda_driver(asked)
    return asked or _LIBRARY


@functools.cache
def _gpu(path: str, ordinal: int) -> Gpu:
    return _driver(path).gpu(ordinal)


def gpu(ordinal: int) -> Gpu:
    """A GPU by number, asked for once.

    Raises:
        RuntimeError: there is no driver, or no such GPU.
    """
    return _gpu(driver_path(), ordinal)


def images(arch: str) -> tuple[Image, ...]:
    """What the driver of this process takes for an architecture: machine code, or PTX where it is
    the simulator, older than the compiler, or not there to be asked."""
    try:
        found = driver()
    except RuntimeError:
        return (Image(arch, "ptx"),)
    reads_cubins = found.version[0] >= toolchain.find_toolchain().version[0]
    return (Image(arch, "cubin" if reads_cubins and not found.is_simulator else "ptx"),)
