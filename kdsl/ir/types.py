"""Axes and the types of values: a value is a function of a set of named axes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kdsl.dims import Extent
from kdsl.dtypes import DType


@dataclass(frozen=True, slots=True)
class Axis:
    """An index range with an identity, its name.

    A `whole` axis runs over [0, extent). A `tile` axis is the slice [start, stop) of it that a
    tile loop is at; the loop binds it. `size` is a tile's capacity: None until a schedule sets it.
    """

    name: str
    kind: Literal["tile", "whole"]
    extent: Extent
    size: int | None = None

    def __post_init__(self) -> None:
        if self.kind == "whole" and self.size is not None:
            raise ValueError(f"axis {self.name}: a whole axis has no tile size, got {self.size}")
        if self.size is not None and self.size < 1:
            raise ValueError(f"axis {self.name}: a tile size is at least 1, got {self.size}")


@dataclass(frozen=True, slots=True)
class Type:
    """Element type and axes, by name, in the order of `Func.axes`; no axes: a scalar."""

    dtype: DType
    axes: tuple[str, ...] = ()

    @property
    def is_scalar(self) -> bool:
        return not self.axes

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(self.axes)}]" if self.axes else self.dtype.name
