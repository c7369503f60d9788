"""The errors about a call that the module itself cannot see, in the words that modules use.

Loaded when the first such error happens. Each function returns the exception to raise.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from kdsl.runtime.schema import type_text

if TYPE_CHECKING:
    from kdsl.runtime.schema import Schema

_DTYPES = {
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "float8_e4m3fn": "f8e4m3",
    "float8_e5m2": "f8e5m2",
    **{f"int{n}": f"i{n}" for n in (8, 16, 32, 64)},
    **{f"uint{n}": f"u{n}" for n in (8, 16, 32, 64)},
}

#: Integers with more bits are named by their size: nobody reads hundreds of digits.
_MOST_BITS = 128

# problem: (exception, what is expected beyond the type, what came, what to do)
PROBLEMS: dict[str, tuple[type[Exception], str, str, str]] = {
    "unsupported": (TypeError, "", "{got}", ""),
    "dtype": (TypeError, "", "{got}", ""),
    "overflow": (
        OverflowError,
        "",
        "{got}; a packed call carries integers from -2**63 to 2**63 - 1",
        "",
    ),
    "too_large": (
        ValueError,
        "",
        "{got}; a packed call carries integers from -2**63 to 2**63 - 1",
        "",
    ),
    "range": (ValueError, "", "{got}, which is out of range", ""),
    "subclass": (
        TypeError,
        "",
        "{type}, a torch.Tensor subclass that holds no data of its own",
        "",
    ),
    "masked": (TypeError, "", "a masked array {got}", "pass .filled(value) or .data"),
    "byteorder": (ValueError, " in native byte order", "byte-swapped {got}", ""),
    "unaligned": (
        ValueError,
        " whose address and strides are multiples of the item size",
        "{got} that is not aligned",
        "pass a copy",
    ),
    "null": (ValueError, " with data", "{got} without memory", ""),
    "readonly": (ValueError, " that may be written", "read-only {got}", ""),
    "requires_grad": (
        ValueError,
        " that does not require grad",
        "{got} with requires_grad=True",
        "pass {name}.detach() or call under torch.no_grad()",
    ),
    "conj": (
        ValueError,
        " without the conjugate bit",
        "{got} that is conjugated lazily",
        "pass {name}.resolve_conj()",
    ),
    "neg": (
        ValueError,
        " without the negative bit",
        "{got} that is negated lazily",
        "pass {name}.resolve_neg()",
    ),
    "jax_out": (
        TypeError,
        " that may be written",
        "JAX {got}",
        "JAX arrays are immutable, omit `{name}` and take the result",
    ),
    "jax_inout": (
        TypeError,
        " that may be written",
        "JAX {got}",
        "JAX arrays are immutable, pass a NumPy copy",
    ),
    "sharded": (
        ValueError,
        " in one piece",
        "JAX {got} whose parts lie on several devices",
        "gather it first: jax.device_put({name}, jax.devices()[0])",
    ),
    "version": (TypeError, "", "{got} with a DLPack version other than 1", ""),
    "traced": (
        TypeError,
        "",
        "{got}, traced by jax.jit, grad or vmap",
        "a kernel runs on values: call it outside, or through jax.pure_callback",
    ),
    "export": (TypeError, "", "{got} that cannot be read{cause}", ""),
}


def argument_error(
    name: str,
    schema: Schema | None,
    args: tuple[object, ...],
    index: int,
    problem: str,
    cause: BaseException | None,
    place: str | None = None,
) -> BaseException:
    """The exception for argument `index` of a call with `args`; `problem` is a key of PROBLEMS.

    `place` names an object within an argument: "argument 2, item 0".
    """
    if cause is not None and not isinstance(cause, Exception):
        return cause  # KeyboardInterrupt is nobody's argument error
    if problem == "export" and _is_tracer(args[index]):
        problem, cause = "traced", None
    kind, beyond, came, remedy = PROBLEMS[problem]
    parameters = schema.parameters if schema is not None else None
    param = parameters[index] if parameters and index < len(parameters) else None
    facts = {
        "got": describe(args[index]),
        "type": f"{type(args[index]).__module__}.{type(args[index]).__qualname__}",
        "name": param["name"] if param else "x",
        "cause": f" ({_first_line(cause)})" if cause is not None else "",
    }
    expected = "a value that TVM FFI has"
    if schema is not None and param:
        expected = _expected(schema, args, index, choices=not beyond)
    text = f"{schema.text if schema else name}: {place or f'argument {index}'}"
    text += f" `{param['name']}`" if param else ""
    text += f": expected {expected}{beyond}, got {came.format(**facts)}"
    text += f"; {remedy.format(**facts)}" if remedy else ""
    error = kind(text)
    error.__cause__ = cause
    return error


def result_error(callable_: object, cause: BaseException) -> BaseException:
    """What a callback returned has no form in native code."""
    if not isinstance(cause, Exception):
        return cause
    name = getattr(callable_, "__qualname__", None) or _type_name(callable_)
    error = TypeError(f"{name}: its result cannot go to native code: {_first_line(cause)}")
    error.__cause__ = cause
    return error


def count_error(
    name: str, schema: Schema | None, count: int, keywords: tuple[str, ...] | None
) -> TypeError:
    """More positional arguments than there are parameters."""
    text, most = _facts(name, schema)
    required = schema.kinds[most:] if schema is not None else b""
    least = required.rfind(1) + 1
    wanted = f"{most}" if least == most else f"{least} to {most}"
    plural = "" if most == 1 else "s"
    return TypeError(f"{text}: expected {wanted} argument{plural}, got {count}")


def keyword_error(
    name: str, schema: Schema | None, count: int, keywords: tuple[str, ...]
) -> TypeError:
    """A keyword that is unknown or given twice, or a parameter that nothing gives."""
    text, _ = _facts(name, schema)
    if schema is None or schema.names is None or schema.parameters is None:
        return TypeError(f"{text}: got keyword `{keywords[0]}`, but parameter names are unknown")
    for keyword in keywords:
        if keyword not in schema.names:
            known = ", ".join(schema.names)
            return TypeError(f"{text}: got unknown keyword `{keyword}`; the parameters are {known}")
        if schema.names.index(keyword) < count:
            place = schema.names.index(keyword)
            return TypeError(f"{text}: argument {place} `{keyword}`: got two values for it")
    for place, param in enumerate(schema.parameters):
        required = schema.kinds[len(schema.names) + place]
        if place >= count and required and param["name"] not in keywords:
            wanted = type_text(param)
            return TypeError(
                f"{text}: argument {place} `{param['name']}`: expected {wanted}, got nothing"
            )
    return TypeError(f"{text}: the arguments do not fit")


def describe(value: object) -> str:
    """A value as messages show it: `f32[2, 3]`, `None`, `int 3`, `str`. Never raises.

    Example:
        >>> describe(None), describe(3), describe("text")
        ('None', 'int 3', 'str')
    """
    if value is None:
        return "None"
    try:
        return _described(value)
    except Exception:  # an object whose attributes raise, such as Torch's nested tensors
        return _type_name(value)


def _described(value: object) -> str:
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return f"{type(value).__name__} of {value.bit_length()} bits"
    if isinstance(value, (bool, int, float)) and type(value).__module__ == "builtins":
        return f"{type(value).__name__} {value}"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if isinstance(value, type) or not isinstance(shape, tuple) or dtype is None:
        return _type_name(value)
    if shape == () and hasattr(value, "__index__") and not hasattr(value, "__setitem__"):
        return f"{_dtype_name(dtype)} {value}"  # an integer of NumPy's
    sizes = ", ".join(map(str, shape)) or "()"
    return f"{_dtype_name(dtype)}[{sizes}]{_device(value)}"


def _facts(name: str, schema: Schema | None) -> tuple[str, int]:
    if schema is None:
        return f"{name}(...)", 0
    return schema.text, len(schema.names or ())


def _type_name(value: object) -> str:
    kind = type(value)
    module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    return module + kind.__qualname__


def _dtype_name(dtype: object) -> str:
    name = str(getattr(dtype, "name", dtype)).removeprefix("torch.")
    return _DTYPES.get(name, name)


def _device(value: object) -> str:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.device.type == "cpu":
        return ""
    return f" on {value.device}"


def _is_tracer(value: object) -> bool:
    """Whether JAX passed this in place of an array, to a function that it transforms."""
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(value, jax.core.Tracer)


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _expected(schema: Schema, args: tuple[object, ...], index: int, *, choices: bool) -> str:
    """The type of a parameter, with the sizes and dtypes that earlier arguments have bound.

    With `choices` it also says which dtypes an unbound variable may be.
    """
    parameters = schema.parameters or []
    dims: dict[str, int] = {}
    dtypes: dict[str, str] = {}
    for param, value in zip(parameters[:index], args, strict=False):
        _bind(param, value, schema, dims, dtypes)
    param = dict(parameters[index])
    if param.get("type") != "tensor":
        return type_text(param)
    var, offered = param["dtype"], schema.metadata.get("dtypes", {})
    param["shape"] = [f"{d}={dims[d]}" if d in dims else d for d in map(str, param["shape"])]
    param["dtype"] = dtypes.get(var, var)
    text = type_text(param)
    if choices and var in offered and var not in dtypes:
        text += f" with {var} one of {', '.join(offered[var])}"
    return text


def _bind(
    param: dict[str, Any],
    value: object,
    schema: Schema,
    dims: dict[str, int],
    dtypes: dict[str, str],
) -> None:
    try:
        shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    except Exception:  # as in `describe`
        return
    if param.get("type") != "tensor" or shape is None or dtype is None:
        return
    if param["dtype"] in schema.metadata.get("dtypes", {}):
        dtypes.setdefault(param["dtype"], _dtype_name(dtype))
    if len(shape) == len(param["shape"]):
        for name, size in zip(map(str, param["shape"]), shape, strict=True):
            if name.isidentifier():
                dims.setdefault(name, size)
