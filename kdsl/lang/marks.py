"""What annotations say besides a dtype and a shape: `Out[...]`, `InOut[...]`, `Static[...]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kdsl.dtypes import DType, DTypeVar, TensorType


@dataclass(frozen=True, slots=True)
class Marked:
    """An annotation as `Out[f32[N]]` leaves it. `type` is unchecked: the signature checks it."""

    kind: Literal["out", "inout", "static"]
    type: object

    def __str__(self) -> str:
        name = {"out": "Out", "inout": "InOut", "static": "Static"}[self.kind]
        of = self.type.__name__ if isinstance(self.type, type) else str(self.type)
        return f"{name}[{of}]"


class Mark:
    """A name that takes a type in brackets."""

    def __init__(self, kind: Literal["out", "inout", "static"], doc: str) -> None:
        self._kind: Literal["out", "inout", "static"] = kind
        self.__doc__ = doc

    def __str__(self) -> str:
        return {"out": "Out", "inout": "InOut", "static": "Static"}[self._kind]

    __repr__ = __str__

    def __getitem__(self, item: TensorType | type | DType | DTypeVar) -> Marked:
        return Marked(self._kind, item)


Out = Mark("out", "A tensor the kernel only fills: `o: Out[f32[N]]`. A caller may omit it.")
InOut = Mark("inout", "A tensor the kernel reads and changes: `x: InOut[f32[N]]`.")
Static = Mark("static", "A value known when the kernel is compiled: `causal: Static[bool]`.")
