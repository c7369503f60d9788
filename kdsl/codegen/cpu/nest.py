"""Print a nest: its loops, and stage by stage what happens in them."""

from __future__ import annotations

from kdsl.codegen.cpu.expr import Place
from kdsl.codegen.cpu.ops import REDUCERS, bare, compute_type, neutral, register_type
from kdsl.codegen.cpu.scope import Scope
from kdsl.codegen.cpu.text import capture
from kdsl.errors import InternalError
from kdsl.ir.nodes import Ew, Let, Reduce, Scan
from kdsl.ir.walk import operands, reads
from kdsl.passes.cpu.facts import COSTLY
from kdsl.passes.cpu.plan import (
    Action, Comparison, Compute, Fold, Hold, Nest, Run, Stage, Term, Write,
)  # fmt: skip


def print_nest(scope: Scope, nest: Nest) -> None:
    """Print a nest; afterwards what it holds is in memory (`scope.in_memory`)."""
    if nest.unless:
        scope.open(f"if (!({' && '.join(_comparison(scope, c) for c in nest.unless)}))")
    at = {}
    for axis in nest.around:
        at[axis] = scope.coordinate(axis)
        scope.open(_each(at[axis], scope.length(axis)))
    if nest.lane is None:
        _Scalars(scope, nest, at).print()
    elif nest.lane == nest.inner:
        _AlongInner(scope, nest, at).print()
    else:
        _AlongOuter(scope, nest, at).print()
    for _ in nest.around:
        scope.close()
    if nest.unless:
        scope.close()
    scope.names.end_step()


def _each(variable: str, stop: str) -> str:
    return f"for (i64 {variable} = 0; {variable} < {stop}; {variable}++)"


def _comparison(scope: Scope, comparison: Comparison) -> str:
    left, right = (_sum(scope, side) for side in (comparison.left, comparison.right))
    return f"{left} {comparison.op} {right}"


def _sum(scope: Scope, terms: tuple[Term, ...]) -> str:
    text = ""
    for t in terms:
        if t.kind == "value":
            term = scope.scalar(t.name)
        elif t.kind == "first":
            term = scope.start(t.name)
        else:
            term = scope.index_of(t.name, f"{scope.length(t.name)} - 1")
            term = term if t.sign == 1 else f"({term})"
        if not text:
            text = term if t.sign == 1 else f"-{term}"
        else:
            text += f" + {term}" if t.sign == 1 else f" - {term}"
    return text


class _Printer:
    def __init__(self, scope: Scope, nest: Nest, at: dict[str, str]) -> None:
        self.scope, self.nest, self.at = scope, nest, dict(at)
        #: Whether loops enclose the outer level.
        self.scoped = nest.outer is not None or bool(nest.around)

    def reduction(self, name: str) -> tuple[Let, Reduce]:
        let = self.scope.facts.lets[name]
        assert isinstance(let.op, Reduce)
        return let, let.op

    def declare_folds(self, folds: list[str], turns: str) -> dict[str, str]:
        """Registers of the partial results of reductions, set to what changes nothing."""
        registers = {}
        for name in folds:
            let, reduce = self.reduction(name)
            register = self.scope.names.fresh(name, local=self.scoped)
            self.scope.line(f"{register_type(let.type.dtype)} {register}[{turns}];")
            self.scope.line(f"fill({register}, {bare(neutral(reduce.fn, let.type.dtype))});")
            registers[name] = register
        return registers

    def hold(self, place: Place, action: Hold) -> str:
        """The statement that writes a value to its buffer."""
        scope = self.scope
        buffer = scope.plan.buffer(action.buffer)
        name, steps = scope.buffer_name(buffer), scope.steps(buffer)
        if not buffer.axes:
            return f"{name} = {bare(place.value(action.value))};"
        pointer = f"{name}{place.offset(steps)}"
        if place.lane not in steps:
            return f"put({pointer}, {bare(place.value(action.value))});"
        value = bare(place.wide(action.value))
        if steps[place.lane] == "1":
            return f"st({pointer}, {value});"
        return f"scatter({pointer}, {steps[place.lane]}, {value}{place.real_rows()});"

    def element(
        self, place: Place, actions: tuple[Action, ...], folds: dict[str, str]
    ) -> list[str]:
        """Lines of one element: all values first, then everything that is written."""
        writes: list[str] = []
        for action in actions:
            match action:
                case Hold(value=value):
                    self._name_if_shared(place, value)
                    writes.append(self.hold(place, action))
                case Fold(reduction=name):
                    writes.append(self.fold(place, name, folds[name]))
                case Run(scan=name):
                    self.run(place, name, folds[name])
                case Write(store=store):
                    writes.append(place.store(store))
                case Compute():
                    raise InternalError("print: a compute belongs to the outer level")
        return place.flush() + writes

    def _name_if_shared(self, place: Place, value: str) -> None:
        """A value that is held and read again gets a register of its own."""
        facts = self.scope.facts
        if len(facts.users.get(value, [])) > 1 and facts.kind(value) == "item":
            text = place.value(value)
            if text not in place.memo.values() or not text.replace("_", "a").isalnum():
                place.bind(value, text)

    def fold(self, place: Place, name: str, register: str) -> str:
        raise NotImplementedError

    def run(self, place: Place, name: str, register: str) -> None:
        raise NotImplementedError

    def scanned(self, name: str) -> str:
        """What a scan runs over."""
        op = self.scope.facts.lets[name].op
        assert isinstance(op, Scan)
        return op.arg

    def outer_scalars(self, place: Place, actions: tuple[Action, ...]) -> None:
        """The outer level where it has no vectors: constants, and behind them what is written."""
        scope = self.scope
        writes: list[str] = []
        for action in actions:
            match action:
                case Compute(value=value):
                    self._scalar(place, value)
                case Hold():
                    writes.append(self.hold(place, action))
                case Write(store=store):
                    writes.append(place.store(store))
                case Fold() | Run():
                    raise InternalError("print: a fold belongs to the inner level")
        for line in place.flush() + writes:
            scope.line(line)

    def _scalar(self, place: Place, value: str) -> None:
        scope = self.scope
        stays = not scope.facts.axes[value]  # visible to the steps behind this nest
        if place.is_passing(value) and (not stays or self._is_read_here(value)):
            return
        if not stays:
            place.value(value)
            return
        text = place.expression(value)
        for line in place.flush():
            scope.line(line)
        name = scope.names.fresh(value)
        scope.line(f"const {compute_type(scope.facts.types[value].dtype)} {name} = {text};")
        scope.defined[value] = name

    def _is_read_here(self, value: str) -> bool:
        """The one who reads the value is part of this nest: later it could have changed."""
        made = set[str]()
        for stage in self.nest.stages:
            for action in (*stage.before, *stage.within):
                match action:
                    case (
                        Compute(value=name) | Fold(reduction=name) | Hold(value=name)
                        | Run(scan=name)
                    ):  # fmt: skip
                        made.add(name)
                    case Write(store=store):
                        made.add(store.value)
        (user,) = self.scope.facts.users[value]
        return value in made and isinstance(user, Let) and user.name in made

    def done(self, stage: Stage) -> None:
        for action in (*stage.before, *stage.within):
            if isinstance(action, Hold):
                self.scope.in_memory.add(action.value)


class _Scalars(_Printer):
    """A nest without axes: a run of statements."""

    def print(self) -> None:
        place = Place(self.scope, self.at, scoped=self.scoped)
        for stage in self.nest.stages:
            self.outer_scalars(place, stage.before)
            self.done(stage)


class _AlongInner(_Printer):
    """Vectors lie along the inner axis: reductions end across the lanes of a vector."""

    def print(self) -> None:
        scope, outer = self.scope, self.nest.outer
        if outer is not None:
            self.at[outer] = scope.coordinate(outer)
            scope.open(_each(self.at[outer], scope.length(outer)))
        level = Place(scope, self.at, scoped=self.scoped)
        for stage in self.nest.stages:
            self.outer_scalars(level, stage.before)
            if stage.within:
                self.inner(level, stage)
            self.done(stage)
        if outer is not None:
            scope.close()

    def inner(self, level: Place, stage: Stage) -> None:
        scope, inner = self.scope, self.nest.inner
        assert inner is not None
        names = [a.reduction for a in stage.within if isinstance(a, Fold)]
        turns = 2 if any(self._is_costly(n) for n in names) else 4
        folds = self.declare_folds(names, str(turns))
        runs = [a.scan for a in stage.within if isinstance(a, Run)]
        for name in runs:
            dtype = scope.facts.types[name].dtype
            folds[name] = scope.names.fresh(f"{name}_so_far", local=self.scoped)
            scope.line(f"{compute_type(dtype)} {folds[name]} = 0;")
        at = scope.coordinate(inner)
        self.turn = scope.names.fresh("u", local=True)
        place = Place(scope, {**self.at, inner: at}, inner, "real", parent=level)
        lines = self.element(place, stage.within, folds)
        for line in level.flush():
            scope.line(line)
        head, params = "each_vector", f"i64 {at}, auto real"
        if names:
            head, params = f"each_turn<{turns}>", f"i64 {at}, int {self.turn}, auto real"
        scope.line(f"{head}({scope.length(inner)}, {capture(params, lines)}")
        scope.depth += 1
        for line in lines:
            scope.line(line)
        scope.close(");")
        for name in names:
            self._finish(level, name, folds[name])

    def _is_costly(self, name: str) -> bool:
        """What is folded takes many registers: fewer of it at once."""
        facts, seen, stack = self.scope.facts, set(), [name]
        while stack:
            let = facts.lets.get(stack.pop())
            if let is None or let.name in seen or let.name in self.scope.in_memory:
                continue
            seen.add(let.name)
            if isinstance(let.op, Ew) and let.op.fn in COSTLY and let.op.fn != "div":
                return True
            stack += [a for a in operands(let.op) if facts.kind(a) == "item"]
        return False

    def fold(self, place: Place, name: str, register: str) -> str:
        let, reduce = self.reduction(name)
        neutral_ = neutral(reduce.fn, let.type.dtype)
        value = f"keep({place.real}, {bare(place.wide(reduce.arg))}, {bare(neutral_)})"
        partial = f"{register}[{self.turn}]"
        return f"{partial} = {REDUCERS[reduce.fn]}{{}}({partial}, {value});"

    def run(self, place: Place, name: str, register: str) -> None:
        value = bare(place.wide(self.scanned(name)))
        place.bind(name, f"running_sum({value}, {register})")

    def _finish(self, level: Place, name: str, register: str) -> None:
        scope = self.scope
        let, reduce = self.reduction(name)
        stays = not scope.facts.axes[name]
        total = scope.names.fresh(name, local=not stays)
        kind = compute_type(let.type.dtype)
        scope.line(f"const {kind} {total} = across({REDUCERS[reduce.fn]}{{}}, {register});")
        level.memo[name] = total
        if stays:
            scope.defined[name] = total


class _AlongOuter(_Printer):
    """Vectors lie along the outer axis: every lane has its own reduction, nothing crosses lanes.
    The buffers are padded, so that only accesses to tensors look at how many lanes are real."""

    def print(self) -> None:
        scope, outer = self.scope, self.nest.outer
        assert outer is not None
        variable, room = scope.coordinate(outer), scope.lanes(outer)
        self.turn = scope.names.fresh("u", local=True)
        self.turns = f"unroll({room})" if room.isdigit() else "1"
        self.registers: dict[str, str] = {}
        self.computed = {
            a.value for s in self.nest.stages for a in s.before if isinstance(a, Compute)
        }
        scope.open(f"for (i64 {variable} = 0; {variable} < {room}; {variable} += {self._step()})")
        self.at[outer] = f"{variable} + {self.turn} * W"
        for stage in self.nest.stages:
            self.before(stage)
            if stage.within:
                self.within(stage)
            self.done(stage)
        scope.close()

    def _step(self) -> str:
        return "W" if self.turns == "1" else f"{self.turns} * W"

    def _place(self, extra: dict[str, str]) -> Place:
        outer = self.nest.outer
        assert outer is not None
        at = self.at[outer].replace(" + ", " - ", 1)
        real = f"Some{{{self.scope.length(outer)} - {at}}}"
        index = f"[{self.turn}]"
        return Place(self.scope, {**self.at, **extra}, outer, real, self.registers, index)

    def _each_turn(self) -> None:
        u = self.turn
        self.scope.open(f"KDSL_UNROLL for (int {u} = 0; {u} < {self.turns}; {u}++)")

    def before(self, stage: Stage) -> None:
        scope = self.scope
        values = [a.value for a in stage.before if isinstance(a, Compute)]
        arrays = {}
        for value in values:
            if self._is_read_later(value, stage):
                arrays[value] = scope.names.fresh(value, local=True)
                kind = register_type(scope.facts.types[value].dtype)
                scope.line(f"{kind} {arrays[value]}[{self.turns}];")
        if not arrays and len(values) == len(stage.before):
            return
        self._each_turn()
        place = self._place({})
        writes: list[str] = []
        for action in stage.before:
            match action:
                case Compute(value=value) if value in arrays:
                    text = place.expression(value)
                    place.memo[value] = f"{arrays[value]}[{self.turn}]"
                    place.lines.append(f"{place.memo[value]} = {text};")
                case Hold():
                    writes.append(self.hold(place, action))
                case Write(store=store):
                    writes.append(place.store(store))
        for line in place.flush() + writes:
            scope.line(line)
        scope.close()
        self.registers |= arrays

    def _is_read_later(self, value: str, stage: Stage) -> bool:
        """An action behind the outer level of this stage reads the value from its register."""
        stages = self.nest.stages
        rest = stages[stages.index(stage) + 1 :]
        later = [*stage.within, *(a for s in rest for a in (*s.before, *s.within))]
        return any(value in self._registers_of(a) for a in later)

    def _registers_of(self, action: Action) -> set[str]:
        """Values of the outer level that an action reads, through what it recomputes."""
        facts, found = self.scope.facts, set()
        match action:
            case Compute(value=name) | Hold(value=name):
                let = facts.lets.get(name)
                stack = [name] if isinstance(action, Hold) or let is None else [*operands(let.op)]
            case Fold(reduction=name) | Run(scan=name):
                stack = [*operands(facts.lets[name].op)]
            case Write(store=store):
                stack = [*reads(store)]
        while stack:
            name = stack.pop()
            let = facts.lets.get(name)
            if name in self.computed:
                found.add(name)
            elif let is not None and name not in self.scope.in_memory:
                stack += operands(let.op) if not isinstance(let.op, Reduce) else ()
        return found

    def within(self, stage: Stage) -> None:
        scope, inner = self.scope, self.nest.inner
        assert inner is not None
        names = [a.reduction for a in stage.within if isinstance(a, Fold)]
        folds = self.declare_folds(names, self.turns)
        for name in (a.scan for a in stage.within if isinstance(a, Run)):
            dtype = scope.facts.types[name].dtype
            folds[name] = scope.names.fresh(f"{name}_so_far", local=True)
            scope.line(f"{register_type(dtype)} {folds[name]}[{self.turns}] = {{}};")
        at = scope.coordinate(inner)
        scope.open(_each(at, scope.length(inner)))
        self._each_turn()
        for line in self.element(self._place({inner: at}), stage.within, folds):
            scope.line(line)
        scope.close()
        scope.close()
        self.registers |= {name: folds[name] for name in names}

    def run(self, place: Place, name: str, register: str) -> None:
        state = f"{register}[{self.turn}]"
        place.lines.append(f"{state} += {bare(place.wide(self.scanned(name)))};")
        place.bind(name, state)

    def fold(self, place: Place, name: str, register: str) -> str:
        _, reduce = self.reduction(name)
        partial = f"{register}[{self.turn}]"
        value = bare(place.wide(reduce.arg))
        return f"{partial} = {REDUCERS[reduce.fn]}{{}}({partial}, {value});"
