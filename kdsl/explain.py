"""Why a specialisation runs as it does: `kernel.explain()`, from the plan and the typed program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from kdsl.codegen.cpu.scope import may_stream
from kdsl.dims import dim_names
from kdsl.driver import Compiler, Specialisation
from kdsl.errors import InternalError, Span
from kdsl.ir.nodes import Dot, ForTiles, Func, Guard, Let, Parallel
from kdsl.ir.walk import guards, statements, value_types
from kdsl.passes.cpu.plan import (
    Action,
    Branch,
    Check,
    Compute,
    Define,
    Fold,
    Hold,
    Loop,
    Nest,
    Pack,
    PhasePlan,
    Product,
    Run,
    Step,
    Transpose,
    Write,
)

#: Names that the compiler makes up tell a reader nothing.
_TEMPORARY = re.compile(r"t(_v?\d+)*(_v)?$")


def explain(compiler: Compiler, spec: Specialisation) -> str:
    """What is fixed, the tiles, the loops of each phase, checks and outputs, as lines to read."""
    func, plan = compiler.func(spec), compiler.plan(spec)
    lines = [f"{plan.func.name} on a CPU", "", "fixed dims", *_fixed(compiler, spec, func)]
    lines += ["", "tile sizes", *_tiles(compiler, func, plan.func)]
    for number, (phase, loop) in enumerate(zip(plan.phases, plan.func.phases, strict=True), 1):
        lines += ["", f"phase {number}: {_task(loop)}", *_phase(phase, plan.func)]
    lines += ["", "indices checked at run time", *_checks(plan.func)]
    lines += ["", "outputs", *_outputs(plan.func)]
    return "\n".join(lines) + "\n"


def _fixed(compiler: Compiler, spec: Specialisation, func: Func) -> Iterator[str]:
    """Each fixed dim with the first dot that makes it one."""
    names = compiler.fixed_dims(spec)
    # The general variant: in it the dims still have names.
    general = compiler.func(spec.general())
    sizes = dict(func.fixed)
    for name in names:
        size = f"{name} = {sizes[name]}" if name in sizes else f"{name} of any size"
        yield f"  {size}: a whole axis in {_fixing_dot(general, name)}"
    if not names:
        yield "  none: no dot has a whole axis, so one variant serves all sizes"
    elif len(sizes) < len(names):
        sample = ", ".join(f'"{name}": 64' for name in names)
        yield f"  this is the general variant; dims={{{sample}}} shows one of its own"


def _fixing_dot(func: Func, dim: str) -> str:
    types = value_types(func)
    for s in statements(func):
        if isinstance(s, Let) and isinstance(s.op, Dot):
            for value in (s.op.a, s.op.b):
                for axis in map(func.axis, types[value].axes):
                    if axis.kind == "whole" and dim in dim_names(axis.extent):
                        role = "sums over it" if axis.name == s.op.axis else "has it in its result"
                        return f"the dot{_at(s.span)}, which {role}"
    return "a dot that later steps have simplified away"


def _tiles(compiler: Compiler, func: Func, planned: Func) -> Iterator[str]:
    written = {axis.name: axis.size for axis in func.axes}
    found = False
    for axis in planned.axes:
        if axis.kind != "tile":
            continue
        found = True
        if written.get(axis.name) is not None:
            origin = "size= in the kernel, part of its meaning"
        elif axis.name in compiler.tiles:
            origin = "tuned"
        else:
            origin = f'default; tune("cpu", tiles={{"{axis.name}": ...}}) sets it'
        yield f"  {axis.name}: {axis.size} of {axis.extent} at a time ({origin})"
    if not found:
        yield "  none: no loop goes over tiles"


def _task(loop: Parallel) -> str:
    names = [f"a tile of {v.extent}" if v.is_tile else f"one of {v.extent}" for v in loop.vars]
    pairs = (f"{v.var}: {text}" for v, text in zip(loop.vars, names, strict=True))
    return f"a task is ({'; '.join(pairs)})" if names else "one task"


def _phase(phase: PhasePlan, func: Func) -> Iterator[str]:
    for step in phase.steps:
        yield from (f"  {line}" for line in _step(step, phase, func))
    held = [f"{b.name}: {b.dtype}[{', '.join(b.axes)}]" for b in phase.buffers if b.axes]
    if held:
        yield f"  held in memory, one set a thread: {'; '.join(held)}"


def _step(step: Step, phase: PhasePlan, func: Func) -> Iterator[str]:
    match step:
        case Define():
            return
        case Check(let=let):
            yield f"check the index{_at(let.op.span if let.op.span.line else let.span)}"
        case Pack(source=source, buffer=buffer, transposed=transposed):
            how = "turned, " if transposed else ""
            yield f"pack `{source}` into {buffer} ({how}so that its lanes lie next to each other)"
        case Product():
            yield from _product(step, phase)
        case Nest():
            yield from _nest(step)
        case Transpose(store=store):
            yield f"write `{store.tensor}` by blocks, turned on the way"
        case Loop(loop=loop, body=body):
            yield f"for {loop.axis if isinstance(loop, ForTiles) else loop.var}"
            for inner in body:
                yield from (f"  {line}" for line in _step(inner, phase, func))
        case Branch(cond=cond, then=then, other=other):
            for head, block in ((f"if {cond}", then), ("else", other)):
                if block:
                    yield head
                for inner in block:
                    yield from (f"  {line}" for line in _step(inner, phase, func))
        case _:
            raise InternalError(f"explain: no rule for {type(step).__name__}")


def _product(step: Product, phase: PhasePlan) -> Iterator[str]:
    assert isinstance(step.dot.op, Dot)
    packs = dict(phase.packs)
    packed = [name for name in (step.scalars, step.vectors) if name in packs]
    yield (
        f"dot{_at(step.dot.span)}: rows {step.row}, lanes {step.lane}, depth {step.dot.op.axis}, "
        f"left in {step.buffer}"
    )
    if packed:
        yield f"  reads packed: {', '.join(packed)}"
    if step.init is not None:
        yield "  adds to what is there" + (
            "" if step.init in dict(phase.homes) else ", changed on the way into the registers"
        )
    if step.value != step.dot.name:
        yield f"  computes up to `{step.value}` while the sums are in registers"


def _nest(nest: Nest) -> Iterator[str]:
    loops = [*nest.around, *(a for a in (nest.outer, nest.inner) if a is not None)]
    if not loops:
        yield f"once: {_words(nest)}"
        return
    passes = sum(bool(stage.within) for stage in nest.stages)
    times = f", {passes} times over {nest.inner}" if passes > 1 and nest.inner else ""
    lanes = f", vectors along {nest.lane}" if nest.lane else ", no vectors"
    yield f"one loop nest over {', '.join(loops)}{times}{lanes}: {_words(nest)}"
    if nest.unless:
        yield "  left out for whole tiles that it would not change"


def _words(nest: Nest) -> str:
    """What a nest computes, in the author's names, then what it reduces, keeps and writes."""
    actions = [a for stage in nest.stages for a in (*stage.before, *stage.within)]
    computed = _unique(_author(a) for a in actions)
    written = _unique(a.store.tensor for a in actions if isinstance(a, Write))
    folds = sum(isinstance(a, Fold) for a in actions)
    parts = [f"computes {', '.join(computed)}"] if computed else []
    parts += [f"reduces {folds} value{'s' if folds > 1 else ''}"] if folds else []
    parts += [f"writes {', '.join(written)}"] if written else []
    return "; ".join(parts) or "moves values"


def _author(action: Action) -> str | None:
    """The author's name of what an action makes; None for a temporary."""
    match action:
        case Compute(value=name) | Hold(value=name) | Fold(reduction=name) | Run(scan=name):
            return None if _TEMPORARY.match(name) else name.rstrip("_")
        case Write():
            return None
    raise InternalError(f"explain: no rule for {type(action).__name__}")


def _unique(names: Iterator[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name is not None))


def _checks(func: Func) -> Iterator[str]:
    found = guards(func)
    for let in found:
        assert isinstance(let.op, Guard)
        size = func.tensor(let.op.tensor).shape[let.op.dim]
        span = let.op.span if let.op.span.line else let.span
        yield f"  dimension {let.op.dim} of `{let.op.tensor}`, in [0, {size}){_at(span)}"
    if not found:
        yield "  none: all are proven to be inside"


def _outputs(func: Func) -> Iterator[str]:
    for p in func.params:
        if p.kind not in ("out", "inout"):
            continue
        if may_stream(func, p.name):
            yield f"  {p.name}: whole vectors go past the cache where it is large"
        else:
            why = "f32 outputs only" if p.kind == "out" else "it is read as well"
            yield f"  {p.name}: through the cache ({why})"


def _at(span: Span) -> str:
    return f" at {PurePath(span.file).name}:{span.line}" if span.line > 0 else ""
