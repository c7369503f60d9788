"""Each phase computes what it needs: no phase reads a value of the host block."""

from __future__ import annotations

from dataclasses import replace

from kdsl.ir import nodes as ir
from kdsl.ir.walk import operands, rename, users
from kdsl.passes.names import Names


def localise(func: ir.Func) -> ir.Func:
    """Copy into each phase the scalar arithmetic of the host block that the phase reads.

    Kernels are called with arguments and dims only. The first copy takes the name when nothing
    else on the host needs the value.
    """
    host = {s.name: s for s in func.host if isinstance(s, ir.Let)}
    names, phases = Names(func), []
    for phase in func.phases:
        needed = _needed(phase, host)
        new = {name: names.new(name) for name in host if name in needed}
        copies = tuple(replace(s, name=new[n]) for n, s in host.items() if n in new)
        if not copies:
            phases.append(phase)
            continue
        alone = replace(func, host=(), phases=(replace(phase, body=(*copies, *phase.body)),))
        phases += rename(alone, new).phases
    if all(a is b for a, b in zip(phases, func.phases, strict=True)):
        return func
    return replace(func, phases=tuple(phases))


def _needed(phase: ir.Parallel, host: dict[str, ir.Let]) -> set[str]:
    """Names of the host values that a phase reads, and of what those read."""
    alone = ir.Func("", (), (), (), (), (), (phase,))
    todo, found = [n for n in users(alone) if n in host], set[str]()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += operands(host[name].op)
    return found
