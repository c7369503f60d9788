"""Print the phases of a kernel whose blocks work as teams: the CPU's nests, over threads."""

from __future__ import annotations

from kdsl.codegen.cpu.names import Names
from kdsl.codegen.cpu.ops import COMPUTE
from kdsl.codegen.cpu.scope import Scope
from kdsl.codegen.cpu.steps import print_steps
from kdsl.codegen.cpu.text import mentions
from kdsl.codegen.cuda.hostside import HostSizes
from kdsl.codegen.cuda.phase import KernelPrinter, reserved_names
from kdsl.codegen.cuda.text import DeviceText
from kdsl.codegen.device import DevicePhase
from kdsl.dims import Extent
from kdsl.ir.nodes import Dot, Func, Let
from kdsl.ir.walk import walk
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.plan import Buffer, Pack, PhasePlan, Product, Transpose, all_steps
from kdsl.passes.cuda.team import TeamPlan

#: Bytes of buffers that are worth shared memory; more of them lie in the block's part of scratch.
SHARED = 96 << 10
#: Blocks that may run at once where each has such a part.
RESIDENT = 1024


class TeamScope(Scope):
    """Lanes are threads: what lies along them is padded to whole teams."""

    masks_buffers = True

    def __init__(
        self, func: Func, facts: Facts, plan: PhasePlan, names: Names, threads: int
    ) -> None:
        super().__init__(func, facts, plan, names)
        self.threads = threads

    def may_stream(self, tensor: str) -> bool:
        return False  # the cache of a GPU keeps nothing long

    def lanes(self, axis: str) -> str:
        a = self.func.axis(axis)
        text = str(a.size) if a.size is not None else self.extent(a.extent)
        if text.isdigit():
            return str((int(text) + self.threads - 1) // self.threads * self.threads)
        return f"whole({text}, {self.threads})"


class _HostScope(TeamScope):
    """The same sizes in terms of the arguments."""

    def extent(self, extent: Extent) -> str:
        return HostSizes(self.func).extent(extent)

    def lanes(self, axis: str) -> str:
        return super().lanes(axis).replace("whole(", "kdsl::whole(")


class TeamPhase(KernelPrinter):
    """Prints one phase as a kernel."""

    def __init__(
        self, exported: str, team: TeamPlan, number: int, scratch: list[str], why: str = ""
    ) -> None:
        """`scratch` are the bytes of what lies in the scratch block before this phase's part; the
        phase appends its own. `why` says what keeps it from tensor cores."""
        self.threads, self.why = team.threads[number], why
        super().__init__(exported, team.plan, number)
        self.scratch_parts = scratch
        self.host = HostSizes(self.func)

    def make_scope(self, facts: Facts) -> Scope:
        return TeamScope(self.func, facts, self.plan, Names(reserved_names()), self.threads)

    def kernel(self) -> tuple[DeviceText, DevicePhase]:
        """The kernel, and how it is launched."""
        scope = self.scope
        for b in (b for b in self.plan.buffers if not b.axes):
            scope.line(f"{COMPUTE[b.dtype]} {scope.buffer_name(b)} = 0;")
        print_steps(scope, self.plan.steps)
        lines = scope.finish()
        lines = [*self.task_lines("\n".join(lines)), *lines]
        body = "\n".join(lines)
        arrays = [b for b in self.plan.buffers if b.axes]
        blocks = self.host.tasks(self.phase.vars)
        smem, memory = self._memory(arrays)
        if arrays and not smem:
            blocks = f"kdsl::at_most({blocks}, {RESIDENT})"
            self.scratch_parts.append(
                f"kdsl::tensor_room<char>({blocks}, {self._host_bytes(arrays)})"
            )
        tasks = " * ".join(map(self.count, self.phase.vars)) or "1"
        takes = [*memory, *self.takes(arrays)]
        if mentions(body, "alone"):
            takes.append("constexpr bool alone = false;")
        if mentions(body, "W"):
            takes.append(f"constexpr int W = {self.threads};")
        takes.append(f"const i64 tasks = {tasks};")
        declared = self.declarations("\n".join([body, *takes]))
        many = len(self.func.phases) > 1
        symbol = self.symbol(str(self.number) if many else "")
        place = f", phase {self.number + 1} of {len(self.func.phases)}" if many else ""
        kinds = {type(s) for s in all_steps(self.plan.steps)}
        text = DeviceText(
            headers=(
                *(("atomic",) if mentions(body, "alone") else ()),
                *(("dot",) if kinds & {Pack, Product, Transpose} else ()),
            ),
            symbol=symbol,
            args=f"{self.exported}_args",
            threads=self.threads,
            comment=f"{self.summary()}{place}.{self._reason()}",
            head=(*declared, *takes),
            body=tuple(lines),
        )
        return text, DevicePhase(symbol, self.threads, smem, blocks)

    def _reason(self) -> str:
        """Why products of the phase are not on tensor cores."""
        dots = any(isinstance(s, Let) and isinstance(s.op, Dot) for s in walk(self.phase.body))
        return f" Not on tensor cores: {self.why}." if dots and self.why else ""

    # ---- buffers

    def _memory(self, arrays: list[Buffer]) -> tuple[int, list[str]]:
        """(bytes of shared memory, declaration of the arena)."""
        if not arrays:
            return 0, []
        total = sum(self._static_bytes(b) for b in arrays)
        if 0 < total <= SHARED and all(self._static_bytes(b) for b in arrays):
            return total, ["char* arena = shared_memory();"]
        sizes = " + ".join(f"room<{COMPUTE[b.dtype]}>({self.elements(b)})" for b in arrays)
        before = "".join(f" + {self._device(part)}" for part in self.scratch_parts)
        return 0, [
            f"const i64 arena_bytes = {sizes};",
            f"char* arena = (char*)a.scratch{before} + block_number() * arena_bytes;",
        ]

    def _static_bytes(self, buffer: Buffer) -> int:
        """Bytes of a buffer whose size is a number, else 0."""
        factors = self.elements(buffer).split(" * ")
        if not all(f.isdigit() for f in factors):
            return 0
        count = 1
        for f in factors:
            count *= int(f)
        return (count * _width(buffer) + 63) // 64 * 64

    def _host_bytes(self, arrays: list[Buffer]) -> str:
        host = _HostScope(self.func, self.scope.facts, self.plan, Names(frozenset()), self.threads)
        parts = []
        for b in arrays:
            assert b.lane is not None
            sizes = [*([host.room(b.row)] if b.row else []), host.lanes(b.lane)]
            parts.append(f"kdsl::tensor_room<char>({', '.join(sizes)}, {_width(b)})")
        return f"kdsl::total_room({', '.join(parts)})"

    def _device(self, host: str) -> str:
        """A size of the host as the kernel says it."""
        return host.replace("kdsl::", "")


def _width(buffer: Buffer) -> int:
    """Bytes of an element."""
    kind = COMPUTE[buffer.dtype]
    return {"bool": 1, "float": 4, "double": 8}.get(kind) or int(kind[1:]) // 8
