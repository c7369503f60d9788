"""What every part of the lowering shares: the builder, the choices, errors that point."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kdsl.dims import DimExpr, Extent
from kdsl.dtypes import DType, DTypeVar, TensorType, boolean
from kdsl.errors import KernelSyntaxError, KernelTypeError, Span
from kdsl.frontend.builder import Builder
from kdsl.frontend.source import KernelSource
from kdsl.frontend.values import (
    Operand,
    TensorRef,
    TileRef,
    Undefined,
    Val,
    describe,
    is_number,
)  # fmt: skip
from kdsl.ir.nodes import Cast, Const, Param, ScratchBuffer
from kdsl.lang import promote
from kdsl.lang.promote import PromotionError


@dataclass(slots=True)
class Context:
    """One lowering. `call` runs a helper's body; `lower` sets it (calls and bodies need each
    other)."""

    kernel: KernelSource
    builder: Builder
    dtypes: Mapping[str, DType]
    statics: Mapping[str, object]
    call: Callable[..., object] = field(default=None)  # type: ignore[assignment]
    depth: int = 0
    #: Dims proven by `require(D % c == 0)`.
    multiples: dict[str, int] = field(default_factory=dict)
    #: What each parameter's name is at the start of the body.
    parameters: dict[str, object] = field(default_factory=dict)
    #: Tensors that a store has written so far.
    written: set[str] = field(default_factory=set)

    def resolve(self, value: object) -> object:
        """Dtype variables stand for the dtype of this specialisation."""
        if isinstance(value, DTypeVar):
            if value.name not in self.dtypes:
                return value
            return self.dtypes[value.name]
        return value

    def dtype(self, operand: Operand) -> DType:
        """The dtype that an argument names. Raises KernelTypeError."""
        value = self.resolve(operand.value)
        if isinstance(value, DType):
            return value
        raise self.type_error(
            "a dtype is wanted here", operand.span, describe(value),
            "dtypes are kdsl.f32, kdsl.bf16, ... and dtype variables",
        )  # fmt: skip

    def tensor_type(self, type_: TensorType) -> TensorType:
        dtype = self.resolve(type_.dtype)
        assert isinstance(dtype, DType), f"dtype variable {dtype} is not chosen"
        return TensorType(dtype, type_.shape)

    def tensor(self, name: str) -> tuple[Extent, ...]:
        """Extents of a tensor parameter or scratch tensor, by its name in the IR."""
        tensors: tuple[Param | ScratchBuffer, ...] = (*self.builder.params, *self.builder.scratch)
        for p in tensors:
            if p.name == name and isinstance(p.type, TensorType):
                return p.type.shape
        raise KeyError(name)

    # ---- errors

    def syntax_error(self, message: str, span: Span, help: str = "") -> KernelSyntaxError:
        return KernelSyntaxError(message, span, help=help)

    def type_error(
        self, message: str, span: Span, label: str = "", help: str = ""
    ) -> KernelTypeError:
        return KernelTypeError(message, span, label=label, help=help)

    # ---- values

    def value(self, operand: Operand) -> Val | int | float | bool | DimExpr:
        """An operand that arithmetic takes. Raises KernelTypeError with the way out."""
        value = operand.value
        match value:
            case Val():
                return self.builder.local(value)
            case DimExpr():
                return value
            case bool() | int() | float():
                return value
            case TensorRef(type=type_):
                colons = ", ".join([":"] * max(type_.ndim, 1)) if type_.ndim else "()"
                elements = f"`{operand.text}[{colons}]` is its elements"
                raise self.type_error(
                    "a tensor is used without an index", operand.span, describe(value),
                    elements if self.builder.in_phase else self.loop_help(operand.text, type_),
                )  # fmt: skip
            case TileRef():
                raise self.type_error(
                    "a tile is no number", operand.span, "a tile is a slice",
                    f"`{operand.text}.index` is its indices, `{operand.text}.start` its first",
                )  # fmt: skip
            case Undefined():
                raise self.undefined(operand.text, value, operand.span)
        number = as_number(value)
        if number is not None:
            return number
        raise self.type_error("this is no number", operand.span, describe(value))

    def loop_help(self, name: str, type_: TensorType) -> str:
        """How a tensor is read that host code cannot read."""
        size, place = (type_.shape[0], "i") if type_.ndim else (1, "()")
        return f"read it in a loop: `for i in kdsl.parallel({size}): ... {name}[{place}]`"

    def undefined(self, name: str, what: Undefined, span: Span) -> KernelTypeError:
        return self.type_error(
            f"`{name}` may have no value here", span, what.why,
            f"give `{name}` a value before line {what.span.line}",
        )  # fmt: skip

    def val(self, operand: Operand, dtype: DType | None = None) -> Val:
        """An operand in the IR: constants and dims get their `Let`, in the given dtype."""
        value = self.value(operand)
        if isinstance(value, Val):
            return value if dtype is None else self.cast(value, dtype, operand.span)
        if isinstance(value, DimExpr):
            size = self.builder.size(value)
            return size if dtype is None else self.cast(size, dtype, operand.span)
        return self.const(value, dtype, operand.span)

    def const(self, number: bool | int | float, dtype: DType | None, span: Span) -> Val:
        """A Python number as a constant. Without a dtype it keeps its own and stays weak."""
        own = promote.weak_operand(number)
        target = own.dtype if dtype is None else dtype
        self.check_literal(number, target, span)
        weak = own.weak and dtype is None
        text = literal(number, target)
        return self.builder.let(Const(text), target, span=span, weak=weak)

    def check_literal(self, number: bool | int | float, dtype: DType, span: Span) -> None:
        """Raises KernelTypeError for a number that the dtype does not have."""
        try:
            promote.check_literal(number, dtype)
        except PromotionError as err:
            raise self.type_error(
                f"{'a float' if isinstance(number, float) else 'an integer'} does not fit",
                span,
                str(err),
                "convert the other side first: .astype",
            ) from err

    def cast(self, val: Val, dtype: DType, span: Span) -> Val:
        """The value in another dtype; itself when it has it (and is then strong)."""
        if val.dtype == dtype:
            return Val(val.name, val.type, val.shape) if val.weak else val
        axes = set(val.type.axes)
        return self.builder.let(Cast(val.name), dtype, val.shape, span=span, axes=axes)

    def scalar_bool(self, operand: Operand) -> Val:
        """A run-time condition. Raises KernelTypeError for a tile or a number."""
        val = self.val(operand)
        if not val.is_scalar:
            raise self.type_error(
                "a condition must be one value", operand.span, describe(val),
                "reduce it with .any() or .all(), or choose by element with kdsl.where",
            )  # fmt: skip
        if val.dtype is not boolean:
            raise self.type_error(
                "a run-time condition must be a bool", operand.span, describe(val),
                f"compare it: `{operand.text} != 0`",
            )  # fmt: skip
        return val


def as_number(value: object) -> bool | int | float | None:
    """A NumPy scalar of the author's module as the Python number it is."""
    item = getattr(value, "item", None)
    if getattr(value, "shape", None) == () and callable(item):
        number = item()
        return number if is_number(number) else None
    return None


def literal(number: bool | int | float, dtype: DType) -> str:
    """Exact text of a number in a dtype."""
    if dtype is boolean:
        return str(bool(number))
    if dtype.is_float:
        return repr(float(number)) if not _is_large(number) else f"{number}.0"
    return str(int(number))


def _is_large(number: float) -> bool:
    return isinstance(number, int) and abs(number) > 2**53
