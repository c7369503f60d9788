"""What the planner of one phase has decided so far."""

from __future__ import annotations

from kdsl.errors import NOWHERE, KernelTypeError
from kdsl.ir.nodes import Dot, ForRange, ForTiles, If, Load
from kdsl.passes.cpu.facts import Facts, contiguous_axis
from kdsl.passes.cpu.plan import Buffer


class Context:
    """Mutable while a phase is planned; `PhasePlan` is its frozen outcome."""

    def __init__(
        self, facts: Facts, lanes: dict[str, str], sites: dict[str, int] | None = None
    ) -> None:
        self.facts, self.lanes = facts, lanes
        self.buffers: dict[str, Buffer] = {}
        self.homes: dict[str, str] = {}
        self.packs: dict[str, str] = {}
        #: Lets that a dot computes on the way (its chains).
        self.inside_dot: set[str] = set()
        #: Loads that dots want packed, with the lane and the depth axis.
        self.pack_at_load: dict[str, tuple[str, str]] = {}
        #: Number of each guard in the function.
        self.sites = sites or {}
        self._loads_to_pack()

    def lane(self, value: str) -> str:
        """The lane axis of a value with axes."""
        if value in self.lanes:
            return self.lanes[value]
        op = self.facts.op(value)
        own = contiguous_axis(op.index) if isinstance(op, Load) else None
        return own or self.facts.axes[value][-1]

    def row_lane(self, value: str) -> tuple[str | None, str | None]:
        axes = self.facts.axes[value]
        if not axes:
            return None, None
        lane = self.lane(value)
        rows = tuple(a for a in axes if a != lane)
        if len(rows) > 1:
            raise KernelTypeError(
                f"`{value}` has {len(axes)} axes and has to be kept in memory",
                self.facts.lets[value].span if value in self.facts.lets else NOWHERE,
                label=f"{self.facts.types[value]}",
                help="on the CPU such a value has two axes at most; take one axis by a loop",
            )
        return (rows[0] if rows else None), lane

    def new_buffer(
        self, hint: str, dtype: str, row: str | None = None, lane: str | None = None
    ) -> Buffer:
        name, i = hint, 1
        while name in self.buffers:
            i += 1
            name = f"{hint}_{i}"
        self.buffers[name] = Buffer(name, dtype, row, lane)
        return self.buffers[name]

    def buffer_dtype(self, value: str) -> str:
        """Element type of a buffer for a value: small floats are kept as they compute."""
        dtype = self.facts.types[value].dtype
        return "f32" if dtype.is_float and dtype.bits < 32 else dtype.name

    def is_kept(self, value: str) -> bool:
        """The value is computed or carried, not read or recomputed where it is used."""
        return self.facts.kind(value) in ("item", "carried")

    def is_held(self, value: str) -> bool:
        """The value will lie in a buffer when a dot reads it."""
        return self.is_kept(value) and bool(self.facts.axes[value])

    def transfers(self, user: object, value: str) -> int | None:
        """How often a loop or branch takes a value as a first, next or merged one; None when it
        also reads it as a bound or condition, or is no loop or branch."""
        match user:
            case ForTiles(start=start, stop=stop, carries=carries) if value not in (start, stop):
                return sum((c.init == value) + (c.next == value) for c in carries)
            case ForRange(start=start, stop=stop, carries=carries) if value not in (start, stop):
                return sum((c.init == value) + (c.next == value) for c in carries)
            case If(cond=cond, merges=merges) if value != cond:
                return sum((m.then == value) + (m.other == value) for m in merges)
        return None

    def _loads_to_pack(self) -> None:
        """A dot reads its vectors where they lie only along a whole axis; slices are packed, so
        that their last vector is whole, and so is what lies the other way round. 16-bit floats
        are widened once instead of at each use."""
        for let in self.facts.lets.values():
            if not isinstance(let.op, Dot) or len(let.type.axes) != 2:
                continue
            if self.facts.level[let.name] == 0:
                continue
            lane = self.lane(let.name)
            for operand in (let.op.a, let.op.b):
                op = self.facts.op(operand)
                if self.facts.kind(operand) != "leaf" or not isinstance(op, Load):
                    continue
                along, wide = contiguous_axis(op.index), self.facts.types[operand].dtype.bits >= 32
                if lane in self.facts.axes[operand]:
                    whole = self.facts.func.axis(lane).kind == "whole"
                    if along != lane or not whole or not wide:
                        self.pack_at_load[operand] = (lane, let.op.axis)
                elif not wide and along is not None:
                    other = next(a for a in self.facts.axes[operand] if a != along)
                    self.pack_at_load.setdefault(operand, (along, other))
