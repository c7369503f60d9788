"""Work that modules have queued on GPUs: wait for it, and raise what kernels have found."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kdsl.runtime._core import Function, Library

#: The packed function by which a module waits.
NAME = "__kdsl_synchronize"
SYMBOL = f"__tvm_ffi_{NAME}"

# Libraries are never unloaded, and neither are their functions.
_waits: list[Function] = []


def note(library: Library) -> None:
    """Remember a module that has CUDA code."""
    function = library.function(NAME)
    if function is not None:
        _waits.append(function)


def synchronize() -> None:
    """Wait until every kernel that compiled functions have queued on a GPU has ended.

    A kernel on a GPU runs after its call has returned. What it finds is raised here, or by the next
    call of the same module:

        embedding(table, ids)      # returns at once
        kdsl.synchronize()         # raises IndexError if an id was out of range

    Raises:
        IndexError: a kernel has met an index that is out of range.
        RuntimeError: the driver reports that a kernel has failed.
    """
    first: Exception | None = None
    for wait in tuple(_waits):
        try:
            wait()
        except (IndexError, RuntimeError) as err:
            first = first or err
    if first is not None:
        raise first
