"""Expressions of one place of a nest: a scalar, or a vector along the lane axis."""

from __future__ import annotations

from dataclasses import dataclass, field

from kdsl.codegen.cpu.ops import (
    SMALL, bare, compute_type, convert, literal, paren, register_type, spell,
)  # fmt: skip
from kdsl.codegen.cpu.scope import Scope
from kdsl.dtypes import DType
from kdsl.errors import InternalError
from kdsl.ir.nodes import (
    Along, AtomicAdd, Cast, Const, Ew, Guard, Index, Iota, Let, Load, Point, Stmt, Store,
)  # fmt: skip
from kdsl.ir.walk import index_operands
from kdsl.passes.cpu.facts import COSTLY
from kdsl.passes.names import is_temporary


@dataclass
class Place:
    """Where expressions are printed: the position on each axis, and what is in registers there.

    Attributes:
        at: index relative to the start of the axis, as C++, by axis.
        lane: the axis along which values are vectors; None: everything is a scalar.
        real: C++ of the lanes that exist (`All` or `Some`), None where all do.
        local: names of registers by value; a value over the lane axis may need `index`.
        index: appended to registers of the outer level that are arrays ("[u]").
        scoped: what is named here ends with the nest (else it stands in the block around it).
        parent: the level outside the loop: values that do not change in the loop are made there.
    """

    scope: Scope
    at: dict[str, str]
    lane: str | None = None
    real: str | None = None
    local: dict[str, str] = field(default_factory=dict)
    index: str = ""
    parent: Place | None = None
    scoped: bool = True
    memo: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    # ---- values

    def is_vector(self, value: str) -> bool:
        return self.lane is not None and self.lane in self.scope.facts.axes[value]

    def dtype(self, value: str) -> DType:
        return self.scope.facts.types[value].dtype

    def value(self, value: str) -> str:
        """A value in its natural form: a vector if it has the lane axis, else a scalar."""
        value = self.scope.facts.unguarded(value)
        if value in self.memo:
            return self.memo[value]
        if value in self.local:
            return self.local[value] + (self.index if self.is_vector(value) else "")
        facts, scope = self.scope.facts, self.scope
        if value in scope.defined:
            return scope.defined[value]
        if facts.kind(value) == "scalar":
            return scope.scalar(value)
        if self.parent is not None and not self._moves(value):
            return self.parent.value(value)
        buffer = scope.held(value)
        if buffer is not None:
            if not buffer.axes:
                return scope.buffer_name(buffer)
            steps = scope.steps(buffer)
            pointer = f"{scope.buffer_name(buffer)}{self.offset(steps)}"
            if self.lane in steps and steps[self.lane] != "1":
                real = self.real_rows()
                return self.bind(value, f"gather({pointer}, {steps[self.lane]}{real})")
            text = self._read(pointer, self.is_vector(value), masked=scope.masks_buffers)
            return self.bind(value, text)
        let = facts.lets.get(value)
        if let is None:
            raise InternalError(f"print: `{value}` is nowhere")
        return self._compute(let)

    def expression(self, value: str) -> str:
        """The same as `wide`, unnamed where this call would only just have named it."""
        before = len(self.lines)
        text = self.wide(value)
        if len(self.lines) > before and self.lines[-1].split(" = ")[0].endswith(f" {text}"):
            _, _, text = self.lines.pop().partition(" = ")
            del self.memo[value]
            return text.rstrip(";")
        return bare(text)

    def _moves(self, value: str) -> bool:
        """The value changes along an axis that only this level has."""
        assert self.parent is not None
        own = set(self.at) - set(self.parent.at)
        return bool(own & set(self.scope.facts.axes[value]))

    def wide(self, value: str) -> str:
        """A value as a vector, or as a scalar where everything is one."""
        text = self.value(value)
        if self.lane is None or self.is_vector(value):
            return text
        return self._splat(text, self.dtype(value))

    def _splat(self, text: str, dtype: DType) -> str:
        if dtype.name == "bool":
            return f"every({bare(text)})"
        return f"splat<{compute_type(dtype)}>({bare(text)})"

    def _compute(self, let: Let) -> str:
        """The value's operation, bound to a name where that helps the reader or saves work."""
        vector = self.is_vector(let.name)
        match let.op:
            case Const(text=text):
                plain = literal(text, let.type.dtype)
                return self._splat(plain, let.type.dtype) if vector else plain
            case Iota(axis=axis):
                start = self.scope.index_of(axis, self.at[axis])
                return f"iota({start})" if vector else f"({start})"
            case Load(tensor=tensor, index=index):
                return self.bind(let.name, self.load(let, tensor, index, vector))
            case Ew(fn=fn, args=args):
                read = self.wide if vector else self.value
                operands, dtype = [read(a) for a in args], self.dtype(args[-1])
                text = spell(fn, operands, dtype, vector=vector, span=let.span)
                return self.bind(let.name, text, keep_inline=self.is_passing(let.name))
            case Cast(arg=arg):
                text = self.wide(arg) if vector else self.value(arg)
                text = convert(text, self.dtype(arg), let.type.dtype, vector=vector)
                return self.bind(let.name, text, keep_inline=True)
        raise InternalError(f"print: `{let.name}` cannot be computed here", repr(let.op))

    def is_passing(self, value: str) -> bool:
        """A temporary that is read once: it stands in the expression that reads it."""
        let = self.scope.facts.lets.get(value)
        if let is None or not is_temporary(value):
            return False
        if not isinstance(let.op, Ew):
            return False
        users = self.scope.facts.users.get(value, [])
        if len(users) > 1 or not all(_reads_as_value(u, value) for u in users):
            return False
        return self.is_vector(value) or let.op.fn not in COSTLY

    def bind(self, value: str, text: str, *, keep_inline: bool = False) -> str:
        """Give an expression a name in this place, once."""
        if keep_inline:
            self.memo[value] = text
            return text
        dtype = self.dtype(value)
        kind = register_type(dtype) if self.is_vector(value) else compute_type(dtype)
        name = self.scope.names.fresh(value, local=self.scoped)
        self.lines.append(f"const {kind} {name} = {bare(text)};")
        self.memo[value] = name
        return name

    # ---- memory

    def _read(self, pointer: str, vector: bool, *, masked: bool) -> str:
        if not vector:
            return f"get({pointer})"
        return f"ld({pointer}, {self.real})" if masked and self.real else f"ld({pointer})"

    def real_lanes(self) -> str:
        """The argument of an access that says which lanes exist, behind others."""
        return f", {self.real}" if self.real else ""

    def real_rows(self) -> str:
        """The same of an access to a buffer whose rows are the lanes: there are as many of those
        as its axis has elements, which may be less than whole vectors."""
        scope = self.scope
        assert self.lane is not None
        whole = scope.room(self.lane) == scope.lanes(self.lane) and not scope.masks_buffers
        return "" if whole else self.real_lanes()

    def load(self, let: Let, tensor: str, index: tuple[Index, ...], vector: bool) -> str:
        pointer, step, offsets = self.address(tensor, index, let.name)
        if not vector:
            return f"get({pointer})"
        if offsets:
            return f"gather_at({pointer}, {offsets}{self.real_lanes()})"
        if step == "1":
            return self._read(pointer, True, masked=True)
        return f"gather({pointer}, {step}{self.real_lanes()})"

    def address(self, tensor: str, index: tuple[Index, ...], owner: str) -> tuple[str, str, str]:
        """(pointer, stride along the lane axis, offsets of the lanes) of an access.

        The part that does not change in the nest is a pointer of its own. Offsets are there only
        where an index differs from lane to lane; the stride is part of them then.
        """
        pointer = self.scope.pointer(tensor, index, owner)
        step, moves, vectors = "", dict[str, str](), list[str]()
        for k, i in enumerate(index):
            match i:
                case Along(axis=axis, step=by):
                    moves[axis] = self.scope.stride(tensor, k, by)
                    if axis == self.lane:
                        step = moves[axis]
                case Point(value=value) if self.scope.facts.axes[value]:
                    stride = self.scope.stride(tensor, k)
                    at = self.value(value)
                    if self.is_vector(value):
                        wide = at if self.dtype(value).name == "i64" else f"convert<i64>({at})"
                        vectors.append(wide if stride == "1" else f"{wide} * {stride}")
                    else:
                        term = f"(i64){paren(at)}" if self.dtype(value).name != "i64" else paren(at)
                        pointer += f" + {term}" if stride == "1" else f" + {term} * {stride}"
        pointer += self.offset(moves)
        if vectors and step:
            vectors.append(
                "lane_numbers<i64>()" if step == "1" else f"lane_numbers<i64>() * {step}"
            )
        return pointer, step, " + ".join(vectors)

    def offset(self, steps: dict[str, str]) -> str:
        """ " + i * stride" for each axis of an access."""
        parts = []
        for axis, stride in steps.items():
            at = self.at[axis]
            if at == "0":
                continue
            parts.append(f" + {at}" if stride == "1" else f" + {paren(at)} * {stride}")
        return "".join(parts)

    def store(self, store: Store | AtomicAdd) -> str:
        """The statement that writes, or adds to, one element or vector."""
        pointer, step, offsets = self.address(store.tensor, store.index, store.tensor)
        if isinstance(store, AtomicAdd):
            if not step and not offsets:
                return f"add_one({pointer}, {bare(self.value(store.value))}, alone);"
            value = f"{bare(self.wide(store.value))}, {self.real or 'All{}'}, alone"
            if not offsets and step == "1":
                return f"add_run({pointer}, {value});"
            if not offsets:
                offsets = f"lane_numbers<i64>() * {step}"
            return f"add_at({pointer}, {offsets}, {value});"
        if not step and not offsets:
            return f"put({pointer}, {bare(self.value(store.value))});"
        text = bare(self.stored(store.value, self.scope.tensor_dtype(store.tensor)))
        if offsets:
            return f"scatter_at({pointer}, {offsets}, {text}{self.real_lanes()});"
        if step == "1" and self.parent is not None and self.scope.may_stream(store.tensor):
            return f"st_far({pointer}, {text}{self.real_lanes()}, {self.scope.far(store.tensor)});"
        if step == "1":
            return f"st({pointer}, {text}{self.real_lanes()});"
        return f"scatter({pointer}, {step}, {text}{self.real_lanes()});"

    def stored(self, value: str, dtype: DType) -> str:
        """A value that is about to be stored: the store itself rounds to 16-bit floats."""
        let = self.scope.facts.lets.get(value)
        if (
            let is not None and isinstance(let.op, Cast) and value not in self.memo
            and dtype.name in SMALL and self.dtype(let.op.arg).name == "f32"
            and self.scope.held(value) is None and value not in self.local
        ):  # fmt: skip
            return self.wide(let.op.arg)
        return self.wide(value)

    def flush(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


def _reads_as_value(user: Stmt, value: str) -> bool:
    """The statement reads the value as one, not as an index, bound or condition."""
    match user:
        case Let(op=op):
            return not isinstance(op, (Load, Guard))
        case Store(index=index) | AtomicAdd(index=index):
            return value not in index_operands(index)
    return False
