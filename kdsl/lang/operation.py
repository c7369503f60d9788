"""What an elementwise operation is: its name, operands, type rule, NumPy meaning, and the facts of
it that hold on every target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from kdsl.lang.promote import Promoted

if TYPE_CHECKING:
    import numpy as np

    from kdsl.lang.arrays import Array
else:

    class _NumPy:
        """NumPy, loaded when it is first asked for something: the names of kernels need none."""

        def __getattr__(self, name: str) -> object:
            import numpy

            return getattr(numpy, name)

    np = _NumPy()

__all__ = ["Cost", "Number", "OpInfo", "Rule", "np"]

Number = bool | int | float
Rule = Callable[..., Promoted]
#: What an operation costs: about an addition, a division, or a function's many operations.
Cost = Literal["cheap", "division", "function"]


@dataclass(frozen=True, slots=True)
class OpInfo:
    """An elementwise operation.

    Attributes:
        name: its name in the IR (`Ew.fn`).
        rule: operands' dtypes to the dtype of computing and the result's.
        meaning: of arrays that have the dtype of computing. Of an operation that is not exact the
            floats are doubles.
        parameters: names of the operands.
        symbol: how a user writes it, where that is an operator; its meaning is then of Python
            numbers too.
        cost: what it takes to compute.
        exact: the result is one number wherever it is computed.
        commutative: two operands may be swapped, bit for bit.
        positive: above 0 where all operands are above 0 and finite.
        conditions: how many operands at the front are bools that choose; the rule leaves them out.
    """

    name: str
    rule: Rule
    meaning: Callable[..., Any]
    parameters: tuple[str, ...]
    symbol: str = ""
    cost: Cost = "cheap"
    exact: bool = True
    commutative: bool = False
    positive: bool = False
    conditions: int = 0

    @property
    def arity(self) -> int:
        """Number of operands."""
        return len(self.parameters)

    @property
    def cheap(self) -> bool:
        """It costs about as much as an addition."""
        return self.cost == "cheap"

    def numpy(self, *arrays: Array) -> Array:
        """The meaning: operands already have the dtype of computing (conditions are bool).

        Functions are computed in double and rounded once, so that a difference to a compiled
        kernel is that kernel's own.
        """
        with np.errstate(all="ignore"):
            if self.exact:
                return np.asarray(self.meaning(*arrays))
            wide = (a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays)
            return np.asarray(self.meaning(*wide)).astype(arrays[-1].dtype)

    def number(self, *numbers: Number) -> Number:
        """The same of Python numbers: a Python number, floats computed in double.

        Raises:
            TypeError: an integer that is no i64.
            ZeroDivisionError: an operator of Python that divides by zero.
        """
        if self.name == "where":
            return numbers[1] if numbers[0] else numbers[2]
        if self.symbol:
            result: Number = self.meaning(*numbers)
            return result
        from kdsl.lang.arrays import as_array
        from kdsl.lang.promote import check_literal, weak_operand

        dtype = self.rule(*map(weak_operand, numbers)).compute
        for number in numbers:
            check_literal(number, dtype)
        found: Number = self.numpy(*(as_array(n, dtype) for n in numbers)).item()
        return found
