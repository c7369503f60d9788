"""What a run of the simulator found and counted, at lines of the author's source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields, replace

#: Kinds that come of a missing wait or barrier, the clearest first: one mistake is often seen from
#: several sides.
_ORDER = (
    "read-inflight",
    "race-read-after-write",
    "race-write-after-read",
    "race-write-write",
    "write-inflight",
)


@dataclass(frozen=True, slots=True)
class Place:
    """A line of a source file."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True, slots=True)
class Report:
    """One mistake that the simulator saw.

    Attributes:
        kind: what it is: race-write-after-read, oob-global, uninit-shared, deadlock, ...
        file, line: where, in the author's file; a header's line stands in `stack`.
        text: the facts: how many bytes, which allocation, which warp.
        other: the other line that takes part (of a race: the earlier access); None if none.
        instruction: the PTX instruction; `ptx_line` is its line in the PTX text.
        stack: the line and the lines that called it, from the inside out.
        block, thread: the first block and thread that it was seen in.
        count: how often it was seen.
        also: more lines of the same race.
    """

    kind: str
    file: str
    line: int
    text: str
    other: Place | None
    instruction: str
    ptx_line: int
    stack: tuple[Place, ...]
    block: tuple[int, int, int]
    thread: int
    count: int
    also: tuple[Place, ...] = ()

    @property
    def place(self) -> Place:
        """File and line."""
        return Place(self.file, self.line)

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.file else f"PTX line {self.ptx_line}"
        text = f"{where}: {self.kind}: {self.text}"
        if self.other is not None:
            text += f" at {self.other}"
        if self.also:
            text += f" (also {', '.join(map(str, self.also))})"
        seen = f"block {self.block}, thread {self.thread}"
        if self.count > 1:
            seen += f"; {self.count} times"
        return f"{text} (`{self.instruction}`, {seen})"


@dataclass(slots=True)
class Counters:
    """What instructions cost: of a whole run, or of one line.

    Attributes:
        instructions: warp instructions that ran; `lanes` is the sum of their active lanes.
        flops: floating-point operations outside of tensor cores; an fma is two.
        tensor_flops: those of mma instructions.
        shared_turns, shared_ideal: turns that the banks of shared memory took, and would take
            without conflicts.
        sectors: pieces of 32 bytes of global memory that were moved; `sector_bytes` is how many
            bytes of them were used.
        read_bytes, write_bytes: of global memory; shared_bytes: of shared memory.
    """

    instructions: int = 0
    lanes: int = 0
    flops: int = 0
    tensor_flops: int = 0
    shared_turns: int = 0
    shared_ideal: int = 0
    sectors: int = 0
    sector_bytes: int = 0
    read_bytes: int = 0
    write_bytes: int = 0
    shared_bytes: int = 0

    @property
    def bank_factor(self) -> float:
        """Turns of shared memory for one turn without bank conflicts; 1.0 is best."""
        return self.shared_turns / self.shared_ideal if self.shared_ideal else 1.0

    @property
    def sector_efficiency(self) -> float:
        """The share of moved bytes of global memory that was used; 1.0 is best."""
        return self.sector_bytes / (32 * self.sectors) if self.sectors else 1.0

    def add(self, other: Counters) -> None:
        for name in _COUNTER_NAMES:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_COUNTER_NAMES = tuple(f.name for f in fields(Counters))


@dataclass(frozen=True, slots=True)
class Line:
    """The counters of one line of the author's source."""

    file: str
    line: int
    counters: Counters

    def __repr__(self) -> str:
        c = self.counters
        return f"{self.file}:{self.line}: {_row(c)}"


class Lines(tuple[Line, ...]):
    """Lines of source, the most expensive first. Its repr is a table."""

    __slots__ = ()

    def __repr__(self) -> str:
        width = max((len(f"{_short(x.file)}:{x.line}") for x in self), default=4)
        head = f"{'line':{width}} {'instrs':>9} {'lanes':>5} {'tensor':>9} {'flops':>9} " + (
            f"{'banks':>6} {'sector':>6} {'read':>9} {'write':>9}"
        )
        return "\n".join(
            [
                head,
                *(f"{_short(x.file) + ':' + str(x.line):{width}} {_row(x.counters)}" for x in self),
            ]
        )


def _row(c: Counters) -> str:
    lanes = f"{c.lanes / c.instructions:.1f}" if c.instructions else "-"
    banks = f"{c.bank_factor:.2f}" if c.shared_ideal else "-"
    sector = f"{c.sector_efficiency:.2f}" if c.sectors else "-"
    return (
        f"{c.instructions:>9} {lanes:>5} {_si(c.tensor_flops):>9} {_si(c.flops):>9} "
        f"{banks:>6} {sector:>6} {_si(c.read_bytes):>9} {_si(c.write_bytes):>9}"
    )


def _si(number: int) -> str:
    if not number:
        return "-"
    for unit, scale in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if number >= 10 * scale:
            return f"{number / scale:.1f}{unit}"
    return str(number)


def _short(file: str) -> str:
    return file.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Run:
    """What one launch did. True in a condition where nothing was found wrong.

    Attributes:
        kernel: its name; `blocks`: how many ran.
        reports: the mistakes, each once, in the order of lines.
        counters: of the whole launch.
        lines: the same for each line of the author's source.
        printed: what the kernel printed.
        seconds: how long the simulation took.
    """

    kernel: str
    blocks: int
    reports: tuple[Report, ...]
    counters: Counters
    lines: Lines
    printed: str = ""
    trapped: bool = False
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return not self.reports

    def __repr__(self) -> str:
        c = self.counters
        head = (
            f"{self.kernel}: {self.blocks} blocks, {c.instructions} warp instructions, "
            f"{len(self.reports)} reports"
        )
        facts = (
            f"  tensor flops {c.tensor_flops}, other flops {c.flops}, bank factor "
            f"{c.bank_factor:.2f}, sector efficiency {c.sector_efficiency:.2f}, "
            f"read {c.read_bytes} bytes, written {c.write_bytes} bytes"
        )
        return "\n".join([head, facts, *(f"  {report}" for report in self.reports)])


@dataclass(slots=True)
class _Raw:
    """One launch as csrc/result.cc writes it."""

    kernel: str = ""
    blocks: int = 0
    trapped: bool = False
    findings: list[list[str]] = field(default_factory=list)
    instructions: dict[int, list[str]] = field(default_factory=dict)
    printed: str = ""


def parse(text: str, seconds: float = 0.0) -> list[Run]:
    """The runs that a text of csrc/result.cc describes."""
    raws: list[_Raw] = []
    for line in text.split("\n"):
        kind, *rest = line.split("\t")
        if kind == "kernel":
            raws.append(_Raw(rest[0], int(rest[1]), rest[2] == "1"))
        elif kind == "finding":
            raws[-1].findings.append(rest)
        elif kind == "ins":
            raws[-1].instructions[int(rest[0])] = rest[1:]
        elif kind == "print":
            raws[-1].printed = _unescaped(rest[0])
    return [_run(raw, seconds) for raw in raws]


def _run(raw: _Raw, seconds: float) -> Run:
    total = Counters()
    lines: dict[Place, Counters] = {}
    for _, text, stack, *numbers in raw.instructions.values():
        counted = _counters(text, [int(n) for n in numbers if n])
        total.add(counted)
        lines.setdefault(_author(_stack(stack)), Counters()).add(counted)
    order = sorted(lines.items(), key=lambda item: -item[1].instructions)
    table = Lines(Line(place.file, place.line, c) for place, c in order)
    reports = tuple(_merged([_report(raw, finding) for finding in raw.findings]))
    return Run(raw.kernel, raw.blocks, reports, total, table, raw.printed, raw.trapped, seconds)


def _counters(text: str, numbers: list[int]) -> Counters:
    executed, lanes, turns, ideal, sectors, moved, used, flops, tensor = numbers
    c = Counters(executed, lanes, flops, tensor, turns, ideal, sectors, used)
    op = re.sub(r"^@\S+ ", "", text)
    if op.startswith(("st.", "red.")):
        c.write_bytes = moved if sectors else 0
    elif sectors:
        c.read_bytes = moved
    if ideal and not sectors:
        c.shared_bytes = moved
    return c


def _report(raw: _Raw, finding: list[str]) -> Report:
    kind, count, x, y, z, thread, _, pc, other, text, *_ = finding
    ptx_line, instruction, stack, *_ = raw.instructions[int(pc)]
    places = _stack(stack)
    author = _author(places)
    second = _author(_stack(raw.instructions[int(other)][2])) if int(other) >= 0 else None
    return Report(
        kind,
        author.file,
        author.line,
        _unescaped(text),
        second,
        instruction,
        int(ptx_line),
        places,
        (int(x), int(y), int(z)),
        int(thread),
        int(count),
    )


def _merged(reports: Iterable[Report]) -> Iterator[Report]:
    """One report for each mistake: a kind and line once, and one of all sides of a race."""
    first: dict[tuple[str, Place], Report] = {}
    races: list[Report] = []
    for report in sorted(reports, key=lambda r: (r.block, r.ptx_line)):
        if report.kind in _ORDER:
            races.append(report)
        else:
            first.setdefault((report.kind, report.place), report)
    involved = {place for race in races for place in (race.place, race.other)}
    for report in first.values():
        # A value that comes too late is not there yet: the race says so.
        if report.kind != "uninit-shared" or report.place not in involved:
            yield report
    yield from map(_clearest, _connected(races))


def _connected(races: list[Report]) -> list[list[Report]]:
    """Races in groups that share a line: one missing barrier shows at many pairs of lines."""
    groups: list[tuple[set[Place], list[Report]]] = []
    for race in races:
        places = {race.place, *((race.other,) if race.other else ())}
        own = [race]
        apart = []
        for other_places, members in groups:
            if other_places & places:
                places |= other_places
                own = members + own
            else:
                apart.append((other_places, members))
        groups = [*apart, (places, own)]
    return [members for _, members in groups]


def _clearest(group: list[Report]) -> Report:
    """The report that says most, with the other lines of its group in `also`."""
    best = min(group, key=lambda r: (_ORDER.index(r.kind), r.block, r.ptx_line))
    places = {place for r in group for place in (r.place, r.other) if place is not None}
    others = sorted(places - {best.place, best.other}, key=lambda p: (p.file, p.line))
    return replace(best, also=tuple(others), count=sum(r.count for r in group))


def _stack(text: str) -> tuple[Place, ...]:
    pairs = (entry.split("\x1e") for entry in text.split("\x1f") if entry)
    return tuple(Place(file, int(line)) for file, line in pairs)


def _author(stack: tuple[Place, ...]) -> Place:
    """The innermost line that is no library's: headers and installed packages are."""
    if not stack:
        return Place("", 0)
    for place in stack:
        if not re.search(r"\.(h|hpp|cuh|inl)$|/site-packages/|/dist-packages/", place.file):
            return place
    return stack[-1]


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "t": "\t"}.get(m[1], m[1]), text)
