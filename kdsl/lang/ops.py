"""The table of elementwise operations, by their names in the IR.

Operators stand in `kdsl.lang.operators`, functions in `kdsl.lang.functions`: each in one place,
with its type rule, its NumPy meaning and the facts that passes and targets ask for.
"""

from __future__ import annotations

from kdsl.lang import functions
from kdsl.lang.operation import OpInfo
from kdsl.lang.operators import OPERATORS
from kdsl.lang.reductions import REDUCTIONS, SCANS

__all__ = ["FUNCTIONS", "OPS", "REDUCTIONS", "SCANS"]

#: Functions of the language that are elementwise operations, by object.
FUNCTIONS: dict[object, OpInfo] = {
    f: f.operation for f in vars(functions).values() if hasattr(f, "operation")
}

#: Elementwise operations by name.
OPS: dict[str, OpInfo] = OPERATORS | {op.name: op for op in FUNCTIONS.values()}
