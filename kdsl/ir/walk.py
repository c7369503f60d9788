"""Walking and rewriting the IR: what passes are written with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kdsl.ir.nodes import (
    Arg,
    AtomicAdd,
    Block,
    Bound,
    Carry,
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
    Point,
    Reduce,
    Require,
    Scan,
    Stmt,
    Store,
)
from kdsl.ir.types import Type


def operands(op: Op) -> tuple[str, ...]:
    """Names of the values an operation reads, in order."""
    match op:
        case Const() | DimSize() | Arg() | LoopVar() | Bound() | Iota():
            return ()
        case Load(index=index):
            return index_operands(index)
        case Ew(args=args):
            return args
        case Cast(arg=arg) | Reduce(arg=arg) | Scan(arg=arg) | Guard(arg=arg):
            return (arg,)
        case Dot(a=a, b=b, acc=acc):
            return (a, b) if acc is None else (a, b, acc)
    raise TypeError(f"operands: no rule for {type(op).__name__}")


def index_operands(index: tuple[Index, ...]) -> tuple[str, ...]:
    """Names of the values in an index."""
    names = (i.value if isinstance(i, Point) else i.offset for i in index)
    return tuple(n for n in names if n is not None)


def reads(stmt: Stmt) -> tuple[str, ...]:
    """Names a statement itself reads (not those of statements inside it)."""
    match stmt:
        case Let(op=op):
            return operands(op)
        case Store(index=index, value=value) | AtomicAdd(index=index, value=value):
            return (*index_operands(index), value)
        case ForTiles(start=start, stop=stop, carries=carries):
            bounds = tuple(b for b in (start, stop) if b is not None)
            return bounds + tuple(c.init for c in carries)
        case ForRange(start=start, stop=stop, carries=carries, going=going):
            bounds = (start, stop) if going is None else (start, stop, going)
            return (*bounds, *(c.init for c in carries))
        case If(cond=cond):
            return (cond,)
        case Require(cond=cond):
            return (cond,)
    raise TypeError(f"reads: no rule for {type(stmt).__name__}")


def blocks(stmt: Stmt) -> tuple[Block, ...]:
    """The blocks inside a statement."""
    match stmt:
        case ForTiles(body=body) | ForRange(body=body):
            return (body,)
        case If(then=then, other=other):
            return (then, other)
    return ()


def walk(block: Block) -> Iterator[Stmt]:
    """Every statement of a block and of the blocks inside it, in program order."""
    for stmt in block:
        yield stmt
        for inner in blocks(stmt):
            yield from walk(inner)


def written(block: Block) -> frozenset[str]:
    """Names of the tensors that a block writes, the blocks inside it too."""
    return frozenset(s.tensor for s in walk(block) if isinstance(s, Store | AtomicAdd))


def statements(func: Func) -> Iterator[Stmt]:
    """Every statement of a function: host, then the phases in order."""
    yield from walk(func.host)
    for phase in func.phases:
        yield from walk(phase.body)


def lets(func: Func) -> dict[str, Let]:
    """Every `Let` of a function by name."""
    return {s.name: s for s in statements(func) if isinstance(s, Let)}


def guards(func: Func) -> tuple[Let, ...]:
    """The `Let`s of all `Guard`s in program order: a fault names one by its place here."""
    return tuple(s for s in statements(func) if isinstance(s, Let) and isinstance(s.op, Guard))


def carries(func: Func) -> Iterator[Carry]:
    """Every loop carry of a function."""
    for s in statements(func):
        if isinstance(s, (ForTiles, ForRange)):
            yield from s.carries


def value_types(func: Func) -> dict[str, Type]:
    """Types of all values: lets, carries (inside and after their loop), merges."""
    types: dict[str, Type] = {}
    for s in statements(func):
        match s:
            case Let(name=name, type=type_):
                types[name] = type_
            case ForTiles(carries=cs) | ForRange(carries=cs):
                for c in cs:
                    types[c.name] = types[c.result] = c.type
            case If(merges=merges):
                types.update((m.name, m.type) for m in merges)
    return types


def users(func: Func) -> dict[str, list[Stmt]]:
    """Statements that read each value. A loop or branch reads what its carries and merges name."""
    found: dict[str, list[Stmt]] = {}
    for s in statements(func):
        names = list(reads(s))
        match s:
            case ForTiles(carries=cs) | ForRange(carries=cs):
                names += [c.next for c in cs]
            case If(merges=merges):
                names += [n for m in merges for n in (m.then, m.other)]
        for n in dict.fromkeys(names):
            found.setdefault(n, []).append(s)
    return found


def map_blocks(func: Func, change: Callable[[Block], Block]) -> Func:
    """Apply `change` to every block, innermost first; `func` itself when nothing changed."""

    def stmt(s: Stmt) -> Stmt:
        match s:
            case ForTiles(body=body) | ForRange(body=body):
                new = block(body)
                return s if new is body else replace(s, body=new)
            case If(then=then, other=other):
                a, b = block(then), block(other)
                return s if a is then and b is other else replace(s, then=a, other=b)
        return s

    def block(old: Block) -> Block:
        inner = tuple(map(stmt, old))
        kept = old if all(a is b for a, b in zip(inner, old, strict=True)) else inner
        return change(kept)

    def phase(p: Parallel) -> Parallel:
        body = block(p.body)
        return p if body is p.body else replace(p, body=body)

    host, phases = block(func.host), tuple(map(phase, func.phases))
    same = host is func.host and all(a is b for a, b in zip(phases, func.phases, strict=True))
    return func if same else replace(func, host=host, phases=phases)


def rename(func: Func, names: dict[str, str]) -> Func:
    """Read `names[x]` wherever x is read; definitions keep their names."""
    if not names:
        return func

    def new(name: str) -> str:
        while name in names:
            name = names[name]
        return name

    def index(items: tuple[Index, ...]) -> tuple[Index, ...]:
        return tuple(
            replace(i, value=new(i.value)) if isinstance(i, Point)
            else replace(i, offset=i.offset and new(i.offset)) for i in items
        )  # fmt: skip

    def op(o: Op) -> Op:
        match o:
            case Load():
                return replace(o, index=index(o.index))
            case Ew():
                return replace(o, args=tuple(map(new, o.args)))
            case Cast() | Reduce() | Scan() | Guard():
                return replace(o, arg=new(o.arg))
            case Dot():
                return replace(o, a=new(o.a), b=new(o.b), acc=o.acc and new(o.acc))
        return o

    def stmt(s: Stmt) -> Stmt:
        match s:
            case Let():
                return replace(s, op=op(s.op))
            case Store() | AtomicAdd():
                return replace(s, index=index(s.index), value=new(s.value))
            case ForTiles():
                return replace(s, start=s.start and new(s.start), stop=s.stop and new(s.stop),
                               carries=tuple(map(carry, s.carries)))  # fmt: skip
            case ForRange():
                return replace(s, start=new(s.start), stop=new(s.stop),
                               carries=tuple(map(carry, s.carries)),
                               going=s.going and new(s.going))  # fmt: skip
            case If():
                merges = tuple(replace(m, then=new(m.then), other=new(m.other)) for m in s.merges)
                return replace(s, cond=new(s.cond), merges=merges)
            case Require():
                return replace(s, cond=new(s.cond))
        return s

    def carry(c: Carry) -> Carry:
        return replace(c, init=new(c.init), next=new(c.next))

    return map_blocks(func, lambda b: tuple(map(stmt, b)))
