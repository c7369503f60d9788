"""Give values arrays of registers: a value takes over an array whose last reader is behind it.

`check_arrays` is the rule's own verifier: it replays the steps, twice through each loop, and finds
every read of an array that holds something else by then.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from kdsl.errors import InternalError
from kdsl.passes.cuda.maps import Map


@dataclass(frozen=True, slots=True)
class Read:
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Make:
    """A value is written; `keeps`: the value it may be made in place of, first."""

    value: str
    keeps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Enter:
    """A loop: (carry, init, result) of each variable, None where the init is a constant."""

    carries: tuple[tuple[str, str | None, str, str], ...]


@dataclass(frozen=True, slots=True)
class Leave:
    """The end of that loop."""

    carries: tuple[tuple[str, str | None, str, str], ...]


Event = Read | Make | Enter | Leave


@dataclass
class Arrays:
    """Homes of values, and the copies that are needed at the ends of loops."""

    shapes: dict[str, tuple[Map, ...]]
    homes: dict[str, str] = field(default_factory=dict)
    #: Carries whose next value lies elsewhere, and must be copied at the end of a turn.
    moves: list[tuple[str, str]] = field(default_factory=list)
    #: Inits that must be copied before the loop.
    starts: list[tuple[str, str]] = field(default_factory=list)
    #: Values that a product must copy before it adds to them.
    accumulators: list[tuple[str, str]] = field(default_factory=list)


def assign_arrays(
    events: list[Event], shapes: dict[str, tuple[Map, ...]], kinds: dict[str, str]
) -> Arrays:
    """Homes for all values that events make or carry.

    Args:
        events: of the phase, in the order in which things happen.
        shapes: maps of each value.
        kinds: dtype by value; only alike values share an array.
    """
    return _Assigner(events, shapes, kinds).run()


class _Assigner:
    def __init__(
        self, events: list[Event], shapes: dict[str, tuple[Map, ...]], kinds: dict[str, str]
    ) -> None:
        self.events, self.kinds = events, kinds
        self.out = Arrays(shapes)
        self.last: dict[str, int] = {}
        self.loops: list[tuple[int, int]] = []  # (enter, leave) of each loop
        self.made: dict[str, int] = {}
        self._positions()
        #: Values that an array holds or will hold, and from when to when.
        self.spans: dict[str, list[tuple[int, int]]] = {}
        self.block: dict[str, tuple[int, ...]] = {}
        self.wish = self._wishes()

    def _positions(self) -> None:
        stack: list[int] = []
        for i, e in enumerate(self.events):
            match e:
                case Enter(carries=carries):
                    stack.append(i)
                    self.made.update((name, i) for name, *_ in carries)
                case Leave(carries=carries):
                    self.loops.append((stack.pop(), i))
                    for _, _, result, _next in carries:
                        self.made[result] = i
                case Make(value=value):
                    self.made.setdefault(value, i)
        for i, e in enumerate(self.events):
            for name in _reads(e):
                self._read(name, i)

    def _read(self, name: str, at: int) -> None:
        """What is read in a turn and made before the loop is needed to the loop's end."""
        made = self.made.get(name, -1)
        for enter, leave in self.loops:
            if made < enter < at < leave:
                at = max(at, leave)
        self.last[name] = max(self.last.get(name, -1), at)

    def _wishes(self) -> dict[str, str]:
        """Whose array a value would like: that of the carry it comes next in, or of the product
        that adds to it."""
        wish: dict[str, str] = {}
        for e in self.events:
            if isinstance(e, Leave):
                for name, _, _, next_ in e.carries:
                    wish.setdefault(next_, name)
        for e in reversed(self.events):
            if isinstance(e, Make) and e.keeps and e.value in wish:
                wish.setdefault(e.keeps[0], wish[e.value])
        return wish

    def run(self) -> Arrays:
        stack: list[int] = []
        for i, e in enumerate(self.events):
            match e:
                case Enter(carries=carries):
                    for carry in carries:
                        self._carry(carry, i, tuple(stack))
                    stack.append(i)
                case Leave(carries=carries):
                    stack.pop()
                    for name, _, result, next_ in carries:
                        home = self.out.homes[name]
                        self.out.homes[result] = home
                        if self.out.homes.get(next_) != home:
                            self.out.moves.append((name, next_))
                        self._hold(home, i, self.last.get(result, i))
                case Make(value=value, keeps=keeps):
                    self._make(value, keeps, i, tuple(stack))
        return self.out

    def _carry(
        self, carry: tuple[str, str | None, str, str], at: int, where: tuple[int, ...]
    ) -> None:
        name, init, _result, _next = carry
        leave = next(end for enter, end in self.loops if enter == at)
        home = self.out.homes.get(init) if init is not None else None
        if home is None or self.last.get(init or "", at) > at or not self._alike(init or "", name):
            if init is not None:
                self.out.starts.append((name, init))
            home = self._free(name, at, where) or self._new(name, where)
        self.out.homes[name] = home
        self._hold(home, at, self.last.get(name, at))
        # Between the old value's last reader and the next one nobody else moves in.
        self._hold(home, at, leave)

    def _make(self, value: str, keeps: tuple[str, ...], at: int, where: tuple[int, ...]) -> None:
        if value in self.out.homes:
            return
        wish = self.wish.get(value)
        if wish is not None and self._alike(wish, value) and self._is_over(wish, at):
            self.out.homes[value] = self.out.homes[wish]
        else:
            home = next(
                (
                    self.out.homes[k] for k in keeps
                    if k in self.out.homes and self._alike(k, value)
                    and not self._is_carried(self.out.homes[k], at)
                    and self._is_empty(self.out.homes[k], at, self.last.get(value, at))
                ),
                None,
            )  # fmt: skip
            home = home or self._free(value, at, where) or self._new(value, where)
            self.out.homes[value] = home
        self._hold(self.out.homes[value], at, self.last.get(value, at))

    def _is_over(self, carry: str, at: int) -> bool:
        """Nobody reads behind here what the carry's array holds: its old value, or one since."""
        if carry not in self.out.homes or self.last.get(carry, -1) > at:
            return False
        spans = self.spans[self.out.homes[carry]]
        return all(end <= at for start, end in spans if start > self.made[carry])

    def _is_carried(self, home: str, at: int) -> bool:
        """The array belongs to a carry of a loop around here."""
        return any(
            enter < at < leave and self.out.homes.get(c[0]) == home
            for enter, leave in self.loops
            for c in _carries(self.events[enter])
        )

    def _alike(self, a: str, b: str) -> bool:
        return self.out.shapes.get(a) == self.out.shapes.get(b) and self.kinds.get(
            a
        ) == self.kinds.get(b)

    def _free(self, value: str, at: int, where: tuple[int, ...]) -> str | None:
        """An array of this block that holds nothing any more."""
        until = self.last.get(value, at)
        for home, spans in self.spans.items():
            if self.block[home] != where or not self._alike(home, value):
                continue
            if self._is_carried(home, at):
                continue
            if all(end < at or start > until for start, end in spans):
                return home
        return None

    def _is_empty(self, home: str, at: int, until: int) -> bool:
        """Nothing in an array is read behind `at`, where what it holds is read for a last time."""
        return all(end <= at or start > until for start, end in self.spans[home])

    def _new(self, value: str, where: tuple[int, ...]) -> str:
        self.block[value] = where
        self.spans[value] = []
        return value

    def _hold(self, home: str, start: int, end: int) -> None:
        self.spans[home].append((start, max(start, end)))


def _carries(e: Event) -> tuple[tuple[str, str | None, str, str], ...]:
    return e.carries if isinstance(e, Enter | Leave) else ()


def _reads(e: Event) -> Iterable[str]:
    match e:
        case Read(values=values):
            return values
        case Enter(carries=carries):
            return [init for _, init, _, _ in carries if init is not None]
        case Leave(carries=carries):
            return [next_ for _, _, _, next_ in carries]
    return ()


def check_arrays(events: list[Event], arrays: Arrays) -> None:
    """Replay the events: what is read is still there.

    Raises:
        InternalError: a value was overwritten before its last reader.
    """
    holds: dict[str, str] = {}

    def read(value: str) -> None:
        home = arrays.homes.get(value)
        if home is not None and holds.get(home) != value:
            raise InternalError(f"the array of `{value}` holds `{holds.get(home)}` when it is read")

    def replay(begin: int, end: int) -> None:
        i = begin
        while i < end:
            e = events[i]
            match e:
                case Read(values=values):
                    for v in values:
                        read(v)
                case Make(value=value):
                    holds[arrays.homes[value]] = value
                case Enter(carries=carries):
                    leave = _leave(events, i)
                    for _, init, _, _ in carries:
                        if init is not None:
                            read(init)
                    for name, _, _, _ in carries:
                        holds[arrays.homes[name]] = name
                    for _ in range(2):
                        replay(i + 1, leave)
                        for name, _, _, next_ in carries:
                            if next_ != name:
                                read(next_)
                        for name, _, _, next_ in carries:
                            if next_ != name:
                                holds[arrays.homes[name]] = name
                    for _, _, result, _ in carries:
                        holds[arrays.homes[result]] = result
                    i = leave
            i += 1

    replay(0, len(events))


def _leave(events: list[Event], enter: int) -> int:
    depth = 0
    for i in range(enter, len(events)):
        depth += isinstance(events[i], Enter)
        depth -= isinstance(events[i], Leave)
        if depth == 0:
            return i
    raise InternalError("a loop has no end")
