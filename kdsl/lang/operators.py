"""The operations that Python has an operator for, and those that operators are made of. What Python
does with numbers, NumPy does too."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from kdsl.lang import promote
from kdsl.lang.operation import Cost, OpInfo, Rule, np


def _operator(
    name: str,
    symbol: str,
    rule: Rule,
    meaning: Callable[..., Any],
    cost: Cost = "cheap",
    *,
    exact: bool = True,
    commutative: bool = False,
    positive: bool = False,
) -> OpInfo:
    """An operation that Python has a symbol for: what Python does with numbers, NumPy does too."""
    unary = name in ("neg", "not", "abs")
    parameters = ("x",) if unary else ("a", "b")
    return OpInfo(
        name, rule, meaning, parameters, symbol, cost, exact, commutative, positive
    )  # fmt: skip


def _sqrt(x: Any) -> Any:
    return np.sqrt(x)


_ROWS = (
    _operator("add", "+", promote.arithmetic, operator.add, commutative=True, positive=True),
    _operator("sub", "-", promote.arithmetic, operator.sub),
    _operator("mul", "*", promote.arithmetic, operator.mul, commutative=True),
    _operator("div", "/", promote.division, operator.truediv, "division"),
    _operator("floordiv", "//", promote.arithmetic, operator.floordiv, "division"),
    _operator("mod", "%", promote.arithmetic, operator.mod, "division"),
    _operator("pow", "**", promote.arithmetic, operator.pow, "function", exact=False),
    _operator("neg", "-", promote.arithmetic, operator.neg),
    _operator("eq", "==", promote.comparison, operator.eq, commutative=True),
    _operator("ne", "!=", promote.comparison, operator.ne, commutative=True),
    _operator("lt", "<", promote.comparison, operator.lt),
    _operator("le", "<=", promote.comparison, operator.le),
    _operator("gt", ">", promote.comparison, operator.gt),
    _operator("ge", ">=", promote.comparison, operator.ge),
    _operator("and", "&", promote.bits, operator.and_, commutative=True),
    _operator("or", "|", promote.bits, operator.or_, commutative=True),
    _operator("xor", "^", promote.bits, operator.xor, commutative=True),
    _operator("not", "~", promote.inversion, operator.invert),
    _operator("shl", "<<", promote.shift, operator.lshift),
    _operator("shr", ">>", promote.shift, operator.rshift),
    _operator("abs", "", promote.arithmetic, operator.abs),
    OpInfo("sqrt", promote.maths, _sqrt, ("x",), cost="function", positive=True),
)

#: Operators by name.
OPERATORS: dict[str, OpInfo] = {row.name: row for row in _ROWS}
