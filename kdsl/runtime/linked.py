"""Functions of modules that are linked into the process, or into a library it has loaded.

Such a module registers its symbols as it is initialised, by TVMFFIEnvModRegisterSystemLibSymbol;
there is no file to load.
"""

from __future__ import annotations

from typing import Any

from kdsl.runtime import _core, provider
from kdsl.runtime._core import Function

_LIBRARY, _FUNCTION = "ffi.SystemLib", "ffi.ModuleGetFunction"


class LinkedModule:
    """Functions by attribute or item, of the symbols with one prefix."""

    def __init__(self, module: Any, prefix: str) -> None:
        self._module, self._prefix = module, prefix
        self._get: Any = _core.get_global(_FUNCTION)

    def __getitem__(self, name: str) -> Function:
        """The function of that name.

        Raises:
            KeyError: no linked module has registered it.
        """
        function: Function | None = self._get(self._module, name, False)
        if function is None:
            raise KeyError(f"no function `{self._prefix}{name}` is linked in")
        return function

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            return self[name]
        except KeyError as err:
            raise AttributeError(err.args[0]) from None

    def __repr__(self) -> str:
        return f"<kdsl module of linked symbols {self._prefix!r}>"


def system_lib(prefix: str = "") -> LinkedModule:
    """The functions that linked modules have registered, those whose names begin with `prefix`.

    Raises:
        RuntimeError: nothing that could register any is in the process.

    Example:
        >>> import kdsl.runtime
        >>> kdsl.runtime.system_lib("model_").add(1, 2)    # doctest: +SKIP
    """
    if not isinstance(prefix, str):
        raise TypeError(f"system_lib: expected a prefix, got {prefix!r}")
    provider.share()
    library: Any = _core.get_global(_LIBRARY)
    if library is None:
        raise RuntimeError("system_lib: no linked module has been loaded in this process")
    return LinkedModule(library(prefix) if prefix else library(), prefix)
