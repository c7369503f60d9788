"""Build what calls are measured against: small native modules, once per version of anything."""

from __future__ import annotations

import ctypes
import hashlib
import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCES = Path(__file__).parent / "native"
BUILT = ROOT / "build" / "benchmarks"


class BuildError(Exception):
    """A contestant does not compile on this machine."""


#: A contestant's functions by row: (function, arguments).
Calls = dict[str, tuple[Callable[..., object], tuple[object, ...]]]


def build(name: str, sources: Sequence[Path], flags: Sequence[str], copy: str = "") -> Path:
    """The shared library `name` of the sources; `copy` tells several of one name apart."""
    compiler = "g++" if any(source.suffix != ".c" for source in sources) else "gcc"
    command = [shutil.which(compiler) or compiler, "-O2", "-shared", "-fPIC", *flags]
    text = repr((command, sys.version, copy)).encode()
    text += b"".join(source.read_bytes() for source in sources)
    folder = BUILT / hashlib.sha256(text).hexdigest()[:16]
    out = folder / f"{name}.so"
    if not out.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{name}.partial"
        print(f"building {name}", file=sys.stderr, flush=True)
        full = [*command, *map(str, sources), "-o", str(partial)]
        done = subprocess.run(full, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(done.stderr.strip().splitlines()[0] if done.stderr else "no compiler")
        partial.rename(out)
    return out


def module(copy: str) -> Path:
    """The TVM FFI module of `native/module.c`, a file of its own for each `copy`."""
    flags = ["-std=c11", f"-I{ROOT / 'include'}", "-fvisibility=hidden"]
    return build("module", [SOURCES / "module.c"], flags, copy)


def official() -> Path:
    """A module made with apache-tvm-ffi's headers."""
    from tvm_ffi import libinfo

    include = [libinfo.find_include_path(), libinfo.find_dlpack_include_path()]
    library = Path(libinfo.find_libtvm_ffi()).parent
    flags = ["-std=c++17", *(f"-I{path}" for path in include), f"-L{library}", "-ltvm_ffi"]
    return build("official", [SOURCES / "official.cc"], flags)


def native() -> Path:
    """The same text with kdsl's headers."""
    flags = ["-std=c++17", f"-I{ROOT / 'include'}"]
    return build("native", [SOURCES / "official.cc"], flags)


def _extension(name: str, sources: Sequence[Path], flags: Sequence[str]) -> ModuleType:
    include = f"-I{sysconfig.get_path('include')}"
    path = build(name, sources, [*flags, include])
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def fastcall(arrays: dict[str, Any], callback: Callable[[], None], n: int) -> Calls:
    peer = _extension("peer_fastcall", [SOURCES / "fastcall.c"], ["-std=c11"])
    x, j = arrays["numpy"], arrays["jax"]
    return {
        "nop": (peer.nop, ()),
        "3 ints": (peer.ints, (1, 2, 3)),
        "str": (peer.text, ("some text",)),
        "3 numpy": (peer.buffers, (x, x, x)),
        "3 jax": (peer.buffers, (j, j, j)),
        "callback": (peer.repeat, (1, callback)),
        f"callback, each of {n}": (peer.repeat, (n, callback)),
        "exception": (peer.fail, ()),
    }


def pybind11(arrays: dict[str, Any], callback: Callable[[], None], n: int) -> Calls:
    import pybind11 as package

    flags = ["-std=c++17", "-fvisibility=hidden", f"-I{package.get_include()}"]
    peer = _extension("peer_pybind", [SOURCES / "pybind.cc"], flags)
    x = arrays["numpy"]
    return {
        "nop": (peer.nop, ()),
        "3 ints": (peer.ints, (1, 2, 3)),
        "str": (peer.text, ("some text",)),
        "3 numpy": (peer.arrays, (x, x, x)),
        "callback": (peer.repeat, (1, callback)),
        f"callback, each of {n}": (peer.repeat, (n, callback)),
        "exception": (peer.fail, ()),
    }


def nanobind(arrays: dict[str, Any], callback: Callable[[], None], n: int) -> Calls:
    import nanobind as package

    home = Path(package.__file__).parent
    include = [home / "include", home / "ext" / "robin_map" / "include"]
    flags = ["-std=c++17", "-fvisibility=hidden", "-DNDEBUG", "-DNB_COMPACT_ASSERTIONS"]
    flags += [f"-I{path}" for path in include] + ["-fno-strict-aliasing"]
    sources = [SOURCES / "nano.cc", home / "src" / "nb_combined.cpp"]
    peer = _extension("peer_nano", sources, flags)
    t, x, j = arrays["torch"], arrays["numpy"], arrays["jax"]
    return {
        "nop": (peer.nop, ()),
        "3 ints": (peer.ints, (1, 2, 3)),
        "str": (peer.text, ("some text",)),
        "3 torch": (peer.arrays, (t, t, t)),
        "3 numpy": (peer.arrays, (x, x, x)),
        "3 jax": (peer.arrays, (j, j, j)),
        "callback": (peer.repeat, (1, callback)),
        f"callback, each of {n}": (peer.repeat, (n, callback)),
        "exception": (peer.fail, ()),
    }


def by_ctypes(arrays: dict[str, Any], callback: Callable[[], None], n: int) -> Calls:
    peer = ctypes.CDLL(str(module("ctypes")))
    i64, pointer = ctypes.c_int64, ctypes.c_void_p
    peer.c_ints.argtypes = [i64, i64, i64]
    peer.c_text.argtypes = [ctypes.c_char_p]
    peer.c_tensors.argtypes = [pointer, pointer, pointer]
    function = ctypes.CFUNCTYPE(None)
    peer.c_repeat.argtypes = [i64, function]

    def of_torch(a: Any, b: Any, c: Any) -> None:
        peer.c_tensors(a.data_ptr(), b.data_ptr(), c.data_ptr())

    def of_numpy(a: Any, b: Any, c: Any) -> None:
        peer.c_tensors(a.ctypes.data, b.ctypes.data, c.ctypes.data)

    t, x = arrays["torch"], arrays["numpy"]
    return {
        "nop": (peer.c_nop, ()),
        "3 ints": (peer.c_ints, (1, 2, 3)),
        "str": (peer.c_text, (b"some text",)),
        "3 torch": (of_torch, (t, t, t)),
        "3 numpy": (of_numpy, (x, x, x)),
        "callback": (lambda: peer.c_repeat(1, function(callback)), ()),
        f"callback, each of {n}": (peer.c_repeat, (n, function(callback))),
    }


def torch_ops(arrays: dict[str, Any], callback: Callable[[], None], n: int) -> Calls:
    import torch
    from torch.utils import cpp_extension

    flags = ["-std=c++20", *(f"-I{path}" for path in cpp_extension.include_paths())]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    flags += [f"-L{path}" for path in cpp_extension.library_paths()] + ["-Wl,--no-as-needed"]
    flags += ["-ltorch_cpu", "-lc10"]
    torch.ops.load_library(build("torch_ops", [SOURCES / "torch_ops.cc"], flags))
    ops = torch.ops.kdsl_peer
    t = arrays["torch"]
    return {
        "nop": (ops.nop, ()),
        "3 ints": (ops.ints, (1, 2, 3)),
        "str": (ops.text, ("some text",)),
        "3 torch": (ops.tensors, (t, t, t)),
        "returned torch tensor": (ops.like, (t,)),
        "exception": (ops.fail, ()),
    }


PEERS: dict[str, Callable[[dict[str, Any], Callable[[], None], int], Calls]] = {
    "pybind11": pybind11,
    "nanobind": nanobind,
    "ctypes": by_ctypes,
    "torch.ops": torch_ops,
    "METH_FASTCALL": fastcall,
}
