"""Choose who holds the process-wide state: libtvm_ffi.so, or this runtime alone.

An official libtvm_ffi.so holds it when the process has one, or when a module needs it and
apache-tvm-ffi is installed. Else our own tables do, and our own library of that name where a module
calls it. `KDSL_RUNTIME=bundled` never looks for the official one, `KDSL_RUNTIME=tvm_ffi` insists on
it.
"""

from __future__ import annotations

import os
import sys
from _thread import RLock

from kdsl.runtime import _core, elf

_OFFICIAL = "libtvm_ffi.so"
_OWN = os.path.join(os.path.dirname(__file__), "compat", _OFFICIAL)
_CPP = ("_ZN3tvm3ffi", "_ZNK3tvm3ffi", "_ZTVN3tvm3ffi", "_ZTIN3tvm3ffi")

#: Held while the provider is chosen: another choice by another thread would be a second one.
_choosing = RLock()


def prepare(file: str, symbols: elf.Symbols) -> None:
    """Make sure that the library `file` will find what it needs, before it is loaded.

    Raises:
        OSError: it needs apache-tvm-ffi, and that is not installed.
    """
    with _choosing:
        _prepare(file, symbols)


def _prepare(file: str, symbols: elf.Symbols) -> None:
    choice = _choice()
    asked = [name for name in symbols.undefined if name.startswith("TVMFFI")]
    needs = bool(asked) or _OFFICIAL in symbols.needed
    # What others have loaded meanwhile is noticed at each module, whether or not this one needs it.
    in_use = _core.provider() if choice == "bundled" else _core.use_provider(None)
    # Loading it costs 5 ms and installs signal handlers: not before something needs it.
    if in_use == "tvm_ffi" or not (needs or choice == "tvm_ffi"):
        return
    if choice != "bundled" and (official := _installed()):
        _core.use_provider(official)
        return
    if choice == "tvm_ffi":
        raise OSError(f"KDSL_RUNTIME=tvm_ffi: {_OFFICIAL} was not found; install apache-tvm-ffi")
    _check_that_ours_does(file, asked, symbols)
    _core.use_provider(_OWN, True)
    if choice != "bundled" and _Watch not in sys.meta_path:
        sys.meta_path.insert(0, _Watch)


def share() -> None:
    """Use the library that others in the process use or will use, before anything is shared."""
    if _choice() != "bundled":
        with _choosing:
            _core.use_provider(_installed() if _core.provider() == "bundled" else None)


class _Watch:
    """Finder that finds nothing: it makes an official library the provider as it is imported.

    It can be imported only now, and our own library is in use: all that this one knows must be told
    before the official one sees an object from here.
    """

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name == "tvm_ffi" and (official := _installed()):
            with _choosing:
                if _Watch in sys.meta_path:
                    sys.meta_path.remove(_Watch)
                _core.use_provider(official)


def _choice() -> str:
    choice = os.environ.get("KDSL_RUNTIME", "")
    if choice not in ("", "bundled", "tvm_ffi"):
        raise OSError(f"KDSL_RUNTIME: expected 'bundled' or 'tvm_ffi', got {choice!r}")
    return choice


def _check_that_ours_does(file: str, asked: list[str], symbols: elf.Symbols) -> None:
    """Raise OSError where the module calls what only the official library has."""
    if not os.path.isfile(_OWN):
        raise OSError(
            f"{file}: needs {_OFFICIAL}, and kdsl was installed without its own; "
            "install apache-tvm-ffi, or kdsl anew with a C compiler"
        )
    has = set(elf.read(_OWN).defined)
    missing = [name for name in asked if name not in has]
    missing += [name for name in symbols.undefined if name.startswith(_CPP)]
    if missing:
        raise OSError(
            f"{file}: needs {missing[0]}, which only apache-tvm-ffi has; install it to load this "
            "module"
        )


def _installed() -> str | None:
    """The path of libtvm_ffi.so in an installed apache-tvm-ffi, without importing that."""
    for folder in sys.path:
        path = os.path.join(folder, "tvm_ffi", "lib", _OFFICIAL)
        if os.path.isfile(path):
            return path
    return None
