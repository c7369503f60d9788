"""How a NumPy meaning becomes a function of the language."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec

from kdsl.lang.operation import Cost, OpInfo, Rule

P = ParamSpec("P")


def operation(
    rule: Rule,
    *,
    cost: Cost = "cheap",
    exact: bool = True,
    commutative: bool = False,
    positive: bool = False,
    conditions: int = 0,
) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Makes a NumPy meaning a function of the language: the same name, parameters and docstring.

    The meaning takes arrays; the function takes values of a kernel and Python numbers.
    """

    def make(meaning: Callable[P, Any]) -> Callable[P, Any]:
        parameters = tuple(inspect.signature(meaning).parameters)
        info = OpInfo(
            meaning.__name__, rule, meaning, parameters, "", cost, exact, commutative, positive,
            conditions,
        )  # fmt: skip
        return public(info)(meaning)

    return make


def public(info: OpInfo) -> Callable[[Callable[P, Any]], Callable[P, Any]]:
    """Makes a function with this signature and docstring the operation's."""

    def make(described: Callable[P, Any]) -> Callable[P, Any]:
        signature = inspect.signature(described)

        @wraps(described)
        def function(*args: P.args, **kwargs: P.kwargs) -> Any:
            from kdsl.lang.value import elementwise

            return elementwise(info, *signature.bind(*args, **kwargs).args)

        function.operation = info  # type: ignore[attr-defined]
        return function

    return make
