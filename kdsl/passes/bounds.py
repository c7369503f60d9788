"""Every access is inside its tensor: proven here, from the signature and the requirements."""

from __future__ import annotations

from collections.abc import Iterator

from kdsl.dims import Extent
from kdsl.errors import KernelTypeError
from kdsl.ir import nodes as ir
from kdsl.ir.walk import walk
from kdsl.passes.indices import Indices
from kdsl.passes.poly import Poly


def bounds(func: ir.Func) -> ir.Func:
    """The function itself, when each index of each load and store is proven inside its tensor.

    Raises:
        KernelTypeError: an index that is not; it says which, and what to require.
    """
    for access, dimension in unproven(func):
        _reject(func, access, dimension)
    return func


def unproven(func: ir.Func) -> Iterator[tuple[ir.Let | ir.Store, int]]:
    """Loads and stores with a dimension that they may leave, wherever in a phase they stood."""
    indices = Indices(func)
    for phase in func.phases:
        runs = tuple(indices.extent(e.extent) - 1 for e in phase.vars)
        for s in walk(phase.body):
            access = _access(s)
            if access is not None:
                tensor, index = access
                facts = (*indices.facts, *runs, *_elements(indices, index))
                for dimension, (i, size) in enumerate(
                    zip(index, func.tensor(tensor).shape, strict=True)
                ):
                    if not _inside(indices, i, size, facts):
                        assert isinstance(s, ir.Let | ir.Store)
                        yield s, dimension


def _access(s: ir.Stmt) -> tuple[str, tuple[ir.Index, ...]] | None:
    match s:
        case ir.Let(op=ir.Load(tensor=tensor, index=index)) | ir.Store(tensor=tensor, index=index):
            return tensor, index
    return None


def _elements(indices: Indices, index: tuple[ir.Index, ...]) -> Iterator[Poly]:
    """An access along an empty axis touches nothing, so its axes have an element each."""
    for i in index:
        if isinstance(i, ir.Along):
            yield indices.extent(indices.axes[i.axis].extent) - 1


def _inside(indices: Indices, index: ir.Index, size: Extent, facts: tuple[Poly, ...]) -> bool:
    match index:
        case ir.Along(axis=axis, offset=None, step=1) if indices.axes[axis].extent == size:
            return True
    place = indices.index(index)
    return indices.holds(place, facts) and indices.holds(indices.extent(size) - 1 - place, facts)


def _reject(func: ir.Func, access: ir.Let | ir.Store, dimension: int) -> None:
    found = _access(access)
    assert found is not None
    tensor, index = found
    size = func.tensor(tensor).shape[dimension]
    at = index[dimension]
    span = at.span if at.span.line else access.span
    raise KernelTypeError(
        f"an index of `{tensor}` may be outside its dimension {dimension}",
        span,
        label=f"cannot show that it stays in [0, {size})",
        help="kdsl.require(...) what makes it fit, or clamp it with minimum and maximum",
    )
