"""The containers of TVM FFI, with the manners of Python's own.

An argument that is a list or tuple goes as an Array, a dict as a Map; both come back as a tuple
and a dict. `List` and `Dict` are for what native code and Python change together. Tensors in a
container come out as arrays of the framework that the first one went in from.

Each method of `_core` is one step, whatever other threads do. What is made of one step here is too:
items, `append`, `insert`, `pop`, `clear`, iteration and slices, which see a list as it was once.
"""

from __future__ import annotations

import operator
import sys
from _thread import _local
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, MutableSequence, Sequence
from itertools import chain

from kdsl.runtime import _core

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ARRAY, _MAP, _LIST, _DICT = 71, 72, 75, 76
_PLAIN = (str, bytes)


def _position(index: object, size: int) -> int:
    """An index from the front; negative ones count from the end.

    Raises:
        TypeError: it is no integer. IndexError: there is no such element.
    """
    at = operator.index(index)  # type: ignore[arg-type]
    if not -size <= at < size:
        raise IndexError(f"index {at} is out of range: there are {size} elements")
    return at + size if at < 0 else at


class _Sequence(_core.Sequence, Sequence):  # type: ignore[type-arg]
    __slots__ = ()

    def __len__(self) -> int:
        return self._size()

    def __iter__(self) -> Iterator[Any]:
        at = 0
        while at < self._size():  # as with a list, what is added while one looks comes too
            try:
                item = self._at(at)
            except IndexError:  # another thread has taken it out
                return
            yield item
            at += 1

    def __contains__(self, value: object) -> bool:
        return any(item is value or item == value for item in self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, _PLAIN):
            return NotImplemented
        if self._same(other):
            return True
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{_shown(self)}])"

    def _slice(self, index: slice) -> tuple[Any, ...]:
        places = range(*index.indices(self._size()))
        if not places:
            return ()
        part = self._items(min(places[0], places[-1]), max(places[0], places[-1]) + 1)
        return part[:: places.step]

    def __add__(self, other: Iterable[Any]) -> Any:
        kind: Any = type(self)
        return kind(chain(self, other))

    def __radd__(self, other: Iterable[Any]) -> Any:
        kind: Any = type(self)
        return kind(chain(other, self))


class Array(_Sequence):
    """An immutable sequence; equal to a tuple or list of equal elements.

    Example:
        >>> a = Array([1, "two", 3.0])
        >>> a, len(a), a[-1], a[:2], "two" in a
        (Array([1, 'two', 3.0]), 3, 3.0, Array([1, 'two']), True)
    """

    __slots__ = ()

    def __new__(cls, items: Iterable[Any] = ()) -> Array:
        """Raises: TypeError, OverflowError: an element is no value of TVM FFI."""
        return super().__new__(cls, _ARRAY, tuple(items))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return Array(self._slice(index))
        return self._at(_position(index, len(self)))

    def __hash__(self) -> int:
        return hash(tuple(self))


class List(_Sequence, MutableSequence):  # type: ignore[type-arg]
    """A list that native code and Python share: whoever changes it, all see it.

    Example:
        >>> a = List([3, 1])
        >>> a.append(2)
        >>> a[0:2] = [7, 8, 9]
        >>> a, a.pop(), a == [7, 8, 9]
        (List([7, 8, 9]), 2, True)
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __new__(cls, items: Iterable[Any] = ()) -> List:
        """Raises: TypeError, OverflowError: an element is no value of TVM FFI."""
        return super().__new__(cls, _LIST, tuple(items))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return List(self._slice(index))
        return self._at(_position(index, len(self)))

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, slice):
            self._assign(index, list(value))
        else:
            self._replace(_position(index, len(self)), value)

    def __delitem__(self, index: Any) -> None:
        if not isinstance(index, slice):
            self._pop(index)
            return
        places = range(*index.indices(len(self)))
        if places.step == 1:
            self._erase(places.start, max(places.start, places.stop))
            return
        for at in sorted(places, reverse=True):
            self._erase(at, at + 1)

    def insert(self, index: int, value: Any) -> None:
        """Put `value` before `index`."""
        at = operator.index(index)
        self._insert(max(-sys.maxsize, min(at, sys.maxsize)), value)

    def append(self, value: Any) -> None:
        """Put `value` at the end."""
        self._insert(sys.maxsize, value)

    def pop(self, index: int = -1) -> Any:
        """Take out an element. Raises IndexError."""
        return self._pop(index)

    def clear(self) -> None:
        """Take out all elements."""
        self._erase(0, sys.maxsize)

    def copy(self) -> List:
        """Another List of the same elements."""
        return List(self)

    __copy__ = copy

    def __iadd__(self, values: Iterable[Any]) -> List:
        for value in list(values):  # it may be this very list
            self.append(value)
        return self

    def extend(self, values: Iterable[Any]) -> None:
        """Put `values` at the end."""
        self += values

    def _assign(self, index: slice, values: list[Any]) -> None:
        places = range(*index.indices(len(self)))
        if places.step != 1:
            if len(places) != len(values):
                raise ValueError(
                    f"expected {len(places)} values for a slice with a step, got {len(values)}"
                )
            for at, value in zip(places, values, strict=True):
                self._replace(at, value)
            return
        fresh = List(values)  # all of them are values, or nothing changes
        self._erase(places.start, max(places.start, places.stop))
        for offset, value in enumerate(fresh):
            self._insert(places.start + offset, value)


class _Mapping(_core.Mapping, Mapping):  # type: ignore[type-arg]
    __slots__ = ()

    def __len__(self) -> int:
        return self._size()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._items()[::2])

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._find(key)
        except OverflowError:  # no such integer is in TVM FFI
            raise KeyError(key) from None

    def __contains__(self, key: object) -> bool:
        try:
            return self._has(key)
        except OverflowError:
            return False

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        if len(self) != len(other):
            return False
        flat = self._items()
        return all(
            k in other and _equal(other[k], v) for k, v in zip(flat[::2], flat[1::2], strict=True)
        )

    def __repr__(self) -> str:
        flat = self._items()
        pairs = zip(flat[::2], flat[1::2], strict=True)
        text = ", ".join(f"{k!r}: {_item(v)}" for k, v in pairs)
        return f"{type(self).__name__}({{{text}}})"


class Map(_Mapping):
    """An immutable mapping, in order of insertion.

    Example:
        >>> m = Map({"a": 1, 2: "b"})
        >>> m, m["a"], 2 in m, m.get(3), list(m)
        (Map({'a': 1, 2: 'b'}), 1, True, None, ['a', 2])
    """

    __slots__ = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Map:
        """As `dict`. Raises: TypeError, OverflowError: a key or value is no value of TVM FFI."""
        return super().__new__(cls, _MAP, _flat(*args, **kwargs))

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))


class Dict(_Mapping, MutableMapping):  # type: ignore[type-arg]
    """A dict that native code and Python share: whoever changes it, all see it.

    Example:
        >>> d = Dict(a=1)
        >>> d["b"] = [2, 3]
        >>> d, d.pop("a"), len(d)
        (Dict({'b': (2, 3)}), 1, 1)
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    def __new__(cls, *args: Any, **kwargs: Any) -> Dict:
        """As `dict`. Raises: TypeError, OverflowError: a key or value is no value of TVM FFI."""
        return super().__new__(cls, _DICT, _flat(*args, **kwargs))

    def __setitem__(self, key: Any, value: Any) -> None:
        self._put(key, value)

    def __delitem__(self, key: Any) -> None:
        try:
            self._erase(key)
        except OverflowError:
            raise KeyError(key) from None

    def pop(self, key: Any, *default: Any) -> Any:
        """Take out a key, and give its value; the default where there is none.

        Raises:
            KeyError: there is none, and no default.
        """
        try:
            return self._pop(key)
        except (KeyError, OverflowError):
            if not default:
                raise KeyError(key) from None
        (value,) = default
        return value

    def clear(self) -> None:
        """Take out all pairs."""
        self._clear()

    def copy(self) -> Dict:
        """Another Dict of the same pairs."""
        return Dict(self)

    __copy__ = copy


def _flat(*args: Any, **kwargs: Any) -> tuple[Any, ...]:
    """Keys and values in turn, of what `dict` takes."""
    if len(args) == 1 and isinstance(args[0], _Mapping) and not kwargs:
        return args[0]._items()
    return tuple(chain.from_iterable(dict(*args, **kwargs).items()))


def _equal(a: Any, b: Any) -> bool:
    return a is b or bool(a == b)


class _Shown(_local):
    """Containers that are being shown by this thread's repr, to end where one contains itself."""

    def __init__(self) -> None:
        self.now: set[int] = set()


_shown_by = _Shown()


def _item(value: Any) -> str:
    if not isinstance(value, (_Sequence, _Mapping)):
        return repr(value)
    showing = _shown_by.now
    if hash_of(value) in showing:
        return f"{type(value).__name__}(...)"
    showing.add(hash_of(value))
    try:
        return repr(value)
    finally:
        showing.discard(hash_of(value))


def _shown(values: Iterable[Any]) -> str:
    return ", ".join(map(_item, values))


def hash_of(value: Any) -> int:
    """The identity of what a container holds, which many Python objects may stand for."""
    return _core.Object.__hash__(value)
