"""The reference run: the author's own function under NumPy. It is what a kernel means."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from kdsl.dims import ZeroDivision, dim_names
from kdsl.dtypes import DType
from kdsl.frontend.arguments import Bound, Facts, bind, check, expected_type, output_type
from kdsl.frontend.binding import given, with_parameters
from kdsl.frontend.signature import Parameter, Signature
from kdsl.frontend.source import KernelSource
from kdsl.frontend.targets import check_targets
from kdsl.lang.arrays import as_array, kdsl_dtype
from kdsl.lang.context import DEFAULT_TILE, Run, running
from kdsl.lang.run import RequirementError, Tensor, unwritten
from kdsl.lang.value import Value
from kdsl.runtime.tensors import from_dlpack

Array = np.ndarray[Any, Any]


def reference(
    source: KernelSource, args: Sequence[object], kwargs: Mapping[str, object],
    tiles: Mapping[str, int] | None = None,
) -> Array | tuple[Array, ...] | None:  # fmt: skip
    """Runs a kernel as the NumPy program it is.

    Args:
        args, kwargs: as the kernel is called: arrays of NumPy (bf16 and fp8 of ml_dtypes), Torch
            or JAX in the memory of the host, and numbers. Outs are written when given, else made
            and returned, as NumPy arrays.
        tiles: length of a tile by loop variable; 64 where it is not given.

    Returns:
        The Outs that were omitted: one array, or several as a tuple; None when they were given.

    Raises:
        TypeError, ValueError, IndexError: as the compiled kernel, with the same text.
        KernelTypeError, KernelSyntaxError: loop variables that do not fit their ranges.
        kdsl.lang.run.Race: two iterations of a parallel loop that depend on each other.
    """
    signature, statics = source.signature, given(source)
    check_targets(source)
    values = {n: _as_numpy(v) for n, v in bind(signature, args, kwargs).items()}
    values.update((n, v.item()) for n, v in values.items() if isinstance(v, np.generic))
    facts = {p.name: _facts(values[p.name]) for p in signature if p.is_tensor}
    bound = check(signature, values, {n: f for n, f in facts.items() if f is not None})
    _check_writable(source, bound)
    made = [p for p in signature.of_kind("out") if values[p.name] is None]
    sizes = bound.sizes | {n: v for n, v in statics.items() if type(v) is int}
    dtypes = bound.dtypes | {n: v for n, v in statics.items() if isinstance(v, DType)}
    known = frozenset(n for n, v in (values | statics).items() if _is_static(signature, n, v))
    run = Run(sizes, dtypes, _tile_sizes(source, tiles or {}), statics=known)
    with running(run):
        passed = {p.name: _argument(p, bound) for p in signature}
        called = dict(passed)
        called.update((n, with_parameters(v, called)) for n, v in statics.items())
        a = source.node.args
        positional = [called[p.arg] for p in (*a.posonlyargs, *a.args)]
        named = {p.arg: called[p.arg] for p in a.kwonlyargs}
        try:
            source.function(*positional, **named)
        except RequirementError as err:
            raise ValueError(_requirement(source, err, bound)) from None
        except ZeroDivision as err:
            raise ValueError(_zero_division(source, err, bound)) from None
    for p in made:
        _check_size(source, p, bound)
    results = [passed[p.name].array for p in made]
    if not results:
        return None
    return results[0] if len(results) == 1 else tuple(results)


def _is_static(signature: Signature, name: str, value: object) -> bool:
    static = name in signature.fixed or any(p.name == name for p in signature.of_kind("static"))
    return static and type(value) is int


def _as_numpy(value: object) -> object:
    """An array of another framework as a NumPy array over the same memory."""
    if isinstance(value, np.ndarray) or not hasattr(value, "__dlpack__"):
        return value
    array: object = from_dlpack(value).numpy()
    return array


def _facts(value: object) -> Facts | None:
    if not isinstance(value, np.ndarray):
        return None
    return Facts(kdsl_dtype(value.dtype) or str(value.dtype), value.shape)


def _check_writable(source: KernelSource, bound: Bound) -> None:
    for i, p in enumerate(source.signature):
        value = bound.values[p.name]
        if p.kind in ("out", "inout") and isinstance(value, np.ndarray):
            if not value.flags.writeable:
                expected = expected_type(p.tensor, bound)
                raise ValueError(
                    f"{source.signature.text}: argument {i} `{p.name}`: expected {expected} "
                    f"that may be written, got read-only {_facts(value)}"
                )


def _argument(p: Parameter, bound: Bound) -> Any:
    value = bound.values[p.name]
    if p.kind == "static":
        return value
    if not p.is_tensor:
        dtype = p.type if isinstance(p.type, DType) else bound.dtypes[p.type.name]  # type: ignore[union-attr]
        if p.name in bound.sizes:
            return value
        assert isinstance(value, (bool, int, float))
        return Value(as_array(value, dtype), dtype)
    if value is None and p.optional:
        return None
    dtype, shape = output_type(p, bound)
    if value is None:
        # a negative size is reported after the run, whose `require` may say it better
        value = unwritten(tuple(max(s, 0) for s in shape), dtype)
    assert isinstance(value, np.ndarray)
    return Tensor(p.name, value, p.kind, dtype, p.tensor.shape)


def _check_size(source: KernelSource, p: Parameter, bound: Bound) -> None:
    _, shape = output_type(p, bound)
    for extent, size in zip(p.tensor.shape, shape, strict=True):
        if size < 0:
            place = source.signature.parameters.index(p)
            raise ValueError(
                f"{source.signature.text}: argument {place} `{p.name}`: its size {extent} is {size}"
            )


def _requirement(source: KernelSource, err: RequirementError, bound: Bound) -> str:
    """`attention(...): require scale > 0 failed: scale=-1.0`, found from where the run stood."""
    line = _line_of(source.function, err)
    for node in ast.walk(source.node):
        if not isinstance(node, ast.Call) or _name(node.func) != "require":
            continue
        if _code_line(source, node.lineno) <= line <= _code_line(source, node.end_lineno or 0):
            condition = node.args[err.position]
            text = f"require {source.text.segment(condition)} failed"
            return f"{source.signature.text}: {text}{_values(source, condition, bound)}"
    return f"{source.signature.text}: condition {err.position + 1} of `require` failed"


def _zero_division(source: KernelSource, err: ZeroDivision, bound: Bound) -> str:
    """`attention(...): division by zero in H % G: H=4, G=0`, of host code and dims."""
    sizes = ", ".join(f"{n}={bound.sizes[n]}" for n in dict.fromkeys(dim_names(err.expression)))
    return f"{source.signature.text}: division by zero in {err.expression}: {sizes}"


def _values(source: KernelSource, node: ast.expr, bound: Bound) -> str:
    """`: H=4, scale=-1.0` for the dims and scalar parameters in a condition."""
    names = dict.fromkeys(n.id for n in ast.walk(node) if isinstance(n, ast.Name))
    found = []
    for name in names:
        value = bound.sizes.get(name, bound.values.get(name))
        if isinstance(value, (bool, int, float)):
            found.append(f"{name}={value}")
    return f": {', '.join(found)}" if found else ""


def _line_of(function: FunctionType, err: BaseException) -> int:
    trace = err.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code is function.__code__:
            return trace.tb_lineno
        trace = trace.tb_next
    return 0


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


# ---- tile sizes by loop variable


def _tile_sizes(source: KernelSource, sizes: Mapping[str, int]) -> Callable[[], int]:
    """Finds the loop variable of the `tiles` call that asks, by its place in the code."""
    if not sizes:
        return lambda: DEFAULT_TILE
    variables = tile_variables(source)
    code = source.function.__code__

    def size() -> int:
        frame = sys._getframe(1)
        while frame.f_code is not code:
            if frame.f_back is None:
                return DEFAULT_TILE
            frame = frame.f_back
        line, column = _place(code, frame.f_lasti)
        on_line = variables.get(line, {})
        names = set(on_line.values())
        name = on_line.get(column) or (names.pop() if len(names) == 1 else "")
        return sizes.get(name, DEFAULT_TILE)

    return size


def _code_line(source: KernelSource, line: int) -> int:
    """A line of the text as the compiled function counts it."""
    first = min([source.node.lineno, *(d.lineno for d in source.node.decorator_list)])
    number: int = source.function.__code__.co_firstlineno
    return number + line - first


def _place(code: CodeType, instruction: int) -> tuple[int, int]:
    positions = list(code.co_positions())
    line, _, column, _ = positions[instruction // 2]
    return line or 0, column or 0


def tile_variables(source: KernelSource) -> dict[int, dict[int, str]]:
    """Loop variables by line and column of the call of `tiles`."""
    found: dict[int, dict[int, str]] = {}
    for node in ast.walk(source.node):
        if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
            continue
        calls: list[tuple[ast.expr, ast.expr]] = [(node.target, node.iter)]
        if isinstance(node.target, ast.Tuple):
            calls = list(zip(node.target.elts, node.iter.args, strict=False))
        elif _name(node.iter.func) == "parallel":
            calls = [(node.target, a) for a in node.iter.args]
        for target, call in calls:
            if isinstance(target, ast.Name) and isinstance(call, ast.Call):
                line = _code_line(source, call.lineno)
                found.setdefault(line, {})[call.col_offset + source.text.indent] = target.id
    return found
