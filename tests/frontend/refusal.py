"""Kernels given as text, and the whole message with which they are refused."""

from __future__ import annotations

import math

import numpy
import pytest

from kdsl import lang
from kdsl.errors import KernelError
from kdsl.frontend import capture, lower

NAMES = {
    name: getattr(lang, name)
    for name in lang.__all__
    if name not in ("max", "min", "sum", "any", "all", "abs", "round")
}
NAMES |= {d.name: d for d in lang.dims("B H G M N D K")}
NAMES |= {"kdsl": lang, "T": lang.dtypes("T", lang.f32, lang.bf16), "math": math, "np": numpy}

#: Where source given as text says it stands.
PLACE = "<source of k>"


def body(*lines, signature="x: f32[N], o: Out[f32[N]]", loop="for i in kdsl.parallel(N):"):
    """A kernel `k` around these lines."""
    inner = "".join(f"        {line}\n" for line in lines)
    return f"def k({signature}):\n    {loop}\n{inner}"


def define(text, names=None):
    """The function `k` that a text defines."""
    namespace = NAMES | (names or {})
    exec(compile(text, "<text>", "exec"), namespace)
    return namespace["k"]


def refusal(text, names=None, dtypes=None, statics=None):
    """Class and whole text of the error with which a kernel is refused."""
    k = define(text, names)
    with pytest.raises(KernelError) as caught:
        lower(capture(k, source=text), dtypes or {"T": lang.bf16}, statics or {})
    return f"{type(caught.value).__name__}: {caught.value}"
