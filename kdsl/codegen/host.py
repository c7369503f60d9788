"""From kernels and their specialisations to what the host templates print."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath

from kdsl.codegen.alias import replaceable
from kdsl.codegen.context import (
    VERSION, Check, CheckGroup, Choice, Compiled, Computed, DTypeRead, Field, HostKernel,
    HostModule, KernelUnit, ScalarRead, Site, SizeVar, TensorRead, TypeVariable, VariantName,
    c_name, dim_field, dtype_constant, extent_names, origins, scalar_ctype,
)  # fmt: skip
from kdsl.codegen.device import DeviceCode
from kdsl.codegen.hostdevice import DeviceForms
from kdsl.codegen.hostexpr import Division, HostValues, extent_c, extent_divisions, literal_c
from kdsl.codegen.metadata import metadata_text, scalar_type
from kdsl.codegen.targets import Variant
from kdsl.dims import Extent
from kdsl.dtypes import DType, DTypeVar, TensorType, f32, f64
from kdsl.errors import KernelTypeError
from kdsl.frontend.signature import MISSING, Parameter
from kdsl.ir.nodes import Func, Guard, Let, Require
from kdsl.ir.walk import guards, walk

_ROLES = {"in": "Input", "out": "Output", "inout": "InOut"}

#: Names that the entry template uses itself.
_TAKEN = (
    "call", "packed", "count", "result", "args", "kernel", "variant", "fault", "sites", "device",
    "cuda_module",
)  # fmt: skip


def host_module(
    name: str,
    kernels: Iterable[KernelUnit],
    variants: Iterable[Variant],
    device: DeviceCode | None = None,
) -> HostModule:
    """The host side of a module. `variants` go from the most demanding down."""
    units = tuple(kernels)
    forms = DeviceForms(device.kernels) if device else None
    return HostModule(
        VERSION,
        name,
        origins(units),
        tuple(_Host(u, forms).kernel() for u in units),
        tuple(VariantName(v.name, v.level) for v in variants),
        device.images if device else (),
    )


class _Host:
    """One kernel's names, and the parts of its entry."""

    def __init__(self, unit: KernelUnit, forms: DeviceForms | None) -> None:
        self.unit = unit
        self.forms = forms
        self.signature = unit.signature
        names = _Names()
        self.types = {v.name: names.new(v.name) for v in self.signature.dtype_vars}
        self.dims = {name: names.new(name) for name in self.signature.dims}
        self.extents = {
            str(e): names.new(f"size_{i}") for i, e in enumerate(extent_names(self.signature), 1)
        }
        self.vars = {p.name: names.new(p.name) for p in self.signature.parameters}
        #: C++ of what host expressions name.
        self.scope = self.vars | self.dims

    def kernel(self) -> HostKernel:
        parameters = self.signature.parameters
        least = max(
            (i for i, p in enumerate(parameters, 1) if p.default is MISSING and p.kind != "out"),
            default=0,
        )
        dims = {name: dim_field(name, self.signature) for name in self.signature.dims}
        return HostKernel(
            name=self.unit.name,
            origin=self.unit.origin,
            signature=self.signature.text,
            least=least,
            most=len(parameters),
            sizes=tuple(self._sizes()),
            type_variables=tuple(
                TypeVariable(self.types[v.name], v.name, tuple(map(dtype_constant, v.choices)))
                for v in self.signature.dtype_vars
            ),
            reads=tuple(self._read(i, p) for i, p in enumerate(parameters) if p.kind != "out"),
            computed=tuple(map(self._computed, extent_names(self.signature))),
            outputs=tuple(self._tensor(i, p) for i, p in enumerate(parameters) if p.kind == "out"),
            choices=tuple(self._choices()),
            choice_values=tuple(self._choice_values()),
            compiled=self._compiled(s for s in self.unit.specialisations if s.on_cpu),
            compiled_cuda=self._compiled(s for s in self.unit.specialisations if s.on_cuda),
            groups=tuple(self._groups()),
            fields=tuple(map(self._field, (p for p in parameters if p.kind != "static"))),
            dims=tuple(Field("kdsl::i64", dims[n], n, self.dims[n]) for n in dims),
            metadata=metadata_text(self.unit),
            doc=self.unit.doc,
        )

    # ---- reading arguments

    def _sizes(self) -> Iterator[SizeVar]:
        for text, var in (self.dims | self.extents).items():
            yield SizeVar(var, text)

    def _read(self, index: int, p: Parameter) -> TensorRead | ScalarRead | DTypeRead:
        if p.is_tensor:
            return self._tensor(index, p)
        default = None if p.default is MISSING else self._default(p)
        if p.type is DType:
            return DTypeRead(self.types[p.name], index, p.name, default)
        binds = self.dims.get(p.name)
        ctype = scalar_ctype(p.type)
        return ScalarRead(ctype, self.vars[p.name], index, p.name, scalar_type(p), default, binds)

    def _default(self, p: Parameter) -> str:
        value = p.default
        if isinstance(value, DType):
            return dtype_constant(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        ctype = scalar_ctype(p.type)
        if ctype in ("float", "double"):
            assert isinstance(value, int | float)
            return literal_c(repr(float(value)), f32 if ctype == "float" else f64)
        return str(value)

    def _tensor(self, index: int, p: Parameter) -> TensorRead:
        of = p.tensor
        if len(of.shape) > 8:
            raise KernelTypeError(f"`{p.name}` has {len(of.shape)} axes; a tensor has 8 at most")
        dtype = self.types[of.dtype.name] if isinstance(of.dtype, DTypeVar) else ""
        funcs = (s.func for s in self.unit.specialisations)
        replaces = replaceable(funcs, p.name) if p.kind == "out" else ()
        return TensorRead(
            "OptionalInput" if p.optional else _ROLES[p.kind],
            self.vars[p.name],
            index,
            p.name,
            dtype or dtype_constant(of.dtype),  # type: ignore[arg-type]
            tuple(map(self._extent, of.shape)),
            tuple(self.vars[name] for name in replaces),
        )

    def _extent(self, extent: Extent) -> str:
        if isinstance(extent, int):
            return str(extent)
        return self.dims.get(str(extent)) or self.extents[str(extent)]

    def _computed(self, extent: Extent) -> Computed:
        return Computed(
            self.extents[str(extent)],
            extent_c(extent, self.dims),
            tuple(self._check(d) for d in extent_divisions(extent, self.dims)),
        )

    # ---- specialisations

    def _choices(self) -> Iterator[Choice]:
        # More fixed dims come first: the general variant takes what is left.
        ordered = sorted(self.unit.specialisations, key=lambda s: -len(s.func.fixed))
        for s in ordered:
            func = s.plan.func if s.plan else s.func
            sites = tuple(self._site(func, let) for let in guards(func))
            on_cuda = self.forms if s.on_cuda else None
            device = on_cuda.form(s, self.signature, sites) if on_cuda else None
            yield Choice(" && ".join(self._conditions(s)), s.func.name, sites, s.on_cpu, device)

    def _site(self, func: Func, let: Let) -> Site:
        """What to say of an index that a kernel found outside."""
        guard, span = let.op, let.op.span if let.op.span.line else let.span
        assert isinstance(guard, Guard)
        written = {p.name: p.type for p in self.signature.parameters}.get(guard.tensor)
        type_ = written if isinstance(written, TensorType) else func.tensor(guard.tensor)
        extent = type_.shape[guard.dim]
        return Site(
            guard.tensor,
            guard.dim,
            None if isinstance(extent, int) else str(extent),
            f"{PurePath(span.file).name}:{span.line}" if span.line else None,
        )

    def _conditions(self, s: Compiled, sizes: bool = True) -> Iterator[str]:
        for name, dtype in s.dtypes:
            if len(self._variable(name).choices) > 1:
                yield f"{self.types[name]} == {dtype_constant(dtype)}"
        for name, value in s.statics:
            if isinstance(value, bool):
                yield self._selector(name) if value else f"!{self._selector(name)}"
            elif not isinstance(value, DType):
                yield f"{self.vars[name]} == {value}"
        for name, size in s.func.fixed if sizes else ():
            yield f"{self.dims[name]} == {size}"

    def _selector(self, name: str) -> str:
        """C++ of a static, or of whether an optional tensor is there."""
        var = self.vars[name]
        return f"{var}.given()" if self.signature[name].optional else var

    def _variable(self, name: str) -> DTypeVar:
        return next(v for v in self.signature.dtype_vars if v.name == name)

    def _choice_values(self) -> Iterator[str]:
        """What `no_specialisation` shows of a call."""
        some = self.unit.specialisations
        for name in dict.fromkeys(n for s in some for n, _ in s.dtypes):
            if len(self._variable(name).choices) > 1:
                yield self.types[name]
        for name in dict.fromkeys(
            n for s in some for n, v in s.statics if not isinstance(v, DType)
        ):
            yield f'kdsl::named("{name}", {self._selector(name)})'
        statics = {n for s in some for n, _ in s.statics}
        for name in dict.fromkeys(n for s in some for n, _ in s.func.fixed):
            if name not in statics:  # a static that is a size is there already
                yield self.dims[name]

    def _compiled(self, some: Iterable[Compiled]) -> tuple[str, ...]:
        """The specialisations there are, for a message."""
        rows = (
            ", ".join(
                f"{name}={value}"
                for name, value in dict((*s.dtypes, *s.statics, *s.func.fixed)).items()
                if not isinstance(value, DType) or len(self._variable(name).choices) > 1
            )
            for s in some
        )
        return tuple(dict.fromkeys(row for row in rows if row))

    # ---- conditions of the call

    def _groups(self) -> Iterator[CheckGroup]:
        """Checks, told apart only where specialisations differ in them."""
        found: dict[tuple[Check, ...], list[str]] = {}
        for key, s in self._general().items():
            found.setdefault(tuple(self._checks(s)), []).append(key)
        for checks, keys in found.items():
            if checks:
                either = keys if len(keys) == 1 else [f"({key})" for key in keys]
                yield CheckGroup("" if len(found) == 1 else " || ".join(either), checks)

    def _general(self) -> dict[str, Compiled]:
        """Of the specialisations that differ in sizes alone, the one that fixes the fewest."""
        found: dict[str, Compiled] = {}
        for s in sorted(self.unit.specialisations, key=lambda s: len(s.func.fixed)):
            found.setdefault(" && ".join(self._conditions(s, sizes=False)), s)
        return found

    def _checks(self, s: Compiled) -> Iterator[Check]:
        values = HostValues(s.func, self.scope)
        found: dict[tuple[str, str], Check] = {}
        for stmt in walk(s.func.host):
            if isinstance(stmt, Require):
                for division in values.divisions(stmt.cond):
                    found.setdefault(("/", division.divisor), self._check(division))
                found.setdefault(("require", stmt.text), self._require(stmt, values))
        for division in values.all_divisions(s.func):
            found.setdefault(("/", division.divisor), self._check(division))
        yield from found.values()

    def _require(self, stmt: Require, values: HostValues) -> Check:
        condition = values.c(stmt.cond)
        names = _names_in(stmt.text, self.scope) or values.names(stmt.cond)
        shown = tuple(map(self._shown, names))
        return Check(f"!({condition})", "unmet", stmt.text, shown)

    def _check(self, division: Division) -> Check:
        shown = tuple(map(self._shown, division.names))
        return Check(f"{division.divisor} == 0", "zero_division", division.text, shown)

    def _shown(self, name: str) -> str:
        return self.dims.get(name) or f'kdsl::named("{name}", {self.vars[name]})'

    # ---- the arguments of kernels

    def _field(self, p: Parameter) -> Field:
        name, var = c_name(p.name), self.vars[p.name]
        if isinstance(p.type, TensorType):
            pointer = "const void*" if p.kind == "in" else "void*"
            return Field(pointer, name, str(p.type), var, len(p.type.shape))
        return Field(scalar_ctype(p.type), name, scalar_type(p), var)


class _Names:
    """Identifiers of one entry function, each given once."""

    def __init__(self) -> None:
        self._used = set(_TAKEN)

    def new(self, name: str) -> str:
        wanted = c_name(name)
        while wanted in self._used:
            wanted += "_"
        self._used.add(wanted)
        return wanted


def _names_in(text: str, known: Mapping[str, str]) -> tuple[str, ...]:
    """Names of dims and parameters in Python text, in the order they stand there."""
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return ()
    found = sorted(
        (n.lineno, n.col_offset, n.id)
        for n in ast.walk(tree)
        if isinstance(n, ast.Name) and n.id in known
    )
    return tuple(dict.fromkeys(name for *_, name in found))
