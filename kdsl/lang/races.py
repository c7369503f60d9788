"""Independence of parallel iterations: which of them read, wrote or added to each element."""

from __future__ import annotations

from typing import Any

import numpy as np

Place = tuple[Any, ...]


class Race(RuntimeError):
    """Two iterations of a parallel loop that depend on each other."""


#: More than one iteration.
_SEVERAL = -1


class Watch:
    """Notes for one tensor, by element: the number of the iteration, 0 for none.

    One iteration must not read or write an element that another one writes or adds to; several
    may add to one.
    """

    __slots__ = ("adders", "name", "pending", "readers", "writers")

    def __init__(self, name: str, shape: tuple[int, ...]) -> None:
        self.name = name
        self.writers, self.readers, self.adders = (np.zeros(shape, np.int64) for _ in range(3))
        #: Places that the iteration has read. Whether one was only named, as the place to add to,
        #: shows later than the read.
        self.pending: list[Place] = []

    def read(self, place: Place, iteration: int) -> None:
        """Raises Race."""
        if self._others(self.writers, place, iteration):
            raise Race(
                f"`{self.name}`: an iteration of kdsl.parallel reads an element that another one "
                "writes; write it in an earlier parallel loop"
            )
        self.pending.append(place)

    def write(self, place: Place, iteration: int) -> None:
        """Raises Race."""
        if self._others(self.writers, place, iteration):
            raise Race(f"`{self.name}`: two iterations of kdsl.parallel write one element")
        if self._others(self.readers, place, iteration):
            raise Race(
                f"`{self.name}`: an iteration of kdsl.parallel writes an element that another one "
                "reads; read it in an earlier parallel loop"
            )
        if self._others(self.adders, place, iteration):
            raise self._written_and_added()
        self.writers[place] = iteration

    def add(self, place: Place, iteration: int) -> None:
        """An addition to the very `place` that was read last with it. Raises Race."""
        self._only_named(place)
        if self._others(self.writers, place, iteration):
            raise self._written_and_added()
        if self._others(self.readers, place, iteration):
            raise self._read_and_added()
        self._mark(self.adders, place, iteration)

    def settle(self, iteration: int) -> None:
        """The iteration is over: what it read, it has read. Raises Race."""
        pending, self.pending = self.pending, []
        for place in pending:
            if self._others(self.adders, place, iteration):
                raise self._read_and_added()
            self._mark(self.readers, place, iteration)

    def forget(self) -> None:
        """A new parallel loop may read and write what an earlier one did."""
        self.pending = []
        for notes in (self.writers, self.readers, self.adders):
            notes[...] = 0

    def _only_named(self, place: Place) -> None:
        for i, other in enumerate(self.pending):
            if other is place:
                del self.pending[i]
                return

    @staticmethod
    def _others(notes: np.ndarray[Any, Any], place: Place, iteration: int) -> bool:
        found = notes[place]
        return bool(np.any((found != 0) & (found != iteration)))

    @staticmethod
    def _mark(notes: np.ndarray[Any, Any], place: Place, iteration: int) -> None:
        found = notes[place]
        mine = (found == 0) | (found == iteration)
        notes[place] = np.where(mine, iteration, _SEVERAL)

    def _written_and_added(self) -> Race:
        return Race(
            f"`{self.name}`: an iteration of kdsl.parallel writes an element that another one "
            "adds to; write it in an earlier parallel loop"
        )

    def _read_and_added(self) -> Race:
        return Race(
            f"`{self.name}`: an iteration of kdsl.parallel reads an element that another one "
            "adds to; read it in a later parallel loop"
        )
