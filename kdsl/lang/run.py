"""Tensors, tiles and loops of a reference run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import numpy as np

from kdsl.dims import Dim, DimExpr, Extent, Size
from kdsl.dtypes import DType, DTypeVar, boolean, i64
from kdsl.lang import rounding
from kdsl.lang.arrays import Array, as_array, cast, kdsl_dtype, numpy_dtype
from kdsl.lang.context import DEFAULT_TILE, chosen_dtype, current
from kdsl.lang.functions import where
from kdsl.lang.literals import is_literal
from kdsl.lang.promote import check_literal
from kdsl.lang.races import Race, Watch
from kdsl.lang.value import Value, plain

__all__ = [
    "Race", "RequirementError", "Tensor", "Tile", "arange", "atomic_add", "full", "parallel",
    "require", "scratch", "tiles", "unwritten",
]  # fmt: skip


class Tile:
    """The slice [start, stop) that a loop is at."""

    __slots__ = ("dim", "start", "stop")

    def __init__(self, start: int, stop: int, dim: Dim | None = None) -> None:
        """`dim`: what it is a slice of, where that is known."""
        self.start, self.stop, self.dim = Size(start), Size(stop), dim

    @property
    def size(self) -> int:
        """How many elements the slice has; the last one has fewer."""
        return Size(self.stop - self.start)

    @property
    def index(self) -> Value:
        """The absolute index at each place."""
        return Value(np.arange(self.start, self.stop, dtype=np.int64), i64, weak=True)

    def __add__(self, by: object) -> Tile:
        return self._moved(_offset(by))

    __radd__ = __add__

    def __sub__(self, by: object) -> Tile:
        return self._moved(-_offset(by))

    def _moved(self, by: int) -> Tile:
        return Tile(self.start + by, self.stop + by)

    def refuse_arithmetic(self) -> NoReturn:
        raise TypeError("a tile is no number: `.index` is its indices, `.start` its first")

    def __repr__(self) -> str:
        return f"tile [{self.start}, {self.stop})"


def _offset(by: object) -> int:
    number = plain(by)
    if isinstance(number, float) or (isinstance(number, Value) and not number.dtype.is_int):
        raise TypeError(f"a tile moves by an integer, got {by!r}")
    return int(number.__index__())


class Tensor:
    """A tensor parameter or scratch buffer of a run: only `tensor[...] = value` changes it.

    Indexing copies. Reads and writes are watched: one parallel iteration must not read or write
    an element that another one of the same loop writes.
    """

    __slots__ = ("array", "dtype", "extents", "kind", "name", "watch")
    __iter__ = None

    def __init__(
        self, name: str, array: Array, kind: str, dtype: DType | None = None,
        extents: tuple[Extent, ...] = (),
    ) -> None:  # fmt: skip
        found = kdsl_dtype(array.dtype) if dtype is None else dtype
        assert found is not None, array.dtype
        self.name, self.array, self.kind, self.dtype = name, array, kind, found
        self.extents = extents or (0,) * array.ndim
        run = current()
        self.watch: Watch | None = None
        if kind != "in" and run is not None:
            self.watch = Watch(name, array.shape)
            run.tensors.append(self)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(map(Size, self.array.shape))

    @property
    def ndim(self) -> int:
        return self.array.ndim

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, item: object) -> Value:
        index = self._index(item)
        iteration = _iteration()
        if self.watch is not None and iteration:
            self.watch.read(index, iteration)
        value = Value(np.array(self.array[index]), self.dtype)
        value.place = self, index
        return value

    def take(self, index: object, *, mask: object = None, other: object = None) -> Any:
        """`self[index]` where the mask holds, else `other`; what is not taken is not read."""
        if mask is None:
            if other is not None:
                raise TypeError("`take` has no mask for `other` to stand beside")
            return self[index]
        items = index if isinstance(index, tuple) else (index,)
        masked = tuple(where(mask, i, 0) if isinstance(i, Value) else i for i in items)
        found, chosen = self[masked], plain(mask)
        if isinstance(chosen, Value):
            behind = (..., *(None,) * (found.ndim - chosen.ndim))
            chosen = Value(chosen.array[behind], chosen.dtype)
        return where(chosen, found, 0 if other is None else other)

    def __setitem__(self, item: object, value: object) -> None:
        if self.kind == "in":
            raise TypeError(f"`{self.name}` is an input; declare it InOut to write it")
        index = self._index(item)
        array = self._fitted(index, value)
        iteration = _iteration()
        if self.watch is not None and iteration:
            self.watch.write(index, iteration)
        self.array[index] = array

    def add(self, index: tuple[Any, ...], value: object) -> None:
        """Adds to the elements at a place of this tensor, one addition after another."""
        if self.kind == "in":
            raise TypeError(f"`{self.name}` is an input; declare it InOut to write it")
        if self.kind == "out":
            raise TypeError(
                f"`{self.name}` is an Out, whose elements are undefined until they are written; "
                "declare it InOut to add to it"
            )
        if self.dtype is boolean:
            raise TypeError(f"`{self.name}` holds bool, no numbers")
        array = self._fitted(index, value)
        iteration = _iteration()
        if self.watch is not None and iteration:
            self.watch.add(index, iteration)
        with np.errstate(all="ignore"):
            rounding.add_at(self.array, index, array)

    def _fitted(self, index: tuple[Any, ...], value: object) -> Array:
        """A value in this tensor's dtype and in the shape of a place. Raises TypeError."""
        new = plain(value)
        if isinstance(new, Value):
            array = rounding.converted(new.array, self.dtype)
        else:
            check_literal(new, self.dtype)
            array = as_array(new, self.dtype)
        place = self.array[index].shape
        try:
            return np.broadcast_to(array, place)
        except ValueError:
            raise TypeError(
                f"the value does not fit into `{self.name}[...]`: {list(array.shape)} "
                f"into {list(place)}"
            ) from None

    def refuse_arithmetic(self) -> NoReturn:
        colons = ", ".join([":"] * self.ndim) or "()"
        raise TypeError(
            f"the tensor `{self.name}` is used without an index: `{self.name}[{colons}]` "
            "is its elements"
        )

    def __repr__(self) -> str:
        return f"{self.kind} {self.name}: {self.dtype}{list(self.array.shape)}"

    # ---- places

    def _index(self, item: object) -> tuple[Any, ...]:
        items = list(item) if isinstance(item, tuple) else [item]
        dots = items.count(Ellipsis) if Ellipsis in _plain_items(items) else 0
        if any(i is None for i in items):
            raise TypeError(f"None in the index of `{self.name}`: index first, then `[:, None]`")
        if len(items) - dots > self.ndim:
            raise TypeError(f"too many indices for `{self.name}`, which has {self.ndim} dimensions")
        at = next((n for n, i in enumerate(items) if i is Ellipsis), len(items))
        fill = self.ndim - (len(items) - dots)
        items[at : at + dots] = [slice(None)] * fill
        sizes = zip(items, self.array.shape, self.extents, strict=True)
        return tuple(self._place(i, size, extent) for i, size, extent in sizes)

    def _place(self, item: object, size: int, extent: Extent) -> object:
        match item:
            case Tile():
                if item.dim is not None and _apart(item.dim, extent):
                    raise TypeError(
                        f"a tile of {item.dim} does not fit this axis of `{self.name}`, which is "
                        f"{extent}: walk kdsl.tiles({extent}) instead"
                    )
                if item.start >= item.stop:
                    return slice(0, 0)
                if item.start < 0 or item.stop > size:
                    raise self._outside(f"the slice [{item.start}, {item.stop})", size)
                return slice(item.start, item.stop)
            case slice():
                return self._slice(item, size)
            case Value() if item.ndim:
                return self._gather(item, size)
        number = plain(item)
        if isinstance(number, (bool, float)):
            raise TypeError(f"`{self.name}` is not indexed with {item!r}")
        index = int(number.__index__())
        at = index + size if _from_end(number) else index
        if not 0 <= at < size:
            raise self._outside(f"index {index}", size)
        return at

    def _slice(self, item: slice, size: int) -> slice:
        start = 0 if item.start is None else self._edge(item.start, size)
        stop = size if item.stop is None else self._edge(item.stop, size)
        step = 1 if item.step is None else int(item.step)
        if step < 1:
            raise TypeError("the step of a slice is a positive integer")
        if start < stop and (start < 0 or stop > size):
            raise self._outside(f"the slice [{start}, {stop})", size)
        return slice(start, max(start, stop), step)

    def _edge(self, edge: object, size: int) -> int:
        number = plain(edge)
        if isinstance(number, (bool, float)) or (isinstance(number, Value) and number.ndim):
            raise TypeError(f"the ends of a slice are integers, got {edge!r}")
        index = int(number.__index__())
        return index + size if _from_end(number) else index

    def _gather(self, item: Value, size: int) -> Array:
        if not item.dtype.is_int:
            raise TypeError(f"an index must be an integer, got {item.dtype}")
        wrong = (item.array < 0) | (item.array >= size)
        if wrong.any():
            raise self._outside(f"index {item.array[wrong][0]}", size)
        return item.array

    def _outside(self, what: str, size: int) -> IndexError:
        return IndexError(f"{what} is outside `{self.name}`, whose axis has {size} elements")


def _apart(dim: Dim, extent: Extent) -> bool:
    """Two names that are not both numbers at compile time; in a run `==` compares their values."""
    run = current()
    known = run.statics if run is not None else frozenset[str]()
    if not isinstance(extent, Dim) or {dim.name, extent.name} <= known:
        return False
    return dim.name != extent.name


def _iteration() -> int:
    """Number of the parallel iteration that runs; 0 outside."""
    run = current()
    return 0 if run is None else run.iteration


def _from_end(number: object) -> bool:
    """Only a literal counts from the end; sizes and run-time values never do."""
    if not isinstance(number, int) or isinstance(number, Size) or number >= 0:
        return False
    return is_literal(number)


def _plain_items(items: list[object]) -> list[object]:
    """Items that can be compared with `...`: values would compare by element."""
    return [i for i in items if i is Ellipsis]


def _refuse(self: Tensor, *others: object) -> NoReturn:
    self.refuse_arithmetic()


for _name in (
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift",
    "rshift", "matmul",
):  # fmt: skip
    setattr(Tensor, f"__{_name}__", _refuse)
    setattr(Tensor, f"__r{_name}__", _refuse)
for _name in ("lt", "le", "gt", "ge", "neg", "abs", "invert", "bool"):
    setattr(Tensor, f"__{_name}__", _refuse)


# ---- functions of the language


def full(shape_and_value: tuple[object, ...], dtype: DType | DTypeVar) -> Value:
    """A value that is the same everywhere."""
    *shape, number = shape_and_value
    target = chosen_dtype(dtype)
    fill = plain(number)
    lengths = tuple(map(_length, shape))
    if isinstance(fill, Value):
        if fill.ndim:
            raise TypeError("`full` takes one number")
        array = cast(fill.array, target)
    else:
        check_literal(fill, target)
        array = as_array(fill, target)
    return Value(np.full(lengths, array[()], dtype=numpy_dtype(target)), target)


def _length(item: object) -> int:
    if isinstance(item, Tile):
        return max(item.size, 0)
    number = plain(item)
    if isinstance(number, bool) or not isinstance(number, int) or number < 0:
        raise TypeError(f"a shape is made of tiles, dims and integers, got {item!r}")
    return number


def arange(size: Extent) -> Value:
    """0, 1, ... size - 1."""
    return Value(np.arange(_length(size), dtype=np.int64), i64, weak=True)


def tiles(dim: object, start: object, stop: object, size: int | None) -> Iterable[Tile]:
    """The slices of [start, stop) clamped to [0, dim]."""
    end = _integer(dim)
    first = 0 if start is None else max(_integer(start), 0)
    last = end if stop is None else min(_integer(stop), end)
    run = current()
    step = size if size is not None else DEFAULT_TILE if run is None else run.tile_size()
    named = dim if isinstance(dim, Dim) else None
    return [Tile(at, min(at + step, last), named) for at in range(first, last, step)]


def _integer(x: object) -> int:
    number = plain(x)
    if isinstance(number, (bool, float)):
        raise TypeError(f"a bound is one integer, got {x!r}")
    return int(number.__index__())


def parallel(over: tuple[object, ...]) -> Iterator[Any]:
    """Every combination, the last varying fastest; one after another."""
    ranges = [
        o if isinstance(o, (list, tuple)) else [Size(i) for i in range(_integer(o))] for o in over
    ]
    run = current()
    if run is None:
        raise TypeError("kdsl.parallel runs inside a kernel: call the kernel, or its .reference")
    if run.iteration:
        raise TypeError("kdsl.parallel stands inside another one")
    run.phase += 1
    watches = [tensor.watch for tensor in run.tensors if tensor.watch is not None]
    for watch in watches:
        watch.forget()
    for number, combination in enumerate(itertools.product(*ranges), 1):
        run.iteration = number
        yield combination if len(combination) > 1 else combination[0]
        for watch in watches:
            watch.settle(number)
    run.iteration = 0


def atomic_add(place: object, value: object) -> None:
    """Adds to the elements of a tensor that `place` is a copy of."""
    if not isinstance(place, Value) or place.place is None:
        raise TypeError("`atomic_add` adds to elements of a tensor: atomic_add(tensor[i], value)")
    tensor, index = place.place
    tensor.add(index, value)


def scratch(dtype: DType | DTypeVar, shape: tuple[Extent, ...]) -> Tensor:
    """A tensor that lives as long as the call."""
    target = chosen_dtype(dtype)
    return Tensor("scratch", unwritten(tuple(map(_length, shape)), target), "scratch", target)


def unwritten(shape: tuple[int, ...], dtype: DType) -> Array:
    """Elements that nobody wrote yet: NaN, so that reading one shows."""
    fill: object = float("nan") if dtype.is_float else 0
    return np.full(shape, as_array(fill, dtype)[()], dtype=numpy_dtype(dtype))


def require(conditions: tuple[object, ...]) -> None:
    """Checks the conditions of a call. Raises ValueError."""
    for position, condition in enumerate(conditions):
        held = plain(condition) if not isinstance(condition, DimExpr) else int(condition)
        if isinstance(held, Value) and held.dtype is not boolean:
            raise TypeError("a condition of `require` must be a bool")
        if not held:
            raise RequirementError(position)


class RequirementError(ValueError):
    """A condition of `require` that does not hold; `position` is its place in the call."""

    def __init__(self, position: int) -> None:
        super().__init__(f"condition {position + 1} of `require` does not hold")
        self.position = position
