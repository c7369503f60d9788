"""Write the tables of docs/language.md from `kdsl.lang`; the text around them is kept.

    python -m tools.language_reference

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. What the CPU column says is found
by generating code of one operation for each dtype, without compiling it.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import kdsl
from kdsl import lang
from kdsl.dtypes import DTYPES, DType
from kdsl.errors import KernelError
from kdsl.lang import names, promote
from kdsl.lang.operation import OpInfo
from kdsl.lang.ops import FUNCTIONS, OPS, REDUCTIONS
from kdsl.lang.promote import WEAK_FLOAT, WEAK_INT, Operand, PromotionError

PAGE = Path(__file__).resolve().parent.parent / "docs" / "language.md"
TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

#: What operators mean; functions say it in their docstrings.
OPERATORS = {
    "add": "sum",
    "sub": "difference",
    "mul": "product",
    "div": "quotient",
    "floordiv": "quotient rounded down, as NumPy; of integers, 0 where the divisor is 0",
    "mod": "remainder with the sign of the divisor; of integers, 0 where the divisor is 0",
    "pow": "power; of integers with an exponent known at compile time, not negative",
    "neg": "negative; not of unsigned integers and bools",
    "eq": "equal",
    "ne": "not equal",
    "lt": "less",
    "le": "less or equal",
    "gt": "greater",
    "ge": "greater or equal",
    "and": "bits of both; of bools, both",
    "or": "bits of either; of bools, one of them",
    "xor": "bits that differ; of bools, just one",
    "not": "bits inverted; of bools, not",
    "shl": "shift to the left; by more than there are bits, 0",
    "shr": "shift to the right, signed integers keep their sign; too far, 0 or -1",
}


#: Names whose objects carry no docstring.
WITHOUT_DOC = {"Function": "A packed function of a module: called with arrays, keywords work."}


def main() -> None:
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def render(text: str) -> str:
    """The page with its tables written anew. Raises KeyError for a table that is not known."""
    return TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", text)


def markdown(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table, a line a row."""
    lines = [tuple(head), *map(tuple, rows)]
    lines.insert(1, ("---",) * len(lines[0]))
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def sentence(function: object) -> str:
    """The first paragraph of a docstring."""
    text = " ".join((inspect.getdoc(function) or "").partition("\n\n")[0].split())
    # A bar would end the cell, even inside of code.
    return text.replace("|", "\\|")


# ---- what there is


def dtype_table() -> str:
    def row(dtype: DType) -> tuple[str, ...]:
        public = "boolean" if dtype.name == "bool" else dtype.name
        numpy = "ml_dtypes" if dtype.name in ("bf16", "f8e4m3", "f8e5m2") else "numpy"
        values = "True, False"
        if dtype.is_int:
            values = "{} to {}".format(*promote.int_range(dtype))
        elif dtype.is_float:
            values = f"floats of {dtype.bits} bits"
        computes = promote.compute_dtype(dtype).name
        where = "yes" if plans("x", dtype) else "not yet"
        return code(public), code(f"{numpy}.{dtype.numpy}"), values, code(computes), where

    head = ("dtype", "in NumPy", "values", "computes in", "CPU")
    return markdown(head, map(row, DTYPES.values()))


def elementwise_table() -> str:
    functions = {op.name: f for f, op in FUNCTIONS.items() if callable(f)}

    def row(op: OpInfo) -> tuple[str, ...]:
        function = functions.get(op.name)
        if function is None:
            written = f"{op.symbol}x" if op.arity == 1 else f"x {op.symbol} y"
            return code(written), OPERATORS[op.name], op.rule.__name__, available(written)
        parameters = list(inspect.signature(function).parameters)
        operands = ["c", "x", "y"] if op.name == "where" else ["x", "y", "z"][: op.arity]
        has = available(f"{op.name}({', '.join(operands)})")
        written = f"{op.name}({', '.join(parameters)})"
        return code(written), sentence(function).rstrip("."), op.rule.__name__, has

    return markdown(("written", "meaning", "dtypes", "CPU"), map(row, OPS.values()))


def rule_table() -> str:
    rules = {op.rule: None for op in OPS.values()} | {r.rule: None for r in REDUCTIONS.values()}
    rows = [(rule.__name__, sentence(rule)) for rule in rules if rule.__doc__]
    return markdown(("rule", "what it says"), [*rows, ("dot", sentence(promote.dot))])


def reduction_table() -> str:
    def row(name: str, function: object) -> tuple[str, ...]:
        info = REDUCTIONS.get(name)
        empty = "nan" if info is None else "an error"
        if info is not None and info.empty is not None:
            texts = {d: info.empty(DTYPES[d]) for d in ("f32", "i32")}
            empty = texts["f32"] if texts["f32"] == texts["i32"] else ""
            empty = empty or f"{texts['f32']}; {texts['i32']} of i32"
        of = "c" if name in ("any", "all") else "x"
        written = f"{of}.{name}(axis=0)"
        return code(written), sentence(function).rstrip("."), code(empty), available(written)

    functions = {fn: f for f, fn in names.REDUCTIONS.items()}
    return markdown(
        ("written", "meaning", "of nothing", "CPU"), (row(*pair) for pair in functions.items())
    )


def promotion_table() -> str:
    operands = {d.name: Operand(d) for d in DTYPES.values()}
    operands |= {"1": WEAK_INT, "1.5": WEAK_FLOAT}

    def cell(a: Operand, b: Operand) -> str:
        try:
            result = promote.arithmetic(a, b)
        except PromotionError:
            return "-"
        if result.weak:
            return "float" if result.result.is_float else "int"
        return result.result.name

    rows = [(f"**{n}**", *(cell(a, b) for b in operands.values())) for n, a in operands.items()]
    return markdown(("", *operands), rows)


def single_table() -> str:
    """What one operand gives, or two of one dtype."""
    columns: dict[str, Callable[[Operand], promote.Promoted]] = {
        "`x + x`": lambda x: promote.arithmetic(x, x),
        "`x / x`": lambda x: promote.division(x, x),
        "`exp(x)`": promote.maths,
        "`x & x`": lambda x: promote.bits(x, x),
        "`x.max()`": promote.extremum,
        "`x.sum()`": promote.accumulation,
        "`dot(x, x)`": lambda x: promote.dot(x.dtype, x.dtype),
    }

    def cell(name: str, rule: Callable[[Operand], promote.Promoted], dtype: DType) -> str:
        if dtype.name == "bool" and "max" in name:
            return "-"
        try:
            return rule(Operand(dtype)).result.name
        except PromotionError:
            return "-"

    rows = [
        (f"**{d}**", *(cell(name, rule, d) for name, rule in columns.items()))
        for d in DTYPES.values()
    ]
    return markdown(("x", *columns), rows)


def name_table() -> str:
    """Every public name that no other table has."""
    shown = {*(op.name for op in FUNCTIONS.values()), *names.REDUCTIONS.values()}
    shown |= {"boolean" if d == "bool" else d for d in DTYPES}
    return markdown(
        ("name", "what it is"),
        (about(name, getattr(kdsl, name)) for name in kdsl.__all__ if name not in shown),
    )


def kernel_table() -> str:
    """Methods and properties of kernels."""
    rows = []
    for name, value in vars(kdsl.Kernel).items():
        if name.startswith("_") or name == "compiler":
            continue
        written = f"kernel.{name}" if isinstance(value, property) else f"kernel.{name}(...)"
        rows.append((code(written), sentence(value)))
    call = ("`kernel(...)`", sentence(kdsl.Kernel))
    return markdown(("written", "what it does"), (call, *rows))


def about(name: str, value: object) -> tuple[str, str]:
    if isinstance(value, (int, float)):
        return code(f"kdsl.{name}"), f"the number {value}"
    parameters = ""
    if name in lang.__all__ and callable(value):
        signature = inspect.signature(value)
        kinds = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
        parameters = str(signature.replace(parameters=kinds, return_annotation=inspect._empty))
    return code(f"kdsl.{name}{parameters}"), sentence(value) or WITHOUT_DOC[name]


# ---- what the CPU has

KINDS = {
    "floats": [d for d in DTYPES.values() if d.is_float],
    "integers": [d for d in DTYPES.values() if d.is_int],
    "bool": [d for d in DTYPES.values() if d.kind == "bool"],
}


def available(expression: str) -> str:
    """The dtypes of x, y and z of which the CPU computes an expression."""
    found = []
    for kind, members in KINDS.items():
        has = [dtype for dtype in members if plans(expression, dtype)]
        found.append(kind if has == members else ", ".join(dtype.name for dtype in has))
    return "; ".join(filter(None, found)) or "not yet"


def plans(expression: str, dtype: DType) -> bool:
    """Whether a kernel that stores this expression of x, y, z and the bools c has code."""
    of = "boolean" if dtype.name == "bool" else dtype.name
    whole = "axis=" in expression
    loop, index, shape = ("_ in kdsl.parallel(1)", "[:]", "()") if whole else (
        "n in kdsl.parallel(kdsl.tiles(N))", "[n]", "N")  # fmt: skip
    source = f"""\
def k(p: {of}[N], q: {of}[N], r: {of}[N], b: boolean[N], o: Out[f64[{shape}]]):
    for {loop}:
        x, y, z, c = p{index}, q{index}, r{index}, b{index}
        o[{"()" if whole else "n"}] = {expression}
"""
    namespace = {n: getattr(lang, n) for n in lang.__all__} | {"kdsl": lang, "N": lang.dims("N")[0]}
    exec(source, namespace)
    try:
        kdsl.kernel(source=source)(namespace["k"]).show("cpu")
    except KernelError:
        return False
    return True


TABLES: dict[str, Callable[[], str]] = {
    "dtypes": dtype_table,
    "elementwise": elementwise_table,
    "reductions": reduction_table,
    "rules": rule_table,
    "promotion": promotion_table,
    "single": single_table,
    "kernel": kernel_table,
    "names": name_table,
}

if __name__ == "__main__":
    main()
