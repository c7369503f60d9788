"""One table of the elementwise operations and one of the reductions, by their names in the IR.

A new operation is one line here and one meaning in `kdsl.lang.meaning`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kdsl.dtypes import DType, boolean, i64
from kdsl.lang import promote
from kdsl.lang.promote import Operand, Promoted

if TYPE_CHECKING:
    from numpy import ndarray

Rule = Callable[..., Promoted]


@dataclass(frozen=True, slots=True)
class OpInfo:
    """An elementwise operation.

    Attributes:
        name: its name in the IR (`Ew.fn`).
        arity: number of operands.
        rule: operands' dtypes to the dtype of computing and the result's.
        symbol: how a user writes it, where that is an operator.
        cheap: costs about as much as an addition.
    """

    name: str
    arity: int
    rule: Rule
    symbol: str = ""
    cheap: bool = True

    def promote(self, *operands: Operand) -> Promoted:
        """Dtypes for these operands; `where` takes the two values only. Raises PromotionError."""
        return self.rule(*operands)

    def numpy(self, *arrays: ndarray) -> ndarray:
        """The meaning: operands already have the dtype of computing (conditions are bool)."""
        from kdsl.lang import meaning

        result: ndarray = meaning.ELEMENTWISE[self.name](*arrays)
        return result

    def result_dtype(self, compute: DType) -> DType:
        """Dtype of the result when the operands have this one."""
        return boolean if self.rule is promote.comparison else compute


def _table(*rows: OpInfo) -> dict[str, OpInfo]:
    return {row.name: row for row in rows}


#: Elementwise operations by name.
OPS: dict[str, OpInfo] = _table(
    OpInfo("add", 2, promote.arithmetic, "+"),
    OpInfo("sub", 2, promote.arithmetic, "-"),
    OpInfo("mul", 2, promote.arithmetic, "*"),
    OpInfo("div", 2, promote.division, "/", cheap=False),
    OpInfo("floordiv", 2, promote.arithmetic, "//", cheap=False),
    OpInfo("mod", 2, promote.arithmetic, "%", cheap=False),
    OpInfo("pow", 2, promote.arithmetic, "**", cheap=False),
    OpInfo("neg", 1, promote.arithmetic, "-"),
    OpInfo("abs", 1, promote.arithmetic),
    OpInfo("eq", 2, promote.comparison, "=="),
    OpInfo("ne", 2, promote.comparison, "!="),
    OpInfo("lt", 2, promote.comparison, "<"),
    OpInfo("le", 2, promote.comparison, "<="),
    OpInfo("gt", 2, promote.comparison, ">"),
    OpInfo("ge", 2, promote.comparison, ">="),
    OpInfo("and", 2, promote.bits, "&"),
    OpInfo("or", 2, promote.bits, "|"),
    OpInfo("xor", 2, promote.bits, "^"),
    OpInfo("not", 1, promote.inversion, "~"),
    OpInfo("shl", 2, promote.shift, "<<"),
    OpInfo("shr", 2, promote.shift, ">>"),
    OpInfo("maximum", 2, promote.arithmetic),
    OpInfo("minimum", 2, promote.arithmetic),
    OpInfo("fmax", 2, promote.arithmetic),
    OpInfo("fmin", 2, promote.arithmetic),
    OpInfo("where", 3, promote.choice),
    OpInfo("fma", 3, promote.maths),
    OpInfo("floor", 1, promote.rounding),
    OpInfo("ceil", 1, promote.rounding),
    OpInfo("round", 1, promote.rounding),
    *(
        OpInfo(name, 1, promote.maths, cheap=False)
        for name in (
            "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos",
        )
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ReductionInfo:
    """A reduction along one axis.

    Attributes:
        name: its name in the IR (`Reduce.fn`).
        rule: the operand's dtype to the dtype of computing and the result's.
        empty: what an empty axis gives, as a literal; None: an empty axis is an error.
    """

    name: str
    rule: Rule
    empty: Callable[[DType], str] | None

    def numpy(self, array: ndarray, axis: int) -> ndarray:
        """The meaning: the operand already has the dtype of computing."""
        from kdsl.lang import meaning

        return meaning.reduce(self.name, array, axis)


@dataclass(frozen=True, slots=True)
class ScanInfo:
    """A running total along one axis: each place takes in itself and all before it.

    Attributes:
        name: its name in the IR (`Scan.fn`); users write `cum` before it.
        rule: the operand's dtype to the dtype of computing and the result's.
    """

    name: str
    rule: Rule

    def numpy(self, array: ndarray, axis: int) -> ndarray:
        """The meaning: the operand already has the dtype of computing."""
        from kdsl.lang import meaning

        return meaning.scan(self.name, array, axis)


def _any_rule(operand: Operand) -> Promoted:
    return Promoted(boolean, boolean)


def _arg_rule(operand: Operand) -> Promoted:
    return Promoted(promote.extremum(operand).compute, i64)


def _number(text: str) -> Callable[[DType], str]:
    return lambda dtype: f"{text}.0" if dtype.is_float else text


#: Reductions by name.
REDUCTIONS: dict[str, ReductionInfo] = {
    r.name: r
    for r in (
        ReductionInfo("sum", promote.accumulation, _number("0")),
        ReductionInfo("prod", promote.accumulation, _number("1")),
        ReductionInfo("max", promote.extremum, promote.lowest),
        ReductionInfo("min", promote.extremum, promote.highest),
        ReductionInfo("any", _any_rule, lambda dtype: "False"),
        ReductionInfo("all", _any_rule, lambda dtype: "True"),
        ReductionInfo("argmax", _arg_rule, None),
        ReductionInfo("argmin", _arg_rule, None),
    )
}

#: Scans by name.
SCANS: dict[str, ScanInfo] = {"sum": ScanInfo("sum", promote.accumulation)}
