"""Constants and identities, bit for bit: nothing here changes a result, not even of -0.0 or NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from kdsl.dtypes import DType
from kdsl.ir import nodes as ir
from kdsl.ir.literals import Number, literal, text_of
from kdsl.ir.types import Type
from kdsl.ir.walk import value_types
from kdsl.lang.arrays import Array, cast, numpy_dtype
from kdsl.lang.ops import OPS
from kdsl.passes.names import substitute


def fold(func: ir.Func) -> ir.Func:
    """Compute what is constant, drop x * 1, casts that say nothing and branches never taken."""
    while True:
        new = _Folder(func).run()
        if new == func:
            return func
        func = new


class _Folder:
    """One walk: `kept` is what stands for a value that goes, `ops` what defines those that stay."""

    def __init__(self, func: ir.Func) -> None:
        self.func, self.types = func, value_types(func)
        self.kept: dict[str, str] = {}
        self.ops: dict[str, ir.Op] = {}

    def run(self) -> ir.Func:
        func = replace(
            self.func,
            host=self.block(self.func.host),
            phases=tuple(replace(p, body=self.block(p.body)) for p in self.func.phases),
        )
        return substitute(func, self.kept)

    def block(self, block: ir.Block) -> ir.Block:
        return tuple(new for s in block for new in self.stmt(s))

    def stmt(self, s: ir.Stmt) -> ir.Block:
        match s:
            case ir.Let():
                return self.let(s)
            case ir.ForTiles() | ir.ForRange():
                loop = replace(s, body=self.block(s.body))
                constant = [
                    c for c in s.carries if self.root(c.next) in (c.name, self.root(c.init))
                ]
                for c in constant:
                    self.kept[c.name] = self.kept[c.result] = c.init
                changing = tuple(c for c in s.carries if c not in constant)
                return (replace(loop, carries=changing),)
            case ir.If():
                return self.branch(s)
        return (s,)

    def branch(self, s: ir.If) -> ir.Block:
        cond = self.constant(s.cond)
        if cond is None:
            merges = []
            branch = replace(s, then=self.block(s.then), other=self.block(s.other))
            for m in s.merges:
                if self.root(m.then) == self.root(m.other):
                    self.kept[m.name] = m.then
                else:
                    merges.append(m)
            return (replace(branch, merges=tuple(merges)),)
        taken = self.block(s.then if cond else s.other)
        for m in s.merges:
            self.kept[m.name] = m.then if cond else m.other
        return taken

    def let(self, s: ir.Let) -> ir.Block:
        op = self.simpler(s.op, s.type)
        if isinstance(op, str):
            if self.types[op] == s.type:
                self.kept[s.name] = op
                return ()
            op = s.op  # the value it equals lacks an axis: types of readers would change
        self.ops[s.name] = op
        return (s if op is s.op else replace(s, op=op),)

    def simpler(self, op: ir.Op, type_: Type) -> ir.Op | str:
        """A simpler operation, or the name of a value that this one equals, or `op` itself."""
        match op:
            case ir.DimSize(extent=int(size)):
                return ir.Const(str(size), span=op.span)
            case ir.Cast():
                return self.cast(op, type_)
            case ir.Guard(arg=arg, tensor=tensor, dim=dim):
                at, extent = self.constant(arg), self.func.tensor(tensor).shape[dim]
                inside = at is not None and isinstance(extent, int) and 0 <= at < extent
                return arg if inside else op
            case ir.Ew():
                values = [self.constant(a) for a in op.args]
                known = [v for v in values if v is not None]
                if len(known) == len(values):
                    return self.computed(op, known)
                return self.identity(op, values)
        return op

    def computed(self, op: ir.Ew, numbers: list[Number]) -> ir.Op:
        divides = op.fn in ("div", "floordiv", "mod") and numbers[1] == 0
        if divides or not OPS[op.fn].exact:
            return op  # a division by zero on the host is for the host to report
        arrays = [
            np.array(n, numpy_dtype(self.types[a].dtype))
            for n, a in zip(numbers, op.args, strict=True)
        ]
        with np.errstate(all="ignore"):
            return _const(OPS[op.fn].numpy(*arrays), op)

    def identity(self, op: ir.Ew, values: list[Number | None]) -> ir.Op | str:
        rule = _IDENTITIES.get(op.fn)
        found = rule(op.args, values, self.types[op.args[-1]].dtype) if rule else None
        if found is not None:
            return found
        inner = self.ops.get(self.root(op.args[0]))
        twice = op.fn in ("neg", "not") and isinstance(inner, ir.Ew) and inner.fn == op.fn
        return inner.args[0] if twice and isinstance(inner, ir.Ew) else op

    def cast(self, op: ir.Cast, type_: Type) -> ir.Op | str:
        source = self.types[op.arg].dtype
        if source == type_.dtype:
            return op.arg
        number = self.constant(op.arg)
        if number is not None:
            with np.errstate(all="ignore"):
                return _const(cast(np.array(number, numpy_dtype(source)), type_.dtype), op)
        inner = self.ops.get(self.root(op.arg))
        if isinstance(inner, ir.Cast) and holds(source, self.types[inner.arg].dtype):
            first = self.types[inner.arg]
            same = first.dtype == type_.dtype
            return inner.arg if same else replace(op, arg=inner.arg)
        return op

    def constant(self, name: str) -> Number | None:
        """The number that a value is everywhere, rounded to its dtype."""
        op = self.ops.get(self.root(name))
        if not isinstance(op, ir.Const):
            return None
        dtype = self.types[name].dtype
        with np.errstate(all="ignore"):
            number: Number = np.array(literal(op.text, dtype), numpy_dtype(dtype)).item()
        return number

    def root(self, name: str) -> str:
        while name in self.kept:
            name = self.kept[name]
        return name


def holds(wide: DType, narrow: DType) -> bool:
    """Whether each value of `narrow` is one of `wide`, so that a cast to it says nothing."""
    if wide == narrow or narrow.kind == "bool":
        return True
    if wide.is_float and narrow.is_float:
        # f8e4m3 and f8e5m2, f16 and bf16: neither holds the other
        return wide.bits > narrow.bits and (wide.bits > 16 or narrow.bits < 16)
    if wide.is_float:
        digits = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}.get(wide.name, 0)
        return narrow.bits - (narrow.kind == "int") <= digits
    if wide.kind == "int":
        return narrow.is_int and narrow.bits < wide.bits + (narrow.kind == "int")
    return wide.kind == narrow.kind == "uint" and narrow.bits < wide.bits


def _const(array: Array, op: ir.Op) -> ir.Const:
    return ir.Const(text_of(array.item()), span=op.span)


Rule = Callable[[tuple[str, ...], list[Number | None], DType], str | None]


def _neutral(number: Number, left: bool = True) -> Rule:
    """x op number is x; `left`: number op x too."""

    def rule(args: tuple[str, ...], values: list[Number | None], _: DType) -> str | None:
        if values[1] is not None and values[1] == number:
            return args[0]
        return args[1] if left and values[0] is not None and values[0] == number else None

    return rule


def _sum(args: tuple[str, ...], values: list[Number | None], dtype: DType) -> str | None:
    # x + 0.0 is 0.0 for x = -0.0, x + -0.0 is x
    if dtype.is_float:
        minus_zero = [v is not None and str(v) == "-0.0" for v in values]
        return args[0] if minus_zero[1] else args[1] if minus_zero[0] else None
    return _neutral(0)(args, values, dtype)


def _difference(args: tuple[str, ...], values: list[Number | None], dtype: DType) -> str | None:
    if dtype.is_float and str(values[1]) == "-0.0":
        return None
    return _neutral(0, left=False)(args, values, dtype)


def _quotient(args: tuple[str, ...], values: list[Number | None], dtype: DType) -> str | None:
    return None if dtype.is_float else _neutral(1, left=False)(args, values, dtype)


def _choice(args: tuple[str, ...], values: list[Number | None], _: DType) -> str | None:
    if args[1] == args[2]:
        return args[1]
    return None if values[0] is None else args[1] if values[0] else args[2]


def _bits(number: bool) -> Rule:
    """`and` with True, `or` with False: x itself; with integers, all bits or none."""

    def rule(args: tuple[str, ...], values: list[Number | None], dtype: DType) -> str | None:
        neutral = number if dtype.kind == "bool" else -1 if number else 0
        return args[0] if args[0] == args[1] else _neutral(neutral)(args, values, dtype)

    return rule


#: What operations are equal to when some operands are known.
_IDENTITIES: dict[str, Rule] = {
    "add": _sum,
    "sub": _difference,
    "mul": _neutral(1),
    "div": _neutral(1, left=False),
    "floordiv": _quotient,
    "shl": _neutral(0, left=False),
    "shr": _neutral(0, left=False),
    "and": _bits(True),
    "or": _bits(False),
    "where": _choice,
}
