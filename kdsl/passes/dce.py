"""Dead code: what no store and no requirement needs goes away."""

from __future__ import annotations

from dataclasses import replace

from kdsl.ir import nodes as ir
from kdsl.ir.walk import blocks, index_operands, operands, statements, value_types


def dce(func: ir.Func) -> ir.Func:
    """Drop values, carries, merges, loops and branches without effect, and unused axes."""
    live = _live(func)
    host = _keep(func.host, live)
    phases = tuple(_phase(p, live) for p in func.phases)
    if host is not func.host or any(a is not b for a, b in zip(phases, func.phases, strict=True)):
        func = replace(func, host=host, phases=phases)
    return _declarations(func)


def _live(func: ir.Func) -> set[str]:
    """Names of the values that stores and requirements depend on, through loops too."""
    depends: dict[str, tuple[str, ...]] = {}
    roots: list[str] = []

    def visit(stmts: ir.Block, around: tuple[str, ...]) -> None:
        """`around`: what decides whether and how often these statements run."""
        for s in stmts:
            match s:
                case ir.Let(name=name, op=op):
                    depends[name] = (*operands(op), *around)
                case ir.Store(index=index, value=value) | ir.AtomicAdd(index=index, value=value):
                    roots.extend((*index_operands(index), value, *around))
                case ir.Require(cond=cond):
                    roots.append(cond)
                case ir.ForTiles() | ir.ForRange():
                    going = s.going if isinstance(s, ir.ForRange) else None
                    bounds = tuple(b for b in (s.start, s.stop, going) if b is not None)
                    for c in s.carries:
                        depends[c.name] = depends[c.result] = (c.init, c.next, *bounds, *around)
                    visit(s.body, around + bounds)
                case ir.If():
                    for m in s.merges:
                        depends[m.name] = (m.then, m.other, s.cond, *around)
                    visit(s.then, (*around, s.cond))
                    visit(s.other, (*around, s.cond))

    visit(func.host, ())
    for phase in func.phases:
        visit(phase.body, ())
    live: set[str] = set()
    while roots:
        name = roots.pop()
        if name not in live:
            live.add(name)
            roots.extend(depends[name])
    return live


def _phase(phase: ir.Parallel, live: set[str]) -> ir.Parallel:
    body = _keep(phase.body, live)
    return phase if body is phase.body else replace(phase, body=body)


def _keep(block: ir.Block, live: set[str]) -> ir.Block:
    """The live statements of a block; the block itself when all are."""
    new = tuple(k for s in block if (k := _stmt(s, live)) is not None)
    same = len(new) == len(block) and all(a is b for a, b in zip(new, block, strict=True))
    return block if same else new


def _stmt(s: ir.Stmt, live: set[str]) -> ir.Stmt | None:
    match s:
        case ir.Let(name=name):
            return s if name in live else None
        case ir.ForTiles() | ir.ForRange():
            body = _keep(s.body, live)
            carries = tuple(c for c in s.carries if c.name in live or c.result in live)
            if not carries and not _acts(body):
                return None
            same = body is s.body and len(carries) == len(s.carries)
            return s if same else replace(s, body=body, carries=carries)
        case ir.If():
            then, other = _keep(s.then, live), _keep(s.other, live)
            merges = tuple(m for m in s.merges if m.name in live)
            if not merges and not _acts(then) and not _acts(other):
                return None
            same = then is s.then and other is s.other and len(merges) == len(s.merges)
            return s if same else replace(s, then=then, other=other, merges=merges)
    return s


def _acts(block: ir.Block) -> bool:
    """Whether a block stores anything (dead statements inside are gone already)."""
    return any(isinstance(s, ir.Store | ir.AtomicAdd) or any(map(_acts, blocks(s))) for s in block)


def _declarations(func: ir.Func) -> ir.Func:
    """Drop axes and scratch that nothing mentions."""
    axes = {a for type_ in value_types(func).values() for a in type_.axes}
    tensors = set()
    for phase in func.phases:
        axes |= {e.var for e in phase.vars if e.is_tile}
    for s in statements(func):
        match s:
            case ir.ForTiles(axis=axis):
                axes.add(axis)
            case ir.Let(op=ir.Bound(axis=axis) | ir.Iota(axis=axis)):
                axes.add(axis)
            case ir.Let(op=ir.Load(tensor=tensor, index=index)):
                tensors.add(tensor)
                axes |= {i.axis for i in index if isinstance(i, ir.Along)}
            case ir.Let(op=ir.Guard(tensor=tensor)):
                tensors.add(tensor)
            case ir.Store(tensor=tensor, index=index) | ir.AtomicAdd(tensor=tensor, index=index):
                tensors.add(tensor)
                axes |= {i.axis for i in index if isinstance(i, ir.Along)}
    kept = tuple(a for a in func.axes if a.name in axes)
    scratch = tuple(b for b in func.scratch if b.name in tensors)
    same = len(kept) == len(func.axes) and len(scratch) == len(func.scratch)
    return func if same else replace(func, axes=kept, scratch=scratch)
