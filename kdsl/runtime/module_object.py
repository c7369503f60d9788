"""Modules as values: what native code makes, passes round and returns as `ffi.Module`.

A module object is a C++ class, whose methods are its library's: they are called by the global
functions of whoever provides the process's state.
"""

from __future__ import annotations

from typing import Any

from kdsl.runtime import _core
from kdsl.runtime._core import Function

#: A shared library, whose code goes when the last reference to the object does.
_LIBRARY = "library"


class ModuleObject(_core.ModuleHandle):
    """A module that native code has made: functions by name, its own and those of its imports.

    A function is an attribute (`module.add`) or an item (`module["add"]`), and keeps its module
    alive. There is no list of the names. Equal are those that are the same object.

    Everything raises RuntimeError where nothing in the process has functions for modules.
    """

    @property
    def kind(self) -> str:
        """What made it: "library" for a shared library."""
        kind: str = self._ask("ModuleGetKind")
        return kind

    @property
    def imports(self) -> tuple[ModuleObject, ...]:
        """The modules that this one may take functions from."""
        self._ask("ModuleGetKind")
        return self._imports()

    def import_module(self, module: ModuleObject) -> None:
        """Let this module take functions from another.

        Raises:
            TypeError: it is no module.
            RuntimeError: the other one imports this one.
        """
        if not isinstance(module, ModuleObject):
            raise TypeError(f"import_module: expected a module object, got {module!r}")
        self._ask("ModuleImportModule", module)

    def clear_imports(self) -> None:
        """Take functions from no other module any more."""
        self._ask("ModuleClearImports")

    def implements_function(self, name: str, query_imports: bool = False) -> bool:
        """Whether it has a function of that name; with `query_imports` its imports count too.

        Such a function may still be one that only a compiler can call.
        """
        return bool(self._ask("ModuleImplementsFunction", _name(name), query_imports))

    def get_function(self, name: str, query_imports: bool = False) -> Function:
        """The function of that name; with `query_imports` that of an import, too.

        Raises:
            KeyError: there is none that can be called.
        """
        function: Function | None = self._ask("ModuleGetFunction", _name(name), query_imports)
        if function is None:
            raise KeyError(f"no function `{name}` in this module of kind {self.kind!r}")
        self._keep_code(query_imports)
        if not isinstance(function, Function) or function.library is not None:
            return function  # one that has a home already
        return self._function(function, name)

    def get_function_metadata(self, name: str, query_imports: bool = False) -> str | None:
        """The JSON text that it has of a function; None: there is none."""
        text: str | None = self._ask("ModuleGetFunctionMetadata", _name(name), query_imports)
        return text

    def get_function_doc(self, name: str, query_imports: bool = False) -> str | None:
        """What it says of a function; None: nothing."""
        text: str | None = self._ask("ModuleGetFunctionDoc", _name(name), query_imports)
        return text or None

    def __getitem__(self, name: str) -> Function:
        return self.get_function(name)

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        try:
            return self.get_function(name)
        except KeyError as err:
            raise AttributeError(err.args[0]) from None

    # What has items by number would be iterable; this has them by name.
    __iter__ = None

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self.implements_function(name)

    def __repr__(self) -> str:
        try:
            kind = self.kind
        except RuntimeError:
            kind = "unknown"
        return f"<kdsl.runtime.ModuleObject of kind {kind!r}>"

    def _keep_code(self, imports: bool) -> None:
        """What a library's function returns may outlive the function: keep what frees it."""
        if self.kind == _LIBRARY:
            self._keep()
        for module in self.imports if imports else ():
            module._keep_code(imports)

    def _ask(self, function: str, *args: object) -> Any:
        ask = _core.get_global(f"ffi.{function}")
        if ask is None:
            raise RuntimeError(
                f"ffi.{function}: nothing in this process knows module objects; install "
                "apache-tvm-ffi, or load what makes them with its libtvm_ffi.so"
            )
        return ask(self, *args)


def _name(name: object) -> str:
    """Raises TypeError for what is no text."""
    if not isinstance(name, str):
        raise TypeError(f"expected a function's name, got {name!r}")
    return name
