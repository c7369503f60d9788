"""The exact text of literals, and the numbers they are."""

from __future__ import annotations

from kdsl.dtypes import DType

Number = bool | int | float


def literal(text: str, dtype: DType, error: type[Exception] = ValueError) -> Number:
    """The number that a `Const` of this text and dtype is, not yet rounded to the dtype.

    Raises:
        error: the text is no literal of the dtype, or an integer is out of its range.
    """
    try:
        if dtype.kind == "bool":
            return {"True": True, "False": False}[text]
        if dtype.is_float:
            return float.fromhex(text) if "0x" in text.lower() else float(text)
        value = int(text, 0)
    except (KeyError, ValueError):
        raise error(f"`{text}` is no {dtype}") from None
    low = -(1 << (dtype.bits - 1)) if dtype.kind == "int" else 0
    if not low <= value < low + (1 << dtype.bits):
        raise error(f"`{text}` does not fit {dtype}")
    return value


def text_of(value: Number) -> str:
    """Text of a number from which `literal` reads the same number."""
    return str(value) if isinstance(value, bool | int) else repr(float(value))
