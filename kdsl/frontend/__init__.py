"""Source capture, signatures, and Python functions to the typed IR."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kdsl.dtypes import DType
from kdsl.frontend.binding import bind
from kdsl.frontend.signature import MISSING, Parameter, Signature
from kdsl.frontend.source import KernelSource, capture

if TYPE_CHECKING:
    from kdsl.ir.nodes import Func


def lower(source: KernelSource, dtypes: Mapping[str, DType], statics: Mapping[str, object]) -> Func:
    """One specialisation of a kernel as typed IR; see `kdsl.frontend.lowering`.

    Raises:
        KernelSyntaxError, KernelTypeError: what the kernel's text gets wrong, with the place.
    """
    # A start that finds its module in the disk cache needs neither this import nor the IR's.
    from kdsl.frontend.lowering import lower as run

    return run(source, dtypes, statics)


__all__ = ["MISSING", "KernelSource", "Parameter", "Signature", "bind", "capture", "lower"]
