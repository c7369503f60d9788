"""Writes that cannot be right: all iterations on one place, or an output read before it is one."""

from __future__ import annotations

from kdsl.dims import Extent
from kdsl.errors import KernelTypeError
from kdsl.ir import nodes as ir
from kdsl.ir.walk import blocks, index_operands, operands


def writes(func: ir.Func) -> ir.Func:
    """The function itself, when its stores can be told apart by iteration, each `Out` is written
    and none is read before.

    Raises:
        KernelTypeError: a store whose place does not depend on a variable of its parallel loop
            (stores inside an `if` may do so by its condition), such a load, or such an Out.
    """
    written: set[str] = set()
    outs = {p.name for p in func.params if p.kind == "out"}
    for phase in func.phases:
        sources = _Sources(phase)
        for each in phase.vars:
            if not _is_single(each.extent):
                _check_stores(phase.body, each.var, sources)
        _check_loads(phase.body, outs, written)
    for p in func.params:
        if p.kind == "out" and p.name not in written:
            raise KernelTypeError(
                f"nothing writes the Out `{p.name}`",
                p.span,
                label="what it returns would be whatever the memory held",
                help=f"store to `{p.name}[...]`, or leave the parameter out",
            )
    return func


def _is_single(extent: Extent) -> bool:
    return isinstance(extent, int) and extent <= 1


def _check_stores(block: ir.Block, var: str, sources: _Sources) -> None:
    for s in block:
        match s:
            case ir.Store(tensor=tensor, index=index):
                if var not in sources.of_index(index):
                    raise KernelTypeError(
                        f"all iterations of `{var}` write one place of `{tensor}`",
                        s.span,
                        label=f"this index does not depend on `{var}`",
                        help="index it by the loop's variable, walk that dim by a loop inside one "
                        "iteration, or add up with kdsl.atomic_add",
                    )
            case ir.ForTiles(body=body) | ir.ForRange(body=body):
                _check_stores(body, var, sources)


def _check_loads(block: ir.Block, outs: set[str], written: set[str]) -> None:
    for s in block:
        match s:
            case ir.Let(op=ir.Load(tensor=tensor), span=span):
                if tensor in outs and tensor not in written:
                    raise KernelTypeError(
                        f"`{tensor}` is read before anything has been written to it",
                        span,
                        label="an Out holds nothing yet",
                        help=f"declare `{tensor}` as InOut[...] to read what the caller passes",
                    )
            case ir.Store(tensor=tensor):
                written.add(tensor)
        for inner in blocks(s):
            _check_loads(inner, outs, written)


class _Sources:
    """Which loop variables and axes a value comes from, through loops and what they carry."""

    def __init__(self, phase: ir.Parallel) -> None:
        #: What each name is made of: values, loop variables and axes have one name space.
        self.made_of: dict[str, set[str]] = {}
        self._collect(phase.body)

    def _collect(self, block: ir.Block) -> None:
        for s in block:
            match s:
                case ir.Let(name=name, op=op):
                    self._add(name, *operands(op), *_variables(op))
                case ir.ForTiles(axis=var, start=start, stop=stop, carries=carries):
                    self._loop(var, carries, start, stop)
                case ir.ForRange(var=var, start=start, stop=stop, carries=carries):
                    self._loop(var, carries, start, stop)
                case ir.If(cond=cond, merges=merges):
                    for m in merges:
                        self._add(m.name, cond, m.then, m.other)
            for inner in blocks(s):
                self._collect(inner)

    def _loop(self, var: str, carries: tuple[ir.Carry, ...], *bounds: str | None) -> None:
        self._add(var, *(b for b in bounds if b is not None))
        for c in carries:
            self._add(c.name, c.init, c.next)
            self._add(c.result, var, c.init, c.next)

    def _add(self, name: str, *sources: str) -> None:
        self.made_of.setdefault(name, set()).update(sources)

    def of_index(self, index: tuple[ir.Index, ...]) -> set[str]:
        """Everything that an index comes from."""
        stack = [*index_operands(index), *(i.axis for i in index if isinstance(i, ir.Along))]
        found: set[str] = set()
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack += self.made_of.get(name, ())
        return found


def _variables(op: ir.Op) -> tuple[str, ...]:
    """Loop variables and axes that an operation reads by itself."""
    match op:
        case ir.LoopVar(var=var):
            return (var,)
        case ir.Bound(axis=axis) | ir.Iota(axis=axis):
            return (axis,)
        case ir.Load(index=index):
            return tuple(i.axis for i in index if isinstance(i, ir.Along))
    return ()
