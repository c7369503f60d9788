"""One table of the reductions and one of the scans, by their names in the IR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kdsl.dtypes import DType, boolean, i64
from kdsl.lang import promote
from kdsl.lang.operation import Rule
from kdsl.lang.promote import Operand, Promoted

if TYPE_CHECKING:
    from numpy import ndarray


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
