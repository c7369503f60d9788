"""A kernel's parameters: kinds, types, the order rules, and what binds each dim and dtype."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from types import FunctionType, NoneType, UnionType
from typing import Literal, Union, get_args, get_origin

from kdsl.dims import Dim, DimExpr, DimOp, Extent, dim_names
from kdsl.dtypes import DType, DTypeVar, OrNone, TensorType
from kdsl.errors import KernelSyntaxError, KernelTypeError, Span
from kdsl.frontend.extents import with_sizes
from kdsl.frontend.text import SourceText
from kdsl.lang.marks import Mark, Marked

#: `Static[dtype]` is spelled with this or with the variable it binds.
MISSING = inspect.Parameter.empty

ParameterKind = Literal["in", "out", "inout", "scalar", "static"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. `type` is a `TensorType` for tensors, a dtype or variable for scalars, and
    `bool`, `int`, `DType` or `FunctionType` for statics. `default` is `MISSING` where none is.
    `optional` are inputs that may be None: whether they are is known at compile time."""

    name: str
    kind: ParameterKind
    type: TensorType | DType | DTypeVar | type
    default: object = MISSING
    keyword_only: bool = False
    optional: bool = False

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.type, TensorType)

    @property
    def tensor(self) -> TensorType:
        """The type of a tensor parameter. Raises TypeError for another."""
        if not isinstance(self.type, TensorType):
            raise TypeError(f"parameter `{self.name}` is no tensor")
        return self.type

    @property
    def annotation(self) -> str:
        """The type as messages show it: `Out[f32[N]]`, `i32[M] | None`."""
        shown = self.type.__name__ if isinstance(self.type, type) else str(self.type)
        shown = {"DType": "dtype"}.get(shown, shown)
        if self.kind in ("out", "inout"):
            shown = f"{'Out' if self.kind == 'out' else 'InOut'}[{shown}]"
        return shown + (" | None" if self.optional else "")

    def __str__(self) -> str:
        shown = self.annotation
        default = "" if self.default is MISSING else f" = {self.default!r}"
        return f"{self.name}: {shown}{default}"


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters in signature order; dims in the order in which parameters bind them.

    `fixed` names the static parameters of the function that no call passes: functions, and what
    `kernel.bind` has given.
    """

    name: str
    parameters: tuple[Parameter, ...]
    dims: tuple[str, ...]
    dtype_vars: tuple[DTypeVar, ...]
    fixed: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """As messages show it: `add(x: f32[N], y: f32[N], o: Out[f32[N]])`."""
        parts: list[str] = []
        for p in self.parameters:
            if p.keyword_only and "*" not in parts:
                parts.append("*")
            parts.append(str(p))
        return f"{self.name}({', '.join(parts)})"

    def of_python(self) -> inspect.Signature:
        """What a caller in Python sees: types as text, and None for an Out that is left out."""
        kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        return inspect.Signature(
            [
                inspect.Parameter(
                    p.name,
                    kinds[p.keyword_only],
                    default=None if p.kind == "out" else p.default,
                    annotation=p.annotation,
                )
                for p in self.parameters
            ]
        )

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.parameters)

    def __getitem__(self, name: str) -> Parameter:
        for p in self.parameters:
            if p.name == name:
                return p
        raise KeyError(name)

    def without(self, statics: Mapping[str, object]) -> Signature:
        """The signature once these static parameters have their values: dims and dtype variables
        that they bind are what they say."""

        def settled(p: Parameter) -> Parameter:
            if isinstance(p.type, TensorType):
                shape = tuple(with_sizes(e, statics) for e in p.type.shape)
                return replace(p, type=TensorType(dtype(p.type.dtype), shape))
            return replace(p, type=dtype(p.type)) if isinstance(p.type, DTypeVar) else p

        def dtype(of: DType | DTypeVar) -> DType | DTypeVar:
            chosen = statics.get(of.name) if isinstance(of, DTypeVar) else None
            return chosen if isinstance(chosen, DType) else of

        return replace(
            self,
            parameters=tuple(settled(p) for p in self.parameters if p.name not in statics),
            dims=tuple(d for d in self.dims if d not in statics),
            dtype_vars=tuple(v for v in self.dtype_vars if v.name not in statics),
            fixed=(*self.fixed, *statics),
        )

    @property
    def selectors(self) -> tuple[Parameter, ...]:
        """What chooses a specialisation beside dtypes: statics by their value, optional tensors by
        whether there is one."""
        return tuple(p for p in self.parameters if p.kind == "static" or p.optional)

    def of_kind(self, *kinds: ParameterKind) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.kind in kinds)


def read_signature(
    node: ast.FunctionDef, text: SourceText, annotations: Mapping[str, object],
    defaults: Mapping[str, object],
) -> Signature:  # fmt: skip
    """The signature of a kernel from its ast and its evaluated annotations.

    Raises:
        KernelSyntaxError: a parameter kind or order that the language does not have.
        KernelTypeError: an annotation that is no type of the language; a dim or dtype variable
            that nothing binds.
    """
    if node.returns is not None:
        raise KernelSyntaxError(
            "a kernel has no return annotation", text.span(node.returns),
            help="declare results as parameters: `o: Out[f32[N]]`",
        )  # fmt: skip
    a = node.args
    for extra, star in ((a.vararg, "*"), (a.kwarg, "**")):
        if extra is not None:
            raise KernelSyntaxError(
                f"a kernel cannot take `{star}{extra.arg}`", text.span(extra),
                help="name each parameter and give it a type",
            )  # fmt: skip
    spans: dict[str, Span] = {}
    parameters: list[Parameter] = []
    for arg in (*a.posonlyargs, *a.args, *a.kwonlyargs):
        span = spans[arg.arg] = text.span(arg.annotation or arg)
        if arg.annotation is None:
            raise KernelSyntaxError(
                f"parameter `{arg.arg}` has no annotation", span,
                help=f"give it a type, e.g. `{arg.arg}: f32[N]` or `{arg.arg}: f32`",
            )  # fmt: skip
        default = defaults.get(arg.arg, MISSING)
        p = _parameter(arg.arg, annotations[arg.arg], default, arg in a.kwonlyargs, span)
        parameters.append(p)
    _check_order(parameters, spans)
    return Signature(
        node.name,
        tuple(parameters),
        _bind_dims(parameters, spans),
        _bind_dtypes(parameters, spans),
    )


def _parameter(
    name: str, annotation: object, default: object, keyword_only: bool, span: Span
) -> Parameter:
    kind: ParameterKind
    optional = isinstance(annotation, OrNone)
    match annotation:
        case TensorType() as of:
            kind = "in"
        case OrNone(tensor=of):
            kind = "in"
        case DType() | DTypeVar():
            kind, of = "scalar", annotation  # type: ignore[assignment]
        case Marked(kind="static", type=t) if t in (bool, int, DType) or isinstance(t, DTypeVar):
            kind, of = "static", DType if isinstance(t, DTypeVar) else t  # type: ignore[assignment]
        case Marked(kind="static", type=t) if _is_function(t):
            kind, of = "static", FunctionType  # type: ignore[assignment]
        case Marked(kind="out" | "inout" as kind, type=TensorType() as of):
            pass
        case _:
            raise _bad_annotation(name, annotation, span)
    if isinstance(of, TensorType):
        _check_shape(of, span)
        if default is not MISSING and not (optional and default is None):
            raise KernelSyntaxError(
                f"tensor parameter `{name}` cannot have a default", span,
                help="leave the default out; an omitted Out is allocated by the call, an input "
                f"that may be left out is `{name}: {of} | None = None`",
            )  # fmt: skip
    elif default is not MISSING and not _default_fits(of, default):
        raise KernelTypeError(
            f"the default of `{name}` does not have its type", span,
            label=f"the default is {default!r}",
        )  # fmt: skip
    return Parameter(name, kind, of, default, keyword_only, optional)


def _is_function(annotation: object) -> bool:
    """`Callable`, `Callable[..., Any]`, `Callable | None`."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return all(a is NoneType or _is_function(a) for a in get_args(annotation))
    return annotation in (Callable, FunctionType) or origin is Callable


def _bad_annotation(name: str, annotation: object, span: Span) -> KernelTypeError:
    help = "types are f32[B, N], Out[f32[N]], InOut[f32[N]], f32 and Static[bool]"
    match annotation:
        case Marked(kind="static"):
            help = (
                "Static takes bool, int, a dtype variable or Callable: "
                "`causal: Static[bool] = False`"
            )
        case Marked():
            help = "Out and InOut take a tensor type: `o: Out[f32[N]]`; a 0-d tensor is f32[()]"
        case Mark():
            help = "say of what type: `o: Out[f32[N]]`, `causal: Static[bool]`"
        case type() if annotation is bool:
            help = "a flag known at compile time is `Static[bool]`, a run-time one `kdsl.boolean`"
        case type() if annotation is int:
            help = "a size known at compile time is `Static[int]`, a run-time integer `kdsl.i64`"
        case type() if annotation is float:
            help = "a run-time number has a dtype: `kdsl.f32`"
        case Dim():
            help = f"a dim is no type; pass an integer as `{name}: kdsl.i64` or `Static[int]`"
    shown = annotation.__name__ if isinstance(annotation, type) else str(annotation)
    return KernelTypeError(
        f"parameter `{name}` has an annotation that is no kdsl type", span,
        label=f"this is {shown}", help=help,
    )  # fmt: skip


def _check_shape(of: TensorType, span: Span) -> None:
    for extent in of.shape:
        if isinstance(extent, bool) or not isinstance(extent, (int, DimExpr)):
            raise KernelTypeError(
                "a shape holds dims, integers and expressions of them", span,
                label=f"{extent!r} is none of these", help='dims: `M, N = kdsl.dims("M N")`',
            )  # fmt: skip
        if isinstance(extent, int) and extent < 0:
            raise KernelTypeError("a size cannot be negative", span, label=f"{extent}")


def _default_fits(of: object, default: object) -> bool:
    match of:
        case type() if of is bool:
            return isinstance(default, bool)
        case type() if of is int:
            return isinstance(default, int) and not isinstance(default, bool)
        case type() if of is FunctionType:
            return default is None or isinstance(default, FunctionType)
        case type():
            return isinstance(default, DType)
        case DType(kind="bool"):
            return isinstance(default, bool)
        case DType(kind="int" | "uint"):
            return isinstance(default, int) and not isinstance(default, bool)
    return isinstance(default, (int, float)) and not isinstance(default, bool)


def _check_order(parameters: list[Parameter], spans: Mapping[str, Span]) -> None:
    """Inputs without default, then Outs, then defaults and keyword-only ones."""

    def rank(p: Parameter) -> int:
        if p.default is not MISSING or p.keyword_only:
            return 2
        return 1 if p.kind == "out" else 0

    for before, p in pairwise(parameters):
        if rank(p) < rank(before):
            raise KernelSyntaxError(
                f"parameter `{p.name}` stands after `{before.name}`", spans[p.name],
                label=f"{_role(p)} goes before {_role(before)}",
                help="the order is: inputs, then Outs, then parameters with defaults",
            )  # fmt: skip
    for p in parameters:
        if p.keyword_only and p.is_tensor:
            raise KernelSyntaxError(
                f"tensor parameter `{p.name}` cannot be keyword-only", spans[p.name],
                help="put it before the `*`",
            )  # fmt: skip


def _role(p: Parameter) -> str:
    if p.default is not MISSING:
        return "a parameter with a default"
    if p.keyword_only:
        return "a keyword-only parameter"
    return "an Out" if p.kind == "out" else "an input"


def _bind_dims(parameters: list[Parameter], spans: Mapping[str, Span]) -> tuple[str, ...]:
    bound: dict[str, None] = {}
    for p in parameters:
        if p.is_tensor and p.kind != "out" and not p.optional:
            bound.update((e.name, None) for e in p.tensor.shape if isinstance(e, Dim))
        elif _is_integer(p):
            used = {n for q in parameters if q.is_tensor for n in _dims_of(q.tensor.shape)}
            if p.name in used:
                bound[p.name] = None
    for p in parameters:
        for name in _dims_of(p.tensor.shape) if p.is_tensor else ():
            if name not in bound:
                raise KernelTypeError(
                    f"nothing binds the dim `{name}`", spans[p.name],
                    label=f"`{name}` is used here",
                    help=_how_to_bind(name, parameters),
                )  # fmt: skip
    return tuple(bound)


def _how_to_bind(name: str, parameters: list[Parameter]) -> str:
    """What gives a dim a size; where an input has it with a number added, a dim for the sum."""
    for p in parameters:
        if not p.is_tensor or p.kind == "out" or p.optional:
            continue
        for extent in p.tensor.shape:
            match extent:
                case DimOp(op="+" | "-" as op, a=Dim(name=a), b=int() as number) if a == name:
                    taken = {n for q in parameters if q.is_tensor for n in _dims_of(q.tensor.shape)}
                    new = next(n for n in (*"VWLPSUXYZ", f"{name}1") if n not in taken)
                    back = f"{new} {'-' if op == '+' else '+'} {number}"
                    return (
                        f"`{p.name}` has `{extent}`: name that axis `{new}` and write `{back}` for "
                        f"`{name}`; or add a parameter `{name}: Static[int]` or `{name}: i64`"
                    )
    return (
        f"give an input an axis that is just `{name}`, or add a parameter "
        f"`{name}: Static[int]` or `{name}: i64`"
    )


def _is_integer(p: Parameter) -> bool:
    if p.kind == "static":
        return p.type is int
    return isinstance(p.type, DType) and p.type.is_int


def _dims_of(shape: Iterable[Extent]) -> Iterator[str]:
    for extent in shape:
        yield from dim_names(extent)


def _bind_dtypes(parameters: list[Parameter], spans: Mapping[str, Span]) -> tuple[DTypeVar, ...]:
    found: dict[str, DTypeVar] = {}
    bound: set[str] = {p.name for p in parameters if p.kind == "static" and p.type is DType}
    first: dict[str, str] = {}
    for p in parameters:
        var = p.tensor.dtype if p.is_tensor else p.type
        if not isinstance(var, DTypeVar):
            continue
        if found.setdefault(var.name, var) != var:
            raise KernelTypeError(
                f"two dtype variables are called `{var.name}`", spans[p.name],
                label=f"{_choices(var)} here, {_choices(found[var.name])} before",
            )  # fmt: skip
        first.setdefault(var.name, p.name)
        if p.is_tensor and p.kind != "out" and not p.optional:
            bound.add(var.name)
    for name in found:
        if name not in bound:
            raise KernelTypeError(
                f"nothing binds the dtype variable `{name}`", spans[first[name]],
                label=f"`{name}` is used here",
                help=f"give an input tensor this dtype, or add `{name}: Static[{name}]`",
            )  # fmt: skip
    return tuple(found.values())


def _choices(var: DTypeVar) -> str:
    return ", ".join(d.name for d in var.choices)
