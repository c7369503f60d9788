"""What a reference run knows: the dtypes of this run, tile sizes, the iteration it is in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kdsl.dims import binding
from kdsl.dtypes import DType, DTypeVar

if TYPE_CHECKING:
    from kdsl.lang.run import Tensor

#: Length of a tile that nothing else sets.
DEFAULT_TILE = 64


@dataclass(slots=True)
class Run:
    """One reference run.

    Attributes:
        tile_size: the length of the tiles that a call of `tiles` makes, from the code position.
        iteration: number of the parallel iteration, from 1; 0 outside.
        phase: number of the parallel loop.
        statics: dims that a static parameter binds; compiled code knows them as numbers.
    """

    dims: Mapping[str, int]
    dtypes: Mapping[str, DType]
    tile_size: Callable[[], int] = lambda: DEFAULT_TILE
    iteration: int = 0
    phase: int = 0
    tensors: list[Tensor] = field(default_factory=list)
    statics: frozenset[str] = frozenset()


_RUN: ContextVar[Run | None] = ContextVar("kdsl_run", default=None)


def current() -> Run | None:
    """The run that this code is part of."""
    return _RUN.get()


@contextmanager
def running(run: Run) -> Iterator[Run]:
    """Within the block, kernel bodies run as part of `run`."""
    token = _RUN.set(run)
    try:
        with binding(run.dims):
            yield run
    finally:
        _RUN.reset(token)


def chosen_dtype(dtype: DType | DTypeVar) -> DType:
    """A dtype, or what a dtype variable stands for in this run. Raises TypeError."""
    if isinstance(dtype, DType):
        return dtype
    run = current()
    if isinstance(dtype, DTypeVar) and run is not None and dtype.name in run.dtypes:
        return run.dtypes[dtype.name]
    raise TypeError(f"a dtype is wanted here, got {dtype!r}")
