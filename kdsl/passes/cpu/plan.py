"""The frozen plan of a kernel on a CPU: what is computed where, in which order, kept in what.

A plan decides; `kdsl.codegen.cpu` prints it. Values keep the names they have in the IR. Inside a
plan every loop walks one axis; the *lane* axis of a nest is the one that vectors lie along.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from kdsl.ir.nodes import AtomicAdd, ForRange, ForTiles, Func, Let, Store


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory of one thread. Element (row, lane) lies at row * pitch + lane, where the pitch is
    the lane axis padded to whole vectors. Without axes it is a variable."""

    name: str
    dtype: str
    row: str | None = None
    lane: str | None = None

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(a for a in (self.row, self.lane) if a is not None)


# ---- actions inside a nest


@dataclass(frozen=True, slots=True)
class Compute:
    """A value of the outer level, into registers."""

    value: str


@dataclass(frozen=True, slots=True)
class Hold:
    """A value into a buffer."""

    value: str
    buffer: str


@dataclass(frozen=True, slots=True)
class Fold:
    """One more element into a reduction (the name of its `Let`)."""

    reduction: str


@dataclass(frozen=True, slots=True)
class Run:
    """One more element into a running sum; the value of the scan here is what it is by now."""

    scan: str


@dataclass(frozen=True, slots=True)
class Write:
    """A store into a tensor, or an atomic addition."""

    store: Store | AtomicAdd


Action = Compute | Hold | Fold | Run | Write


@dataclass(frozen=True, slots=True)
class Stage:
    """One pass over the inner axis: `before` it at the outer level, `within` it for each element.

    A reduction folded in one stage is complete before the next.
    """

    before: tuple[Action, ...] = ()
    within: tuple[Action, ...] = ()


# ---- steps of a block


@dataclass(frozen=True, slots=True)
class Term:
    """A summand of a guard: a scalar value, or the first or last index of an axis's slice."""

    sign: Literal[1, -1]
    kind: Literal["value", "first", "last"]
    name: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """sum(left) op sum(right), over scalars."""

    op: Literal[">=", ">"]
    left: tuple[Term, ...]
    right: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Define:
    """A scalar with a name of its own."""

    let: Let


@dataclass(frozen=True, slots=True)
class Check:
    """A guard, the `site`-th of the function: the call ends if an index is outside."""

    let: Let
    site: int


@dataclass(frozen=True, slots=True)
class Pack:
    """Copy an operand of a dot so that its lanes lie next to each other, zeros past the last.

    `source` is a load, or a value held with its axes the other way round.
    """

    source: str
    buffer: str
    depth: str
    transposed: bool


@dataclass(frozen=True, slots=True)
class Product:
    """A dot: rows x lanes. `vectors` is the operand with the lane axis (a pack, buffer or load),
    `scalars` the other. Starts from `init` and leaves `value`, which may be the end of a chain of
    elementwise operations behind the dot, in `buffer`."""

    dot: Let
    row: str
    lane: str
    scalars: str
    vectors: str
    init: str | None
    value: str
    buffer: str


@dataclass(frozen=True, slots=True)
class Nest:
    """Fused loops: `around` (plain loops), `outer`, then stages over `inner`; `lane` is one of the
    last two. With `unless`, the nest changes nothing where all those comparisons hold."""

    around: tuple[str, ...]
    outer: str | None
    inner: str | None
    lane: str | None
    stages: tuple[Stage, ...]
    unless: tuple[Comparison, ...] = ()


@dataclass(frozen=True, slots=True)
class Transpose:
    """A store of a held value whose rows are contiguous in the tensor."""

    store: Store
    buffer: str


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of the kernel; its carries live in the buffers named in the plan's homes."""

    loop: ForTiles | ForRange
    body: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A branch on a scalar; either side leaves its values in the buffers of `merges`."""

    cond: str
    then: tuple[Step, ...]
    other: tuple[Step, ...]
    merges: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Sync:
    """All threads that share this iteration wait for each other; a CPU thread is alone in it."""


Step = Define | Check | Pack | Product | Nest | Transpose | Loop | Branch | Sync


@dataclass(frozen=True, slots=True)
class PhasePlan:
    """Steps of one parallel loop's iteration, and the memory they need. `homes` says in which
    buffer a value lies, `packs` in which a dot finds its packed operand."""

    steps: tuple[Step, ...]
    buffers: tuple[Buffer, ...]
    homes: tuple[tuple[str, str], ...]
    packs: tuple[tuple[str, str], ...]

    def lane_axes(self) -> frozenset[str]:
        """Axes along which vectors lie somewhere in the phase."""
        nests = (s for s in all_steps(self.steps) if isinstance(s, Nest))
        return frozenset(n.lane for n in nests if n.lane is not None)

    def home(self, value: str) -> Buffer | None:
        name = dict(self.homes).get(value)
        return None if name is None else self.buffer(name)

    def buffer(self, name: str) -> Buffer:
        return next(b for b in self.buffers if b.name == name)


@dataclass(frozen=True, slots=True)
class Plan:
    """A kernel with its tile sizes set, and a plan for each phase."""

    func: Func
    phases: tuple[PhasePlan, ...]


def all_steps(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Steps and those inside them, in order."""
    for step in steps:
        yield step
        match step:
            case Loop(body=body):
                yield from all_steps(body)
            case Branch(then=then, other=other):
                yield from all_steps(then + other)
