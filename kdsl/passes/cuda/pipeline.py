"""When a loop copies, waits and synchronises: from who reads what, by one rule.

1. Before the first reader of a copied tile there is a point: its copy is awaited, and a barrier
   shows it to every warp. The barrier also says that each warp is past all readers before it.
2. A copy for the turn d later starts at a point by which its slot is free: the readers of the turn
   d - slots before stand before the point. The (point, d) of the longest flight is taken.
3. Where there is no such point one is added behind the last reader.
4. A wait leaves as many groups in flight as end between the copy and the wait: by replaying turns.
5. A tile staged from registers has a point between write and first reader, and one between its last
   reader and the next write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """What happens before an item: a wait (None: nothing is awaited), a barrier, copies."""

    wait: int | None
    copies: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Points by the item they stand before (one behind the last is possible), and the groups of
    copies before the loop, each (load, turn)."""

    points: Mapping[int, Point]
    prologue: tuple[tuple[tuple[str, int], ...], ...]


@dataclass(frozen=True, slots=True)
class Use:
    """Items of a body that read a tile: first and last; `written`: the item that stages it."""

    first: int
    last: int
    written: int | None = None


def pipeline(uses: Mapping[str, Use], length: int, slots: int, *, early: bool = False) -> Pipeline:
    """The points of a loop.

    Args:
        uses: by tile.
        length: items of the body.
        slots: iterations that a copied tile holds at once.
        early: a point moves up to where it frees a slot, so that copies start sooner.
    """
    loads = [x for x, u in uses.items() if u.written is None]
    staged = [x for x, u in uses.items() if u.written is not None]
    need = {x: uses[x].first for x in loads}
    if early and slots == 1:
        for x in loads:
            freed = [uses[y].last + 1 for y in loads if uses[y].last < uses[x].first]
            need[x] = max(freed, default=need[x])
    if slots > 1 and loads:
        need = dict.fromkeys(loads, min(need.values()))
    points = sorted({*need.values(), *(uses[x].first for x in staged)})
    for x in staged:
        at = uses[x].written
        assert at is not None
        if not any(p > uses[x].last or p <= at for p in points):
            points = sorted({*points, at})
    choice = _choices(loads, uses, need, points, length, slots)
    missing = [x for x in loads if x not in choice]
    if missing:
        points = sorted({*points, *(uses[x].last + 1 for x in missing)})
        choice = _choices(loads, uses, need, points, length, slots)
    return _replay(loads, need, points, choice)


def _choices(
    loads: Sequence[str], uses: Mapping[str, Use], need: Mapping[str, int],
    points: Sequence[int], length: int, slots: int,
) -> dict[str, tuple[int, int]]:  # fmt: skip
    """(point, distance) by load, of the longest flight."""
    choice: dict[str, tuple[int, int]] = {}
    for x in loads:
        best: tuple[int, int, int] | None = None
        for p in points:
            distance = slots if p > uses[x].last else slots - 1
            flight = distance * length + need[x] - p
            possible = flight > 0 or p > uses[x].last
            if possible and (best is None or flight > best[0]):
                best = (flight, p, distance)
        if best is not None:
            choice[x] = best[1:]
    return choice


def _replay(
    loads: Sequence[str], need: Mapping[str, int], points: Sequence[int],
    choice: Mapping[str, tuple[int, int]],
) -> Pipeline:  # fmt: skip
    far = max((d for _, d in choice.values()), default=0)
    turns = far + 4
    groups: list[tuple[int, int, tuple[tuple[str, int], ...]]] = []
    prologue: list[tuple[tuple[str, int], ...]] = []
    for turn in range(-far, turns):
        for p in points:
            mine = [x for x in loads if choice[x][0] == p]
            group = tuple((x, turn + choice[x][1]) for x in mine if turn + choice[x][1] >= 0)
            if mine and (turn >= 0 or group):
                groups.append((turn, p, group))
            if turn < 0 and group:
                prologue.append(group)
    found: dict[int, Point] = {}
    for p in points:
        waits = []
        for x in loads:
            if need[x] != p:
                continue
            turn = turns - 1
            at = next(i for i, (_, _, g) in enumerate(groups) if (x, turn) in g)
            waits.append(sum((t, q) < (turn, p) for t, q, _ in groups[at + 1 :]))
        copies = tuple((x, choice[x][1]) for x in loads if choice[x][0] == p)
        found[p] = Point(min(waits) if waits else None, copies)
    return Pipeline(found, tuple(prologue))
