"""Every way in which a tensor can be wrong, for every tensor parameter of every kind of kernel.

Each is told by the whole message, the same from a kernel and from an exported module.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

from tests.calls.expect import expected, message, signature
from tests.calls.kinds import KINDS, Kind

Array = np.ndarray


@dataclass(frozen=True)
class Wrong:
    """What is made of a right array, and how it is told: `{got}` is its dtype and shape."""

    make: Callable[[Array], Any]
    kind: type[Exception]
    text: str
    #: Whether the message says which dtypes there are to choose from.
    choices: bool = True


def no_memory(a: Array) -> torch.Tensor:
    """A tensor of Torch whose memory has been taken away."""
    t = torch.from_numpy(a).clone()
    t.untyped_storage().resize_(0)
    return t


def shifted(a: Array) -> Array:
    """The same values one byte off."""
    raw = np.zeros(a.nbytes + 1, np.uint8)
    odd = raw[1:].view(a.dtype).reshape(a.shape)
    odd[...] = a
    return odd


def fake(a: Array) -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(a.shape)


def sparse(a: Array) -> torch.Tensor:
    with warnings.catch_warnings(action="ignore"):
        return torch.from_numpy(a.astype("f4")).to_sparse()


def traced(a: Array) -> object:
    """What a function that JAX traces gets for an array of this shape."""
    kept: list[object] = []
    jax.make_jaxpr(kept.append)(jnp.zeros(a.shape, np.float32))
    return kept[0]


def wrapped(a: Array) -> torch.Tensor:
    """What a function that torch.func transforms gets."""
    kept: list[torch.Tensor] = []
    torch.func.vmap(lambda t: kept.append(t) or t)(torch.zeros(1, *a.shape))
    return kept[0]


class Broken:
    """An object whose attributes raise what they should not."""

    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("no shape")


ALIGNED = " whose address and strides are multiples of the item size"
GRAD = "; pass {name}.detach() or call under torch.no_grad()"
UNREADABLE = " that cannot be read (Cannot access data pointer of Tensor that doesn't have storage)"
TRACED = (
    ", traced by jax.jit, grad or vmap; a kernel runs on values: call it outside, or through "
    "jax.pure_callback"
)
FAKE = "torch._subclasses.fake_tensor.FakeTensor, a torch.Tensor subclass that holds no data of its own"  # noqa: E501

WRONG: dict[str, Wrong] = {
    "none": Wrong(lambda a: None, TypeError, "got None"),
    "a text": Wrong(lambda a: "x", TypeError, "got str"),
    "a list": Wrong(lambda a: [a], TypeError, "got list"),
    "an int": Wrong(lambda a: 3, TypeError, "got int 3"),
    "a huge int": Wrong(lambda a: 1 << 2000, TypeError, "got int of 2001 bits"),
    "a float": Wrong(lambda a: 2.5, TypeError, "got float 2.5"),
    "a bool": Wrong(lambda a: True, TypeError, "got bool True"),
    "an object": Wrong(lambda a: object(), TypeError, "got object"),
    "a broken object": Wrong(
        lambda a: Broken(), TypeError, "got tests.calls.test_wrong_tensors.Broken"
    ),
    "f64": Wrong(lambda a: a.astype("f8"), TypeError, "got f64{shape}"),
    "i16": Wrong(lambda a: a.astype("i2"), TypeError, "got i16{shape}"),
    "bool": Wrong(lambda a: a.astype(bool), TypeError, "got bool{shape}"),
    "complex": Wrong(lambda a: a.astype("c8"), TypeError, "got complex64{shape}"),
    "objects": Wrong(lambda a: a.astype(object), TypeError, "got object{shape}"),
    "texts": Wrong(lambda a: a.astype("U4"), TypeError, "got str128{shape}"),
    "dates": Wrong(lambda a: a.astype("M8[s]"), TypeError, "got datetime64[s]{shape}"),
    "f64 of torch": Wrong(lambda a: torch.from_numpy(a.astype("f8")), TypeError, "got f64{shape}"),
    "f16 of jax": Wrong(lambda a: jnp.asarray(a, jnp.float16), TypeError, "got f16{shape}"),
    "an axis more": Wrong(lambda a: a[None], TypeError, "got {got}"),
    "an axis less": Wrong(lambda a: a[0, ...] if a.ndim else a[None, None], TypeError, "got {got}"),
    "byte-swapped": Wrong(
        lambda a: a.astype(a.dtype.newbyteorder()),
        ValueError,
        "in native byte order, got byte-swapped {got}",
        choices=False,
    ),
    "misaligned": Wrong(
        shifted, ValueError, ALIGNED[1:] + ", got {got} that is not aligned; pass a copy", False
    ),
    "misaligned of torch": Wrong(
        lambda a: torch.frombuffer(bytearray(a.nbytes + 1), dtype=torch.float32, offset=1)[
            : a.size
        ].reshape(a.shape),
        ValueError,
        ALIGNED[1:] + ", got f32{shape} that is not aligned; pass a copy",
        choices=False,
    ),
    "masked": Wrong(
        lambda a: np.ma.masked_array(a, a > 0),
        TypeError,
        "got a masked array {got}; pass .filled(value) or .data",
    ),
    "without memory": Wrong(no_memory, ValueError, "with data, got {got} without memory", False),
    "fake": Wrong(fake, TypeError, "got " + FAKE),
    "sparse": Wrong(sparse, TypeError, "got f32{shape}" + UNREADABLE),
    "meta": Wrong(
        lambda a: torch.empty(a.shape, device="meta"),
        TypeError,
        "got f32{shape} on meta that cannot be read (Cannot pack tensors on meta)",
    ),
    "requires grad": Wrong(
        lambda a: torch.from_numpy(a.astype("f4")).requires_grad_(),
        ValueError,
        "that does not require grad, got f32{shape} with requires_grad=True" + GRAD,
        choices=False,
    ),
    "conjugated": Wrong(
        lambda a: torch.from_numpy(a.astype("c8")).conj(),
        ValueError,
        "without the conjugate bit, got complex64{shape} that is conjugated lazily; "
        "pass {name}.resolve_conj()",
        choices=False,
    ),
    "negated": Wrong(
        lambda a: torch._neg_view(torch.from_numpy(a.astype("f4"))),
        ValueError,
        "without the negative bit, got f32{shape} that is negated lazily; "
        "pass {name}.resolve_neg()",
        choices=False,
    ),
    "traced by jax": Wrong(traced, TypeError, "got f32{shape}" + TRACED),
    "wrapped by torch.func": Wrong(wrapped, TypeError, "got f32{shape}" + UNREADABLE),
}

DTYPES = {"float32": "f32", "int64": "i64", "int32": "i32", "int8": "i8"}


def shape(value: object) -> str:
    if isinstance(value, Broken):
        return ""
    return f"[{', '.join(map(str, getattr(value, 'shape', ()))) or '()'}]"


def tensors(kind: Kind) -> list[str]:
    return [name for name, value in kind.arguments().items() if isinstance(value, np.ndarray)]


@pytest.mark.parametrize("what", WRONG)
@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_a_tensor_that_is(what, kind, faces):
    wrong = WRONG[what]
    for name in tensors(kind):
        if what == "none" and signature(kind)[name].optional:
            continue
        arguments = kind.arguments()
        right = arguments[name]
        if right.itemsize == 1 and what in ("misaligned", "misaligned of torch", "byte-swapped"):
            continue  # a byte is in order wherever it stands
        arguments[name] = value = wrong.make(right)
        text = wrong.text.replace("{shape}", shape(value))
        text = text.replace("{got}", DTYPES.get(right.dtype.name, "") + shape(value))
        wanted = expected(kind, arguments, name, choices=wrong.choices)
        comma = ", " if text.startswith("got ") else " "
        text = message(kind, arguments, name, f"expected {wanted}{comma}{text}")
        for face in faces(kind):
            with pytest.raises(wrong.kind) as caught:
                face(**arguments)
            assert str(caught.value) == text
            assert type(caught.value) is wrong.kind
