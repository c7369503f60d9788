"""Runs the IR with NumPy: the second oracle, beside the reference run of the Python function.

Every operation computes in its own dtype with the meaning that `kdsl.lang` gives it; a tile is
really a slice, the last one shorter; every index is checked; scratch starts out as garbage.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np

from kdsl.dims import Dim, evaluate
from kdsl.dtypes import DTYPES, DType, TensorType
from kdsl.errors import InternalError
from kdsl.ir.literals import literal
from kdsl.ir.nodes import (
    Along,
    Arg,
    AtomicAdd,
    Block,
    Bound,
    Cast,
    Const,
    DimSize,
    Dot,
    Each,
    Ew,
    ForRange,
    ForTiles,
    Func,
    Guard,
    If,
    Index,
    Iota,
    Let,
    Load,
    LoopVar,
    Op,
    Parallel,
    Point,
    Reduce,
    Require,
    Scan,
    Stmt,
    Store,
)
from kdsl.ir.types import Axis, Type
from kdsl.ir.walk import value_types
from kdsl.lang.arrays import Array, cast, numpy_dtype
from kdsl.lang.ops import OPS, REDUCTIONS, SCANS

#: Where a loop is: an integer, or the [start, stop) of a slice.
Place: TypeAlias = "int | tuple[int, int]"

#: Size of a tile that nobody has chosen: small, so that small inputs have several.
DEFAULT_TILE = 16


def run(func: Func, args: Mapping[str, object], tiles: Mapping[str, int] | None = None) -> None:
    """Run a function on arrays and numbers by parameter name; outputs are written in place.

    Args:
        func: a valid function (`verify`).
        args: every parameter; arrays have its dtype and ndim.
        tiles: sizes of tile axes by name, where the function sets none (else `DEFAULT_TILE`).

    Raises:
        TypeError: an array of another dtype or ndim, or a missing argument.
        ValueError: sizes that do not agree, a `require` that does not hold, a division by zero.
        IndexError: an index outside its tensor.
    """
    machine = _Machine(func, args, tiles or {})
    with np.errstate(all="ignore"):
        machine.block(func.host)
        for phase in func.phases:
            machine.phase(phase)


def bind_dims(func: Func, args: Mapping[str, object]) -> dict[str, int]:
    """Sizes of the dims, from the shapes of arrays. Raises as `run`."""
    sizes = dict(func.fixed)
    shapes: list[tuple[str, TensorType, tuple[int, ...]]] = []
    for p in func.params:
        if p.name not in args:
            raise TypeError(f"{func.name}: argument `{p.name}` is missing")
        if isinstance(p.type, TensorType):
            array = np.asarray(args[p.name])
            want = numpy_dtype(DTYPES[str(p.type.dtype)])
            if array.dtype != want or array.ndim != p.type.ndim:
                got = f"{array.dtype} of ndim {array.ndim}"
                raise TypeError(f"{func.name}: `{p.name}` must be {p.type}, got {got}")
            shapes.append((p.name, p.type, array.shape))
        elif p.name in func.dims:
            sizes[p.name] = int(np.asarray(args[p.name]))
    for _, type_, shape in shapes:
        for extent, size in zip(type_.shape, shape, strict=True):
            if isinstance(extent, Dim):
                sizes.setdefault(extent.name, size)
    for name, type_, shape in shapes:
        want_shape = tuple(evaluate(e, sizes) for e in type_.shape)
        if shape != want_shape:
            raise ValueError(f"{func.name}: `{name}` must have shape {want_shape}, got {shape}")
    return sizes


class _Machine:
    """The state of a run: values of this moment, open axes, loop variables."""

    def __init__(self, func: Func, args: Mapping[str, object], tiles: Mapping[str, int]) -> None:
        self.func, self.args, self.tiles = func, args, tiles
        self.sizes = bind_dims(func, args)
        self.axes = {a.name: a for a in func.axes}
        self.types = value_types(func)
        self.values: dict[str, Array] = {}
        self.variables: dict[str, int] = {}
        self.slices = {a.name: (0, self.extent(a)) for a in func.axes if a.kind == "whole"}
        self.tensors: dict[str, Array] = {
            p.name: np.asarray(args[p.name]) for p in func.params if isinstance(p.type, TensorType)
        }
        for buffer in func.scratch:
            shape = tuple(evaluate(e, self.sizes) for e in buffer.type.shape)
            self.tensors[buffer.name] = _garbage(shape, DTYPES[str(buffer.type.dtype)])

    # ---- loops

    def phase(self, phase: Parallel) -> None:
        for places in itertools.product(*map(self.places, phase.vars)):
            for each, place in zip(phase.vars, places, strict=True):
                self.enter(each.var, place)
            self.block(phase.body)

    def enter(self, var: str, place: Place) -> None:
        if isinstance(place, int):
            self.variables[var] = place
        else:
            self.slices[var] = place

    def places(self, each: Each) -> list[Place]:
        size = evaluate(each.extent, self.sizes)
        return list(self.cut(each.var, 0, size) if each.is_tile else range(size))

    def cut(self, axis: str, start: int, stop: int) -> Iterator[Place]:
        """Slices of [start, stop); the last one is shorter."""
        size = self.axes[axis].size or self.tiles.get(axis, DEFAULT_TILE)
        for at in range(start, stop, size):
            yield at, min(at + size, stop)

    def loop(self, stmt: ForTiles | ForRange) -> None:
        current = {c.name: self.values[c.init] for c in stmt.carries}
        for place in self.iterations(stmt):
            self.enter(stmt.axis if isinstance(stmt, ForTiles) else stmt.var, place)
            self.values.update(current)
            if isinstance(stmt, ForRange) and stmt.going and not self.values[stmt.going]:
                break
            self.block(stmt.body)
            current = {c.name: self.values[c.next] for c in stmt.carries}
        self.values.update({c.result: current[c.name] for c in stmt.carries})

    def iterations(self, stmt: ForTiles | ForRange) -> Iterator[Place]:
        start = int(self.values[stmt.start]) if stmt.start else 0
        if isinstance(stmt, ForRange):
            return iter(range(start, int(self.values[stmt.stop]), stmt.step))
        extent = self.extent(self.axes[stmt.axis])
        stop = int(self.values[stmt.stop]) if stmt.stop else extent
        return self.cut(stmt.axis, min(max(start, 0), extent), min(max(stop, 0), extent))

    def extent(self, axis: Axis) -> int:
        return evaluate(axis.extent, self.sizes)

    # ---- statements

    def block(self, block: Block) -> None:
        for stmt in block:
            self.stmt(stmt)

    def stmt(self, stmt: Stmt) -> None:
        match stmt:
            case Let(name=name, type=type_, op=op):
                self.values[name] = self.op(op, type_)
            case Store(tensor=tensor, index=index, value=value):
                axes = self.index_axes(index)
                place = self.place(tensor, index, axes)
                self.tensors[tensor][place] = self.aligned(value, axes)
            case AtomicAdd(tensor=tensor, index=index, value=value):
                axes = self.index_axes(index)
                place = self.place(tensor, index, axes)
                np.add.at(self.tensors[tensor], place, self.aligned(value, axes))
            case Require(cond=cond, text=text):
                if not self.values[cond]:
                    raise ValueError(f"{self.func.name}: requires {text}")
            case ForTiles() | ForRange():
                self.loop(stmt)
            case If(cond=cond, then=then, other=other, merges=merges):
                taken = bool(self.values[cond])
                self.block(then if taken else other)
                for m in merges:
                    self.values[m.name] = self.values[m.then if taken else m.other]
            case _:
                raise TypeError(f"run: no rule for {type(stmt).__name__}")

    # ---- operations

    def op(self, op: Op, type_: Type) -> Array:
        match op:
            case Const(text=text):
                number = literal(text, type_.dtype)
                return np.full(self.shape(type_.axes), number, numpy_dtype(type_.dtype))
            case DimSize(extent=extent):
                return np.array(evaluate(extent, self.sizes), np.int64)
            case Arg(param=param):
                return np.array(self.args[param], numpy_dtype(type_.dtype))
            case LoopVar(var=var):
                return np.array(self.variables[var], np.int64)
            case Bound(axis=axis, which=which):
                start, stop = self.slices[axis]
                return np.array({"start": start, "stop": stop, "len": stop - start}[which])
            case Iota(axis=axis):
                return np.arange(*self.slices[axis], dtype=np.int64)
            case Load(tensor=tensor, index=index):
                return np.array(self.tensors[tensor][self.place(tensor, index, type_.axes)])
            case Ew(fn=fn, args=args):
                aligned = [self.aligned(a, type_.axes) for a in args]
                return self.result(OPS[fn].numpy(*aligned), type_)
            case Cast(arg=arg):
                return cast(self.values[arg], type_.dtype)
            case Reduce(fn=fn, arg=arg, axis=axis):
                at = self.types[arg].axes.index(axis)
                return self.result(REDUCTIONS[fn].numpy(self.values[arg], at), type_)
            case Scan(fn=fn, arg=arg, axis=axis):
                at = self.types[arg].axes.index(axis)
                return self.result(SCANS[fn].numpy(self.values[arg], at), type_)
            case Dot():
                return self.dot(op, type_)
            case Guard(arg=arg, tensor=tensor, dim=dim):
                self.inside(self.values[arg], tensor, dim)
                return self.values[arg]
        raise TypeError(f"run: no rule for {type(op).__name__}")

    def dot(self, op: Dot, type_: Type) -> Array:
        # in double and rounded once, as `kdsl.lang` does it
        wide = np.float64 if type_.dtype.is_float else np.int64
        letter = {a: chr(ord("a") + i) for i, a in enumerate(self.axes)}

        def labels(axes: tuple[str, ...]) -> str:
            return "".join(letter[a] for a in axes)

        spec = ",".join(labels(self.types[x].axes) for x in (op.a, op.b))
        a, b = (self.values[x].astype(wide) for x in (op.a, op.b))
        total = np.einsum(f"{spec}->{labels(type_.axes)}", a, b, optimize=True)
        if op.acc is not None:
            total = total + self.values[op.acc]
        return np.asarray(total).astype(numpy_dtype(type_.dtype))

    def result(self, array: Array, type_: Type) -> Array:
        """An operation's result, which must be what its type says."""
        array = np.asarray(array)
        want = (numpy_dtype(type_.dtype), self.shape(type_.axes))
        if (array.dtype, array.shape) != want:
            raise InternalError(f"run: {type_} came out as {array.dtype} {array.shape}")
        return array

    # ---- places

    def shape(self, axes: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(stop - start for start, stop in (self.slices[a] for a in axes))

    def aligned(self, name: str, axes: tuple[str, ...]) -> Array:
        """A value as an array over `axes`, which broadcasts where it has no such axis."""
        return _align(self.values[name], self.types[name].axes, axes)

    def index_axes(self, index: tuple[Index, ...]) -> tuple[str, ...]:
        axes = {a for i in index for a in self.axes_of(i)}
        return tuple(a for a in self.axes if a in axes)

    def axes_of(self, index: Index) -> tuple[str, ...]:
        return (index.axis,) if isinstance(index, Along) else self.types[index.value].axes

    def place(
        self, name: str, index: tuple[Index, ...], axes: tuple[str, ...]
    ) -> tuple[Array, ...]:
        """Index arrays for NumPy, one a dimension, over `axes`. Raises IndexError."""
        places = tuple(_align(self.indices(i), self.axes_of(i), axes) for i in index)
        if 0 not in np.broadcast_shapes(*(p.shape for p in places)):
            for dim, at in enumerate(places):
                self.inside(at, name, dim)
        return places

    def inside(self, indices: Array, tensor: str, dim: int) -> None:
        """Raise IndexError for an index that is not in this dimension of a tensor."""
        size, extent = self.tensors[tensor].shape[dim], self.func.tensor(tensor).shape[dim]
        outside = indices[(indices < 0) | (indices >= size)]
        if outside.size:
            known = f"size {size}" if isinstance(extent, int) else f"{extent}={size}"
            raise IndexError(
                f"{self.func.name}: index {outside.flat[0]} is out of range for dimension {dim} "
                f"of `{tensor}` ({known})"
            )

    def indices(self, index: Index) -> Array:
        if isinstance(index, Point):
            return self.values[index.value].astype(np.int64)
        at = np.arange(*self.slices[index.axis], dtype=np.int64) * index.step
        return at if index.offset is None else at + self.values[index.offset]


def _align(array: Array, have: tuple[str, ...], want: tuple[str, ...]) -> Array:
    return array[tuple(slice(None) if a in have else None for a in want)]


def _garbage(shape: tuple[int, ...], dtype: DType) -> Array:
    """What nobody has written: NaN for floats, an unlikely number for integers."""
    return np.full(shape, np.nan if dtype.is_float else 0x55, numpy_dtype(dtype))
