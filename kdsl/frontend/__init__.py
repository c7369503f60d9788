"""Source capture, signatures, and Python functions to the typed IR."""

from kdsl.frontend.lower import lower
from kdsl.frontend.signature import MISSING, Parameter, Signature
from kdsl.frontend.source import KernelSource, capture

__all__ = ["MISSING", "KernelSource", "Parameter", "Signature", "capture", "lower"]
