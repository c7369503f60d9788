"""Load a module and look up its functions."""

from __future__ import annotations

import os

from kdsl.runtime import devices, elf, provider
from kdsl.runtime._core import Function, Library

TYPE_CHECKING = False  # importing it from typing would be half of what importing the runtime costs
if TYPE_CHECKING:
    from collections.abc import Iterator

_PREFIX = "__tvm_ffi_"
#: Where TVM's compilers put modules of other kinds, to be read by loaders of theirs.
_EMBEDDED = "__tvm_ffi__library_bin"

# How often a path was loaded as a different file: {path: [(device, inode), ...]}.
_loaded: dict[str, list[tuple[int, int]]] = {}


class Module:
    """The packed functions of one shared library.

    A function is an attribute (`module.attention`) or an item (`module["attention"]`); iteration
    and `dir()` give the names. The library stays loaded until the process ends.
    """

    def __init__(self, library: Library, path: str, names: tuple[str, ...]) -> None:
        self._library = library
        self._names = names
        self._functions: dict[str, Function] = {}
        self.path = path

    def __getitem__(self, name: str) -> Function:
        """The function of that name.

        Raises:
            KeyError: the module has none.
        """
        function = self._find(name)
        if function is None:
            raise KeyError(self._missing(name))
        return function

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        function = self._find(name)
        if function is None:
            raise AttributeError(self._missing(name))
        self.__dict__[name] = function  # the next look-up never comes here
        return function

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._names]

    def __repr__(self) -> str:
        return f"<kdsl module {self.path!r}: {', '.join(self._names) or 'no functions'}>"

    def __reduce__(self) -> tuple[object, ...]:
        return load_module, (self.path,)

    def _find(self, name: str) -> Function | None:
        function = self._functions.get(name) or self._library.function(name)
        if function is not None:
            self._functions[name] = function
        return function

    def _missing(self, name: str) -> str:
        from difflib import get_close_matches  # slow to import, and only for this text

        close = get_close_matches(name, self._names, n=1)
        hint = f"did you mean `{close[0]}`?" if close else f"it has: {', '.join(self._names)}"
        return f"{self.path}: no function `{name}`; {hint}"


def load_module(path: str | os.PathLike[str]) -> Module:
    """Load the packed functions of the shared library at `path`.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: it is not a shared library for this machine, it needs one that is missing, or it
            embeds modules of other kinds.
    """
    file = os.path.abspath(os.fspath(path))
    status = os.stat(file)
    symbols = elf.read(file)
    exported = tuple(
        name.removeprefix(_PREFIX)
        for name in symbols.defined
        if name.startswith(_PREFIX) and not name.startswith(_PREFIX + "_")
    )
    if _EMBEDDED in symbols.defined:
        raise OSError(
            f"{file}: embeds other modules ({_EMBEDDED}), which kdsl does not read; "
            "load it with apache-tvm-ffi"
        )
    provider.prepare(file, symbols)
    library = Library(_fresh_spelling(file, (status.st_dev, status.st_ino)))
    if devices.SYMBOL in symbols.defined:
        devices.note(library)
    listed = library.text("__kdsl_functions") if "__kdsl_functions" in symbols.defined else None
    return Module(library, file, tuple(listed.split()) if listed is not None else exported)


def load_function(path: str, name: str) -> Function:
    """Used by pickle: the function `name` of the module at `path`."""
    return load_module(path)[name]


def _fresh_spelling(file: str, identity: tuple[int, int]) -> str:
    """A spelling of the path that the dynamic linker has not yet seen with another file.

    The linker takes a known path for the known library, also when a new file lies there by now.
    """
    seen = _loaded.setdefault(file, [])
    if identity not in seen:
        seen.append(identity)
    folder, name = os.path.split(file)
    return os.path.join(folder, "./" * seen.index(identity) + name)
