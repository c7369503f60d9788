"""What the core asks of frameworks through Python; they are loaded, their objects were passed."""

from __future__ import annotations

import sys
from typing import Any


def numpy_samples() -> list[Any]:
    """Arrays whose fields all differ, to compare the mirrored struct with."""
    numpy: Any = sys.modules["numpy"]
    cube = numpy.arange(2 * 3 * 5, dtype=numpy.int16).reshape(2, 3, 5)
    frozen = numpy.ones((4, 7), numpy.float32)
    frozen.flags.writeable = False
    return [cube, cube[::-1, 1:, ::2].transpose(2, 0, 1), frozen, numpy.array(3.0)]


def array_of(tensor: Any) -> Any:
    """An array over a Tensor's memory, by the buffer protocol."""
    return sys.modules["numpy"].asarray(memoryview(tensor))


def torch_samples() -> tuple[list[Any], ...]:
    """Torch tensors: all of the rest, plain ones, with grad, conjugated, negated.

    Raises:
        RuntimeError: a mode of the caller's (fake tensors, say) makes other tensors than asked for.
    """
    torch: Any = sys.modules["torch"]
    with torch._C.DisableTorchFunction(), torch.inference_mode(False), torch.enable_grad():
        options = {"device": "cpu"}
        plain = [
            torch.ones(3, **options),
            torch.zeros((0, 2), **options),
            torch.ones((2, 3, 4), dtype=torch.bfloat16, **options),
            torch.ones((), dtype=torch.complex64, **options),
            torch.arange(4, **options)[1:],
        ]
        leaf = torch.ones((2, 3), dtype=torch.float32, requires_grad=True, **options)
        scalar = torch.ones((), dtype=torch.float64, requires_grad=True, **options)
        grad = [leaf, scalar, leaf * 2, leaf[0], torch.nn.Parameter(plain[2].clone())]
        numbers = [torch.ones(n, dtype=torch.complex64, **options) for n in (1, 3, 4)]
        conj = [x.conj() for x in numbers] + [
            torch.ones((2, 2), dtype=torch.complex128, **options).mT.conj()
        ]
        neg = [x.imag for x in conj] + [torch._neg_view(plain[0])]
    every = plain + grad + conj + neg
    if any(type(x) not in (torch.Tensor, torch.nn.Parameter) for x in every):
        raise RuntimeError("a mode of the caller's is active")
    return every, plain, grad, conj, neg


def torch_plain_samples() -> list[Any]:
    """Torch tensors that are plain memory on the CPU: of every rank and kind of view.

    Raises:
        RuntimeError: as `torch_samples`.
    """
    torch: Any = sys.modules["torch"]
    samples: list[Any] = []
    with torch._C.DisableTorchFunction(), torch.enable_grad():
        for mode in (torch.inference_mode(False), torch.inference_mode(True)):
            with mode:
                cube = torch.arange(7 * 5 * 3, dtype=torch.int32, device="cpu").reshape(7, 5, 3)
                samples += [cube, cube[2], cube[2, 3, 1], cube[1:, ::2], cube.mT, cube[:0]]
                samples += [cube[0, 0, :1].expand(4, 6, 1), cube[(None,) * 5], cube.reshape(-1)]
                samples += [torch.ones(2, dtype=torch.float64, device="cpu")[1:], cube.bool()]
        samples.append(torch.ones(3, device="cpu", requires_grad=True))
        samples.append(torch.nn.Parameter(torch.ones(3, 2, device="cpu")))
    if any(type(x) not in (torch.Tensor, torch.nn.Parameter) for x in samples):
        raise RuntimeError("a mode of the caller's is active")
    return samples
