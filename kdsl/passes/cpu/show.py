"""A plan as text: what `kernel.show("plan")` prints."""

from __future__ import annotations

from collections.abc import Iterator

from kdsl.errors import InternalError
from kdsl.ir.nodes import ForRange, ForTiles
from kdsl.passes.cpu.plan import (
    Action,
    Branch,
    Check,
    Comparison,
    Compute,
    Define,
    Fold,
    Hold,
    Loop,
    Nest,
    Pack,
    PhasePlan,
    Plan,
    Product,
    Run,
    Step,
    Transpose,
    Write,
)


def show_plan(plan: Plan) -> str:
    """The steps of each phase, with the buffers they use and the tile sizes."""
    tiles = [f"{a.name}={a.size}" for a in plan.func.axes if a.size is not None]
    lines = [f"plan {plan.func.name}" + (f" with tiles {', '.join(tiles)}" if tiles else "")]
    for number, (phase, loop) in enumerate(zip(plan.phases, plan.func.phases, strict=True), 1):
        over = ", ".join(v.var for v in loop.vars) or "one task"
        lines.append(f"phase {number} over {over}")
        lines += [f"  {line}" for line in _phase(phase)]
    return "\n".join(lines) + "\n"


def _phase(phase: PhasePlan) -> Iterator[str]:
    for b in phase.buffers:
        axes = f"[{', '.join(b.axes)}]" if b.axes else ""
        yield f"buffer {b.name}: {b.dtype}{axes}"
    for step in phase.steps:
        yield from _step(step)


def _step(step: Step) -> Iterator[str]:
    match step:
        case Define(let=let):
            yield f"define {let.name}"
        case Check(let=let, site=site):
            yield f"check {let.name} (site {site})"
        case Pack(source=source, buffer=buffer, transposed=transposed):
            yield f"pack {source} -> {buffer}" + (" transposed" if transposed else "")
        case Product():
            first = f" from {step.init}" if step.init else ""
            yield (
                f"dot {step.scalars} x {step.vectors}{first} -> {step.value} in {step.buffer} "
                f"(rows {step.row}, lanes {step.lane})"
            )
        case Nest():
            yield from _nest(step)
        case Transpose(store=store, buffer=buffer):
            yield f"transpose {buffer} -> {store.tensor}"
        case Loop(loop=ForTiles(axis=axis), body=body):
            yield f"for {axis}"
            yield from _indented(body)
        case Loop(loop=ForRange(var=var, going=going), body=body):
            yield f"for {var}" if going is None else f"for {var} while {going}"
            yield from _indented(body)
        case Branch(cond=cond, then=then, other=other):
            yield f"if {cond}"
            yield from _indented(then)
            if other:
                yield "else"
                yield from _indented(other)
        case _:
            raise InternalError(f"show_plan: no rule for {type(step).__name__}")


def _indented(steps: tuple[Step, ...]) -> Iterator[str]:
    for step in steps:
        for line in _step(step):
            yield f"  {line}"


def _nest(nest: Nest) -> Iterator[str]:
    loops = [*nest.around, *(a for a in (nest.outer, nest.inner) if a is not None)]
    head = f"nest {', '.join(loops)} (lanes {nest.lane})" if loops else "scalars"
    if nest.unless:
        head += " unless " + " and ".join(map(_comparison, nest.unless))
    yield head
    for stage in nest.stages:
        if stage.before:
            yield f"  {nest.outer or 'once'}: {'; '.join(map(_action, stage.before))}"
        if stage.within:
            yield f"  each {nest.inner}: {'; '.join(map(_action, stage.within))}"


def _comparison(c: Comparison) -> str:
    sides = (
        " ".join(f"{'+' if t.sign == 1 else '-'}{t.kind}({t.name})" for t in terms)
        for terms in (c.left, c.right)
    )
    return f" {c.op} ".join(sides)


def _action(action: Action) -> str:
    match action:
        case Compute(value=value):
            return value
        case Hold(value=value, buffer=buffer):
            return f"{value} -> {buffer}"
        case Fold(reduction=name):
            return f"fold {name}"
        case Run(scan=name):
            return f"run {name}"
        case Write(store=store):
            return f"{store.value} -> {store.tensor}[]"
    raise InternalError(f"show_plan: no rule for {type(action).__name__}")
