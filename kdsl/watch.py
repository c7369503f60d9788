"""Whether what a kernel takes from outside is what it was: a look cheap enough for every call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import is_dataclass
from types import FunctionType, ModuleType

from kdsl.frontend.fingerprint import simple
from kdsl.frontend.source import KernelSource


class Watch:
    """Tells whether names that a kernel takes from outside mean something else than before.

    Looking is cheap and errs on the safe side: a name bound anew to an equal value counts.
    """

    def __init__(self, source: KernelSource) -> None:
        self._cells: list[tuple[object, object]] = []
        self._places: list[tuple[Mapping[str, object], str, object]] = []
        #: A captured object that may change in place must be looked into at every call.
        self.mutable = False
        seen: set[tuple[int, str]] = set()
        for part in (source, *source.helpers.values()):
            self._follow(part.function, part.outside, seen)

    def changed(self) -> bool:
        if self.mutable:
            return True
        for namespace, name, value in self._places:
            if namespace.get(name) is not value:
                return True
        return any(cell.cell_contents is not value for cell, value in self._cells)  # type: ignore

    def places(self) -> tuple[tuple[object, str | None, object], ...]:
        """All that is looked at, as the runtime takes it: cells have None for a name."""
        return (*self._places, *((cell, None, value) for cell, value in self._cells))

    def _follow(
        self, fn: FunctionType, paths: Sequence[Sequence[str]], seen: set[tuple[int, str]]
    ) -> None:
        free = fn.__code__.co_freevars
        for root, *attributes in paths:
            if root in free and fn.__closure__ is not None:
                cell = fn.__closure__[free.index(root)]
                try:
                    value = cell.cell_contents
                except ValueError:
                    continue
                self._cells.append((cell, value))
            elif root in fn.__globals__:
                value = fn.__globals__[root]
                self._place(fn.__globals__, root, value, seen)
            else:
                continue
            self.mutable |= not _is_fixed(self._attributes(value, attributes, seen))

    def _attributes(
        self, value: object, attributes: Sequence[str], seen: set[tuple[int, str]]
    ) -> object:
        """The value that a path leads to, or how far it can be followed in plain namespaces."""
        for attribute in attributes:
            if _is_kdsl(value):
                break
            namespace = getattr(value, "__dict__", None)
            if not isinstance(namespace, Mapping) or attribute not in namespace:
                # Inherited or computed: whatever it is, it is not watched.
                self.mutable |= isinstance(value, (type, ModuleType))
                break
            value = namespace[attribute]
            self._place(namespace, attribute, value, seen)
        return value

    def _place(
        self,
        namespace: Mapping[str, object],
        name: str,
        value: object,
        seen: set[tuple[int, str]],
    ) -> None:
        if (place := (id(namespace), name)) not in seen:
            seen.add(place)
            self._places.append((namespace, name, value))


def _is_fixed(value: object, depth: int = 4) -> bool:
    """Whether a value is known never to change in place; functions are followed on their own."""
    if simple(value) is not None or isinstance(value, (FunctionType, range)) or _is_kdsl(value):
        return True
    if type(value).__module__.partition(".")[0] == "kdsl":
        return True
    if type(value).__module__ == "numpy" and not hasattr(value, "__setitem__"):
        return hasattr(value, "dtype")  # a number of NumPy's
    if depth == 0:
        return False
    if isinstance(value, (tuple, frozenset)):
        parts = tuple(value)
    elif is_dataclass(value) and type(value).__dataclass_params__.frozen:  # type: ignore
        if not hasattr(value, "__dict__"):
            return False
        parts = tuple(vars(value).values())
    else:
        return False
    return all(_is_fixed(part, depth - 1) for part in parts)


def _is_kdsl(value: object) -> bool:
    name = getattr(value, "__name__", "")
    return isinstance(name, str) and name.partition(".")[0] == "kdsl"
