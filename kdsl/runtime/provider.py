"""Choose who holds the process-wide state: libtvm_ffi.so, or this runtime alone.

libtvm_ffi.so holds it when the process has it or a module needs it. `KDSL_RUNTIME=bundled` never
looks for it, `KDSL_RUNTIME=tvm_ffi` insists on it.
"""

from __future__ import annotations

import os
import sys

from kdsl.runtime import _core
from kdsl.runtime.elf import Symbols

_OFFICIAL = "libtvm_ffi.so"


def prepare(file: str, symbols: Symbols) -> None:
    """Make sure that the library `file` will find what it needs, before it is loaded.

    Raises:
        OSError: it needs libtvm_ffi.so and there is none.
    """
    choice = os.environ.get("KDSL_RUNTIME", "")
    if choice not in ("", "bundled", "tvm_ffi"):
        raise OSError(f"KDSL_RUNTIME: expected 'bundled' or 'tvm_ffi', got {choice!r}")
    needs = _OFFICIAL in symbols.needed or any(s.startswith("TVMFFI") for s in symbols.undefined)
    if choice == "bundled" and not needs:
        return
    if choice == "bundled":
        raise OSError(f"{file}: needs {_OFFICIAL}, which KDSL_RUNTIME=bundled rules out")
    # Loading it costs 5 ms and installs signal handlers: not before something needs it.
    wanted = (needs or choice == "tvm_ffi") and _core.provider() == "bundled"
    in_use = _core.use_provider(_installed() if wanted else None)
    if in_use == "bundled" and choice == "tvm_ffi":
        raise OSError(f"KDSL_RUNTIME=tvm_ffi: {_OFFICIAL} was not found; install apache-tvm-ffi")
    if in_use == "bundled" and needs:
        raise OSError(f"{file}: needs {_OFFICIAL}; install apache-tvm-ffi to load this module")


def _installed() -> str | None:
    """The path of libtvm_ffi.so in an installed apache-tvm-ffi, without importing that."""
    for folder in sys.path:
        path = os.path.join(folder, "tvm_ffi", "lib", _OFFICIAL)
        if os.path.isfile(path):
            return path
    return None
