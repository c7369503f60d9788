"""Compile a specialisation for sm_80 and run it in the simulator, without a module around it."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import kdsl.sim
from kdsl import paths
from kdsl.codegen.context import Compiled, KernelUnit
from kdsl.codegen.cuda import device_source
from kdsl.codegen.device import DeviceKernel
from kdsl.codegen.host import host_module
from kdsl.codegen.render import render
from kdsl.codegen.toolchain import find_toolchain
from kdsl.dtypes import DType, TensorType
from kdsl.frontend.signature import Parameter, Signature
from kdsl.ir.nodes import Func
from kdsl.lang.arrays import numpy_dtype
from kdsl.passes import run_pipeline


@dataclass
class Built:
    """A kernel's PTX, and what its host side would know."""

    func: Func
    kernel: DeviceKernel
    text: str
    ptx: str


def build(kernel: Any, folder: Path, *, dtypes: Mapping[str, DType] | None = None,
          statics: Mapping[str, object] | None = None, dims: Mapping[str, int] | None = None,
          schedules: Any = None, edit: Callable[[str], str] = str,
          tensor_cores: bool = True) -> Built:  # fmt: skip
    """The PTX of one specialisation; compiled once for each text. `edit` changes the text first."""
    compiler = kernel._compiler
    spec = compiler.default(dtypes or {}, statics or {}, dims or {})
    unit = compiler.unit([spec])
    return _built(unit, compiler.func(spec), folder, schedules, edit, tensor_cores)


def build_func(func: Func, folder: Path, *, schedules: Any = None,
               tensor_cores: bool = True) -> Built:  # fmt: skip
    """The PTX of a function of the IR that no kernel stands for."""
    func = run_pipeline(func)
    parameters = tuple(Parameter(p.name, p.kind, p.type) for p in func.params)
    signature = Signature(func.name, parameters, func.dims, ())
    unit = KernelUnit(signature, "", "test.py", 1, "", (Compiled(func),))
    return _built(unit, func, folder, schedules, str, tensor_cores)


def _built(unit: KernelUnit, func: Func, folder: Path, schedules: Any,
           edit: Callable[[str], str], tensor_cores: bool) -> Built:  # fmt: skip
    text, (device,) = device_source(unit.name, [unit], schedules, tensor_cores=tensor_cores)
    text = edit(text)
    header = render("host/args.h.j2", m=host_module(unit.name, [unit], ()))
    return Built(func, device, text, _ptx(unit.name, text, header, str(folder)))


@cache
def _ptx(name: str, text: str, header: str, folder: str) -> str:
    from kdsl.codegen.cuda.text import with_lines

    own = hashlib.sha256((text + header).encode()).hexdigest()[:16]
    place = Path(folder) / own
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}_args.h").write_text(header)
    source = place / f"{name}_cuda.cu"
    source.write_text(with_lines(text, source.name))
    out = place / "out.ptx"
    if out.exists():
        return out.read_text()
    command = [*find_toolchain().command(), "--arch", "sm_80", "-I", str(paths.include_dir())]
    command += ["-I", str(place), "--ptx", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done.stdout + done.stderr
    return out.read_text()


def run(built: Built, values: Mapping[str, Any], *, seed: int = 0, threads: int = 2):
    """Launch every phase. `values`: by parameter; arrays (NumPy), scalars; outputs by shape.

    Returns: (arrays by name, the runs of the phases, the fault's (found, site, index, size)).
    """
    func = built.func
    dims = _dims(func, values)
    memory: dict[str, tuple[kdsl.sim.Memory, tuple[int, ...]]] = {}
    fields: list[tuple[str, Any, Any]] = []
    for p in func.params:
        if not isinstance(p.type, TensorType):
            fields.append((p.name, _ctype(p.type), values[p.name]))
            continue
        shape = tuple(_extent(e, dims) for e in p.type.shape)
        dtype = numpy_dtype(p.type.dtype)
        array = _on_device(shape, dtype, values.get(p.name), p.name in built.kernel.rows16)
        memory[p.name] = (array, shape)
        strides = [1] * len(shape)
        for k in range(len(shape) - 2, -1, -1):
            strides[k] = strides[k + 1] * array.shape[k + 1]
        fields.append((p.name, ctypes.c_void_p, array.address))
        if shape:
            fields.append((f"{p.name}_strides", ctypes.c_int64 * len(shape), tuple(strides)))
    scope = _scope(dims)
    size = _evaluate(built.kernel.scratch, scope)
    scratch = kdsl.sim.empty(max(size, 1), np.uint8)
    fault = kdsl.sim.array(np.zeros(3, np.int64))
    fields.append(("scratch", ctypes.c_void_p, scratch.address))
    fields.append(("fault", ctypes.c_void_p, fault.address))
    fields += [(d, ctypes.c_int64, dims[d]) for d in func.dims]

    class Args(ctypes.Structure):
        _fields_ = [(name, kind) for name, kind, _ in fields]

    args = Args(*(kind(*v) if isinstance(v, tuple) else v for _, kind, v in fields))
    runs = []
    module = kdsl.sim.Module(built.ptx)
    for phase in built.kernel.phases:
        blocks = _evaluate(phase.blocks, scope)
        if blocks > 0:
            runs.append(module.run(
                phase.symbol, blocks, phase.threads, [bytes(args)], smem=phase.smem, seed=seed,
                threads=threads,
            ))  # fmt: skip
    out = {
        name: array.numpy().reshape(array.shape)[..., : shape[-1]] if shape else array.numpy()
        for name, (array, shape) in memory.items()
    }
    found = fault.numpy()
    head = found[:1].view(np.int32)
    return out, runs, (int(head[0]), int(head[1]), int(found[1]), int(found[2]))


def _on_device(shape, dtype, values, aligned: bool) -> kdsl.sim.Memory:
    padded = shape
    if aligned and shape:
        unit = max(1, 16 // np.dtype(dtype).itemsize)
        padded = (*shape[:-1], -(-shape[-1] // unit) * unit)
    if values is None:
        return kdsl.sim.empty(padded, dtype)
    whole = np.zeros(padded, dtype)
    whole[...] = np.array(7, np.float32).astype(dtype)  # nobody may see what is between rows
    if shape:
        whole[..., : shape[-1]] = values
    else:
        whole[...] = values
    return kdsl.sim.array(whole)


def _dims(func: Func, values: Mapping[str, Any]) -> dict[str, int]:
    from kdsl.dims import Dim

    dims = dict(func.fixed)
    for p in func.params:
        if isinstance(p.type, TensorType) and p.name in values:
            for extent, size in zip(p.type.shape, np.shape(values[p.name]), strict=True):
                if isinstance(extent, Dim):
                    dims.setdefault(extent.name, size)
    dims |= {d: int(values[d]) for d in func.dims if d in values}
    return dims


def _extent(extent: Any, dims: Mapping[str, int]) -> int:
    return eval(str(extent), {}, dict(dims))


def _ctype(dtype: DType) -> Any:
    if dtype.is_float:
        return ctypes.c_double if dtype.bits == 64 else ctypes.c_float
    if dtype.name == "bool":
        return ctypes.c_bool
    return getattr(ctypes, f"c_{'u' if dtype.kind == 'uint' else ''}int{dtype.bits}")


def _scope(dims: Mapping[str, int]) -> dict[str, Any]:
    class Fields:
        pass

    a = Fields()
    for name, value in dims.items():
        setattr(a, name, value)
        setattr(a, f"dim_{name}", value)

    def product(*sizes: int) -> int:
        total = 1
        for n in sizes:
            total *= n
        return -(-total // 64) * 64

    def grid(*sizes: int) -> int:
        return int(np.prod(sizes, dtype=object))

    return {
        "a": a, "grid": grid, "tensor_room": product, "at_most": min, "max": max, "min": min,
        "blocks": lambda n, size: -(-n // size), "whole": lambda n, by: -(-n // by) * by,
        "total_room": lambda *sizes: sum(sizes), "floordiv": lambda x, y: x // y,
        "narrow": lambda n: 1,
    }  # fmt: skip


def _evaluate(text: str, scope: Mapping[str, Any]) -> int:
    plain = re.sub(r"<\w+>", "", text.replace("kdsl::", ""))
    return int(eval(plain, {}, dict(scope)))
