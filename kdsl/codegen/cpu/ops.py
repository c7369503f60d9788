"""How each operation is spelled in C++, on scalars and on vectors, and what the CPU has at all."""

from __future__ import annotations

from kdsl.dtypes import DType, boolean
from kdsl.errors import NOWHERE, InternalError, KernelTypeError, Span
from kdsl.lang.ops import OPS

#: C++ type in which a dtype computes. floats of 8 and 16 bits compute as float.
COMPUTE = {
    "bool": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "u8": "u8", "u16": "u16",
    "u32": "u32", "u64": "u64", "f8e4m3": "float", "f8e5m2": "float", "f16": "float",
    "bf16": "float", "f32": "float", "f64": "double",
}  # fmt: skip
#: C++ type in which a dtype lies in memory.
SMALL = ("f16", "bf16", "f8e4m3", "f8e5m2")
STORED = COMPUTE | {name: name for name in SMALL}

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=",
    "gt": ">", "ge": ">=", "and": "&", "or": "|", "xor": "^",
}  # fmt: skip
_COMPARE = frozenset("eq ne lt le gt ge".split())
#: Functions of the headers in include/kdsl/cpu: of scalars and of vectors, of each dtype that the
#: operation takes.
_CALLS = frozenset(
    """abs atan atan2 ceil clip cos erf exp exp2 expm1 floor floordiv fma fmax fmin isfinite isinf
    isnan log log1p log2 maximum minimum mod pow round rsqrt shl shr sigmoid sign sin sqrt tanh
    trunc where""".split()
)
#: Operations that are an expression of their operands, which have parentheses where they need some.
EXPRESSIONS = {"neg": "(-{0})"}
#: Where a function of floats is, if not in math.h: of any floats, and of doubles.
_HEADERS = {"pow": "power", "floordiv": "division", "mod": "division"} | dict.fromkeys(
    "atan atan2 expm1 log1p".split(), "math64"
)
_DOUBLES = frozenset(
    "ceil cos erf exp exp2 floor fma log log2 round rsqrt sigmoid sin sqrt tanh trunc".split()
)
REDUCERS = {
    "sum": "Sum", "prod": "Product", "max": "Max", "min": "Min", "any": "Any", "all": "Every",
}  # fmt: skip


def compute_type(dtype: DType) -> str:
    return COMPUTE[dtype.name]


def register_type(dtype: DType) -> str:
    """The type of a vector of W lanes."""
    return "Mask" if dtype.name == "bool" else f"Vec<{COMPUTE[dtype.name]}>"


def literal(text: str, dtype: DType) -> str:
    """A constant, from its exact text."""
    if dtype.name == "bool":
        return "true" if text == "True" else "false"
    if not dtype.is_float:
        value = int(text)
        if value == -(2**63):
            return f"({value + 1}L - 1)"  # its size alone is no long
        if dtype.bits < 64 or abs(value) < 2**31:
            return f"{value}" if value >= 0 else f"({value})"
        return f"{value}{'UL' if dtype.kind == 'uint' else 'L'}"
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    if digits in ("inf", "nan"):
        word = f"{sign}{digits}"
        return word if dtype.bits <= 32 else f"(double){word}"
    if not any(c in digits for c in ".eE"):
        digits += ".0"
    suffix = "f" if dtype.bits <= 32 else ""
    return f"{sign}{digits}{suffix}" if not sign else f"({sign}{digits}{suffix})"


def has(fn: str) -> bool:
    """Whether there is C++ for an operation."""
    return fn in _INFIX or fn in _CALLS or fn in EXPRESSIONS or fn == "not"


def header(fn: str, dtype: DType) -> str:
    """The header of include/kdsl/cpu that has an operation on operands of a dtype."""
    if not dtype.is_float:
        return "math"
    return _HEADERS.get(fn, "math64" if dtype.bits == 64 and fn in _DOUBLES else "math")


def spell(fn: str, args: list[str], dtype: DType, *, vector: bool, span: Span = NOWHERE) -> str:
    """An operation on operands of `dtype`, as an expression.

    Raises:
        KernelTypeError: the CPU has none; `span` is the author's line.
    """
    if not has(fn):
        raise KernelTypeError(
            f"`{OPS[fn].symbol or fn}` is not available on the CPU", span,
            help="docs/language.md says what it has code for",
        )  # fmt: skip
    if vector and dtype is boolean and fn in ("lt", "le", "gt", "ge"):
        args = args[::-1]  # true is -1 in a mask
    if fn in _COMPARE:
        text = f"({args[0]} {_INFIX[fn]} {args[1]})"
        exact = dtype.bits == 32 or dtype.name in (*SMALL, "bool")
        return text if exact or not vector else f"mask({bare(text)})"
    if fn in _INFIX:
        text = f"({args[0]} {_INFIX[fn]} {args[1]})"
        # C++ computes small integers as int; here they wrap like any other.
        small = dtype.is_int and dtype.bits < 32 and not vector
        return f"({COMPUTE[dtype.name]}){text}" if small else text
    if fn in EXPRESSIONS:
        return EXPRESSIONS[fn].format(*args)
    if fn == "not":
        flip = "!" if dtype is boolean and not vector else "~"
        return f"({flip}{args[0]})"
    if fn in ("maximum", "minimum", "clip") and dtype.is_int and not vector:
        # A literal or a sum of narrow integers is an int in C++, which would not deduce T alike.
        return f"{fn}<{compute_type(dtype)}>({', '.join(map(bare, args))})"
    if fn in ("floordiv", "mod") and dtype.is_int and dtype.bits < 32 and not vector:
        return f"{fn}<{compute_type(dtype)}>({', '.join(map(bare, args))})"
    return f"{fn}({', '.join(_exact(bare(a), dtype) for a in args)})"


def _exact(text: str, dtype: DType) -> str:
    """An integer literal as an argument of a template: of just the dtype that the others have."""
    if dtype.is_int and dtype.name != "i32" and text.lstrip("-").isdigit():
        return f"{text}L" if dtype.name == "i64" else f"({COMPUTE[dtype.name]}){text}"
    return text


def convert(text: str, source: DType, target: DType, *, vector: bool) -> str:
    """A cast, as an expression; the text itself where nothing changes in registers."""
    if source is target:
        return text
    half = target.name in SMALL
    if target.name == "bool":
        return f"mask({text} != 0)" if vector else f"({text} != 0)"
    if half and source.is_float and source.bits <= 16:
        return f"round_to<{target.name}>({text})" if source is not target else text
    wide, text = COMPUTE[target.name], bare(text) if vector else text
    if source.name == "bool":
        text = f"convert<{wide}>({paren(text)} & 1)" if vector else f"({wide})({text})"
    elif source.is_float and target.is_int:
        text = f"saturate<{wide}>({text})"
    elif COMPUTE[source.name] != wide:
        text = f"convert<{wide}>({text})" if vector else f"({wide})({text})"
    return f"round_to<{target.name}>({text})" if half else text


def neutral(fn: str, dtype: DType) -> str:
    """What leaves a reduction unchanged, as a scalar literal."""
    match fn:
        case "sum":
            return literal("0", dtype)
        case "prod":
            return literal("1", dtype)
        case "any":
            return "false"
        case "all":
            return "true"
        case "max" | "min" if dtype.is_float:
            return literal("-inf" if fn == "max" else "inf", dtype)
        case "max" | "min" if dtype.is_int:
            low = 0 if dtype.kind == "uint" else -(2 ** (dtype.bits - 1))
            high = 2**dtype.bits - 1 if dtype.kind == "uint" else -low - 1
            value = low if fn == "max" else high
            return literal(str(value), dtype) if value < 2**31 else f"({value}UL)"
    raise InternalError(f"neutral: no rule for {fn} of {dtype}")


# ---- parentheses


def paren(text: str) -> str:
    """Parentheses around anything but a name or number."""
    return text if text.replace("_", "a").isalnum() or is_wrapped(text) else f"({text})"


def is_wrapped(text: str) -> bool:
    """The text is one parenthesised expression."""
    if not text.startswith("(") or not text.endswith(")"):
        return False
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0 and i < len(text) - 1:
            return False
    return True


def bare(text: str) -> str:
    """Without parentheses around the whole."""
    return text[1:-1] if is_wrapped(text) else text
