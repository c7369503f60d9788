"""Runs the plan of a function alone: its kernels compiled by hand and called with ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kdsl import paths
from kdsl.codegen.cpu.source import kernel_source
from kdsl.codegen.targets import COMMON_FLAGS, KERNEL_FLAGS, best_variant, find_compiler
from kdsl.dims import Dim, evaluate
from kdsl.dtypes import TensorType
from kdsl.ir.nodes import Func
from kdsl.passes import run_pipeline
from kdsl.passes.cpu.build import plan

_FOLDER = Path(tempfile.mkdtemp(prefix="kdsl_cpu_"))
_SCALARS = {"f32": ctypes.c_float, "f64": ctypes.c_double, "i64": ctypes.c_long,
            "i32": ctypes.c_int, "bool": ctypes.c_bool}  # fmt: skip
_I64 = ctypes.c_long
POISON = 0x7FC07FC0


class _Phase(ctypes.Structure):
    _fields_ = [
        ("tasks", ctypes.CFUNCTYPE(_I64, ctypes.c_void_p)),
        ("arena", ctypes.CFUNCTYPE(_I64, ctypes.c_void_p)),
        ("run", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, _I64, _I64)),
    ]


class _Kernel(ctypes.Structure):
    _fields_ = [
        ("phases", ctypes.POINTER(_Phase)),
        ("phase_count", ctypes.c_int),
        ("scratch", ctypes.CFUNCTYPE(_I64, ctypes.c_void_p)),
    ]


class Compiled:
    """One function, compiled for the best variant of this machine."""

    def __init__(self, func: Func, tiles: Mapping[str, int] | None = None) -> None:
        self.func = run_pipeline(func)
        self.plan = plan(self.func, tiles)
        self.text = kernel_source("kernel", "test.py:1", [("kernel", self.plan)])
        self._args = self._struct()
        self._kernel = self._build()

    def _struct(self) -> type[ctypes.Structure]:
        fields: list[tuple[str, object]] = []
        for p in self.func.params:
            if isinstance(p.type, TensorType):
                fields.append((p.name, ctypes.c_void_p))
                fields.append((f"{p.name}_strides", _I64 * max(p.type.ndim, 1)))
            else:
                fields.append((p.name, _SCALARS[p.type.name]))
        fields += [("scratch", ctypes.c_void_p), ("fault", ctypes.c_void_p)]
        fields += [(d, _I64) for d in self.func.dims]
        return type("Args", (ctypes.Structure,), {"_fields_": fields})

    def _header(self) -> str:
        lines = ["#pragma once", "#include <kdsl/cpu/kernel.h>", "struct kernel_args {"]
        for p in self.func.params:
            if isinstance(p.type, TensorType):
                lines.append(f"void* {p.name}; kdsl::i64 {p.name}_strides[{max(p.type.ndim, 1)}];")
            else:
                names = {"f32": "float", "f64": "double", "i64": "kdsl::i64", "i32": "int"}
                lines.append(f"{names.get(p.type.name, 'bool')} {p.name};")
        lines.append("void* scratch; kdsl::Fault* fault;")
        lines += [f"kdsl::i64 {d};" for d in self.func.dims]
        lines.append(f'}};\nextern "C" __attribute__((visibility("default"))) '
                     f"const kdsl::Kernel {self.func.name}_{best_variant().name};\n")  # fmt: skip
        return "\n".join(lines)

    def _build(self) -> _Kernel:
        variant = best_variant()
        key = hashlib.sha256((self.text + self._header()).encode()).hexdigest()[:16]
        folder = _FOLDER / key
        library = folder / "kernel.so"
        if not library.exists():
            folder.mkdir(exist_ok=True)
            (folder / "kernel.h").write_text(self._header(), encoding="utf-8")
            (folder / "kernel.cc").write_text(self.text, encoding="utf-8")
            command = [
                *find_compiler().command, *COMMON_FLAGS, *KERNEL_FLAGS, *variant.flags, "-shared",
                "-Wall", "-Wextra", "-Wno-psabi", "-Wno-tautological-compare", "-Werror",
                f"-DKDSL_VARIANT={variant.name}", f"-I{paths.include_dir()}", f"-I{folder}",
                str(folder / "kernel.cc"), "-o", str(library),
            ]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{done.stderr[:4000]}\n{self.text}"
        loaded = ctypes.CDLL(str(library), mode=os.RTLD_LOCAL)
        return _Kernel.in_dll(loaded, f"{self.func.name}_{variant.name}")

    def __call__(self, **args: object) -> None:
        """Run on arrays (outputs are written) and numbers; whole tasks, one thread."""
        sizes = dict(self.func.fixed)
        values = self._args()
        for p in self.func.params:
            value = args[p.name]
            if not isinstance(p.type, TensorType):
                setattr(values, p.name, value)
                continue
            assert isinstance(value, np.ndarray)
            setattr(values, p.name, value.ctypes.data)
            for k, (extent, size) in enumerate(zip(p.type.shape, value.shape, strict=True)):
                getattr(values, f"{p.name}_strides")[k] = value.strides[k] // value.itemsize
                if isinstance(extent, Dim):
                    assert sizes.setdefault(extent.name, size) == size
                else:
                    assert evaluate(extent, sizes) == size
        for d in self.func.dims:
            setattr(values, d, sizes[d])
        pointer = ctypes.addressof(values)
        scratch = _poisoned(self._kernel.scratch(pointer))
        values.scratch = scratch.ctypes.data
        fault = np.zeros(4, np.int64)  # found, site; index; size
        values.fault = fault.ctypes.data
        for i in range(self._kernel.phase_count):
            phase = self._kernel.phases[i]
            tasks = phase.tasks(pointer)
            for task in range(tasks):  # a fresh arena each: nothing may survive a task
                size = phase.arena(pointer)
                arena = _poisoned(size)
                phase.run(pointer, arena.ctypes.data, task, task + 1)
                assert (arena[-(-size // 4) :] == POISON).all(), "written behind the arena"
            if fault[0]:
                raise IndexError(f"site {fault[0] >> 32}: index {fault[1]}, size {fault[2]}")


def _poisoned(size: int) -> np.ndarray:
    """Aligned memory full of NaNs (as f32, f64 and 16-bit floats), a page longer than asked."""
    raw = np.full(size // 4 + 1024 + 16, POISON, np.uint32)
    start = (-raw.ctypes.data % 64) // 4
    return raw[start:]
