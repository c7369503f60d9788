"""What the printer of one phase knows: names, scalars, pointers and where values lie."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from kdsl.codegen.cpu.names import Names
from kdsl.codegen.cpu.ops import STORED, convert, literal, spell
from kdsl.codegen.cpu.text import without_unused, wrapped
from kdsl.codegen.hostexpr import extent_c
from kdsl.dims import Extent
from kdsl.dtypes import DType, TensorType, f32
from kdsl.errors import InternalError, Span
from kdsl.ir.nodes import (
    Along, Arg, Bound, Cast, Const, DimSize, Ew, Func, Index, Let, Load, LoopVar, Point,
)  # fmt: skip
from kdsl.ir.walk import statements
from kdsl.passes.cpu.facts import Facts
from kdsl.passes.cpu.plan import Buffer, PhasePlan


class Scope:
    """Lines of a function as they are printed, and the names in them."""

    #: Lanes that do not exist are not read from buffers either, though there is room for them.
    masks_buffers = False

    def __init__(self, func: Func, facts: Facts, plan: PhasePlan, names: Names) -> None:
        self.func, self.facts, self.plan, self.names = func, facts, plan, names
        self.lines: list[str] = []
        self.depth = 1
        self.marked = ""
        self.step_line, self.step_depth = 0, 1  # where pointers of the current step are declared
        self.defined: dict[str, str] = {}  # scalars that have a name by now
        self.pointers: dict[str, str] = {}  # access -> pointer in scope
        self.homes = dict(plan.homes)
        self.in_memory: set[str] = set()  # values that lie in their buffers by now
        self.dims = {d: names.of("dim", d) for d in func.dims}
        for p in func.params:
            names.of("param", p.name)
        for s in func.scratch:
            names.of("param", s.name)
        for b in plan.buffers:
            names.of("buffer", b.name)

    # ---- lines

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def finish(self) -> list[str]:
        """The lines, without constants that nobody reads and none of them too long."""
        return [part for line in without_unused(self.lines) for part in wrapped(line)]

    def mark(self, spans: Iterable[Span]) -> None:
        """A comment with the author's lines that the next lines come from."""
        known = [s for s in spans if s.line > 0]
        if known:
            first, last = min(s.line for s in known), max(s.line for s in known)
            place = f"{PurePath(known[0].file).name}:{first}" + (f"-{last}" if last > first else "")
            if place != self.marked:
                self.line(f"// {place}")
            self.marked = place

    def open(self, head: str) -> None:
        self.line(f"{head} {{")
        self.depth += 1

    def close(self, tail: str = "") -> None:
        self.depth -= 1
        self.line("}" + tail)

    def begin_step(self) -> None:
        """Pointers that the next lines need are declared here."""
        self.step_line, self.step_depth = len(self.lines), self.depth

    def declare(self, text: str) -> None:
        self.lines.insert(self.step_line, "  " * self.step_depth + text)
        self.step_line += 1

    # ---- scalars

    def scalar(self, value: str) -> str:
        """A scalar value as an expression: its name, or how it is made."""
        value = self.facts.unguarded(value)
        if value in self.defined:
            return self.defined[value]
        let = self.facts.lets[value]
        text = self.scalar_op(let)
        return text

    def scalar_op(self, let: Let) -> str:
        match let.op:
            case Const(text=text):
                return literal(text, let.type.dtype)
            case DimSize(extent=extent):
                text = self.extent(extent)
                return text if text.isalnum() else f"({text})"
            case Arg(param=param):
                return self.names.of("param", param)
            case LoopVar(var=var):
                return self.names.of("loop", var)
            case Bound(axis=axis, which="start"):
                return self.start(axis)
            case Bound(axis=axis, which="len"):
                return self.length(axis)
            case Bound(axis=axis, which="stop"):
                return f"({self.start(axis)} + {self.length(axis)})"
            case Ew(fn=fn, args=args):
                dtype = self.facts.types[args[-1]].dtype
                operands = [self.scalar(a) for a in args]
                return spell(fn, operands, dtype, vector=False, span=let.span)
            case Load(tensor=tensor, index=index):
                return f"get({self.pointer(tensor, index, let.name)})"
            case Cast(arg=arg):
                source = self.facts.types[arg].dtype
                return convert(self.scalar(arg), source, let.type.dtype, vector=False)
        raise InternalError(f"print: `{let.name}` is no scalar", repr(let.op))

    def extent(self, extent: Extent) -> str:
        return extent_c(extent, self.dims).replace("kdsl::", "")

    # ---- axes

    def start(self, axis: str) -> str:
        """First index of an axis's slice."""
        kind = self.func.axis(axis).kind
        return "0" if kind == "whole" else self.names.of("start", axis, f"{axis}_start")

    def length(self, axis: str) -> str:
        """Real length of an axis's slice."""
        a = self.func.axis(axis)
        return (
            self.extent(a.extent)
            if a.kind == "whole"
            else (self.names.of("len", axis, f"{axis}_len"))
        )

    def room(self, axis: str) -> str:
        """Length of an axis's slice in a buffer: its capacity."""
        a = self.func.axis(axis)
        return str(a.size) if a.kind == "tile" else self.extent(a.extent)

    def lanes(self, axis: str) -> str:
        """The same in whole vectors."""
        a = self.func.axis(axis)
        if a.size is not None:
            return str((a.size + 15) // 16 * 16)
        text = self.extent(a.extent)
        return str((int(text) + 15) // 16 * 16) if text.isdigit() else f"padded({text})"

    def index_of(self, axis: str, at: str) -> str:
        """Absolute index of a place on an axis."""
        start = self.start(axis)
        return at if start == "0" else start if at == "0" else f"{start} + {at}"

    def coordinate(self, axis: str) -> str:
        """The variable that walks an axis."""
        hint = axis if self.func.axis(axis).kind == "tile" else axis.lower()
        return self.names.of("at", axis, hint)

    # ---- memory

    def tensor(self, name: str) -> TensorType:
        return self.func.tensor(name)

    def tensor_dtype(self, name: str) -> DType:
        dtype = self.tensor(name).dtype
        if not isinstance(dtype, DType):
            raise InternalError(f"print: tensor `{name}` has no dtype yet")
        return dtype

    def stride(self, tensor: str, k: int, by: int = 1) -> str:
        """Stride of dimension k, in elements; the last is 1."""
        last = k == self.tensor(tensor).ndim - 1
        if last:
            return str(by)
        name = self.names.of("stride", f"{tensor} {k}", f"{tensor}_s{k}")
        return name if by == 1 else f"({name} * {by})"

    def pointer(self, tensor: str, index: tuple[Index, ...], owner: str) -> str:
        """The first element that an access of the current step touches."""
        parts = []
        for k, i in enumerate(index):
            match i:
                case Point(value=value) if not self.facts.axes[value]:
                    at = self.point(value)
                case Along(axis=axis, offset=offset, step=by):
                    at = self.start(axis)
                    if by != 1 and at != "0":
                        at = f"{at} * {by}"
                    if offset is not None:
                        shift = self.scalar(offset)
                        at = shift if at == "0" else f"{at} + {shift}"
                case _:
                    continue  # index values over axes: each element adds its own
            if at == "0":
                continue
            stride = self.stride(tensor, k)
            simple = at.replace("_", "a").isalnum() or (at.startswith("(") and at.endswith(")"))
            parts.append(at if stride == "1" else f"{at if simple else f'({at})'} * {stride}")
        name = self.names.of("param", tensor)
        if not parts:
            return name
        text = " + ".join([name, *parts])
        if text not in self.pointers:
            pointer = self.names.fresh(f"{tensor}_at")
            const = "" if tensor in self.facts.written else "const "
            kind = STORED[self.tensor_dtype(tensor).name]
            self.declare(f"{const}{kind}* const {pointer} = {text};")
            self.pointers[text] = pointer
        return self.pointers[text]

    def may_stream(self, tensor: str) -> bool:
        return may_stream(self.func, tensor)

    def far(self, tensor: str) -> str:
        """The flag that says whether a tensor's stores go past the cache."""
        return self.names.of("far", tensor, f"{tensor}_far")

    def point(self, value: str) -> str:
        """A scalar index."""
        value = self.facts.unguarded(value)
        if self.facts.kind(value) == "scalar":
            return self.scalar(value)
        if value in self.defined:
            return self.defined[value]
        buffer = self.held(value)
        if buffer is not None and not buffer.axes:
            return self.buffer_name(buffer)
        raise InternalError(f"print: index `{value}` is not in a register")

    def held(self, value: str) -> Buffer | None:
        """The buffer in which a value lies by now."""
        home = self.homes.get(value)
        if home is None or value not in self.in_memory:
            return None
        return self.plan.buffer(home)

    def buffer_name(self, buffer: Buffer) -> str:
        return self.names.of("buffer", buffer.name)

    def pitch(self, buffer: Buffer) -> str:
        assert buffer.lane is not None
        return self.lanes(buffer.lane)

    def steps(self, buffer: Buffer) -> dict[str, str]:
        """Stride by axis of a buffer."""
        steps: dict[str, str] = {}
        if buffer.row is not None:
            steps[buffer.row] = self.pitch(buffer)
        if buffer.lane is not None:
            steps[buffer.lane] = "1"
        return steps


def may_stream(func: Func, tensor: str) -> bool:
    """An f32 result that the kernel does not read itself."""
    param = next((p for p in func.params if p.name == tensor), None)
    if param is None or param.kind != "out" or func.tensor(tensor).dtype is not f32:
        return False
    return not any(
        isinstance(s, Let) and isinstance(s.op, Load) and s.op.tensor == tensor
        for s in statements(func)
    )
