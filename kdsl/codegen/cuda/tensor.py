"""Print a phase whose products run on tensor cores. The plan has decided everything but names."""

from __future__ import annotations

from kdsl.codegen.cpu.names import Names
from kdsl.codegen.cpu.ops import bare, compute_type, literal, paren, spell
from kdsl.codegen.cpu.scope import Scope
from kdsl.codegen.cpu.text import mentions
from kdsl.codegen.cuda.fragment import Fragments
from kdsl.codegen.cuda.hostside import HostSizes
from kdsl.codegen.cuda.phase import KernelPrinter, reserved_names
from kdsl.codegen.cuda.regions import Regions
from kdsl.codegen.cuda.registers import Registers
from kdsl.codegen.cuda.text import DeviceText
from kdsl.codegen.cuda.tiles import Tiles
from kdsl.codegen.device import DevicePhase
from kdsl.ir.nodes import (
    Bound, Const, Dot, Ew, ForRange, ForTiles, Guard, Let, Load,
)  # fmt: skip
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.plan import Check, Comparison, Define, PhasePlan, Plan, Term
from kdsl.passes.cuda.maps import Rows
from kdsl.passes.cuda.tensor_plan import (
    Assign, Await, Columns, CopyIn, EndGroup, Fill, FinishSums, LoadIn, Loop, Product, Region,
    StageIn, Step, StoreOut, Sync, TensorPlan,
)  # fmt: skip
from kdsl.passes.names import is_temporary


class TensorScope(Scope):
    """Slices are counted in 32 bits; arithmetic of the author's has 64."""

    def scalar_op(self, let: Let) -> str:
        if not isinstance(let.op, Ew):
            return super().scalar_op(let)
        args = [self._wide(a) for a in let.op.args]
        return spell(let.op.fn, args, self.facts.types[let.op.args[-1]].dtype, vector=False)

    def _wide(self, value: str) -> str:
        text = self.scalar(value)
        bound = isinstance(self.facts.op(value), Bound) and value not in self.defined
        return f"(i64){paren(text)}" if bound else text


class TensorPhase(KernelPrinter):
    """Prints one phase as a kernel for tensor cores."""

    def __init__(self, exported: str, plan: TensorPlan, number: int, many: bool) -> None:
        """`number` is of the phase in its function, `many`: it has others."""
        self.tensor = plan
        empty = PhasePlan((), (), (), ())
        super().__init__(exported, Plan(plan.func, (empty,)), 0)
        self.place, self.many = number, many
        self.host = HostSizes(self.func)
        self.scope.depth = 1
        self.fragments = Fragments(plan, self.scope)
        self.tiles = Tiles(plan, self.scope, self.fragments)
        self.regions = Regions(self.scope, self.fragments)
        self.registers = Registers(self.scope, self.fragments, self.tiles.rows16)

    @property
    def rows16(self) -> dict[str, None]:
        """Tensors whose rows have to be aligned to 16 bytes."""
        return self.tiles.rows16

    def make_scope(self, facts: Facts) -> Scope:
        return TensorScope(self.func, facts, self.plan, Names(reserved_names()))

    # ---- the kernel

    def kernel(self) -> tuple[DeviceText, DevicePhase]:
        scope, plan = self.scope, self.tensor
        self.steps(plan.steps)
        lines = scope.finish()
        body = "\n".join(lines)
        lines = [*self._task(body), *self._lanes(body), *lines]
        body = "\n".join([*self.tiles.setup, *lines])
        tasks = " * ".join(map(self.count, self.phase.vars)) or "1"
        head = [f"const i64 tasks = {tasks};"]
        declared = self.declarations("\n".join([body, *head]))
        symbol = self.symbol(str(self.place) if self.many else "")
        text = DeviceText(
            headers=("mma", *(("atomic",) if mentions(body, "add_each") else ())),
            symbol=symbol,
            args=f"{self.exported}_args",
            threads=plan.threads,
            comment=f"{self.summary()}.",
            head=(*declared, *head, "if (block_number() >= tasks) return;"),
            body=tuple(lines),
            loops=False,
        )
        blocks = self.host.narrow_tasks(self.phase.vars)
        return text, DevicePhase(symbol, plan.threads, plan.smem, blocks)

    def summary(self) -> str:
        place = f", phase {self.place + 1}" if self.many else ""
        return super().summary() + place

    def _task(self, body: str) -> list[str]:
        """Which iteration the block has; where later ones are longer they go first."""
        scope = self.scope
        first = "tasks - 1 - block_number()" if self.tensor.reverse else "block_number()"
        # There are less than 2^31 blocks: division of longer numbers is a function of its own.
        lines = [f"  const u32 task = (u32)({first});"]
        left = "task"
        for i, each in enumerate(reversed(self.phase.vars)):
            count = f"(u32){paren(self.count(each))}"
            at = left if i == len(self.phase.vars) - 1 else f"{left} % {count}"
            if each.is_tile:
                axis = self.func.axis(each.var)
                start, length = scope.start(each.var), scope.length(each.var)
                lines.append(f"  const int {start} = (int)({at}) * {axis.size};")
                extent = scope.extent(axis.extent)
                lines.append(f"  const int {length} = (int)min({axis.size}, {extent} - {start});")
            else:
                lines.append(f"  const i64 {scope.names.of('loop', each.var)} = {at};")
            left = f"{left} / {count}"
        text = "\n".join([body, *self.tiles.setup])
        kept: list[str] = []
        for line in reversed(lines):
            name = line.split(" = ")[0].split()[-1]
            if mentions("\n".join([text, *kept]), name):
                kept.insert(0, line)
        return kept

    def _lanes(self, body: str) -> list[str]:
        """The lane's first row and column, tiles, and how products read them."""
        lines = []
        for to, name in self.fragments.bases.items():
            if not mentions("\n".join([body, *self.tiles.setup]), name):
                continue
            if isinstance(to, Rows):
                part, warp = 16 * to.blocks, self.fragments.warp_m()
                at = f"{warp} * {part} + lane() / 4" if to.warps > 1 else "lane() / 4"
            else:
                part, warp = 8 * to.blocks, self.fragments.warp_n()
                at = f"{warp} * {part} + 2 * (lane() % 4)" if to.warps > 1 else "2 * (lane() % 4)"
            lines.append(f"  const int {name} = {at};")
        return lines + [f"  {line}" for line in self.tiles.setup]

    # ---- steps

    def steps(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: Step) -> None:
        scope = self.scope
        scope.begin_step()
        match step:
            case Define(let=let):
                self._define(let)
            case Check():
                leave = "{ failed = true; return; }" if self.turning else "return;"
                scope.line(f"if ({self._outside(step)}) {leave}")
            case Fill(array=array, value=value):
                let = scope.facts.lets[value]
                assert isinstance(let.op, Const)
                scope.mark([let.span])
                self.fragments.fill(array, literal(let.op.text, let.type.dtype))
            case Assign(array=array, source=source):
                self.fragments.declare(array)
                scope.line(
                    f"assign({self.fragments.name_of(array)}, {self.fragments.name_of(source)});"
                )
            case LoadIn(load=load):
                self.registers.load(scope.facts.lets[load])
            case Columns(values=values):
                self.regions.columns(values)
            case Region():
                self.regions.region(step)
            case FinishSums(array=array):
                scope.line(f"across_quad(Sum{{}}, {self.fragments.name_of(array)});")
            case Product():
                self._product(step)
            case StageIn(value=value):
                bare_ = self.fragments.bare(value)
                name = self.fragments.name_of(self.fragments.homes[bare_])
                tile = scope.names.of("tile", value)
                scope.line(f"stage({tile}, {name}, {self.fragments.bases_of(bare_)});")
            case StoreOut():
                self.registers.store(step)
            case CopyIn(load=load, ahead=ahead):
                self._copy_in(load, ahead)
            case EndGroup():
                scope.line("copies_end_group();")
            case Await(but=but):
                scope.line(f"copies_wait<{but}>();")
            case Sync():
                scope.line("sync();")
            case Loop():
                self._loop(step)

    def _outside(self, check: Check) -> str:
        """The call that finds an index outside its tensor."""
        scope, guard = self.scope, check.let.op
        assert isinstance(guard, Guard)
        size = bare(scope.extent(scope.tensor(guard.tensor).shape[guard.dim]))
        return f"outside(a.fault, {check.site}, {bare(scope.point(guard.arg))}, {size})"

    def _define(self, let: Let) -> None:
        scope = self.scope
        if let.name not in scope.facts.users or scope.facts.kind(let.name) not in (
            "scalar",
            "item",
        ):
            return
        if scope.facts.kind(let.name) == "item":
            assert isinstance(let.op, Load)
            text = f"get({scope.pointer(let.op.tensor, let.op.index, let.name)})"
        else:
            text = bare(scope.scalar_op(let))
            if is_temporary(let.name) or text.replace("_", "a").isalnum():
                return
        name = scope.names.of("value", let.name)
        scope.line(f"const {compute_type(let.type.dtype)} {name} = {text};")
        scope.defined[let.name] = name

    def _product(self, step: Product) -> None:
        scope, dot = self.scope, step.dot
        assert isinstance(dot.op, Dot)
        scope.mark([dot.span])
        if step.fresh:
            self.fragments.fill(step.array, "0.0f")
        else:
            self.fragments.declare(step.array)
        operands = []
        for value, left in ((step.left, True), (step.right, False)):
            if value in self.tiles.tiles:
                view = self.tiles.view(value, dot, left=left)
                many = self.tiles.tiles[value].slots > 1
                operands.append(f"in_slot({view}, slot)" if many else view)
            else:
                dtype = scope.facts.types[value].dtype.name
                array = self.fragments.array(self.fragments.bare(value))
                operands.append(f"kept<{dtype}>({array})")
        depth = self.fragments.size(dot.op.axis)
        scope.line(
            f"product<{depth}>({self.fragments.name_of(step.array)}, {', '.join(operands)});"
        )

    # ---- loops

    def _copy_in(self, load: str, ahead: int) -> None:
        scope = self.scope
        let = scope.facts.lets[load]
        scope.mark([let.span])
        tile = self.tiles.tiles[load]
        loop = self.current
        if loop is None:
            scope.line(self.tiles.copy(load, {}, ""))
            return
        axis, size = loop
        start = scope.start(axis)
        at = f"{start} + {ahead * size}" if ahead else start
        slot = ""
        if tile.slots > 1:
            slot = "slot" if not ahead else f"(slot + {ahead}) % {tile.slots}"
        guard = f"if ({at} < {self.tiles.ends[axis]}) " if ahead else ""
        clean = not ahead and self.flag
        scope.line(guard + self.tiles.copy(load, {axis: at}, slot, clean=clean))

    current: tuple[str, int] | None = None
    flag: bool = False
    #: Inside the lambda of a turn, which a `return` leaves alone.
    turning: bool = False

    def _loop(self, step: Loop) -> None:
        loop = step.loop
        scope = self.scope
        scope.mark([loop.span])
        defined, pointers = dict(scope.defined), dict(scope.pointers)
        declared = set(self.fragments.declared)
        if isinstance(loop, ForRange):
            variable = scope.names.of("loop", loop.var)
            test = "<" if loop.step > 0 else ">"
            first, last = bare(scope.point(loop.start)), bare(scope.point(loop.stop))
            scope.open(
                f"for (i64 {variable} = {first}; {variable} {test} {last}; "
                f"{variable} += {loop.step})"
            )
            self.steps(step.body)
            scope.close()
        else:
            self._tile_loop(step, loop)
        scope.defined, scope.pointers = defined, pointers
        self.fragments.declared &= declared | {self.fragments.homes[c.name] for c in loop.carries}
        self.tiles.copiers -= {s.load for s in _copies(step.body)}

    def _tile_loop(self, step: Loop, loop: ForTiles) -> None:
        scope, axis = self.scope, loop.axis
        size = self.func.axis(axis).size
        assert size is not None
        extent = scope.extent(self.func.axis(axis).extent)
        start, end = scope.start(axis), scope.names.of("end", axis, f"{axis}_end")
        last = extent if loop.stop is None else f"min({bare(scope.point(loop.stop))}, {extent})"
        first = "0" if loop.start is None else f"max({bare(scope.point(loop.start))}, 0)"
        last = f"(int){paren(last)}" if loop.stop is None else f"once((int){last})"
        scope.line(f"const int {end} = {last};")
        self.tiles.ends[axis] = end
        copies = list(_copies(step.body))
        if not step.pipelined and not step.masked:
            cast = "" if first == "0" else "(int)"
            scope.open(f"for (int {start} = {cast}{first}; {start} < {end}; {start} += {size})")
            scope.line(f"const int {scope.length(axis)} = min({size}, {end} - {start});")
            outer, self.current = self.current, None
            self.steps(step.body)
            self.current = outer
            scope.close()
            return
        scope.line(f"int {start} = {'' if first == '0' else '(int)'}{first};")
        for check in step.checks:
            scope.line(f"if ({start} < {end} && {self._outside(check)}) return;")
        for load in dict.fromkeys(c.load for c in copies):
            self.tiles.copier(scope.facts.lets[load], (axis, size))
        if step.slots > 1:
            scope.line("int slot = 0;")
        for group in step.prologue:
            for load, turn in group:
                at = f"{start} + {turn * size}" if turn else start
                slot = str(turn % step.slots) if step.slots > 1 else ""
                scope.line(f"if ({at} < {end}) " + self.tiles.copy(load, {axis: at}, slot))
            scope.line("copies_end_group();")
        checked = any(isinstance(s, Check) for s in step.body)
        if checked:
            scope.line("bool failed = false;")
        masked, self.regions.masked = self.regions.masked, step.masked
        outer, self.current = self.current, (axis, size)
        now = any(c.ahead == 0 for c in copies)
        flagged, self.flag = self.flag, bool(step.masked) or now
        scope.mark([loop.span])
        scope.open(f"auto turn = [&]({'auto masked' if self.flag else ''})")
        scope.line(f"const int {scope.length(axis)} = (int)min({size}, {end} - {start});")
        self.turning = True
        self.steps(step.body)
        self.turning = False
        if step.slots > 1:
            scope.line(f"slot = slot + 1 < {step.slots} ? slot + 1 : 0;")
        scope.close(";")
        scope.mark([loop.span])
        flag, self.flag, self.regions.masked, self.current = self.flag, flagged, masked, outer
        self._turns(step, axis, size, flag)
        if checked:
            scope.line("if (failed) return;")

    def _turns(self, step: Loop, axis: str, size: int, flag: bool) -> None:
        """The loops that call a turn: masked ones before and behind clean ones."""
        scope, start, end = self.scope, self.scope.start(axis), self.tiles.ends[axis]
        go = "!failed && " if any(isinstance(s, Check) for s in step.body) else ""
        if not flag:
            scope.line(f"for (; {go}{start} < {end}; {start} += {size}) turn();")
            return
        limits = [self._solved(c, axis, size) for c in step.until]
        clean = end
        if limits:
            clean = scope.names.fresh(f"{axis}_clean")
            text = end
            for limit in limits:
                text = f"min({text}, {limit})"
            scope.line(f"const int {clean} = (int){text};  // no element before it is masked")
        for comparison in step.since:
            low = self._solved(comparison, axis, size)
            scope.line(
                f"for (const i64 low = min({low}, {end}); {go}{start} < low; {start} += {size}) "
                "turn(Masked());"
            )
        scope.line(f"for (; {go}{start} + {size} <= {clean}; {start} += {size}) turn(Clean());")
        scope.line(f"for (; {go}{start} < {end}; {start} += {size}) turn(Masked());")

    def _solved(self, comparison: Comparison, axis: str, size: int) -> str:
        """Where clean turns end (until) or start (since), as an index along the loop's axis."""
        terms = [
            *((t, t.sign) for t in comparison.left),
            *((t, -t.sign) for t in comparison.right),
        ]
        side = sum(s for t, s in terms if t.kind != "value" and t.name == axis)
        constant = 0 if comparison.op == ">=" else -1
        text = ""
        for term, sign in terms:
            if term.kind != "value" and term.name == axis:
                constant += sign * (size - 1) if term.kind == "last" else 0
                continue
            sign = sign if side < 0 else -sign
            one = self._term(term)
            text += f" {'+' if sign > 0 else '-'} {one}"
        constant = constant + size if side < 0 else -constant
        text = text.removeprefix(" + ") if text.startswith(" + ") else text.strip() or "0"
        return text if not constant else f"{text} {'+' if constant > 0 else '-'} {abs(constant)}"

    def _term(self, term: Term) -> str:
        if term.kind == "value":
            return self.scope.point(term.name)
        start = self.scope.start(term.name)
        if term.kind == "first":
            return start
        return f"({self.scope.index_of(term.name, f'{self.fragments.limit(term.name)} - 1')})"


def _copies(steps: tuple[Step, ...]) -> list[CopyIn]:
    return [s for s in steps if isinstance(s, CopyIn)]
