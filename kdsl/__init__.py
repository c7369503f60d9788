"""kdsl: a kernel language inside Python.

    import kdsl
    from kdsl import Out, f32

    N = kdsl.dims("N")[0]

    @kdsl.kernel
    def add(x: f32[N], y: f32[N], o: Out[f32[N]]):
        for n in kdsl.parallel(kdsl.tiles(N)):
            o[n] = x[n] + y[n]

Names load what they need on first use: `import kdsl` alone imports no third-party package.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from kdsl.version import VERSION

# Type checkers know the name; importing `typing` for it would be most of the cost of this file.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from kdsl.dims import dims as dims
    from kdsl.dtypes import bf16 as bf16
    from kdsl.dtypes import boolean as boolean
    from kdsl.dtypes import dtypes as dtypes
    from kdsl.dtypes import f8e4m3 as f8e4m3
    from kdsl.dtypes import f8e5m2 as f8e5m2
    from kdsl.dtypes import f16 as f16
    from kdsl.dtypes import f32 as f32
    from kdsl.dtypes import f64 as f64
    from kdsl.dtypes import i8 as i8
    from kdsl.dtypes import i16 as i16
    from kdsl.dtypes import i32 as i32
    from kdsl.dtypes import i64 as i64
    from kdsl.dtypes import u8 as u8
    from kdsl.dtypes import u16 as u16
    from kdsl.dtypes import u32 as u32
    from kdsl.dtypes import u64 as u64
    from kdsl.errors import BuildError as BuildError
    from kdsl.errors import InternalError as InternalError
    from kdsl.errors import KernelError as KernelError
    from kdsl.errors import KernelSyntaxError as KernelSyntaxError
    from kdsl.errors import KernelTypeError as KernelTypeError
    from kdsl.export import export as export
    from kdsl.kernel import Kernel as Kernel
    from kdsl.kernel import kernel as kernel
    from kdsl.lang import *  # noqa: F403
    from kdsl.lang.races import Race as Race
    from kdsl.native import build as build
    from kdsl.native import load as load
    from kdsl.native import load_inline as load_inline
    from kdsl.runtime import Function as Function
    from kdsl.runtime import Module as Module
    from kdsl.runtime import load_module as load_module
    from kdsl.runtime.devices import synchronize as synchronize

__version__ = VERSION

#: The module that holds each public name but those of the language, which `kdsl.lang` lists.
_HOMES = {
    "kdsl.dims": "dims",
    "kdsl.dtypes": ("bf16 boolean dtypes f16 f32 f64 f8e4m3 f8e5m2 i16 i32 i64 i8 u16 u32 u64 u8"),
    "kdsl.errors": "BuildError InternalError KernelError KernelSyntaxError KernelTypeError",
    "kdsl.lang.races": "Race",
    "kdsl.export": "export",
    "kdsl.kernel": "Kernel kernel",
    "kdsl.native": "build load load_inline",
    "kdsl.runtime": "Function Module load_module",
    "kdsl.runtime.devices": "synchronize",
}
_HOME = {name: module for module, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> object:
    if name == "__all__":
        # `from kdsl import *` must leave Python's `sum`, `max` and the like as they are.
        builtins = dir(import_module("builtins"))
        return sorted({*_HOME, *import_module("kdsl.lang").__all__}.difference(builtins))
    home = _HOME.get(name)
    if home is None:
        if name.startswith("_") or name not in import_module("kdsl.lang").__all__:
            raise AttributeError(f"module 'kdsl' has no attribute {name!r}")
        home = "kdsl.lang"
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME, *import_module("kdsl.lang").__all__})


class _Package(ModuleType):
    """A module whose public names win over submodules of that name (`kdsl.dims`, `kdsl.kernel`).

    Importing `kdsl.dims` binds the submodule to `kdsl.dims` behind everyone's back; this undoes it.
    """

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
