"""The packed-function runtime: load a module, call its functions with anyone's arrays.

Example:
    >>> import kdsl.runtime
    >>> module = kdsl.runtime.load_module("attention.so")    # doctest: +SKIP
    >>> o, lse = module.attention(q, k, v, 0.125)             # doctest: +SKIP

NumPy, Torch and JAX arrays come back as the kind that went in. This package imports nothing but
the standard library; frameworks are recognised by the types of the arguments.
"""

from kdsl.runtime._core import Dispatcher, Function, Object, Tensor
from kdsl.runtime.module import Module, load_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kdsl.runtime.containers import Array, Dict, List, Map
    from kdsl.runtime.functions import (
        convert,
        get_global_func,
        list_global_func_names,
        register_error,
        register_global_func,
        remove_global_func,
    )
    from kdsl.runtime.linked import system_lib
    from kdsl.runtime.module_object import ModuleObject
    from kdsl.runtime.streams import current_stream, use_stream
    from kdsl.runtime.tensors import from_dlpack
    from kdsl.runtime.values import Device, DType, Shape

__all__ = [
    "Array",
    "DType",
    "Device",
    "Dict",
    "Dispatcher",
    "Function",
    "List",
    "Map",
    "Module",
    "ModuleObject",
    "Object",
    "Shape",
    "Tensor",
    "convert",
    "current_stream",
    "from_dlpack",
    "get_global_func",
    "list_global_func_names",
    "load_module",
    "register_error",
    "register_global_func",
    "remove_global_func",
    "system_lib",
    "use_stream",
]

#: The modules of names that a plain call does not need; they are imported at first use.
_HOMES = {
    "containers": "Array Dict List Map",
    "functions": "convert get_global_func list_global_func_names register_error "
    "register_global_func remove_global_func",
    "linked": "system_lib",
    "module_object": "ModuleObject",
    "streams": "current_stream use_stream",
    "tensors": "from_dlpack",
    "values": "DType Device Shape",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names.split():
            value: object = getattr(import_module(f"kdsl.runtime.{module}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module 'kdsl.runtime' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
