"""Our objects as objects of apache-tvm-ffi's Python package, where a program uses both."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_giver: Any = None


def object_at(give: int, address: int) -> Any:
    """The object at `address` as that package shows it.

    Args:
        give: the address of a packed function that makes an object of an address.

    Raises:
        TypeError: the package was not imported.
    """
    global _giver
    if _giver is None:
        tvm_ffi: Any = sys.modules.get("tvm_ffi")
        if tvm_ffi is None:
            raise TypeError("__tvm_ffi_object__: tvm_ffi was not imported")
        _giver = tvm_ffi.Function.__from_extern_c__(give)
    return _giver(address)
