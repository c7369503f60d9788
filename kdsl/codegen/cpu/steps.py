"""Print the steps of a phase: definitions, loops, dots, packs; nests have a file of their own."""

from __future__ import annotations

from kdsl.codegen.cpu.expr import Place
from kdsl.codegen.cpu.nest import print_nest
from kdsl.codegen.cpu.ops import bare, compute_type, paren
from kdsl.codegen.cpu.scope import Scope
from kdsl.codegen.cpu.text import capture
from kdsl.errors import InternalError, Span
from kdsl.ir.nodes import Along, Dot, ForRange, ForTiles, Guard, Let, Load
from kdsl.passes.cpu.plan import (
    Branch, Check, Compute, Define, Fold, Hold, Loop, Nest, Pack, Product, Run, Step, Sync,
    Transpose, Write,
)  # fmt: skip
from kdsl.passes.names import is_temporary


def print_steps(scope: Scope, steps: tuple[Step, ...]) -> None:
    for step in steps:
        scope.mark(_spans(scope, step))
        scope.begin_step()
        match step:
            case Define(let=let):
                _define(scope, let)
            case Check():
                _check(scope, step)
            case Pack():
                _pack(scope, step)
            case Product():
                _product(scope, step)
            case Nest():
                print_nest(scope, step)
            case Transpose():
                _transpose(scope, step)
            case Loop():
                _loop(scope, step)
            case Branch():
                _branch(scope, step)
            case Sync():
                scope.line("sync();")


def _spans(scope: Scope, step: Step) -> list[Span]:
    """The author's text behind a step."""
    facts = scope.facts
    match step:
        case Product(dot=dot, value=value):
            return [dot.span, facts.lets[value].span]
        case Pack(source=source) if source in facts.lets:
            return [facts.lets[source].span]
        case Transpose(store=store):
            return [store.span]
        case Loop(loop=loop):
            return [loop.span]
        case Check(let=let):
            return [let.span]
        case Nest(stages=stages):
            spans = []
            for action in (a for s in stages for a in (*s.before, *s.within)):
                match action:
                    case Write():
                        spans.append(action.store.span)
                    case (
                        Fold(reduction=name) | Run(scan=name) | Compute(value=name)
                        | Hold(value=name)
                    ):  # fmt: skip
                        if name in facts.lets:
                            spans.append(facts.lets[name].span)
            return spans
    return []


def _define(scope: Scope, let: Let) -> None:
    """A scalar that the author named; temporaries are written where they are read."""
    text = bare(scope.scalar_op(let))
    if (
        is_temporary(let.name)
        or text.replace("_", "a").isalnum()
        or let.name not in scope.facts.users
    ):
        return
    name = scope.names.of("value", let.name)
    scope.line(f"const {compute_type(let.type.dtype)} {name} = {text};")
    scope.defined[let.name] = name


def _check(scope: Scope, step: Check) -> None:
    """Leave the phase if an index is outside; the host makes an error of it."""
    guard = step.let.op
    assert isinstance(guard, Guard)
    size = bare(scope.extent(scope.tensor(guard.tensor).shape[guard.dim]))
    at = {a: scope.coordinate(a) for a in scope.facts.axes[step.let.name]}
    for axis, variable in at.items():
        scope.open(f"for (i64 {variable} = 0; {variable} < {scope.length(axis)}; {variable}++)")
    place = Place(scope, at, scoped=bool(at))
    index = bare(place.value(step.let.name))
    for line in place.flush():
        scope.line(line)
    scope.line(f"if (outside(a.fault, {step.site}, {index}, {size})) return;")
    for _ in at:
        scope.close()
    scope.names.end_step()


def _block(scope: Scope, steps: tuple[Step, ...]) -> None:
    """Steps of a block of their own: names that it defines end with it."""
    defined, pointers = dict(scope.defined), dict(scope.pointers)
    print_steps(scope, steps)
    scope.defined, scope.pointers = defined, pointers


def _loop(scope: Scope, step: Loop) -> None:
    loop = step.loop
    for c in loop.carries:
        scope.in_memory |= {c.name, c.result}
    match loop:
        case ForTiles(axis=axis, start=start, stop=stop):
            extent = scope.extent(scope.func.axis(axis).extent)
            first = "0" if start is None else f"max({bare(scope.point(start))}, 0)"
            end = scope.names.of("end", axis, f"{axis}_end")
            last = extent if stop is None else f"min({bare(scope.point(stop))}, {extent})"
            variable, size = scope.start(axis), scope.room(axis)
            scope.line(f"const i64 {end} = {last};")
            scope.open(f"for (i64 {variable} = {first}; {variable} < {end}; {variable} += {size})")
            scope.line(f"const i64 {scope.length(axis)} = min({size}, {end} - {variable});")
        case ForRange(var=var, start=start, stop=stop, step=by, going=going):
            variable = scope.names.of("loop", var)
            test = "<" if by > 0 else ">"
            first, last = bare(scope.point(start)), bare(scope.point(stop))
            test = f"{variable} {test} {last}"
            if going is not None:
                test += f" && {scope.point(going)}"
            scope.open(f"for (i64 {variable} = {first}; {test}; {variable} += {by})")
    _block(scope, step.body)
    scope.close()


def _branch(scope: Scope, step: Branch) -> None:
    scope.open(f"if ({bare(scope.point(step.cond))})")
    _block(scope, step.then)
    if step.other:
        scope.close(" else {")
        scope.depth += 1
        _block(scope, step.other)
    scope.close()
    scope.in_memory |= set(step.merges)


# ---- dots


def _source(scope: Scope, value: str) -> tuple[str, dict[str, str]]:
    """(pointer, stride by axis) of an operand of a dot, a pack or a transposition."""
    buffer = scope.held(value)
    if buffer is not None:
        return scope.buffer_name(buffer), scope.steps(buffer)
    let = scope.facts.lets.get(value)
    if let is None or not isinstance(let.op, Load):
        raise InternalError(f"print: operand `{value}` is not in memory")
    pointer = scope.pointer(let.op.tensor, let.op.index, value)
    steps = {
        i.axis: scope.stride(let.op.tensor, k, i.step)
        for k, i in enumerate(let.op.index)
        if isinstance(i, Along)
    }
    return pointer, steps


def _operand(scope: Scope, value: str) -> tuple[str, dict[str, str]]:
    """The same for an operand that may have been packed."""
    pack = dict(scope.plan.packs).get(value)
    if pack is None:
        return _source(scope, value)
    buffer = scope.plan.buffer(pack)
    return scope.buffer_name(buffer), scope.steps(buffer)


def _pack(scope: Scope, step: Pack) -> None:
    buffer = scope.plan.buffer(step.buffer)
    lane = buffer.lane
    assert lane is not None
    pointer, steps = _source(scope, step.source)
    name, pitch = scope.buffer_name(buffer), scope.pitch(buffer)
    turned = steps[lane] != "1"
    if turned and steps[step.depth] != "1":
        scope.line(
            f"pack_strided({name}, {pitch}, {pitch}, {pointer}, {steps[lane]}, "
            f"{steps[step.depth]}, {scope.length(lane)}, {scope.length(step.depth)});"
        )
        return
    along = steps[lane] if turned else steps[step.depth]
    call = "pack_transposed" if turned else "pack_rows"
    scope.line(
        f"{call}({name}, {pitch}, {pitch}, {pointer}, {along}, {scope.length(lane)}, "
        f"{scope.length(step.depth)});"
    )


def _product(scope: Scope, step: Product) -> None:
    facts = scope.facts
    dot = step.dot.op
    assert isinstance(dot, Dot)
    vectors, vector_steps = _operand(scope, step.vectors)
    scalars, scalar_steps = _operand(scope, step.scalars)
    room, length = scope.lanes(step.lane), scope.length(step.lane)
    is_tile = facts.func.axis(step.lane).kind == "tile"
    row, lane, total = (scope.names.fresh(n, local=True) for n in ("r", "l", "x"))
    at = {step.row: row, step.lane: lane}
    # All lanes of a padded slice are computed; what is read from tensors looks at the real ones.
    real = f"Some{{{length} - {lane}}}" if is_tile else "real"
    whole = is_tile or room == length
    shape = (scope.length(step.row), *(() if whole else (length,)), scope.length(dot.axis))
    head = (
        f"{f'dot<{room}>' if whole else 'dot_ragged'}({', '.join(shape)}, {scalars}, "
        f"{scalar_steps[step.row]}, {scalar_steps[dot.axis]}, {vectors}, {vector_steps[dot.axis]},"
    )
    first = Place(scope, at, step.lane, real)
    init = "Vec<float>{}" if dot.acc is None else bare(first.wide(dot.acc))
    starts = _lambda(
        f"i64 {row}, i64 {lane}, auto real", [*first.flush(), f"return {init};"]
    ) if dot.acc is not None else ["Zero{}"]  # fmt: skip

    buffer = scope.plan.buffer(step.buffer)
    pitch = paren(scope.pitch(buffer))
    name = scope.buffer_name(buffer)
    if step.value == step.dot.name:
        ends = [f"into({name}, {bare(pitch)})"]
    else:
        after = Place(scope, at, step.lane, real)
        after.memo[step.dot.name] = total
        value = bare(after.wide(step.value))
        put = f"st({name} + {row} * {pitch} + {lane}, {value});"
        ends = _lambda(
            f"i64 {row}, i64 {lane}, Vec<float> {total}, auto real", [*after.flush(), put]
        )
    scope.names.end_step()
    scope.line(head)
    for i, line in enumerate(starts):
        scope.line(f"    {line}" + ("," if i == len(starts) - 1 else ""))
    for i, line in enumerate(ends):
        scope.line(f"    {line}" + (");" if i == len(ends) - 1 else ""))
    scope.in_memory.add(step.value)


def _lambda(params: str, lines: list[str]) -> list[str]:
    """A lambda of these statements; parameters that it does not read have no name."""
    head = capture(params, lines)
    if len(lines) == 1 and len(head) + len(lines[0]) < 84:
        return [f"{head} {lines[0]} }}"]
    return [head, *(f"  {line}" for line in lines), "}"]


def _transpose(scope: Scope, step: Transpose) -> None:
    store, buffer = step.store, scope.plan.buffer(step.buffer)
    assert buffer.row is not None and buffer.lane is not None
    pointer = scope.pointer(store.tensor, store.index, store.tensor)
    k = next(k for k, i in enumerate(store.index) if isinstance(i, Along) and i.axis == buffer.lane)
    along = scope.stride(store.tensor, k)
    scope.line(
        f"store_transposed({pointer}, {along}, {scope.buffer_name(buffer)}, {scope.pitch(buffer)}, "
        f"{scope.length(buffer.lane)}, {scope.length(buffer.row)});"
    )
