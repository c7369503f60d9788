"""From plans to the text of a module's CPU kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from kdsl import paths
from kdsl.codegen.context import VERSION, c_name
from kdsl.codegen.cpu.names import Names, header_names
from kdsl.codegen.cpu.ops import COMPUTE, SMALL, STORED, header
from kdsl.codegen.cpu.scope import Scope
from kdsl.codegen.cpu.steps import print_steps
from kdsl.codegen.cpu.text import mentions, wrapped
from kdsl.codegen.render import render
from kdsl.dtypes import TensorType
from kdsl.ir.depth import deep
from kdsl.ir.nodes import Dot, Each, Ew, Let, Param, Parallel, ScratchBuffer
from kdsl.ir.walk import statements, value_types, walk
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.plan import Buffer, PhasePlan, Plan


@dataclass(frozen=True, slots=True)
class PhaseText:
    """One phase as lines of C++; see templates/cpu/kernels.cc.j2."""

    name: str
    comment: str
    tasks: tuple[str, ...]
    arena: tuple[str, ...]
    head: tuple[str, ...]
    body: tuple[str, ...]
    tail: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelText:
    name: str
    phases: tuple[PhaseText, ...]
    scratch: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CpuModule:
    version: str
    name: str
    origin: str
    headers: tuple[str, ...]
    kernels: tuple[KernelText, ...]


def kernel_source(name: str, origin: str, plans: Sequence[tuple[str, Plan]]) -> str:
    """Text of `<name>_cpu.cc`: `plans` are (exported kernel, plan of a specialisation)."""
    kernels = []
    for exported, plan in plans:
        with deep(plan.func):
            kernels.append(_kernel(exported, plan))
    text = "\n".join(line for k in kernels for p in k.phases for line in (*p.head, *p.body))
    headers = ("atomic",) if mentions(text, "alone") else ()
    headers = tuple(sorted((*headers, "dot", "loops", *_maths(plan for _, plan in plans))))
    return render("cpu/kernels.cc.j2", m=CpuModule(VERSION, name, origin, headers, tuple(kernels)))


def _maths(plans: Iterable[Plan]) -> tuple[str, ...]:
    """Headers of the operations in these plans, those left out that another one includes."""
    found = {"math"}
    for plan in plans:
        types = value_types(plan.func)
        for s in statements(plan.func):
            if isinstance(s, Let) and isinstance(s.op, Ew):
                found.add(header(s.op.fn, types[s.op.args[-1]].dtype))
    if "power" in found:
        found -= {"math64"}
    return tuple(found - {"math"}) or ("math",)


@cache
def _header_names() -> frozenset[str]:
    folder = paths.include_dir() / "kdsl"
    return header_names(folder / "cpu") | header_names(folder)  # and args.h


def _kernel(exported: str, plan: Plan) -> KernelText:
    phases = tuple(PhasePrinter(exported, plan, i).text() for i in range(len(plan.phases)))
    return KernelText(plan.func.name, phases, _scratch_size(exported, plan))


def _scratch_size(exported: str, plan: Plan) -> tuple[str, ...]:
    if not plan.func.scratch:
        return ("(void)args;", "return 0;")
    printer = PhasePrinter(exported, plan, 0)
    sizes = ", ".join(printer.scratch_bytes(s) for s in plan.func.scratch)
    total = sizes if len(plan.func.scratch) == 1 else f"scratch_total({sizes})"
    return tuple(part for line in (*printer.prelude(sizes), f"return {total};")
                 for part in wrapped(line))  # fmt: skip


class PhasePrinter:
    """Prints one phase."""

    def __init__(self, exported: str, plan: Plan, number: int) -> None:
        func = plan.func
        self.exported, self.func, self.number = exported, func, number
        self.phase: Parallel = func.phases[number]
        self.plan: PhasePlan = plan.phases[number]
        facts = Facts(replace(func, phases=(self.phase,)), self.phase)
        self.scope = self.make_scope(facts)
        self.scope.depth = 2

    def make_scope(self, facts: Facts) -> Scope:
        return Scope(self.func, facts, self.plan, Names(_header_names()))

    def text(self) -> PhaseText:
        scope, func = self.scope, self.func
        variables = [b for b in self.plan.buffers if not b.axes]
        for b in variables:
            scope.line(f"{COMPUTE[b.dtype]} {scope.buffer_name(b)} = 0;")
        print_steps(scope, self.plan.steps)
        lines = scope.finish()
        body = "\n".join(lines)
        tasks_of = self.task_lines(body)
        body = "\n".join([*tasks_of, body])
        many = len(func.phases) > 1
        place = f", phase {self.number + 1} of {len(func.phases)}" if many else ""
        tasks = " * ".join(map(self.count, self.phase.vars)) or "1"
        arrays = [b for b in self.plan.buffers if b.axes]
        sizes = [f"bytes += {self.bytes(b)};  // {scope.buffer_name(b)}" for b in arrays]
        total = ["i64 bytes = 0;", *sizes, "return bytes;"] if sizes else ["return 0;"]
        return PhaseText(
            name=f"{func.name}_run{self.number}" if many else f"{func.name}_run",
            comment=f"{self.summary()}{place}.",
            tasks=(*self.prelude(tasks), f"return {tasks};"),
            arena=(*self.prelude("\n".join(sizes)), *total),
            head=tuple(self.head(arrays, body)),
            body=(*tasks_of, *lines),
            tail=("stream_fence();",) if "st_far(" in body else (),
        )

    def summary(self) -> str:
        fixed = "".join(f", {d} = {n}" for d, n in self.func.fixed)
        return f"{self.func.name}: one task is {self.task_words()}{fixed}"

    def task_words(self) -> str:
        names = [v.var for v in self.phase.vars]
        return f"one ({', '.join(names)})" if names else "the whole"

    # ---- sizes

    def count(self, each: Each) -> str:
        if not each.is_tile:
            text = self.scope.extent(each.extent)
            return text if text.isalnum() else f"({text})"
        axis = self.func.axis(each.var)
        return f"tiles({self.scope.extent(axis.extent)}, {axis.size})"

    def elements(self, buffer: Buffer) -> str:
        assert buffer.lane is not None
        lanes = self.scope.lanes(buffer.lane)
        return f"{self.scope.room(buffer.row)} * {lanes}" if buffer.row else lanes

    def bytes(self, buffer: Buffer) -> str:
        return f"room<{COMPUTE[buffer.dtype]}>({self.elements(buffer)})"

    def scratch_bytes(self, scratch: ScratchBuffer) -> str:
        dtype = self.scope.tensor_dtype(scratch.name)
        sizes = [self.scope.extent(e) for e in scratch.type.shape]
        return f"scratch_room<{STORED[dtype.name]}>({', '.join(sizes)})"

    # ---- declarations

    def prelude(self, text: str) -> list[str]:
        """The arguments and the dims that a text names."""
        dims = [self.dim(d) for d in self.func.dims if mentions(text, self.scope.dims[d])]
        if not dims:
            return ["(void)args;"]
        needs = any(" a." in d for d in dims)
        return ([self.arguments()] if needs else ["(void)args;"]) + dims

    def arguments(self) -> str:
        return f"const auto& a = *(const {self.exported}_args*)args;"

    def dim(self, dim: str) -> str:
        fixed = dict(self.func.fixed)
        name = self.scope.dims[dim]
        if dim in fixed:
            return f"constexpr i64 {name} = {fixed[dim]};"
        clash = any(p.name == dim for p in self.func.params)
        return f"const i64 {name} = a.{f'dim_{dim}' if clash else c_name(dim)};"

    def head(self, arrays: list[Buffer], body: str) -> list[str]:
        """Declarations in front of the task loop: only what the body names."""
        takes = self.takes(arrays) or ["(void)arena;"]
        if mentions(body, "alone"):
            tasks = " * ".join(map(self.count, self.phase.vars)) or "1"
            takes.append(f"const bool alone = begin == 0 && end == {tasks};")
        used = "\n".join([body, *takes])
        lines = [*self.declarations(used), *takes]
        if any("a." in line for line in [*lines, body]):
            lines.insert(0, self.arguments())
        else:
            lines.insert(0, "(void)args;")
        if any(isinstance(s, Let) and isinstance(s.op, Dot) for s in walk(self.phase.body)):
            lines.append("const FlushSubnormals flush;")
        return lines

    def takes(self, arrays: list[Buffer]) -> list[str]:
        """Declarations of buffers, each behind the one before it in the arena."""
        names = ((b, COMPUTE[b.dtype], self.scope.buffer_name(b)) for b in arrays)
        return [f"{t}* const {n} = take<{t}>(arena, {self.elements(b)});" for b, t, n in names]

    def declarations(self, used: str) -> list[str]:
        """Dims, parameters and scratch tensors, as far as a text names them."""
        params = [line for p in self.func.params for line in self.param(p, used)]
        params += self.scratch_tensors(used)
        used = "\n".join([used, *params])
        dims = [self.dim(d) for d in self.func.dims if mentions(used, self.scope.dims[d])]
        return [*dims, *params]

    def param(self, param: Param, used: str) -> list[str]:
        scope = self.scope
        name, field = scope.names.of("param", param.name), c_name(param.name)
        if not isinstance(param.type, TensorType):
            kind = COMPUTE[param.type.name]
            half = param.type.name in SMALL
            value = f"round_to<{param.type.name}>((float)a.{field})" if half else f"a.{field}"
            return [f"const {kind} {name} = {value};"] if mentions(used, name) else []
        if not mentions(used, name):
            return []
        const = "const " if param.kind == "in" else ""
        kind = STORED[scope.tensor_dtype(param.name).name]
        lines = [f"{const}{kind}* const {name} = ({const}{kind}*)a.{field};"]
        for k in range(param.type.ndim - 1):
            stride = scope.stride(param.name, k)
            if mentions(used, stride):
                lines.append(f"const i64 {stride} = a.{field}_strides[{k}];")
        far = scope.far(param.name)
        if mentions(used, far):
            sizes = [scope.extent(e) for e in param.type.shape]
            count = " * ".join(s if s.isalnum() else f"({s})" for s in sizes)
            lines.append(f"const bool {far} = is_far({count} * (i64)sizeof({kind}));")
        return lines

    def scratch_tensors(self, used: str) -> list[str]:
        """Scratch tensors lie one behind the other in the call's block."""
        scope = self.scope
        lines: list[str] = []
        offset: list[str] = []
        for s in self.func.scratch:
            name = scope.names.of("param", s.name)
            kind = STORED[scope.tensor_dtype(s.name).name]
            if mentions(used, name):
                at = "".join(f" + {o}" for o in offset)
                base = f"((char*)a.scratch{at})" if at else "a.scratch"
                lines.append(f"{kind}* const {name} = ({kind}*){base};")
                for k in range(s.type.ndim - 1):
                    stride = scope.stride(s.name, k)
                    if mentions(used, stride):
                        sizes = [scope.extent(e) for e in s.type.shape[k + 1 :]]
                        lines.append(f"const i64 {stride} = {' * '.join(sizes)};")
            offset.append(self.scratch_bytes(s))
        return lines

    # ---- tasks

    def task_lines(self, body: str) -> list[str]:
        """Which iteration a task is: the last variable changes fastest. Only what is read."""
        scope = self.scope
        lines: list[str] = []
        left = "task"
        for i, each in enumerate(reversed(self.phase.vars)):
            count = self.count(each)
            at = left if i == len(self.phase.vars) - 1 else f"{left} % {count}"
            if each.is_tile:
                axis = self.func.axis(each.var)
                start, length = scope.start(each.var), scope.length(each.var)
                extent = scope.extent(axis.extent)
                found = [f"const i64 {start} = {at} * {axis.size};"]
                if mentions(body, length):
                    found.append(f"const i64 {length} = min({axis.size}, {extent} - {start});")
                name = start
            else:
                name = scope.names.of("loop", each.var)
                found = [f"const i64 {name} = {at};"]
            if mentions("\n".join([body, *found[1:]]), name):
                lines += [f"    {line}" for line in found]
            left = f"{left} / {count}"
        return lines or ["    (void)task;"]
