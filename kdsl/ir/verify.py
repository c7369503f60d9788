"""The rules of the IR: what every function that a frontend builds or a pass returns must obey.

Every name is defined once and before its use; an axis is used only where its loop has bound it;
dtypes and axes of a result follow from its operands. `verify` blames kdsl, `check` blames the text.
"""

from __future__ import annotations

import keyword
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from kdsl.dims import Extent, dim_names
from kdsl.dtypes import DTYPES, DType, TensorType, boolean, i64
from kdsl.errors import NOWHERE, InternalError, KernelTypeError, Span
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
    Param,
    Point,
    Reduce,
    Require,
    Scan,
    ScratchBuffer,
    Stmt,
    Store,
)
from kdsl.ir.printer import show_stmt
from kdsl.ir.types import Type
from kdsl.lang.operation import Rule
from kdsl.lang.ops import OPS, REDUCTIONS, SCANS
from kdsl.lang.promote import Operand, PromotionError, dot

_I64, _BOOL = Type(i64), Type(boolean)


def verify(func: Func, after: str = "") -> None:
    """Raise InternalError, with the statement shown, unless `func` obeys the rules of the IR.

    `after` names who made the function: "the frontend", "the pass fold".
    """
    try:
        _Checker(func).run()
    except _RuleError as flaw:
        who = f" after {after}" if after else ""
        raise InternalError(f"invalid IR{who}: {flaw}", flaw.shown) from None


def check(func: Func) -> None:
    """Raise KernelTypeError, pointing into its text, unless `func` obeys the rules of the IR."""
    try:
        _Checker(func).run()
    except _RuleError as flaw:
        raise KernelTypeError(str(flaw), flaw.span) from None


class _RuleError(Exception):
    """A broken rule; `shown` is the statement it is in."""

    span: Span = NOWHERE
    shown: str = ""


def _need(ok: object, message: str) -> None:
    if not ok:
        raise _RuleError(message)


class _Checker:
    def __init__(self, func: Func) -> None:
        self.func = func
        self.order = {a.name: i for i, a in enumerate(func.axes)}
        self.bound = {a.name for a in func.axes if a.kind == "whole"}
        self.variables: set[str] = set()  # of the loops that are open here
        self.counted: set[str] = set()  # of all loops so far
        self.values: dict[str, Type] = {}  # what can be read here
        self.defined: set[str] = set()

    def run(self) -> None:
        self.header()
        self.block(self.func.host, host=True)
        for phase in self.func.phases:
            self.inside(partial(self.phase, phase))

    def header(self) -> None:
        func = self.func
        tensors: list[Param | ScratchBuffer] = [*func.params, *func.scratch]
        for what, names in (
            ("parameter", [t.name for t in tensors]),
            ("axis", [a.name for a in func.axes]),
            ("dim", func.dims),
        ):
            for i, name in enumerate(names):
                _need(_is_name(name), f"{what} {name!r} is no name")
                _need(name not in names[:i], f"{what} `{name}` is declared twice")
        for name, size in func.fixed:
            _need(name in func.dims, f"`{name}` is fixed but no dim")
            _need(size >= 0, f"dim `{name}` is fixed to {size}")
        for tensor in tensors:
            scalar = getattr(tensor, "kind", "") == "scalar"
            _need(
                isinstance(tensor.type, DType if scalar else TensorType),
                f"parameter `{tensor.name}`: kind and type {tensor.type} do not fit",
            )
            if isinstance(tensor.type, TensorType):
                _need(isinstance(tensor.type.dtype, DType), f"`{tensor.name}` has a dtype variable")
                for extent in tensor.type.shape:
                    self.extent(extent)
        for axis in func.axes:
            self.extent(axis.extent)

    def extent(self, extent: Extent) -> None:
        for name in dim_names(extent):
            _need(name in self.func.dims, f"`{name}` is no dim of the function")

    # ---- scopes

    def inside(self, work: Callable[[], None]) -> None:
        """Run `work` in a scope of its own."""
        values, bound, variables = dict(self.values), set(self.bound), set(self.variables)
        work()
        self.values, self.bound, self.variables = values, bound, variables

    def define(self, name: str, type_: Type) -> None:
        _need(_is_name(name), f"{name!r} is no name")
        _need(name not in self.defined, f"`{name}` is defined twice")
        self.axes(name, type_)
        self.defined.add(name)
        self.values[name] = type_

    def axes(self, name: str, type_: Type) -> None:
        for axis in type_.axes:
            _need(axis in self.order, f"`{name}`: there is no axis `{axis}`")
            _need(axis in self.bound, f"`{name}`: no loop over axis `{axis}` is open here")
        _need(type_.axes == self.union([type_.axes]), f"`{name}`: axes of {type_} are out of order")

    def read(self, name: str) -> Type:
        if name not in self.values:
            late = "is out of scope" if name in self.defined else "is not defined"
            raise _RuleError(f"`{name}` {late}")
        return self.values[name]

    def expect(self, name: str, want: Type, role: str) -> None:
        got = self.read(name)
        _need(got == want, f"{role} `{name}` must be {want}, it is {got}")

    def union(self, sets: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
        names = {a for s in sets for a in s}
        return tuple(sorted(names, key=lambda a: self.order.get(a, -1)))

    # ---- statements

    def phase(self, phase: Parallel) -> None:
        for each in phase.vars:
            self.extent(each.extent)
            if each.is_tile:
                self.open(each.var)
                extent = self.func.axis(each.var).extent
                _need(extent == each.extent, f"axis `{each.var}` runs over {extent}")
            else:
                self.variable(each.var)
        self.block(phase.body)

    def variable(self, name: str) -> None:
        """Bind an integer variable for what follows in this scope."""
        _need(_is_name(name), f"{name!r} is no name")
        _need(name not in self.counted, f"`{name}` is the variable of two loops")
        self.counted.add(name)
        self.variables.add(name)

    def open(self, axis: str) -> None:
        """Bind a tile axis for what follows in this scope."""
        _need(axis in self.order, f"there is no axis `{axis}`")
        _need(self.func.axis(axis).kind == "tile", f"axis `{axis}` is whole, no loop binds it")
        _need(axis not in self.bound, f"a loop over axis `{axis}` is open already")
        self.bound.add(axis)

    def block(self, block: Block, host: bool = False) -> None:
        for stmt in block:
            try:
                self.stmt(stmt, host)
            except _RuleError as flaw:
                if not flaw.shown:
                    flaw.shown, flaw.span = show_stmt(stmt, self.order), stmt.span
                raise

    def stmt(self, stmt: Stmt, host: bool) -> None:
        match stmt:
            case Let(name=name, type=type_, op=op):
                pure = isinstance(op, (Const, DimSize, Arg, Ew, Cast)) and type_.is_scalar
                _need(pure or not host, "only scalar arithmetic runs on the host")
                self.let(name, type_, op)
            case Require(cond=cond):
                _need(host, "a require stands on the host")
                self.expect(cond, _BOOL, "a condition")
            case _ if host:
                raise _RuleError("only scalar arithmetic runs on the host")
            case Store():
                self.store(stmt)
            case AtomicAdd(tensor=tensor):
                self.store(stmt)
                _need(self.tensor(tensor).dtype != boolean, f"`{tensor}` holds bool, no numbers")
            case ForTiles() | ForRange():
                self.loop(stmt)
            case If():
                self.branch(stmt)
            case _:
                raise TypeError(f"verify: no rule for {type(stmt).__name__}")

    def store(self, stmt: Store | AtomicAdd) -> None:
        tensor = self.tensor(stmt.tensor)
        kinds = [p.kind for p in self.func.params if p.name == stmt.tensor]
        _need(kinds != ["in"], f"`{stmt.tensor}` is an input, it cannot be written")
        value, places = self.read(stmt.value), self.index(stmt.index, tensor)
        _need(
            value.dtype == tensor.dtype,
            f"`{stmt.tensor}` holds {tensor.dtype}, `{stmt.value}` is {value.dtype}",
        )
        extra = set(value.axes) - set(places)
        _need(not extra, f"the index has no place for axis {_names(extra)} of `{stmt.value}`")

    def loop(self, stmt: ForTiles | ForRange) -> None:
        for bound in (stmt.start, stmt.stop):
            if bound is not None:
                self.expect(bound, _I64, "a loop bound")
        for carry in stmt.carries:
            self.expect(carry.init, carry.type, "the first value")
        self.inside(lambda: self.iteration(stmt))
        for carry in stmt.carries:
            self.define(carry.result, carry.type)

    def iteration(self, stmt: ForTiles | ForRange) -> None:
        for carry in stmt.carries:
            self.define(carry.name, carry.type)
        if isinstance(stmt, ForTiles):
            self.open(stmt.axis)
        else:
            _need(stmt.step != 0, "a range needs a step other than 0")
            self.variable(stmt.var)
            if stmt.going is not None:
                self.expect(stmt.going, _BOOL, "what a loop goes on for")
        self.block(stmt.body)
        for carry in stmt.carries:
            self.expect(carry.next, carry.type, "the next value")

    def branch(self, stmt: If) -> None:
        self.expect(stmt.cond, _BOOL, "a condition")

        def side(block: Block, values: list[str]) -> None:
            self.block(block)
            for merge, value in zip(stmt.merges, values, strict=True):
                self.expect(value, merge.type, f"`{merge.name}` of")

        self.inside(lambda: side(stmt.then, [m.then for m in stmt.merges]))
        self.inside(lambda: side(stmt.other, [m.other for m in stmt.merges]))
        for merge in stmt.merges:
            self.define(merge.name, merge.type)

    # ---- operations

    def let(self, name: str, type_: Type, op: Op) -> None:
        got = self.infer(op, type_)
        _need(got == type_, f"`{name}` is declared {type_}, but the operation gives {got}")
        self.define(name, type_)

    def infer(self, op: Op, declared: Type) -> Type:
        """Type of a result; `declared` is it where operands do not say (literals, casts)."""
        match op:
            case Const(text=text):
                literal(text, declared.dtype, _RuleError)
                return declared
            case DimSize(extent=extent):
                self.extent(extent)
                return _I64
            case Arg(param=param):
                types = [p.type for p in self.func.params if p.name == param]
                if len(types) == 1 and isinstance(types[0], DType):
                    return Type(types[0])
                raise _RuleError(f"there is no scalar parameter `{param}`")
            case LoopVar(var=var):
                _need(var in self.variables, f"no loop over `{var}` is open here")
                return _I64
            case Bound(axis=axis):
                tile = axis in self.order and self.func.axis(axis).kind == "tile"
                _need(tile and axis in self.bound, f"no tile loop over `{axis}` is open here")
                return _I64
            case Iota(axis=axis):
                return Type(i64, (axis,))
            case Load(tensor=tensor, index=index):
                found = self.tensor(tensor)
                return Type(DTYPES[str(found.dtype)], self.index(index, found))
            case Ew():
                return self.elementwise(op)
            case Cast(arg=arg):
                return Type(declared.dtype, self.read(arg).axes)
            case Reduce():
                return self.reduction(op)
            case Scan():
                return self.scan(op)
            case Dot():
                return self.dot(op)
            case Guard():
                return self.guard(op)
        raise TypeError(f"verify: no rule for {type(op).__name__}")

    def tensor(self, name: str) -> TensorType:
        try:
            return self.func.tensor(name)
        except KeyError:
            raise _RuleError(f"there is no tensor `{name}`") from None

    def index(self, index: tuple[Index, ...], tensor: TensorType) -> tuple[str, ...]:
        """Axes of an indexed place."""
        _need(len(index) == tensor.ndim, f"{len(index)} indices for a tensor of ndim {tensor.ndim}")
        axes: list[tuple[str, ...]] = []
        for item in index:
            match item:
                case Along(axis=axis, offset=offset):
                    self.axes("the index", Type(i64, (axis,)))
                    axes.append((axis,))
                    if offset is not None:
                        self.expect(offset, _I64, "an offset")
                case Point(value=value):
                    type_ = self.read(value)
                    _need(type_.dtype.is_int, f"index `{value}` is {type_}, not of an integer type")
                    axes.append(type_.axes)
        return self.union(axes)

    def guard(self, op: Guard) -> Type:
        tensor, type_ = self.tensor(op.tensor), self.read(op.arg)
        _need(
            0 <= op.dim < tensor.ndim,
            f"`{op.tensor}` has ndim {tensor.ndim}, so no dimension {op.dim}",
        )
        _need(type_.dtype.is_int, f"index `{op.arg}` is {type_}, not of an integer type")
        return type_

    def elementwise(self, op: Ew) -> Type:
        args = [self.read(a) for a in op.args]
        info = OPS.get(op.fn)
        if info is None:
            raise _RuleError(f"there is no operation `{op.fn}`")
        _need(len(args) == info.arity, f"`{op.fn}` takes {info.arity} operands, got {len(args)}")
        same = [t.dtype for t in args]
        for _ in range(info.conditions):
            condition = same.pop(0)
            _need(condition == boolean, f"the condition of {op.fn} is {condition}")
        listed = ", ".join(map(str, same))
        _need(len(set(same)) == 1, f"`{op.fn}` needs one dtype, got {listed}")
        result = self.promoted(op.fn, info.rule, same)
        return Type(result, self.union(t.axes for t in args))

    def reduction(self, op: Reduce) -> Type:
        arg, info = self.read(op.arg), REDUCTIONS.get(op.fn)
        if info is None:
            raise _RuleError(f"there is no reduction `{op.fn}`")
        _need(op.axis in arg.axes, f"`{op.arg}` is {arg}, it has no axis `{op.axis}`")
        result = self.promoted(op.fn, info.rule, [arg.dtype])
        return Type(result, tuple(a for a in arg.axes if a != op.axis))

    def scan(self, op: Scan) -> Type:
        arg, info = self.read(op.arg), SCANS.get(op.fn)
        if info is None:
            raise _RuleError(f"there is no scan `cum{op.fn}`")
        _need(op.axis in arg.axes, f"`{op.arg}` is {arg}, it has no axis `{op.axis}`")
        return Type(self.promoted(f"cum{op.fn}", info.rule, [arg.dtype]), arg.axes)

    def promoted(self, fn: str, rule: Rule, operands: Sequence[DType]) -> DType:
        """The result's dtype; promotion leaves the operands as they are, or a cast is missing."""
        try:
            found = rule(*map(Operand, operands))
        except PromotionError as err:
            raise _RuleError(str(err)) from None
        _need(
            found.compute == operands[0],
            f"`{fn}` of {operands[0]} computes in {found.compute}: a cast is missing",
        )
        return found.result

    def dot(self, op: Dot) -> Type:
        a, b = self.read(op.a), self.read(op.b)
        shared = op.axis in a.axes and op.axis in b.axes
        _need(shared, f"dot over `{op.axis}`, which {a} and {b} do not share")
        axes = tuple(x for x in self.union([a.axes, b.axes]) if x != op.axis)
        try:
            result = Type(dot(a.dtype, b.dtype).result, axes)
        except PromotionError as err:
            raise _RuleError(f"{err}: {a} and {b}") from None
        if op.acc is not None:
            self.expect(op.acc, result, "the accumulator")
        return result


def _is_name(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _names(axes: set[str]) -> str:
    return ", ".join(f"`{a}`" for a in sorted(axes))
