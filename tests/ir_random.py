"""Random valid functions for property tests, and running them.

Everything is built so that accesses are in bounds and results are exact: floats are f64 and inputs
small integers, so a pass may reorder sums without a rounding that differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import strategies as st

from kdsl.dims import Dim
from kdsl.dtypes import boolean, f32, f64, i32, i64
from kdsl.ir import nodes as ir
from kdsl.ir.interp import run
from kdsl.ir.types import Axis, Type

M, N, K = Dim("M"), Dim("N"), Dim("K")
AXES = (
    Axis("n", "tile", N, 3),
    Axis("k", "tile", K, 4),
    Axis("k_2", "tile", K, 2),
    Axis("K", "whole", K),
)
ORDER = {a.name: i for i, a in enumerate(AXES)}
SLOTS = 8
FLOATS = ("0.0", "-0.0", "1", "1.0", "2", "0.5", "-1", "3", "-inf")
INTS = ("0", "1", "2", "3", "-1")
KINDS = {f64: FLOATS, f32: FLOATS, i64: INTS, i32: INTS, boolean: ("True", "False")}
HOST = (
    ir.Let("scale", Type(f64), ir.Arg("s")),
    ir.Let("zero", Type(f64), ir.Const("0")),
    ir.Let("above", Type(boolean), ir.Ew("gt", ("scale", "zero"))),
    ir.Require("above", "s > 0"),
    ir.Let("half", Type(i64), ir.DimSize(N // 2)),
)
PARAMS = (
    ir.Param("x", "in", f64[M, K]),
    ir.Param("y", "in", f64[K, N]),
    ir.Param("s", "scalar", f64),
    ir.Param("z", "inout", f64[M, N]),
    ir.Param("o", "out", f64[SLOTS, M, N]),
)


@dataclass
class Builder:
    """Draws statements; `scope` are the values that can be read."""

    draw: st.DrawFn
    scope: dict[str, Type]
    open: tuple[str, ...] = ("n", "K")
    count: list[int] = field(default_factory=lambda: [0])
    budget: list[int] = field(default_factory=lambda: [25])
    gathers: bool = False
    scans: bool = False

    def name(self) -> str:
        self.count[0] += 1
        return self.draw(st.sampled_from(["t_", "a_"])) + str(self.count[0])

    def pick(self, *options):
        return self.draw(st.sampled_from(options))

    def order(self, *sets) -> tuple[str, ...]:
        return tuple(sorted({a for s in sets for a in s}, key=ORDER.get))

    def values(self, dtype=None, **type_facts) -> list[str]:
        return [
            n
            for n, t in self.scope.items()
            if (dtype is None or t.dtype == dtype)
            and all(getattr(t, k) == v for k, v in type_facts.items())
        ]

    def let(self, type_: Type, op: ir.Op) -> ir.Let:
        stmt = ir.Let(self.name(), type_, op)
        self.scope[stmt.name] = type_
        return stmt

    def inner(self, *axes: str) -> Builder:
        return replace(self, scope=dict(self.scope), open=self.open + axes)

    # ---- statements

    def block(self, depth: int, most: int = 10) -> list[ir.Stmt]:
        stmts: list[ir.Stmt] = []
        for _ in range(self.draw(st.integers(1, most))):
            if self.budget[0] > 0:
                self.budget[0] -= 1
                stmts += self.stmt(depth)
        return stmts

    def stmt(self, depth: int) -> list[ir.Stmt]:
        makers = [self.const, self.ew, self.ew, self.ew, self.product, self.multiply_add, self.load,
                  self.load, self.place, self.reduce, self.dot, self.cast]  # fmt: skip
        if self.gathers:
            makers += [self.gather, self.gather, self.atomic_add]
        if self.scans:
            makers.append(self.scan)
        if depth:
            makers += [lambda: self.loop(depth), lambda: self.branch(depth)]
        return self.pick(*makers)()

    def const(self) -> list[ir.Stmt]:
        dtype = self.pick(*KINDS)
        axes = self.order(self.pick((), (), *((a,) for a in self.open)))
        return [self.let(Type(dtype, axes), ir.Const(self.pick(*KINDS[dtype])))]

    def ew(self) -> list[ir.Stmt]:
        a = self.pick(*self.scope)
        dtype = self.scope[a].dtype
        b = self.pick(*self.values(dtype))
        fns = {
            "float": ["add", "sub", "mul", "maximum", "minimum", "neg", "abs", "lt", "ge", "where"],
            "int": ["add", "sub", "mul", "floordiv", "mod", "minimum", "neg", "eq", "le", "where"],
            "bool": ["and", "or", "xor", "not", "where"],
        }
        fn = self.pick(*fns[dtype.kind])
        args = (a,) if fn in ("neg", "abs", "not") else (a, b)
        if fn == "where":
            conditions = self.values(boolean)
            if not conditions:
                return []
            args = (self.pick(*conditions), a, b)
        result = boolean if fn in ("lt", "ge", "eq", "le") else dtype
        axes = self.order(*(self.scope[x].axes for x in args))
        return [self.let(Type(result, axes), ir.Ew(fn, args))]

    def product(self) -> list[ir.Stmt]:
        """A tile times a positive scalar, for factors to sink."""
        tiles = [n for n in self.values(f64) if self.scope[n].axes]
        if not tiles or "scale" not in self.scope:
            return []
        args = self.draw(st.permutations([self.pick(*tiles), "scale"]))
        let = self.let(self.scope[next(a for a in args if a != "scale")], ir.Ew("mul", tuple(args)))
        axis = self.pick(*let.type.axes)
        rest = tuple(a for a in let.type.axes if a != axis)
        return [let, self.let(Type(f64, rest), ir.Reduce("max", let.name, axis))]

    def multiply_add(self) -> list[ir.Stmt]:
        a, b, c = (self.pick(*self.values(f64)) for _ in range(3))
        product = self.let(
            Type(f64, self.order(self.scope[a].axes, self.scope[b].axes)), ir.Ew("mul", (a, b))
        )
        args = tuple(self.draw(st.permutations([product.name, c])))
        axes = self.order(product.type.axes, self.scope[c].axes)
        return [product, self.let(Type(f64, axes), ir.Ew(self.pick("add", "sub"), args))]

    def place(self) -> list[ir.Stmt]:
        tiles = [a for a in self.open if a in ("n", "k", "k_2")]
        match self.pick("var", "bound", "iota", "size"):
            case "var":
                return [self.let(Type(i64), ir.LoopVar("i"))]
            case "bound":
                which = self.pick("start", "stop", "len")
                return [self.let(Type(i64), ir.Bound(self.pick(*tiles), which))]
            case "iota":
                axis = self.pick(*self.open)
                return [self.let(Type(i64, (axis,)), ir.Iota(axis))]
        return [self.let(Type(i64), ir.DimSize(self.pick(M, N, K, N // 2, 5)))]

    def load(self) -> list[ir.Stmt]:
        k = self.pick(*(a for a in self.open if a != "n"))
        row = ir.Point("i_0")
        match self.pick("x", "y", "z"):
            case "x":
                return [self.let(Type(f64, (k,)), ir.Load("x", (row, ir.Along(k))))]
            case "y":
                axes = self.order((k, "n"))
                return [self.let(Type(f64, axes), ir.Load("y", (ir.Along(k), ir.Along("n"))))]
        return [self.let(Type(f64, ("n",)), ir.Load("z", (row, ir.Along("n"))))]

    def gather(self) -> list[ir.Stmt]:
        """A load at an index that is in bounds, but so that no proof finds it."""
        size, zero = self.let(Type(i64), ir.DimSize(M)), self.let(Type(i64), ir.Const("0"))
        at = self.pick(*self.values(i64))
        axes = self.scope[at].axes
        low = self.let(Type(boolean, axes), ir.Ew("ge", (at, zero.name)))
        high = self.let(Type(boolean, axes), ir.Ew("lt", (at, size.name)))
        both = self.let(Type(boolean, axes), ir.Ew("and", (low.name, high.name)))
        safe = self.let(Type(i64, axes), ir.Ew("where", (both.name, at, zero.name)))
        k = self.pick(*(a for a in self.open if a != "n"))
        load = ir.Load("x", (ir.Point(safe.name), ir.Along(k)))
        return [size, zero, low, high, both, safe,
                self.let(Type(f64, self.order(axes, (k,))), load)]  # fmt: skip

    def atomic_add(self) -> list[ir.Stmt]:
        """An addition to a row of `z`, which loads may read."""
        fits = [n for n in self.values(f64) if self.scope[n].axes in ((), ("n",))]
        place = (ir.Point("i_0"), ir.Along("n"))
        return [ir.AtomicAdd("z", place, self.pick(*fits))] if fits else []

    def reduce(self) -> list[ir.Stmt]:
        found = [n for n, t in self.scope.items() if t.axes]
        if not found:
            return []
        arg = self.pick(*found)
        type_ = self.scope[arg]
        axis = self.pick(*type_.axes)
        fn = self.pick(*(("any", "all") if type_.dtype == boolean else ("sum", "max", "min")))
        rest = tuple(a for a in type_.axes if a != axis)
        return [self.let(Type(type_.dtype, rest), ir.Reduce(fn, arg, axis))]

    def scan(self) -> list[ir.Stmt]:
        found = [n for n, t in self.scope.items() if t.axes and t.dtype in (f64, i64, i32)]
        if not found:
            return []
        arg = self.pick(*found)
        type_ = self.scope[arg]
        return [self.let(type_, ir.Scan("sum", arg, self.pick(*type_.axes)))]

    def dot(self) -> list[ir.Stmt]:
        pairs = [
            (a, b, axis)
            for a in self.values(f64)
            for b in self.values(f64)
            for axis in self.scope[a].axes
            if axis in self.scope[b].axes
        ]
        if not pairs:
            return []
        a, b, axis = self.pick(*pairs)
        axes = tuple(x for x in self.order(self.scope[a].axes, self.scope[b].axes) if x != axis)
        let = self.let(Type(f64, axes), ir.Dot(a, b, axis))
        onto = self.values(f64, axes=axes)
        args = tuple(self.draw(st.permutations([let.name, self.pick(*onto)])))
        return [let, self.let(let.type, ir.Ew("add", args))]

    def cast(self) -> list[ir.Stmt]:
        arg = self.pick(*self.scope)
        type_ = self.scope[arg]
        # a float that an integer cannot hold would saturate: fine, but not what is tested here
        targets = (f64, f32) if type_.dtype.is_float else (f64, i64, i32)
        return [self.let(Type(self.pick(*targets), type_.axes), ir.Cast(arg))]

    def loop(self, depth: int) -> list[ir.Stmt]:
        free = [a for a in ("k", "k_2") if a not in self.open]
        carried = [self.pick(*self.values(f64)) for _ in range(self.draw(st.integers(0, 2)))]
        names = [(self.name(), self.name()) for _ in carried]
        axis = self.pick(*free, None) if free else None
        inside = self.inner(*([axis] if axis else []))
        inside.scope.update({n: self.scope[c] for (n, _), c in zip(names, carried, strict=True)})
        before: list[ir.Stmt] = []
        body = inside.block(depth - 1, 6)
        carries = []
        for (name, result), init in zip(names, carried, strict=True):
            type_ = self.scope[init]
            following = self.pick(*inside.values(type_.dtype, axes=type_.axes))
            carries.append(ir.Carry(name, type_, init, following, result))
        ints = list(self.values(i64, axes=()))
        if axis:
            start, stop = (self.pick(None, *ints) for _ in range(2))
            stmt: ir.Stmt = ir.ForTiles(axis, start, stop, tuple(carries), tuple(body))
        else:
            bounds = [self.let(Type(i64), ir.Const(self.pick("0", "1", "3"))) for _ in range(2)]
            before += bounds
            self.count[0] += 1
            step = self.pick(1, 2, -1)
            stmt = ir.ForRange(f"r_{self.count[0]}", bounds[0].name, bounds[1].name, step,
                               tuple(carries), tuple(body))  # fmt: skip
        self.scope.update({c.result: c.type for c in carries})
        return [*before, stmt]

    def branch(self, depth: int) -> list[ir.Stmt]:
        conditions = self.values(boolean, axes=())
        if not conditions:
            return []
        sides = [self.inner(), self.inner()]
        blocks = [s.block(depth - 1, 4) for s in sides]
        merges = []
        for _ in range(self.draw(st.integers(0, 2))):
            then = self.pick(*sides[0].scope)
            type_ = sides[0].scope[then]
            other = sides[1].values(type_.dtype, axes=type_.axes)
            if other:
                merges.append(ir.Merge(self.name(), type_, then, self.pick(*other)))
        self.scope.update({m.name: m.type for m in merges})
        return [ir.If(self.pick(*conditions), *map(tuple, blocks), tuple(merges))]

    def store(self, name: str, tensor: str, *where: ir.Index) -> list[ir.Stmt]:
        """A store of any value: what it has no place for is reduced away, then it is cast."""
        stmts: list[ir.Stmt] = []
        for axis in self.scope[name].axes:
            if axis != "n":
                type_ = self.scope[name]
                fn = "any" if type_.dtype == boolean else "max"
                rest = tuple(a for a in type_.axes if a != axis)
                stmts.append(self.let(Type(type_.dtype, rest), ir.Reduce(fn, name, axis)))
                name = stmts[-1].name
        if self.scope[name].dtype != f64:
            stmts.append(self.let(Type(f64, self.scope[name].axes), ir.Cast(name)))
            name = stmts[-1].name
        return [*stmts, ir.Store(tensor, (*where, ir.Point("i_0"), ir.Along("n")), name)]


@st.composite
def funcs(
    draw: st.DrawFn, strict: bool = False, gathers: bool = False, scans: bool = False
) -> ir.Func:
    """A function over M, N, K that writes `o` and changes `z`.

    `gathers`: also loads and adds at places that data give; `scans`: also running sums.
    """
    first = ir.Let("i_0", Type(i64), ir.LoopVar("i"))
    host = {s.name: s.type for s in HOST if isinstance(s, ir.Let)}
    build = Builder(draw, {**host, "i_0": Type(i64)}, gathers=gathers, scans=scans)
    body = [first, *build.block(depth=2)]
    readable = list(build.scope)
    for slot in range(draw(st.integers(1, 4))):
        at = build.let(Type(i64), ir.Const(str(slot)))
        body += [at, *build.store(draw(st.sampled_from(readable)), "o", ir.Point(at.name))]
    body += build.store(draw(st.sampled_from(readable)), "z")
    phase = ir.Parallel((ir.Each("i", M, False), ir.Each("n", N, True)), tuple(body))
    return ir.Func("random", PARAMS, ("M", "K", "N"), AXES, (), HOST, (phase,), strict=strict)


def arguments(m: int, n: int, k: int) -> dict[str, object]:
    """Arguments of a random function, all small integers; `o` holds something else already."""
    rng = np.random.default_rng(1)

    def small(*shape: int) -> np.ndarray:
        return rng.integers(-3, 4, shape).astype(np.float64)

    o = np.full((SLOTS, m, n), 7.0)
    return {"x": small(m, k), "y": small(k, n), "s": 2.0, "z": small(m, n), "o": o}


def outputs(func: ir.Func, sizes: tuple[int, int, int]) -> list[np.ndarray]:
    """What a random function writes, for inputs of small integers."""
    rng = np.random.default_rng(0)
    m, n, k = sizes

    def small(*shape: int) -> np.ndarray:
        return rng.integers(-3, 4, shape).astype(np.float64)

    z, o = small(m, n), np.zeros((SLOTS, m, n))
    run(func, {"x": small(m, k), "y": small(k, n), "s": 2.0, "z": z, "o": o})
    return [z, o]
