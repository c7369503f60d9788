"""Which scalars are known to be positive, from literals and from what calls require."""

from __future__ import annotations

from kdsl.ir import nodes as ir
from kdsl.ir.literals import literal
from kdsl.ir.walk import lets
from kdsl.lang.ops import OPS


class Signs:
    """Answers for the values of one function."""

    def __init__(self, func: ir.Func) -> None:
        self.lets = lets(func)
        self.arguments: set[str] = set()
        for s in func.host:
            if isinstance(s, ir.Require):
                self._learn(s.cond)

    def _learn(self, cond: str) -> None:
        match self.lets[cond].op:
            case ir.Ew(fn="and", args=(a, b)):
                self._learn(a)
                self._learn(b)
            case ir.Ew(fn="gt", args=(a, b)) if self._number(b, least=0):
                self._positive_argument(a)
            case ir.Ew(fn="lt", args=(a, b)) if self._number(a, least=0):
                self._positive_argument(b)
            case ir.Ew(fn="ge", args=(a, b)) if self.positive(b):
                self._positive_argument(a)
            case ir.Ew(fn="le", args=(a, b)) if self.positive(a):
                self._positive_argument(b)

    def _positive_argument(self, name: str) -> None:
        match self.lets[name].op:
            case ir.Arg(param=param):
                self.arguments.add(param)

    def _number(self, name: str, least: float) -> bool:
        let = self.lets.get(name)
        if let is None or not isinstance(let.op, ir.Const):
            return False
        return literal(let.op.text, let.type.dtype) >= least

    def positive(self, name: str) -> bool:
        """Whether a value is above 0 wherever its operands are finite: it cannot underflow."""
        let = self.lets.get(name)
        match let and let.op:
            case ir.Const(text=text) if let is not None:
                return 0 < literal(text, let.type.dtype) < float("inf")
            case ir.Arg(param=param):
                return param in self.arguments
            case ir.Ew(fn=fn, args=args) if OPS[fn].positive:
                return all(map(self.positive, args))
            case ir.Ew(fn="mul", args=(a, b)):
                grows = self._number(a, least=1) or self._number(b, least=1)
                return grows and self.positive(a) and self.positive(b)
        return False
