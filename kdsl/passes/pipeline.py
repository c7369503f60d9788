"""The neutral passes in their order; the verifier runs between every two."""

from __future__ import annotations

from collections.abc import Callable

from kdsl.ir import nodes as ir
from kdsl.ir.verify import verify
from kdsl.passes.accumulate import accumulate
from kdsl.passes.bounds import bounds
from kdsl.passes.contract import contract
from kdsl.passes.cse import cse
from kdsl.passes.dce import dce
from kdsl.passes.fold import fold
from kdsl.passes.hoist import hoist
from kdsl.passes.localise import localise
from kdsl.passes.nonempty import nonempty
from kdsl.passes.sink_scale import sink_scale
from kdsl.passes.writes import writes

Pass = Callable[[ir.Func], ir.Func]

#: `cse` and `fold` come twice: `hoist` brings equal values of different blocks into one.
PIPELINE: tuple[Pass, ...] = (
    writes,
    nonempty,
    bounds,
    localise,
    fold,
    cse,
    hoist,
    cse,
    fold,
    dce,
    sink_scale,
    accumulate,
    contract,
    dce,
)


def run_pipeline(func: ir.Func) -> ir.Func:
    """`func` as every target wants it: the same meaning, checked bounds, less work.

    Raises:
        KernelTypeError: an access that is not proven in bounds, or a write that cannot be right.
        InternalError: a pass broke the rules of the IR; it is named.
    """
    verify(func, "the frontend")
    for step in PIPELINE:
        new = step(func)
        if new is not func:
            verify(new, f"the pass {step.__name__}")
        func = new
    return func
