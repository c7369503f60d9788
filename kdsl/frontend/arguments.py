"""Arguments of a call against a signature: the checks and texts that every face shares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from kdsl.dims import Dim, Extent, dim_names, evaluate
from kdsl.dtypes import DTYPES, DType, DTypeVar, TensorType, f32, f64
from kdsl.frontend.signature import MISSING, Parameter, Signature
from kdsl.lang.promote import PromotionError, check_literal, int_range


@dataclass(frozen=True, slots=True)
class Facts:
    """A tensor argument for the checks: its dtype as text when kdsl has none of it."""

    dtype: DType | str
    shape: tuple[int, ...]
    device: str = ""

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape)) or "()"
        return f"{self.dtype}[{shape}]{self.device}"


@dataclass(slots=True)
class Bound:
    """Arguments by parameter; sizes of dims and choices of dtype variables found in them."""

    values: dict[str, object]
    sizes: dict[str, int]
    dtypes: dict[str, DType]


def bind(signature: Signature, args: Sequence[object], kwargs: Mapping[str, object]) -> (
    dict[str, object]
):  # fmt: skip
    """Arguments by parameter name; None stands for an omitted one. All may come by position.

    Raises:
        TypeError: too many or missing arguments, an unknown or repeated keyword.
    """
    text = signature.text
    most = len(signature.parameters)
    required = [p.kind != "out" and p.default is MISSING for p in signature]
    least = max((i for i, needed in enumerate(required, 1) if needed), default=0)
    if len(args) > most or (len(args) < least and not kwargs):
        wanted = str(most) if least == most else f"{least} to {most}"
        plural = "" if most == 1 else "s"
        raise TypeError(f"{text}: expected {wanted} argument{plural}, got {len(args)}")
    values: dict[str, object] = dict(zip((p.name for p in signature), args, strict=False))
    names = [p.name for p in signature]
    for name, value in kwargs.items():
        if name in signature.fixed:
            raise TypeError(
                f"{text}: `{name}` is fixed when a kernel is compiled, no call passes it; "
                f"`{signature.name}.bind({name}=...)` is a kernel with another value"
            )
        if name not in names:
            known = ", ".join(names)
            raise TypeError(f"{text}: got unknown keyword `{name}`; the parameters are {known}")
        if name in values:
            place = names.index(name)
            raise TypeError(f"{text}: argument {place} `{name}`: got two values for it")
        values[name] = value
    for p in signature:
        if values.get(p.name) is not None:
            continue
        if p.default is not MISSING:
            values[p.name] = p.default
        elif p.kind == "out":
            values[p.name] = None
        elif p.name not in values:
            expected = str(p.type) if not isinstance(p.type, type) else p.type.__name__
            raise TypeError(_wrong(signature, p, expected, "nothing"))
    return values


def check(signature: Signature, values: Mapping[str, object], facts: Mapping[str, Facts]) -> Bound:
    """Checks kinds, dtypes and shapes; binds dims and dtype variables.

    Args:
        facts: of each argument that is a tensor.

    Raises:
        TypeError: an argument of another kind, dtype or rank; some Outs given and some not.
        ValueError: a size that does not fit.
    """
    bound = Bound(dict(values), {}, {})
    for p in signature:
        value = values[p.name]
        if p.kind == "static":
            _static(signature, p, value, bound)
        elif not p.is_tensor:
            _scalar(signature, p, value, bound)
        elif p.kind != "out" and not (p.optional and value is None):
            _tensor(signature, p, value, facts.get(p.name), bound)
    for p in signature:
        if p.is_tensor:
            _expressions(signature, p, facts.get(p.name), bound)
    outs = signature.of_kind("out")
    given = [p for p in outs if values[p.name] is not None]
    for p in outs if given else ():
        if values[p.name] is None:
            expected = expected_type(p.tensor, bound)
            raise TypeError(
                _wrong(signature, p, expected, "None; outputs are given all or omitted all")
            )
        _tensor(signature, p, values[p.name], facts.get(p.name), bound)
    for p in signature:
        if p.kind == "scalar" and isinstance(p.type, DTypeVar) and p.type.name in bound.dtypes:
            _number(signature, p, values[p.name], bound.dtypes[p.type.name])
    return bound


def output_type(p: Parameter, bound: Bound) -> tuple[DType, tuple[int, ...]]:
    """dtype and shape of an Out. Raises ValueError for a size that divides by zero."""
    type_ = p.tensor
    dtype = bound.dtypes[type_.dtype.name] if isinstance(type_.dtype, DTypeVar) else type_.dtype
    return dtype, tuple(evaluate(e, bound.sizes) for e in type_.shape)


# ---- one argument


def _position(signature: Signature, p: Parameter) -> int:
    return signature.parameters.index(p)


def _wrong(signature: Signature, p: Parameter, expected: str, got: str) -> str:
    place = f"argument {_position(signature, p)} `{p.name}`"
    return f"{signature.text}: {place}: expected {expected}, got {got}"


def shown(value: object) -> str:
    """An argument that is not what a parameter wants, for a message."""
    if value is None:
        return "None"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"int of {value.bit_length()} bits"
    if isinstance(value, (bool, int, float)):
        return f"{type(value).__name__} {value}"
    facts = _array_facts(value)
    return type(value).__name__ if facts is None else str(facts)


#: Integers with more bits are named by their size.
_MOST_BITS = 128
_DTYPES = {d.numpy: d for d in DTYPES.values()}


def _array_facts(value: object) -> Facts | None:
    """Of an array of any framework; None for everything else."""
    shape, name = getattr(value, "shape", None), str(getattr(value, "dtype", ""))
    if not isinstance(shape, tuple) or not name or isinstance(value, type):
        return None
    name = name.rpartition(".")[2]
    return Facts(_DTYPES.get(name, name), shape)


def expected_type(type_: TensorType, bound: Bound) -> str:
    """`f32[B=1, N]`: bound dims with their sizes, a bound dtype variable as its dtype."""
    dtype: object = type_.dtype
    if isinstance(dtype, DTypeVar):
        dtype = bound.dtypes.get(dtype.name) or _any_of(dtype)
    shape = ", ".join(_shown_extent(e, bound) for e in type_.shape) or "()"
    return f"{dtype}[{shape}]"


def _choices(dtype: DType | DTypeVar, bound: Bound) -> str:
    """Of a variable that nothing has bound yet: what it may be."""
    if isinstance(dtype, DType) or dtype.name in bound.dtypes or len(dtype.choices) == 1:
        return ""
    return f" with {dtype} one of {', '.join(c.name for c in dtype.choices)}"


def _any_of(var: DTypeVar) -> str:
    return var.name if len(var.choices) > 1 else var.choices[0].name


def _shown_extent(extent: Extent, bound: Bound) -> str:
    if isinstance(extent, int):
        return str(extent)
    if all(n in bound.sizes for n in dim_names(extent)):
        try:
            return f"{extent}={evaluate(extent, bound.sizes)}"
        except ValueError:
            return str(extent)
    return str(extent)


def _tensor(
    signature: Signature, p: Parameter, value: object, facts: Facts | None, bound: Bound
) -> None:
    type_ = p.tensor
    expected = expected_type(type_, bound) + _choices(type_.dtype, bound)
    if facts is None:
        raise TypeError(_wrong(signature, p, expected, shown(value)))
    fits = len(facts.shape) == type_.ndim and _dtype_fits(type_.dtype, facts.dtype, bound)
    if not fits:
        raise TypeError(_wrong(signature, p, expected, str(facts)))
    new: dict[str, int] = {}
    # From the last axis on, as the compiled module does: the first that is wrong is told.
    for extent, size in reversed(tuple(zip(type_.shape, facts.shape, strict=True))):
        known: int | None = extent if isinstance(extent, int) else None
        if isinstance(extent, Dim):
            known = bound.sizes.get(extent.name, new.get(extent.name))
            new.setdefault(extent.name, size)
        if known is not None and known != size:
            own = {n: s for n, s in _repeated(type_, facts).items() if n in new}
            shown_sizes = replace(bound, sizes=own | bound.sizes)
            raise ValueError(_wrong(signature, p, expected_type(type_, shown_sizes), str(facts)))
    bound.sizes.update(new)


def _repeated(type_: TensorType, facts: Facts) -> dict[str, int]:
    """Dims that two axes of a tensor have, each with the size of the first: it says what differs
    where no other argument has bound them."""
    names = [e.name if isinstance(e, Dim) else "" for e in type_.shape]
    return {n: facts.shape[names.index(n)] for n in names if n and names.count(n) > 1}


def _dtype_fits(wanted: DType | DTypeVar, got: DType | str, bound: Bound) -> bool:
    if isinstance(wanted, DType):
        return wanted == got
    if not isinstance(got, DType) or got not in wanted.choices:
        return False
    return bound.dtypes.setdefault(wanted.name, got) == got


def _expressions(signature: Signature, p: Parameter, facts: Facts | None, bound: Bound) -> None:
    """Sizes that are expressions of dims, once all dims are known."""
    if facts is None or p.kind == "out":
        return
    for extent, size in zip(p.tensor.shape, facts.shape, strict=True):
        if not isinstance(extent, (int, Dim)) and evaluate(extent, bound.sizes) != size:
            expected = expected_type(p.tensor, bound)
            raise ValueError(_wrong(signature, p, expected, str(facts)))


def _static(signature: Signature, p: Parameter, value: object, bound: Bound) -> None:
    if p.type is bool:
        if not isinstance(value, bool):
            raise TypeError(_wrong(signature, p, "bool", shown(value)))
    elif p.type is int:
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(_wrong(signature, p, "int", shown(value)))
        _size(signature, p, value, bound)
    elif not isinstance(value, DType):
        raise TypeError(_wrong(signature, p, "a dtype", shown(value)))
    else:
        bound.dtypes[p.name] = value


def _size(signature: Signature, p: Parameter, value: int, bound: Bound) -> None:
    if p.name not in signature.dims:
        return
    if value < 0:
        raise ValueError(_wrong(signature, p, "a size", shown(value)))
    known = bound.sizes.setdefault(p.name, value)
    if known != value:
        raise ValueError(_wrong(signature, p, f"{p.name}={known}", shown(value)))


def _scalar(signature: Signature, p: Parameter, value: object, bound: Bound) -> None:
    if isinstance(p.type, DTypeVar):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(_wrong(signature, p, str(p.type), shown(value)))
        return
    assert isinstance(p.type, DType)
    _number(signature, p, value, p.type)
    if p.type.is_int:
        assert isinstance(value, int)
        _size(signature, p, value, bound)


def _number(signature: Signature, p: Parameter, value: object, dtype: DType) -> None:
    fits: tuple[type, ...] = (bool,) if dtype.kind == "bool" else (int,)
    if dtype.is_float:
        fits = (int, float)
    is_flag = isinstance(value, bool)
    if not isinstance(value, fits) or (is_flag and dtype.kind != "bool"):
        facts = _array_facts(value)
        if facts is not None and not facts.shape:
            raise TypeError(
                _wrong(
                    signature, p, f"a number ({dtype})",
                    f"the tensor {facts}; pass {p.name}.item()",
                )
            )  # fmt: skip
        raise TypeError(_wrong(signature, p, dtype.name, shown(value)))
    if dtype.is_float:
        try:
            check_literal(value, f64 if dtype is f64 else f32)  # type: ignore[arg-type]
        except PromotionError:
            got = f"{shown(value)}, which is out of range"
            raise ValueError(_wrong(signature, p, dtype.name, got)) from None
    if dtype.is_int:
        assert isinstance(value, int)
        low, high = int_range(dtype)
        if not low <= value <= high:
            got = f"{shown(value)}, which is out of range"
            raise ValueError(_wrong(signature, p, dtype.name, got))
