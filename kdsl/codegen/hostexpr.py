"""Scalar expressions over dims and scalar arguments, as C++ of the host side and as Python text.

Host code divides by nothing that it has not looked at: `divisions` lists what to check first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kdsl.codegen.context import scalar_ctype
from kdsl.dims import Dim, DimOp, Extent
from kdsl.dtypes import DType
from kdsl.errors import InternalError, KernelTypeError
from kdsl.ir import nodes as ir
from kdsl.ir.walk import operands, walk

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip
_CALLS = {"floordiv": "kdsl::floordiv", "mod": "kdsl::mod"}
_PYTHON = {**_INFIX, "floordiv": "//", "mod": "%"}
_DIM_CALLS = {"//": "kdsl::floordiv", "%": "kdsl::mod"}
_DIVISIONS = ("floordiv", "mod", "div")


@dataclass(frozen=True, slots=True)
class Division:
    """A division on the host: `divisor` is C++, `text` the division in Python, `names` what is
    in it."""

    divisor: str
    text: str
    names: tuple[str, ...]


# ---- extents: expressions of dims in annotations


def extent_c(extent: Extent, names: Mapping[str, str]) -> str:
    """C++ of an extent; `names` gives the variable of a dim."""
    match extent:
        case int():
            return str(extent)
        case Dim():
            return names[extent.name]
        case DimOp(op=op, a=a, b=b) if op in _DIM_CALLS:
            return f"{_DIM_CALLS[op]}({extent_c(a, names)}, {extent_c(b, names)})"
        case DimOp(op=op, a=a, b=b):
            left, right = (
                f"({extent_c(x, names)})"
                if isinstance(x, DimOp) and x.op not in _DIM_CALLS
                else extent_c(x, names)
                for x in (a, b)
            )
            return f"{left} {op} {right}"
    raise InternalError(f"extent_c: no rule for {type(extent).__name__}")


def extent_divisions(extent: Extent, names: Mapping[str, str]) -> Iterator[Division]:
    """Divisions in an extent, inner ones first, as far as their divisor is no number but 0."""
    if not isinstance(extent, DimOp):
        return
    yield from extent_divisions(extent.a, names)
    yield from extent_divisions(extent.b, names)
    if extent.op in _DIM_CALLS and (not isinstance(extent.b, int) or extent.b == 0):
        used = tuple(dict.fromkeys(n for n in _names_of(extent)))
        yield Division(extent_c(extent.b, names), str(extent), used)


def _names_of(extent: Extent) -> Iterator[str]:
    match extent:
        case Dim():
            yield extent.name
        case DimOp():
            yield from _names_of(extent.a)
            yield from _names_of(extent.b)


# ---- values of the IR


class HostValues:
    """The values of a function that the host can compute: of dims, scalars and literals alone."""

    def __init__(self, func: ir.Func, names: Mapping[str, str]) -> None:
        """`names` gives the C++ variable of a dim or scalar parameter."""
        self._names = names
        self._lets: dict[str, ir.Let] = {}
        for block in (func.host, *(phase.body for phase in func.phases)):
            for stmt in walk(block):
                if isinstance(stmt, ir.Let) and self._is_host(stmt):
                    self._lets[stmt.name] = stmt

    def _is_host(self, let: ir.Let) -> bool:
        if let.type.axes:
            return False
        match let.op:
            case ir.Const() | ir.DimSize() | ir.Arg():
                return True
            case ir.Ew() | ir.Cast():
                return all(name in self._lets for name in operands(let.op))
        return False

    def __contains__(self, value: str) -> bool:
        return value in self._lets

    def c(self, value: str) -> str:
        """C++ of a value. Raises KernelTypeError for an operation that the host does not have."""
        let = self._lets[value]
        match let.op:
            case ir.Const(text=text):
                return literal_c(text, let.type.dtype)
            case ir.DimSize(extent=extent):
                return extent_c(extent, self._names)
            case ir.Arg(param=param):
                return self._names[param]
            case ir.Cast(arg=arg):
                return f"static_cast<{scalar_ctype(let.type.dtype)}>({self.c(arg)})"
            case ir.Ew():
                return self._ew(let, let.op.fn, let.op.args)
        raise InternalError(f"host code: no rule for {type(let.op).__name__}")

    def _ew(self, let: ir.Let, fn: str, args: tuple[str, ...]) -> str:
        if fn in _CALLS and not let.type.dtype.is_float:
            return f"{_CALLS[fn]}({', '.join(map(self.c, args))})"
        texts = [self._operand(a) for a in args]
        is_bool = self._lets[args[0]].type.dtype.kind == "bool"
        if fn in ("and", "or") and is_bool:
            return f" {_INFIX[fn] * 2} ".join(texts)
        if fn in _INFIX:
            return f"{texts[0]} {_INFIX[fn]} {texts[1]}"
        match fn:
            case "neg":
                return f"-{texts[0]}"
            case "not":
                return f"{'!' if is_bool else '~'}{texts[0]}"
            case "abs":
                return f"({texts[0]} < 0 ? -{texts[0]} : {texts[0]})"
            case "maximum" | "minimum" | "fmax" | "fmin":
                sign = ">" if fn.endswith("max") or fn == "maximum" else "<"
                return f"({texts[0]} {sign} {texts[1]} ? {texts[0]} : {texts[1]})"
            case "where":
                return f"({texts[0]} ? {texts[1]} : {texts[2]})"
            case "fma":
                return f"({texts[0]} * {texts[1]} + {texts[2]})"
            case "sqrt":
                suffix = "" if let.type.dtype.name == "f64" else "f"
                return f"__builtin_sqrt{suffix}({self.c(args[0])})"
        raise KernelTypeError(
            f"`{fn}` of {let.type.dtype} is not available outside parallel loops",
            let.span,
            help="compute it inside a loop, or pass it as an argument",
        )

    def _operand(self, value: str) -> str:
        """A value as an operand: in parentheses where it is an operation written between two."""
        op = self._lets[value].op
        text = self.c(value)
        infix = isinstance(op, ir.Ew) and op.fn in _INFIX
        if isinstance(op, ir.DimSize) and isinstance(op.extent, DimOp):
            infix = op.extent.op not in _DIM_CALLS
        return f"({text})" if infix else text

    def python(self, value: str) -> str:
        """A value as its author wrote it, more or less."""
        let = self._lets[value]
        match let.op:
            case ir.Const(text=text):
                return text
            case ir.DimSize(extent=extent):
                return str(extent)
            case ir.Arg(param=param):
                return param
            case ir.Cast(arg=arg):
                return self.python(arg)
            case ir.Ew(fn=fn, args=args) if fn in _PYTHON:
                left, right = (self._python_operand(a) for a in args)
                return f"{left} {_PYTHON[fn]} {right}"
            case ir.Ew(fn=fn, args=args):
                return f"{fn}({', '.join(map(self.python, args))})"
        raise InternalError(f"host text: no rule for {type(let.op).__name__}")

    def _python_operand(self, value: str) -> str:
        op, text = self._lets[value].op, self.python(value)
        nested = isinstance(op, ir.Ew) and op.fn in _PYTHON
        nested = nested or (isinstance(op, ir.DimSize) and isinstance(op.extent, DimOp))
        return f"({text})" if nested else text

    def names(self, value: str) -> tuple[str, ...]:
        """Dims and parameters in a value, each once."""
        return tuple(dict.fromkeys(self._walk_names(value)))

    def _walk_names(self, value: str) -> Iterator[str]:
        match self._lets[value].op:
            case ir.DimSize(extent=extent):
                yield from _names_of(extent)
            case ir.Arg(param=param):
                yield param
            case op:
                for name in operands(op):
                    yield from self._walk_names(name)

    def divisions(self, value: str) -> Iterator[Division]:
        """Divisions that a value needs, inner ones first."""
        op = self._lets[value].op
        if isinstance(op, ir.DimSize):
            yield from extent_divisions(op.extent, self._names)
        for name in operands(op):
            yield from self.divisions(name)
        if isinstance(op, ir.Ew) and op.fn in _DIVISIONS and not self._is_number(op.args[1]):
            yield Division(self._operand(op.args[1]), self.python(value), self.names(value))

    def all_divisions(self, func: ir.Func) -> Iterator[Division]:
        """Divisions among host values outside `require`: those of the host block, of scratch and
        annotations, and those that each iteration would do, which the reference run does too."""
        for buffer in func.scratch:
            for extent in buffer.type.shape:
                yield from extent_divisions(extent, self._names)
        for phase in func.phases:
            for each in phase.vars:
                yield from extent_divisions(each.extent, self._names)
        for block in (func.host, *(phase.body for phase in func.phases)):
            for stmt in block:
                if isinstance(stmt, ir.Let) and stmt.name in self._lets:
                    yield from self.divisions(stmt.name)

    def _is_number(self, value: str) -> bool:
        """A literal that is not zero."""
        let = self._lets[value]
        return isinstance(let.op, ir.Const) and float(let.op.text) != 0


def literal_c(text: str, dtype: DType) -> str:
    """A literal of the IR in C++."""
    if dtype.kind == "bool":
        return "true" if text == "True" else "false"
    if not dtype.is_float:
        return text
    suffix = "" if dtype.name == "f64" else "f"
    special = {"inf": f"__builtin_inf{suffix}()", "-inf": f"-__builtin_inf{suffix}()"}
    special["nan"] = f'__builtin_nan{suffix}("")'
    if text in special:
        return special[text]
    whole = text.lstrip("-").isdigit()
    return f"{text}.0{suffix}" if whole else f"{text}{suffix}"
