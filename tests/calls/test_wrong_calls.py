"""Calls that are wrong as a whole: count, names, sizes, numbers, outputs, conditions, memory.

The first half runs over every kind of kernel; what only some have follows. Each error is told by
its whole text, the same from a kernel and from an exported module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from kdsl.dims import Dim
from tests.calls import kinds
from tests.calls.expect import expected, message, signature
from tests.calls.kinds import KINDS, Kind, numbers

Array = np.ndarray
each_kind = pytest.mark.parametrize("kind", KINDS, ids=repr)


def refused(
    faces: Iterable[Callable[..., object]], kind: type[Exception], text: str, *args, **kwargs
) -> None:
    for face in faces:
        with pytest.raises(kind) as caught:
            face(*args, **kwargs)
        assert str(caught.value) == text
        assert type(caught.value) is kind


def kind_of(kernel: object) -> Kind:
    return next(kind for kind in KINDS if kind.kernel is kernel)


def tensors(kind: Kind, *parameter_kinds: str) -> list[str]:
    wanted = parameter_kinds or ("in", "out", "inout")
    return [p.name for p in signature(kind) if p.is_tensor and p.kind in wanted]


def outputs(kind: Kind, arguments: dict[str, object]) -> dict[str, Array]:
    """Buffers for the Outs of a call."""
    made = kind.kernel(
        **{n: np.copy(v) if isinstance(v, Array) else v for n, v in arguments.items()}
    )
    names = tensors(kind, "out")
    made = made if isinstance(made, tuple) else (made,)
    return {name: np.empty_like(array) for name, array in zip(names, made, strict=False)}


# ---- count and names


@each_kind
def test_too_few_and_too_many_arguments_are_counted(kind, faces):
    arguments = kind.arguments()
    most = len(signature(kind).parameters)
    needs = [p.kind != "out" and p.default is not None and p.name in arguments
             for p in signature(kind)]  # fmt: skip
    least = max(i for i, needed in enumerate(needs, 1) if needed)
    wanted = f"{most}" if least == most else f"{least} to {most}"
    plural = "" if most == 1 else "s"
    head = f"{signature(kind).text}: expected {wanted} argument{plural}, got "
    refused(faces(kind), TypeError, head + "0")
    refused(faces(kind), TypeError, head + str(most + 1), *[None] * (most + 1))


@each_kind
def test_keywords_must_be_known_and_given_once(kind, faces):
    arguments = kind.arguments()
    names = [p.name for p in signature(kind)]
    text = f"got unknown keyword `nothing`; the parameters are {', '.join(names)}"
    refused(faces(kind), TypeError, f"{signature(kind).text}: {text}", **arguments, nothing=1)
    first = next(iter(arguments.values()))
    text = message(kind, {}, names[0], "got two values for it")
    refused(faces(kind), TypeError, text, first, **arguments)
    del arguments[names[0]]
    if not arguments:
        return  # a call without any is told its count
    text = message(kind, {}, names[0], f"expected {signature(kind)[names[0]].type}, got nothing")
    refused(faces(kind), TypeError, text, **arguments)


# ---- sizes


def shared_axes(kind: Kind) -> Iterator[tuple[str, int]]:
    """Each axis whose size an earlier parameter has bound."""
    bound: set[str] = set()
    for p in signature(kind):
        if p.is_tensor and p.kind != "out":
            for axis, extent in enumerate(p.tensor.shape):
                if isinstance(extent, Dim) and extent.name in bound:
                    yield p.name, axis
            bound |= {str(e) for e in p.tensor.shape}


@pytest.mark.parametrize("change", [-1, +1])
@each_kind
def test_a_size_that_differs_from_an_earlier_one_is_told(kind, change, faces):
    for name, axis in shared_axes(kind):
        arguments = kind.arguments()
        right = arguments[name]
        grown = np.concatenate([right, right.take([0], axis)], axis)
        wrong = grown if change > 0 else right.take(range(right.shape[axis] - 1), axis)
        for value in (wrong, torch.from_numpy(wrong)):
            arguments[name] = value
            shape = ", ".join(map(str, wrong.shape))
            dtype = signature(kind)[name].tensor.dtype
            dtype = "f32" if str(dtype) == "T" else dtype
            wanted = expected(kind, arguments, name)
            text = message(kind, arguments, name, f"expected {wanted}, got {dtype}[{shape}]")
            refused(faces(kind), ValueError, text, **arguments)


@each_kind
def test_an_output_of_another_size_dtype_or_rank_is_told(kind, faces):
    arguments = kind.arguments()
    made = outputs(kind, arguments)
    for name, right in made.items():
        for exception, wrong, got in (
            (TypeError, right.astype("f8"), "f64"),
            (TypeError, right[None], "f32"),
            (ValueError, np.concatenate([right, right]) if right.ndim else None, "f32"),
        ):
            if wrong is None:
                continue
            shape = ", ".join(map(str, wrong.shape)) or "()"
            p = signature(kind)[name]
            axes = dict(zip(map(str, p.tensor.shape), right.shape, strict=True))
            wanted = ", ".join(f"{k}={v}" for k, v in axes.items()) or "()"
            text = message(kind, {}, name, f"expected f32[{wanted}], got {got}[{shape}]")
            refused(faces(kind), exception, text, **arguments, **made | {name: wrong})


@each_kind
def test_outputs_come_all_or_not_at_all(kind, faces):
    arguments = kind.arguments()
    made = outputs(kind, arguments)
    if len(made) > 1:
        for name, right in made.items():
            p = signature(kind)[name]
            axes = dict(zip(map(str, p.tensor.shape), right.shape, strict=True))
            wanted = ", ".join(f"{k}={v}" for k, v in axes.items()) or "()"
            text = f"expected f32[{wanted}], got None; outputs are given all or omitted all"
            refused(
                faces(kind), TypeError, message(kind, {}, name, text),
                **arguments, **made | {name: None},
            )  # fmt: skip


# ---- memory of what is written


def written(kind: Kind) -> list[tuple[str, dict[str, object]]]:
    """Each Out and InOut with the arguments of a call that gives all."""
    arguments = kind.arguments()
    arguments |= outputs(kind, arguments)
    return [
        (name, arguments | {name: arguments[name].copy()}) for name in tensors(kind, "out", "inout")
    ]


@each_kind
def test_what_is_written_must_be_writable(kind, faces):
    for name, arguments in written(kind):
        arguments[name].flags.writeable = False
        shape = ", ".join(map(str, arguments[name].shape)) or "()"
        text = f"expected {expected(kind, arguments, name, choices=False)} that may be written, "
        text = message(kind, arguments, name, f"{text}got read-only f32[{shape}]")
        refused(faces(kind), ValueError, text, **arguments)


@each_kind
def test_what_is_written_must_have_an_element_for_each_index(kind, faces):
    for name, arguments in written(kind):
        right = arguments[name]
        if right.size < 2:
            continue
        # One element for all; in the second, two rows that begin one element apart.
        zero = torch.zeros(1).expand(right.shape)
        close = torch.zeros(right.size).as_strided(right.shape, [1] * right.ndim)
        for wrong in (zero, close if right.ndim > 1 and max(right.shape[:-1]) > 1 else zero):
            text = "elements share memory (a stride is 0 or too small); an output cannot"
            refused(
                faces(kind), ValueError, message(kind, {}, name, text), **arguments | {name: wrong}
            )


@each_kind
def test_an_output_may_not_overlap_an_input_in_part(kind, faces):
    for name, arguments in written(kind):
        p = signature(kind)[name]
        right = arguments[name]
        for other in tensors(kind, "in"):
            source = arguments[other]
            buffer = np.zeros(right.nbytes + source.nbytes + 16, np.uint8)
            # Eight bytes apart: neither the same view nor disjoint.
            near = buffer[: source.nbytes].view(source.dtype).reshape(source.shape)
            near[...] = source
            last = buffer[source.nbytes - source.itemsize :][: right.nbytes]
            if (source.nbytes - source.itemsize) % right.itemsize or source.size == 1:
                continue  # not aligned; or the very same view
            over = last.view(right.dtype).reshape(right.shape)
            places = [q.name for q in signature(kind)]
            text = f"shares memory with argument {places.index(other)} `{other}`; "
            text += "pass a buffer of its own"
            text += ", or declare one parameter InOut" if p.kind == "out" else ""
            refused(
                faces(kind), ValueError, message(kind, {}, name, text),
                **arguments | {name: over, other: near},
            )  # fmt: skip


@each_kind
def test_an_array_of_jax_is_never_written(kind, faces):
    for name, arguments in written(kind):
        if signature(kind)[name].kind == "inout":
            continue  # a new array comes back
        value = jnp.asarray(arguments[name])
        shape = ", ".join(map(str, value.shape)) or "()"
        wanted = expected(kind, arguments, name, choices=False)
        text = f"expected {wanted} that may be written, got JAX f32[{shape}]; "
        text += f"JAX arrays are immutable, omit `{name}` and take the result"
        refused(
            faces(kind), TypeError, message(kind, arguments, name, text),
            **arguments | {name: value},
        )  # fmt: skip


# ---- numbers

RANGE = ", which is out of range"
NUMBERS: list[tuple[str, object, type[Exception], str]] = [
    ("a", None, TypeError, "got None"),
    ("a", "1", TypeError, "got str"),
    ("a", [1.0], TypeError, "got list"),
    ("a", 1j, TypeError, "got complex"),
    ("a", True, TypeError, "got bool True"),
    ("a", np.True_, TypeError, "got bool True"),
    ("a", 1e300, ValueError, "got float 1e+300" + RANGE),
    ("a", -(2**2000), ValueError, "got int of 2001 bits" + RANGE),
    ("a", numbers(2), TypeError, "got f32[2]"),
    ("h", "half", TypeError, "got str"),
    ("h", 1e300, ValueError, "got float 1e+300" + RANGE),
    ("i", 1.5, TypeError, "got float 1.5"),
    ("i", True, TypeError, "got bool True"),
    ("i", 2**31, ValueError, "got int 2147483648" + RANGE),
    ("i", -(2**31) - 1, ValueError, "got int -2147483649" + RANGE),
    ("i", np.float32(1), TypeError, "got float 1.0"),
    ("b", 128, ValueError, "got int 128" + RANGE),
    ("b", -129, ValueError, "got int -129" + RANGE),
    ("flag", 1, TypeError, "got int 1"),
    ("flag", None, TypeError, "got None"),
    ("flag", "yes", TypeError, "got str"),
    ("twice", 1, TypeError, "got int 1"),
    ("twice", "no", TypeError, "got str"),
    ("power", 1.0, TypeError, "got float 1.0"),
    ("power", True, TypeError, "got bool True"),
    ("power", numbers(2), TypeError, "got f32[2]"),
]


@pytest.mark.parametrize(("name", "value", "exception", "text"), NUMBERS)
def test_a_number_of_another_kind_or_beyond_its_range_is_told(name, value, exception, text, faces):
    kind = kind_of(kinds.scalars)
    arguments = kind.arguments() | {name: value}
    text = message(kind, arguments, name, f"expected {{expected}}, {text}")
    refused(faces(kind), exception, text, **arguments)


@pytest.mark.parametrize("value", [np.array(1.0, "f4"), torch.tensor(1.0)])
def test_a_tensor_without_axes_is_no_number_and_the_way_out_is_named(value, faces):
    kind = kind_of(kinds.scalars)
    text = "expected a number (f32), got the tensor f32[()]; pass a.item()"
    text = message(kind, {}, "a", text)
    refused(faces(kind), TypeError, text, **kind.arguments() | {"a": value})


@pytest.mark.parametrize("value", [2.0, np.float32(2), np.array(2)])
def test_a_number_is_no_tensor_without_axes(value, faces):
    kind = kind_of(kinds.zero_d)
    got = "i64[()]" if isinstance(value, Array) else "float 2.0"
    text = message(kind, {}, "unit", f"expected f32[()], got {got}")
    refused(faces(kind), TypeError, text, **kind.arguments() | {"unit": value})


# ---- conditions, statics, indices


@pytest.mark.parametrize(
    ("kernel", "change", "exception", "text"),
    [
        (kinds.attention, {"scale": -1.0}, ValueError, "require scale > 0 failed: scale=-1.0"),
        (kinds.attention, {"scale": 0}, ValueError, "require scale > 0 failed: scale=0.0"),
        (
            kinds.int8, {"scale": numbers(3, 5)}, ValueError,
            "argument 2 `scale`: expected f32[K // G=2, N=5], got f32[3, 5]",
        ),
    ],
)  # fmt: skip
def test_a_condition_that_fails_is_told_with_its_values(kernel, change, exception, text, faces):
    kind = kind_of(kernel)
    text = f"{signature(kind).text}: {text}"
    refused(faces(kind), exception, text, **kind.arguments() | change)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (-2, "argument 4 `G`: expected a size, got int -2"),
        (3, "require K % G == 0 failed: K=4, G=3"),
    ],
)
def test_a_static_that_does_not_divide_is_told_when_compiled_for_it(size, text):
    kind = kind_of(kinds.int8)
    arguments = kind.arguments() | {"G": size}
    if size == 3:
        arguments["scale"] = numbers(1, 5)
    with pytest.raises(ValueError) as caught:
        kinds.int8(**arguments)
    assert str(caught.value) == f"{signature(kind).text}: {text}"


def test_a_static_that_an_exported_module_lacks_is_told_with_those_it_has(faces):
    kind = kind_of(kinds.int8)
    _, module = faces(kind)
    text = f"{signature(kind).text}: not compiled for G=4; compiled: G=2"
    refused([module], ValueError, text, **kind.arguments() | {"G": 4, "scale": numbers(1, 5)})


def test_a_function_is_no_argument_of_a_call(faces):
    kind = kind_of(kinds.function)
    fixed = "`f` is fixed when a kernel is compiled, no call passes it; "
    fixed += "`function.bind(f=...)` is a kernel with another value"
    for face, text in zip(
        faces(kind), (fixed, "got unknown keyword `f`; the parameters are x, w, o"), strict=True
    ):
        text = f"{signature(kind).text}: {text}"
        refused([face], TypeError, text, **kind.arguments(), f=kinds.add_twice)


@pytest.mark.parametrize("kernel", [kinds.gather, kinds.scatter])
@pytest.mark.parametrize("index", [5, -1, 2**31 - 1, -(2**31)])
def test_an_index_outside_is_told_with_its_value_and_line(kernel, index, faces):
    kind = kind_of(kernel)
    arguments = kind.arguments()
    arguments["ids"][1] = index
    for face in faces(kind):
        with pytest.raises(IndexError) as caught:
            face(**arguments)
        text = f"index {index} is out of range for dimension 0 of `table` (V=5), at kinds.py:"
        assert str(caught.value).startswith(f"{signature(kind).text}: {text}")
