"""Element types: one table, shared by the language, the IR, generated code and metadata."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from kdsl.dims import Extent

Kind = Literal["bool", "int", "uint", "float"]


@dataclass(frozen=True, slots=True)
class DType:
    """An element type. `f32[B, N]` is the type of a tensor of it; `f32[()]` of a 0-d one."""

    name: str
    kind: Kind
    bits: int
    #: DLPack's type code (DLDataTypeCode).
    dlpack: int
    #: The type's name in NumPy (or ml_dtypes, where NumPy has none).
    numpy: str

    def __getitem__(self, shape: Extent | tuple[Extent, ...]) -> TensorType:
        return TensorType(self, shape if isinstance(shape, tuple) else (shape,))

    #: `f32[N]` is a type; without these Python would iterate over f32[0], f32[1] ... for ever.
    __iter__: ClassVar[None] = None
    __contains__: ClassVar[None] = None

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_int(self) -> bool:
        """A signed or unsigned integer; bool is none."""
        return self.kind in ("int", "uint")

    @property
    def bytes(self) -> int:
        return self.bits // 8

    def __dlpack_data_type__(self) -> tuple[int, int, int]:
        """DLPack's (code, bits, lanes): how a dtype goes to a packed function."""
        return self.dlpack, self.bits, 1

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"kdsl.{self.name}"

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return _dtype_named, (self.name,)


@dataclass(frozen=True, slots=True)
class DTypeVar:
    """A variable over dtypes: `T = kdsl.dtypes("T", f16, f32)`; each choice is a specialisation."""

    name: str
    choices: tuple[DType, ...]

    def __getitem__(self, shape: Extent | tuple[Extent, ...]) -> TensorType:
        return TensorType(self, shape if isinstance(shape, tuple) else (shape,))

    __iter__: ClassVar[None] = None
    __contains__: ClassVar[None] = None

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class TensorType:
    """A tensor's element type and symbolic shape; `str()` is what messages and IR text show."""

    dtype: DType | DTypeVar
    shape: tuple[Extent, ...]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape)) or '()'}]"

    def __or__(self, other: None) -> OrNone:
        return OrNone(self) if other is None else NotImplemented

    __ror__ = __or__


@dataclass(frozen=True, slots=True)
class OrNone:
    """`f32[N] | None`: a tensor that a call may leave out."""

    tensor: TensorType

    def __str__(self) -> str:
        return f"{self.tensor} | None"


boolean = DType("bool", "bool", 8, 6, "bool_")
i8 = DType("i8", "int", 8, 0, "int8")
i16 = DType("i16", "int", 16, 0, "int16")
i32 = DType("i32", "int", 32, 0, "int32")
i64 = DType("i64", "int", 64, 0, "int64")
u8 = DType("u8", "uint", 8, 1, "uint8")
u16 = DType("u16", "uint", 16, 1, "uint16")
u32 = DType("u32", "uint", 32, 1, "uint32")
u64 = DType("u64", "uint", 64, 1, "uint64")
f16 = DType("f16", "float", 16, 2, "float16")
bf16 = DType("bf16", "float", 16, 4, "bfloat16")
f32 = DType("f32", "float", 32, 2, "float32")
f64 = DType("f64", "float", 64, 2, "float64")
f8e4m3 = DType("f8e4m3", "float", 8, 10, "float8_e4m3fn")
f8e5m2 = DType("f8e5m2", "float", 8, 12, "float8_e5m2")

#: Every dtype by name.
DTYPES: dict[str, DType] = {
    d.name: d
    for d in (boolean, i8, i16, i32, i64, u8, u16, u32, u64, f16, bf16, f32, f64, f8e4m3, f8e5m2)
}


def dtypes(name: str, *choices: DType) -> DTypeVar:
    """A dtype variable. Raises ValueError without choices or with one given twice."""
    if not choices:
        raise ValueError(f"dtypes({name!r}): give at least one dtype, e.g. kdsl.f32")
    if len(set(choices)) != len(choices):
        raise ValueError(f"dtypes({name!r}): a dtype is given twice")
    return DTypeVar(name, choices)


def _dtype_named(name: str) -> DType:
    """What a pickled dtype becomes: the very same one."""
    return DTYPES[name]
