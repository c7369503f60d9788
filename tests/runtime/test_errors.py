"""Wrong input is an error with a name: signature, argument, what was expected, what came."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch._subclasses import FakeTensorMode

from kdsl.runtime import Module

NOP = "nop(x: T[M, N], y: T[M, N], o: Out[T[M, N]])"
X = np.ones((2, 3), np.float32)


def frozen() -> np.ndarray:
    x = X.copy()
    x.flags.writeable = False
    return x


def fake() -> torch.Tensor:
    with FakeTensorMode():
        return torch.ones(2, 3)


def nested() -> torch.Tensor:
    with warnings.catch_warnings(action="ignore"):
        return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


class Broken:
    """An object whose attributes raise what they should not."""

    @property
    def shape(self) -> tuple[int, ...]:
        raise RuntimeError("no shape")


def field_view() -> np.ndarray:
    return np.zeros(3, np.dtype([("tag", "u1"), ("value", "f4")]))["value"]


def is_error(call: Callable[[], object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert type(caught.value) is kind
    assert str(caught.value) == text


REFUSED: list[tuple[str, Callable[[], Any], type[Exception], str]] = [
    ("list", lambda: [1, 2], TypeError, "expected f32[M=2, N=3], got list"),
    ("tuple", lambda: (1, 2), TypeError, "expected f32[M=2, N=3], got tuple"),
    ("dict", dict, TypeError, "expected f32[M=2, N=3], got dict"),
    ("set", lambda: {1}, TypeError, "expected f32[M=2, N=3], got set"),
    ("object", object, TypeError, "expected f32[M=2, N=3], got object"),
    ("class", lambda: np.float32, TypeError, "expected f32[M=2, N=3], got type"),
    ("complex", lambda: 1j, TypeError, "expected f32[M=2, N=3], got complex"),
    (
        "int beyond 64 bits",
        lambda: 2**64,
        TypeError,
        "expected f32[M=2, N=3], got int 18446744073709551616",
    ),
    ("huge int", lambda: -(10**5000), TypeError, "expected f32[M=2, N=3], got int of 16610 bits"),
    (
        "object whose attributes raise",
        Broken,
        TypeError,
        "expected f32[M=2, N=3], got tests.runtime.test_errors.Broken",
    ),
    (
        "nested tensor",
        nested,
        TypeError,
        "expected f32[M=2, N=3], got torch.Tensor that cannot be read (Internal error: "
        "NestedTensorImpl doesn't support sizes. Please file an issue.)",
    ),
    (
        "strings",
        lambda: np.array(["a"]),
        TypeError,
        "expected f32[M=2, N=3], got str32[1]",
    ),
    ("objects", lambda: np.array([None]), TypeError, "expected f32[M=2, N=3], got object[1]"),
    (
        "big endian",
        lambda: X.astype(">f4"),
        ValueError,
        "expected f32[M=2, N=3] in native byte order, got byte-swapped f32[2, 3]",
    ),
    (
        "field of a packed record",
        field_view,
        ValueError,
        "expected f32[M=2, N=3] whose address and strides are multiples of the item size, "
        "got f32[3] that is not aligned; pass a copy",
    ),
    (
        "torch tensor at an odd address",
        lambda: torch.frombuffer(bytearray(28), dtype=torch.float32, offset=1, count=6),
        ValueError,
        "expected f32[M=2, N=3] whose address and strides are multiples of the item size, "
        "got f32[6] that is not aligned; pass a copy",
    ),
    (
        "masked",
        lambda: np.ma.masked_array(X, X > 0),
        TypeError,
        "expected f32[M=2, N=3], got a masked array f32[2, 3]; pass .filled(value) or .data",
    ),
    (
        "requires grad",
        lambda: torch.ones(2, 3, requires_grad=True),
        ValueError,
        "expected f32[M=2, N=3] that does not require grad, got f32[2, 3] with "
        "requires_grad=True; pass y.detach() or call under torch.no_grad()",
    ),
    (
        "parameter",
        lambda: torch.nn.Parameter(torch.ones(2, 3)),
        ValueError,
        "expected f32[M=2, N=3] that does not require grad, got f32[2, 3] with "
        "requires_grad=True; pass y.detach() or call under torch.no_grad()",
    ),
    (
        "result that requires grad",
        lambda: torch.ones(2, 3, requires_grad=True) * 2,
        ValueError,
        "expected f32[M=2, N=3] that does not require grad, got f32[2, 3] with "
        "requires_grad=True; pass y.detach() or call under torch.no_grad()",
    ),
    (
        "view that requires grad",
        lambda: torch.ones(2, 3, requires_grad=True)[:1],
        ValueError,
        "expected f32[M=2, N=3] that does not require grad, got f32[1, 3] with "
        "requires_grad=True; pass y.detach() or call under torch.no_grad()",
    ),
    (
        "conjugated",
        lambda: torch.ones(2, dtype=torch.complex64).conj(),
        ValueError,
        "expected f32[M=2, N=3] without the conjugate bit, got complex64[2] that is conjugated "
        "lazily; pass y.resolve_conj()",
    ),
    (
        "negated",
        lambda: torch.ones(2, dtype=torch.complex64).conj().imag,
        ValueError,
        "expected f32[M=2, N=3] without the negative bit, got f32[2] that is negated lazily; "
        "pass y.resolve_neg()",
    ),
    (
        "negated, contiguous",
        lambda: torch._neg_view(torch.ones(2)),
        ValueError,
        "expected f32[M=2, N=3] without the negative bit, got f32[2] that is negated lazily; "
        "pass y.resolve_neg()",
    ),
    (
        "fake",
        fake,
        TypeError,
        "expected f32[M=2, N=3], got torch._subclasses.fake_tensor.FakeTensor, a torch.Tensor "
        "subclass that holds no data of its own",
    ),
    (
        "meta",
        lambda: torch.ones(2, 3, device="meta"),
        TypeError,
        "expected f32[M=2, N=3], got f32[2, 3] on meta that cannot be read "
        "(Cannot pack tensors on meta)",
    ),
    (
        "sparse",
        lambda: torch.eye(2).to_sparse(),
        TypeError,
        "expected f32[M=2, N=3], got f32[2, 2] that cannot be read "
        "(Cannot access data pointer of Tensor that doesn't have storage)",
    ),
]


@pytest.mark.parametrize(
    ("make", "kind", "text"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_what_a_module_cannot_take_is_refused(
    hand: Module, make: Callable[[], Any], kind: type[Exception], text: str
) -> None:
    value = make()
    is_error(lambda: hand.nop(X, value), kind, f"{NOP}: argument 1 `y`: {text}")
    is_error(lambda: hand.nop(X, y=value), kind, f"{NOP}: argument 1 `y`: {text}")


def test_a_tensor_without_memory_is_refused(hand: Module) -> None:
    x = torch.ones(2, 3)
    x.untyped_storage().resize_(0)
    with pytest.raises((ValueError, TypeError)) as caught:
        hand.nop(x)
    assert str(caught.value).startswith(f"{NOP}: argument 0 `x`: expected T[M, N]")


def test_vmapped_and_traced_values_are_refused(hand: Module) -> None:
    x = torch.ones(2, 3)
    with pytest.raises(TypeError) as caught:
        torch.func.vmap(hand.view)(x)
    assert str(caught.value).startswith(
        "view(x: T[M, N]): argument 0 `x`: expected T[M, N] with T one of f32, bf16, got f32[3] "
    )
    with pytest.raises(TypeError) as caught:
        jax.jit(hand.view)(jnp.ones(3))
    assert str(caught.value) == (
        "view(x: T[M, N]): argument 0 `x`: expected T[M, N] with T one of f32, bf16, got f32[3], "
        "traced by jax.jit, grad or vmap; a kernel runs on values: call it outside, or through "
        "jax.pure_callback"
    )


def base_changed_later() -> torch.Tensor:
    base = torch.zeros(4)
    view = base[1:]
    base.mul_(torch.ones(4, requires_grad=True))
    return view


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * 2


GRAD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "leaf": lambda x: x,
    "result": lambda x: x + 1,
    "view": lambda x: x.view(2, 2),
    "transposed": lambda x: x.view(2, 2).T,
    "expanded": lambda x: x.expand(3, 4),
    "of a function": Twice.apply,
    "bf16": lambda x: x.bfloat16(),
    "written in place": lambda x: torch.zeros(4).mul_(x),
    "view written in place": lambda x: torch.zeros(5)[1:].mul_(x),
    "base written later": lambda x: base_changed_later(),
    "switched on": lambda x: torch.zeros(4).requires_grad_(),
    "parameter": lambda x: torch.nn.Parameter(x.detach()),
}


@pytest.mark.parametrize("make", GRAD.values(), ids=GRAD)
def test_whatever_requires_grad_is_refused(
    hand: Module, make: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    x = make(torch.ones(4, requires_grad=True))
    assert x.requires_grad
    with pytest.raises(ValueError, match=r"with requires_grad=True; pass x\.detach"):
        hand.view(x)
    with torch.no_grad():
        assert hand.view(x).startswith("dtype")
    assert hand.view(x.detach()).startswith("dtype")
    with pytest.raises(ValueError, match="with requires_grad=True"):
        hand.view(x.detach().requires_grad_())


def test_requires_grad_is_fine_where_no_gradient_is_wanted(hand: Module) -> None:
    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        assert hand.view(x) == "dtype 2:32:1 shape 3 strides 1 first 63"
    with torch.inference_mode():
        assert hand.scale(torch.ones(2)).tolist() == [1.0, 1.0]


def test_views_that_do_not_require_grad_are_fine(hand: Module) -> None:
    assert hand.view(torch.ones(4)[1:]) == "dtype 2:32:1 shape 3 strides 1 first 63"
    numbers = torch.ones(4, dtype=torch.complex64)
    assert hand.view(numbers.imag) == "dtype 2:32:1 shape 4 strides 2 first 0"
    resolved = hand.view(numbers.conj().resolve_conj())
    assert resolved.startswith("dtype 5:64:1 shape 4 strides 1")


def test_outputs_must_be_writable(hand: Module) -> None:
    is_error(
        lambda: hand.nop(X, X, frozen()),
        ValueError,
        f"{NOP}: argument 2 `o`: expected f32[M=2, N=3] that may be written, "
        "got read-only f32[2, 3]",
    )
    is_error(
        lambda: hand.increment(frozen()),
        ValueError,
        "increment(x: InOut[f32[M, N]], by: f64 = 1.0): argument 0 `x`: expected T[M, N] that may "
        "be written, got read-only f32[2, 3]",
    )
    is_error(
        lambda: hand.nop(X, X, memoryview(b"abc")),
        ValueError,
        f"{NOP}: argument 2 `o`: expected f32[M=2, N=3] that may be written, "
        "got read-only memoryview",
    )


def test_jax_arrays_are_never_written(hand: Module) -> None:
    j = jnp.ones((2, 3))
    is_error(
        lambda: hand.nop(j, j, j),
        TypeError,
        f"{NOP}: argument 2 `o`: expected f32[M=2, N=3] that may be written, got JAX f32[2, 3]; "
        "JAX arrays are immutable, omit `o` and take the result",
    )


def test_unknown_double_and_missing_keywords_are_named(hand: Module) -> None:
    is_error(
        lambda: hand.nop(X, X, z=X),
        TypeError,
        f"{NOP}: got unknown keyword `z`; the parameters are x, y, o",
    )
    is_error(
        lambda: hand.nop(X, X, x=X),
        TypeError,
        f"{NOP}: argument 0 `x`: got two values for it",
    )
    is_error(
        lambda: hand.nop(X, o=X),
        TypeError,
        f"{NOP}: argument 1 `y`: expected T[M, N], got nothing",
    )


def test_too_many_arguments_are_counted(hand: Module) -> None:
    is_error(lambda: hand.nop(X, X, X, X), TypeError, f"{NOP}: expected 2 to 3 arguments, got 4")
    is_error(
        lambda: hand.view(*[X] * 40), TypeError, "view(x: T[M, N]): expected 1 argument, got 40"
    )


def test_keywords_need_known_names(hand: Module) -> None:
    is_error(
        lambda: hand.plain(a=1),
        TypeError,
        "plain(...): got keyword `a`, but parameter names are unknown",
    )


@pytest.mark.parametrize(
    "kind",
    [
        "TypeError",
        "ValueError",
        "IndexError",
        "KeyError",
        "AttributeError",
        "RuntimeError",
        "MemoryError",
        "NotImplementedError",
        "ZeroDivisionError",
        "OverflowError",
    ],
)
def test_errors_of_a_module_have_the_class_they_name(hand: Module, kind: str) -> None:
    import builtins

    with pytest.raises(getattr(builtins, kind)) as caught:
        hand.fail(kind, "what happened, with an é")
    assert caught.value.args == ("what happened, with an é",)
    assert type(caught.value).__name__ == kind


@pytest.mark.parametrize("kind", ["InternalError", "SystemExit", "print", "", "no such kind"])
def test_other_kinds_of_errors_are_runtime_errors(hand: Module, kind: str) -> None:
    is_error(lambda: hand.fail(kind, "text"), RuntimeError, "text")


def test_a_failure_without_an_error_is_an_error(hand: Module) -> None:
    is_error(hand.silent, RuntimeError, "silent: failed without saying why")
    with pytest.raises(ValueError, match="first"):
        hand.fail("ValueError", "first")
    is_error(hand.silent, RuntimeError, "silent: failed without saying why")


def test_a_failing_conversion_is_the_cause(hand: Module) -> None:
    class Rude:
        def __dlpack__(self, **kwargs: object) -> object:
            raise LookupError("not today")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    with pytest.raises(TypeError) as caught:
        hand.view(Rude())
    assert str(caught.value).endswith(
        "test_errors.test_a_failing_conversion_is_the_cause.<locals>.Rude that cannot be read "
        "(not today)"
    )
    assert isinstance(caught.value.__cause__, LookupError)


def test_an_interrupt_during_conversion_passes_through(hand: Module) -> None:
    class Slow:
        def __dlpack__(self, **kwargs: object) -> object:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hand.view(Slow())


@pytest.mark.parametrize("answer", [None, 3, "capsule", object()])
def test_a_dlpack_method_that_gives_no_capsule_is_refused(hand: Module, answer: object) -> None:
    class Odd:
        def __dlpack__(self, **kwargs: object) -> object:
            return answer

    with pytest.raises(TypeError, match="with a DLPack version other than 1"):
        hand.view(Odd())


def test_numbers_that_fail_to_be_numbers_are_refused(hand: Module) -> None:
    class Index:
        def __index__(self) -> int:
            raise ValueError("no number")

    with pytest.raises(TypeError, match=r"that cannot be read \(no number\)"):
        hand.echo(Index())
    with pytest.raises(TypeError, match=r"that cannot be read \('utf-8' codec can't encode"):
        hand.echo("\ud800 lone surrogate")
    assert hand.echo(Fraction(1, 2)) == 0.5
