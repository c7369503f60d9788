"""Running one kernel of a PTX text on arrays of the host."""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kdsl.sim import library, results
from kdsl.sim.memory import Memory, Uploads

#: Milliseconds between two looks at signals, so that Ctrl-C ends a long simulation.
_GLANCE = 100

#: Warp instructions of a block that change no memory and pass no barrier before it counts as hung.
LIMIT = 50_000_000


@dataclass(frozen=True, slots=True)
class _Param:
    name: str
    type: str
    count: int  # of an array; 0: a scalar
    offset: int
    size: int

    def __str__(self) -> str:
        return f".{self.type} {self.name}" + (f"[{self.count}]" if self.count else "")


class Module:
    """A PTX text, loaded: its kernels, and its variables in simulated memory.

    Raises:
        ValueError: the text is no PTX.
    """

    def __init__(self, ptx: str) -> None:
        self._handle = library.load().kdsl_sim_load(ptx.encode())
        if not self._handle:
            raise ValueError(library.error())

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library.load().kdsl_sim_unload(self._handle)

    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels."""
        return tuple(library.load().kdsl_sim_kernels(self._handle).decode().split())

    def run(
        self,
        kernel: str,
        grid: int | Sequence[int],
        block: int | Sequence[int],
        args: Sequence[object],
        *,
        smem: int = 0,
        seed: int = 0,
        threads: int | None = None,
        limit: int = LIMIT,
    ) -> results.Run:
        """Launch a kernel; see `run` of this package."""
        lib = library.load()
        uploads = Uploads()
        try:
            packed = _pack(kernel, self._params(kernel), args, uploads)
            options = library.Options(
                _three(grid, "grid"),
                _three(block, "block"),
                smem,
                len(os.sched_getaffinity(0)) if threads is None else threads,
                seed,
                limit,
            )
            begin = time.perf_counter()
            job = lib.kdsl_sim_start(
                self._handle, kernel.encode(), ctypes.byref(options), packed, len(packed)
            )
            if not job:
                raise ValueError(library.error())
            try:
                while not lib.kdsl_sim_wait(job, _GLANCE):
                    pass
                text = lib.kdsl_sim_result(job).decode("utf-8", "replace")
            finally:
                lib.kdsl_sim_close(job)  # an interrupted one ends first
            (run,) = results.parse(text, time.perf_counter() - begin)
            uploads.fetch()
            return run
        finally:
            uploads.free()

    def _params(self, kernel: str) -> list[_Param]:
        text = library.load().kdsl_sim_params(self._handle, kernel.encode())
        if text is None:
            raise ValueError(library.error())
        rows = (line.split("\t") for line in text.decode().splitlines())
        return [_Param(name, kind, int(n), int(at), int(size)) for name, kind, n, at, size in rows]


@functools.lru_cache(maxsize=16)
def _module(ptx: str) -> Module:
    return Module(ptx)


def run(
    ptx: str,
    kernel: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[object],
    smem: int = 0,
    seed: int = 0,
    threads: int | None = None,
    limit: int = LIMIT,
) -> results.Run:
    """Run one kernel of a PTX text and say what it did wrong and what it cost.

        run = kdsl.sim.run(ptx, "softmax", grid=64, block=128, args=[x, y, 1000])
        print(run)            # reports, counters
        print(run.lines)      # a table by source line

    Args:
        ptx: of nvcc, NVRTC, Triton or another compiler, for sm_80 and the like.
        kernel: name of a `.entry`.
        grid, block: one to three sizes.
        args: one for each parameter. A NumPy array is copied to memory of its own for the run and
            back afterwards; `sim.array` stays on the simulated device; int, float, bool and NumPy
            scalars are converted to the parameter's type; bytes are a struct.
        smem: bytes of dynamic shared memory.
        seed: 0 lets warps and blocks run in order; any other number is another schedule.
        threads: of the host, that run blocks side by side; all processors by default.
        limit: warp instructions without progress after which a block counts as hung.

    Raises:
        TypeError: the number or kind of an argument is not that of the parameter.
        ValueError: no PTX, no such kernel, an instruction that is not known, or sizes that no
            device takes. The text says which.
        KeyboardInterrupt: Ctrl-C ended the simulation.
    """
    return _module(ptx).run(
        kernel, grid, block, args, smem=smem, seed=seed, threads=threads, limit=limit
    )


def _three(sizes: int | Sequence[int], name: str) -> ctypes.Array[ctypes.c_uint32]:
    values = (sizes,) if isinstance(sizes, int) else tuple(sizes)
    if not 1 <= len(values) <= 3 or not all(0 <= v < 2**32 for v in values):
        raise ValueError(f"{name}: expected one to three sizes, got {sizes!r}")
    return (ctypes.c_uint32 * 3)(*values, *[1] * (3 - len(values)))


_FORMATS = {"f32": "f", "f64": "d", "f16": "e"}


def _pack(kernel: str, params: list[_Param], args: Sequence[object], uploads: Uploads) -> bytes:
    if len(args) != len(params):
        wanted = ", ".join(map(str, params))
        raise TypeError(
            f"kernel {kernel}: expected {len(params)} arguments ({wanted}), got {len(args)}"
        )
    end = max((p.offset + p.size for p in params), default=0)
    buffer = bytearray(end)
    for index, (param, arg) in enumerate(zip(params, args, strict=True)):
        where = f"kernel {kernel}: argument {index} `{param}`"
        data = _value(where, index, param, arg, uploads)
        buffer[param.offset : param.offset + len(data)] = data
    return bytes(buffer)


def _value(where: str, index: int, param: _Param, arg: object, uploads: Uploads) -> bytes:
    if isinstance(arg, (bytes, bytearray)):
        size = param.size if param.count else _bytes_of(param)
        if len(arg) != size:
            raise TypeError(f"{where}: expected {size} bytes, got {len(arg)}")
        return bytes(arg)
    if param.count:
        raise TypeError(f"{where}: expected bytes of the struct, got {type(arg).__name__}")
    if isinstance(arg, Memory) or (isinstance(arg, np.ndarray) and arg.ndim > 0):
        if param.type not in ("u64", "b64", "s64"):
            raise TypeError(f"{where}: expected a number, got an array")
        address = arg.address if isinstance(arg, Memory) else uploads.add(arg, f"argument {index}")
        return struct.pack("<Q", address)
    if isinstance(arg, np.ndarray | np.generic):
        arg = arg.item()
    if not isinstance(arg, int | float):
        raise TypeError(f"{where}: expected an array or a number, got {type(arg).__name__}")
    return _number(where, param, arg)


def _number(where: str, param: _Param, arg: float) -> bytes:
    if param.type in _FORMATS:
        return struct.pack(f"<{_FORMATS[param.type]}", arg)
    if isinstance(arg, float):
        raise TypeError(f"{where}: expected an integer, got {arg!r}")
    size = _bytes_of(param)
    if not -(1 << (8 * size - 1)) <= arg < 1 << (8 * size):
        raise ValueError(f"{where}: {arg} does not fit in {8 * size} bits")
    return (arg & ((1 << (8 * size)) - 1)).to_bytes(size, "little")


def _bytes_of(param: _Param) -> int:
    return int(param.type.strip("bfsu")) // 8
