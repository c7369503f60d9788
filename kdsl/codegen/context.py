"""What codegen is given, and what templates may see: frozen, flat, already decided."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kdsl.codegen.device import Image
from kdsl.dims import Dim, Extent
from kdsl.dtypes import DType, DTypeVar, TensorType
from kdsl.frontend.signature import Signature
from kdsl.ir.nodes import Func
from kdsl.passes.cpu.plan import Plan

VERSION = "0.1.0"


# ---- what codegen is given


@dataclass(frozen=True, slots=True)
class Compiled:
    """One specialisation. Its fixed dims are `func.fixed`, its symbol is `func.name`.

    Attributes:
        plan: for the CPU.
        on_cpu, on_cuda: whether the module has CPU code of it, and CUDA code.
    """

    func: Func
    plan: Plan | None = None
    dtypes: tuple[tuple[str, DType], ...] = ()
    statics: tuple[tuple[str, object], ...] = ()
    on_cpu: bool = True
    on_cuda: bool = False


@dataclass(frozen=True, slots=True)
class KernelUnit:
    """A kernel with the specialisations that go into a module.

    Attributes:
        file: name of the source file, without folders.
        line: of the `def`.
        sha256: of the kernel's source text.
        targets: "cpu", "cuda:sm_80".
        differentiable: False: its results have no gradient.
    """

    signature: Signature
    doc: str
    file: str
    line: int
    sha256: str
    specialisations: tuple[Compiled, ...]
    targets: tuple[str, ...] = ("cpu",)
    differentiable: bool | None = None

    @property
    def name(self) -> str:
        return self.signature.name

    @property
    def origin(self) -> str:
        return f"{self.file}:{self.line}"


def origins(units: Iterable[KernelUnit]) -> str:
    """Where kernels stand, a file once: `attention.py:12`, `kernels.py:5,12, more.py:3`."""
    lines: dict[str, dict[int, None]] = {}
    for unit in units:
        lines.setdefault(unit.file, {})[unit.line] = None
    return ", ".join(f"{file}:{','.join(map(str, rows))}" for file, rows in lines.items())


# ---- names and types in C


_KEYWORDS = frozenset(
    """alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t
    class compl const const_cast constexpr continue decltype default delete do double dynamic_cast
    else enum explicit export extern false float for friend goto if inline int long mutable
    namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
    reinterpret_cast return short signed sizeof static static_assert static_cast struct switch
    template this thread_local throw true try typedef typeid typename union unsigned using virtual
    void volatile wchar_t while xor xor_eq kdsl scratch fault NULL""".split()
)


def c_name(name: str) -> str:
    """A Python name as a C++ identifier: itself, or with `_` after it where C++ has the word."""
    return f"{name}_" if name in _KEYWORDS else name


def dim_field(name: str, signature: Signature) -> str:
    """Field of a dim in the arguments of a kernel; `dim_K` where a parameter is called `K`."""
    clash = any(p.name == name for p in signature.parameters if p.kind != "static")
    return f"dim_{name}" if clash else c_name(name)


_CTYPES = {
    "bool": "bool",
    "i8": "signed char",
    "i16": "short",
    "i32": "int",
    "i64": "kdsl::i64",
    "u8": "unsigned char",
    "u16": "unsigned short",
    "u32": "unsigned",
    "u64": "unsigned long",
    "f64": "double",
}


def scalar_ctype(type_: object) -> str:
    """C type in which a kernel gets a scalar. Floats narrower than f32 come as float; a dtype
    variable as the widest type of its kind."""
    match type_:
        case DType():
            return _CTYPES.get(type_.name, "float")
        case DTypeVar(choices=choices):
            return "double" if any(d.is_float for d in choices) else "kdsl::i64"
        case type() if type_ is bool:
            return "bool"
        case type() if type_ is int:
            return "kdsl::i64"
    raise TypeError(f"scalar_ctype: no rule for {type_!r}")


def dtype_constant(dtype: DType) -> str:
    """The `kdsl::k...` constant of a dtype."""
    return f"kdsl::k{dtype.name.capitalize() if dtype.kind == 'bool' else dtype.name.upper()}"


def extent_names(signature: Signature) -> tuple[Extent, ...]:
    """Expressions of dims in annotations ("D // 2"), each once, in the order they stand there."""
    found: dict[str, Extent] = {}
    for p in signature.parameters:
        if isinstance(p.type, TensorType):
            for e in p.type.shape:
                if not isinstance(e, (int, Dim)):
                    found.setdefault(str(e), e)
    return tuple(found.values())


# ---- what templates see. Strings that are C++ hold one expression or one name.


@dataclass(frozen=True, slots=True)
class SizeVar:
    """`kdsl::Dim var("text");`"""

    var: str
    text: str


@dataclass(frozen=True, slots=True)
class TypeVariable:
    """`kdsl::TypeVar var("name", choices...);`"""

    var: str
    name: str
    choices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorRead:
    """`kdsl::Input var(call, index, "name", dtype, shape...);`; `role` is the class."""

    role: str
    var: str
    index: int
    name: str
    dtype: str
    shape: tuple[str, ...]
    #: Inputs that may be the very memory of this output.
    replaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ScalarRead:
    """`const ctype var = call.scalar<ctype>(index, "name", "type", default);`"""

    ctype: str
    var: str
    index: int
    name: str
    type: str
    default: str | None
    #: The dim that has this value.
    binds: str | None = None


@dataclass(frozen=True, slots=True)
class DTypeRead:
    """A static dtype binds a dtype variable."""

    var: str
    index: int
    name: str
    default: str | None


@dataclass(frozen=True, slots=True)
class Check:
    """`if (when) return call.fail("text", values...);`"""

    when: str
    fail: str
    text: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CheckGroup:
    """Checks of the specialisations for which `when` holds; of all when it is empty."""

    when: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Computed:
    """`call.computed(var, value);` after its checks."""

    var: str
    value: str
    checks: tuple[Check, ...]


@dataclass(frozen=True, slots=True)
class Site:
    """An index that a kernel checks: `{"tensor", dim, "extent", "place"}`.

    Attributes:
        extent: the size as the signature has it; None where it is a number.
        place: "embedding.py:12"; None where nobody knows.
    """

    tensor: str
    dim: int
    extent: str | None
    place: str | None


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch on a GPU: `{"symbol", function, threads, smem, symbol_blocks}`.

    Attributes:
        function: number of the symbol in its module.
        blocks: how many, over the arguments `a`.
    """

    symbol: str
    function: int
    threads: int
    smem: int
    blocks: str


@dataclass(frozen=True, slots=True)
class DeviceForm:
    """A specialisation as it runs on a GPU.

    Attributes:
        scratch: bytes, over the arguments `a`.
        aligned: bit i for argument i, whose rows must be aligned.
        covered: the same for outputs that it writes as a whole.
        fault: number of the place where it reports indices; None where it checks none.
    """

    launches: tuple[Launch, ...]
    scratch: str
    aligned: int
    covered: int
    fault: int | None


@dataclass(frozen=True, slots=True)
class Choice:
    """A specialisation and when it is the one; `when` is empty where it always is."""

    when: str
    name: str
    #: By the number under which the kernel reports them.
    sites: tuple[Site, ...] = ()
    on_cpu: bool = True
    device: DeviceForm | None = None


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the arguments of a kernel; tensors have strides too."""

    ctype: str
    name: str
    comment: str
    value: str
    ndim: int | None = None


@dataclass(frozen=True, slots=True)
class HostKernel:
    """One kernel as the templates of `host/` see it."""

    name: str
    origin: str
    signature: str
    least: int
    most: int
    sizes: tuple[SizeVar, ...]
    type_variables: tuple[TypeVariable, ...]
    reads: tuple[TensorRead | ScalarRead | DTypeRead, ...]
    computed: tuple[Computed, ...]
    outputs: tuple[TensorRead, ...]
    choices: tuple[Choice, ...]
    choice_values: tuple[str, ...]
    compiled: tuple[str, ...]
    compiled_cuda: tuple[str, ...]
    groups: tuple[CheckGroup, ...]
    fields: tuple[Field, ...]
    dims: tuple[Field, ...]
    metadata: str
    doc: str

    @property
    def is_guarded(self) -> bool:
        """Whether a specialisation checks an index."""
        return any(c.sites for c in self.choices)

    @property
    def on_cpu(self) -> bool:
        """Whether a specialisation has CPU code."""
        return any(c.on_cpu for c in self.choices)

    @property
    def on_cuda(self) -> bool:
        """Whether a specialisation has CUDA code."""
        return any(c.device for c in self.choices)


@dataclass(frozen=True, slots=True)
class VariantName:
    """A CPU variant: suffix of its symbols, the level it needs."""

    name: str
    level: str


@dataclass(frozen=True, slots=True)
class HostModule:
    """The host side of a module."""

    version: str
    name: str
    origin: str
    kernels: tuple[HostKernel, ...]
    variants: tuple[VariantName, ...]
    images: tuple[Image, ...] = ()

    @property
    def functions(self) -> int:
        """How many functions there are in the device code."""
        forms = (c.device for k in self.kernels for c in k.choices if c.device)
        return sum(len(form.launches) for form in forms) + 1

    @property
    def guarded(self) -> tuple[str, ...]:
        """Names of specialisations that check indices on a GPU, by the number of their place."""
        found = (c for k in self.kernels for c in k.choices)
        return tuple(c.name for c in found if c.device and c.device.fault is not None)
