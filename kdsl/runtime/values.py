"""Values of the runtime that Python has no type for: element types, devices, shapes.

Each is a kind of a builtin type: a `DType` is the str of its name, a `Device` the pair of DLPack's
numbers, a `Shape` the tuple of its sizes. So they compare, hash and pickle as those do.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # typing is slow to import
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

# ---- element types ---------------------------------------------------------------------------

#: Names in kdsl by DLPack's (code, bits); every other type is called by DLPack's own name.
_NAMES = {
    (6, 8): "bool",
    **{(0, bits): f"i{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"u{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"f{bits}" for bits in (16, 32, 64)},
    (4, 16): "bf16",
    (10, 8): "f8e4m3",
    (12, 8): "f8e5m2",
    (3, 64): "handle",
}
_FAMILIES = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex", 6: "bool"}
_SMALL_FLOATS = {
    7: "float8_e3m4",
    8: "float8_e4m3",
    9: "float8_e4m3b11fnuz",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
    15: "float6_e2m3fn",
    16: "float6_e3m2fn",
    17: "float4_e2m1fn",
}
_SMALL_BITS = {code: int(name[5]) for code, name in _SMALL_FLOATS.items()}
_CODES = {
    **{name: code for code, name in _NAMES.items()},
    **{name: (code, _SMALL_BITS[code]) for code, name in _SMALL_FLOATS.items()},
    "half": (2, 16),
    "double": (2, 64),
    # Torch packs two 4-bit floats into each element of this one.
    "float4_e2m1fn_x2": (17, 4),
}
_LETTERS = {name: code for code, name in _FAMILIES.items() if code not in (3, 6)}
_MOST_LANES = 0xFFFF


class DType(str):
    """An element type, equal to the str of its name.

    Made from a name (kdsl's, NumPy's, TVM's with lanes) or from a dtype of kdsl, NumPy, ml_dtypes,
    Torch or JAX.

    Example:
        >>> DType("float32"), DType("f32").bits, DType("f32") == "f32"
        (DType('f32'), 32, True)
        >>> DType("float16x4").lanes
        4
    """

    __slots__ = ("bits", "code", "lanes")
    code: int
    bits: int
    lanes: int

    def __new__(cls, dtype: object) -> DType:
        """Raises: TypeError: DLPack has no code for it."""
        return _made(dtype_code(dtype))

    @property
    def itemsize(self) -> int:
        """Bytes of one element; parts of a byte are rounded up."""
        return (self.bits * self.lanes + 7) // 8

    def numpy(self) -> Any:
        """NumPy's dtype, or that of ml_dtypes where NumPy has none.

        Raises:
            TypeError: neither has one.
        """
        return numpy_dtype(self)

    def __dlpack_data_type__(self) -> tuple[int, int, int]:
        return self.code, self.bits, self.lanes

    def __repr__(self) -> str:
        return f"DType({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return DType, (str(self),)


_made_before: dict[tuple[int, int, int], DType] = {}


def _made(facts: tuple[int, int, int]) -> DType:
    """The element type of DLPack's (code, bits, lanes); there is one object for each."""
    made = _made_before.get(facts)
    if made is None:
        made = str.__new__(DType, _dtype_name(*facts))
        made.code, made.bits, made.lanes = facts
        _made_before[facts] = made
    return made


def dtype_of(code: int, bits: int, lanes: int) -> DType:
    """What the core calls for DLPack's numbers of a dtype."""
    return _made((code, bits, lanes))


def _dtype_name(code: int, bits: int, lanes: int) -> str:
    name = _NAMES.get((code, bits))
    if name is None and _SMALL_BITS.get(code) == bits:
        name = _SMALL_FLOATS[code]
    if name is None:
        name = f"{_FAMILIES.get(code, f'code{code}_')}{bits}"
    return name if lanes == 1 else f"{name}x{lanes}"


def dtype_code(dtype: object) -> tuple[int, int, int]:
    """DLPack's (code, bits, lanes) of a dtype or of the name of one.

    Example:
        >>> dtype_code("bfloat16"), dtype_code("int8x4")
        ((4, 16, 1), (0, 8, 4))

    Raises:
        TypeError: DLPack has no code for it.
    """
    special = getattr(dtype, "__dlpack_data_type__", None)
    if special is not None and not isinstance(dtype, type):
        code, bits, lanes = special()
        return int(code), int(bits), int(lanes)
    name = _name_of(dtype)
    if name in _CODES:
        return (*_CODES[name], 1)
    base, _, lanes = name.rpartition("x")
    if base[-1:].isdecimal() and lanes.isdecimal() and 1 <= int(lanes) <= _MOST_LANES:
        code, bits, _ = dtype_code(base)
        return code, bits, int(lanes)
    family = name.rstrip("0123456789")
    bits_text = name[len(family) :]
    if family not in _LETTERS or not bits_text or not 1 <= int(bits_text) <= 255:
        raise TypeError(f"DLPack has no code for {name}")
    return _LETTERS[family], int(bits_text), 1


def _name_of(dtype: object) -> str:
    """`torch.float32`, `numpy.dtype("float32")`, `numpy.float32`, `jax.numpy.float32`, a str."""
    if isinstance(dtype, str):
        return dtype
    numpy: Any = sys.modules.get("numpy")
    inner = getattr(dtype, "dtype", None)  # jax.numpy.float32 is a function with a dtype
    if numpy is not None and isinstance(inner, numpy.dtype) and callable(dtype):
        dtype = inner
    if isinstance(dtype, type):
        try:
            dtype = numpy.dtype(dtype)
        except (AttributeError, TypeError):  # no NumPy, or no dtype of it
            raise TypeError(f"DLPack has no code for {dtype}") from None
    return str(dtype).removeprefix("torch.")


def numpy_dtype(dtype: DType) -> Any:
    """As `DType.numpy`."""
    import numpy

    standard = {"b": "bool", "f": "float", "i": "int", "u": "uint"}
    name = str(dtype)
    if dtype.lanes == 1 and dtype.code in _SMALL_FLOATS:
        name = _SMALL_FLOATS[dtype.code]
    elif dtype.lanes == 1 and dtype.code == 4:
        name = "bfloat16"
    elif name[:1] in standard and name[1:].isdecimal():
        name = standard[name[0]] + name[1:]
    try:
        if dtype.code in _SMALL_FLOATS or dtype.code == 4 or dtype.bits < 8:
            import ml_dtypes

            return numpy.dtype(getattr(ml_dtypes, name))
        return numpy.dtype(name)
    except (AttributeError, TypeError):
        raise TypeError(f"NumPy has no dtype for {dtype}") from None


# ---- devices ---------------------------------------------------------------------------------

_DEVICES = {
    1: "cpu",
    2: "cuda",
    3: "cuda_host",
    4: "opencl",
    7: "vulkan",
    8: "metal",
    9: "vpi",
    10: "rocm",
    11: "rocm_host",
    12: "ext_dev",
    13: "cuda_managed",
    14: "oneapi",
    15: "webgpu",
    16: "hexagon",
    17: "maia",
    18: "trn",
}
#: What others call them, and how we do.
_ALIASES = {"gpu": "cuda", "hip": "rocm", "mps": "metal", "xpu": "oneapi", "cl": "opencl"}
_DEVICE_CODES = {name: code for code, name in _DEVICES.items()}
_DEVICE_CODES |= {alias: _DEVICE_CODES[name] for alias, name in _ALIASES.items()}


class Device(tuple[int, int]):
    """Where memory lies: the pair of DLPack's device type and index.

    Made from a name, a name and an index, or a device of Torch, JAX or CuPy.

    Example:
        >>> Device("cuda:1"), Device("cpu") == (1, 0), Device("rocm", 2).index
        (Device('cuda:1'), True, 2)
    """

    __slots__ = ()

    def __new__(cls, device: object, index: int | None = None) -> Device:
        """Raises: ValueError: no such device. TypeError: this is no device."""
        code, number = device_code(device)
        if index is not None and number:
            raise ValueError(f"device {device!r} has an index already, got {index} besides")
        return super().__new__(cls, (code, number if index is None else int(index)))

    @property
    def type(self) -> str:
        """The name of its type: "cpu", "cuda" ..."""
        return _DEVICES.get(self[0], f"device{self[0]}")

    # A tuple has a method of this name, for which a pair of numbers has no use.
    @property
    def index(self) -> int:  # type: ignore[override]
        """Which of the devices of its type."""
        return self[1]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self[0], self[1]

    def __str__(self) -> str:
        return f"{self.type}:{self[1]}"

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return device_of, (self[0], self[1])


def device_of(code: int, index: int) -> Device:
    """What the core calls for DLPack's numbers of a device."""
    return tuple.__new__(Device, (code, index))


def device_code(device: object) -> tuple[int, int]:
    """DLPack's (type, index) of a device or of the name of one.

    Example:
        >>> device_code("cuda:1")
        (2, 1)
    """
    special = getattr(device, "__dlpack_device__", None)
    if special is not None and not isinstance(device, type):
        code, number = special()
        return int(code), int(number)
    if isinstance(device, tuple) and len(device) == 2:
        code, number = device
        return int(code), int(number)
    if isinstance(device, str):
        name, colon, number = device.partition(":")
    else:
        name, number = _device_facts(device)
        colon = ":"
    if name not in _DEVICE_CODES or (colon and not number.isdecimal()):
        known = ", ".join(_DEVICES.values())
        raise ValueError(f"no device {device!r}; the types are {known}")
    return _DEVICE_CODES[name], int(number or 0)


def _device_facts(device: object) -> tuple[str, str]:
    """Name and index of a device of Torch (type, index), JAX (platform, id) or CuPy (id)."""
    name = getattr(device, "type", None) or getattr(device, "platform", None)
    index = getattr(device, "index", None)
    if index is None or callable(index):
        index = getattr(device, "id", None)
    module = type(device).__module__.partition(".")[0]
    if name is None and module == "cupy":
        name = "cuda"
    if not isinstance(name, str):
        raise TypeError(f"expected a device, got {type(device).__qualname__}")
    return name, str(index or 0)


# ---- shapes ----------------------------------------------------------------------------------


class Shape(tuple[int, ...]):
    """Sizes; a packed function gets a TVM FFI Shape where a tuple would come as an Array.

    Example:
        >>> Shape([2, 3]), Shape([2, 3]) == (2, 3)
        (Shape(2, 3), True)
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable[int] = ()) -> Shape:
        """Raises: TypeError: a size is no integer. OverflowError: it has more than 64 bits."""
        import operator

        checked = tuple(operator.index(size) for size in sizes)
        for size in checked:
            if not -(2**63) <= size < 2**63:
                raise OverflowError(f"a Shape holds 64-bit integers, got {size}")
        return super().__new__(cls, checked)

    def __repr__(self) -> str:
        return f"Shape({', '.join(map(str, self))})"
