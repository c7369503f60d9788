"""`kernel.check`: compiled code against the reference run, output by output, with a bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kdsl.dtypes import DType, DTypeVar, f64
from kdsl.frontend.signature import Parameter, Signature
from kdsl.lang import rounding
from kdsl.lang.arrays import Array, kdsl_dtype

Call = Callable[..., object]

#: How far results may be apart, relative to a value's size plus the typical size of the output.
#: Two roundings to the output's dtype, and for f32 and f64 the sum in another order: about
#: sqrt(n) roundings for n terms, with n up to some thousands. Where that is not enough, for a value
#: that was computed in a shorter dtype or is a small difference of large numbers, `Expected.reach`
#: tells how far roundings on the way carry it.
TOLERANCE = {"f64": 2.0**-46, "f32": 2.0**-18, "f16": 2.0**-9, "bf16": 2.0**-6}
TOLERANCE |= {"f8e4m3": 2.0**-2, "f8e5m2": 2.0**-1}

#: Runs of the reference whose roundings go other ways; each also with all of them reversed, so that
#: a value at an edge comes down on both sides.
MOVED = 3


@dataclass(frozen=True, slots=True)
class Output:
    """One output's worst element: where it is, what came, what the reference says."""

    name: str
    dtype: str
    worst: float
    bound: float
    index: tuple[int, ...]
    got: object
    want: object

    @property
    def ok(self) -> bool:
        return self.worst <= self.bound

    def __str__(self) -> str:
        at = f"[{', '.join(map(str, self.index))}]"
        verdict = "ok" if self.ok else "DIFFERS"
        error = f"error {self.worst:.2e}, bound {self.bound:.2e}: {verdict}"
        worst = f"worst at {at}: got {self.got}, reference {self.want}"
        return f"{self.name}: {self.dtype}: {error}; {worst}"


@dataclass(frozen=True, slots=True)
class Report:
    """What `kernel.check` found; `print` shows a line an output."""

    kernel: str
    outputs: tuple[Output, ...]

    @property
    def ok(self) -> bool:
        return all(output.ok for output in self.outputs)

    def __str__(self) -> str:
        return "\n".join([self.kernel, *(f"  {output}" for output in self.outputs)])


class Expected:
    """What the reference run gives for some inputs; it runs when first asked."""

    def __init__(
        self,
        signature: Signature,
        reference: Call,
        args: Sequence[object],
        kwargs: Mapping[str, object],
    ) -> None:
        self.signature, self._reference = signature, reference
        self._args, self._kwargs = args, kwargs

    @property
    def parameters(self) -> list[Parameter]:
        """The outputs that are compared: InOuts, then Outs."""
        return [p for kind in ("inout", "out") for p in self.signature.of_kind(kind)]

    @cached_property
    def results(self) -> list[Array]:
        """An array for each of `parameters`."""
        return self.run(self._reference)

    @cached_property
    def reach(self) -> list[Array]:
        """How far each element of `results` moves where the roundings on the way go elsewhere."""
        found = [np.zeros(want.shape) for want in self.results]
        for seed in range(MOVED):
            for sign in (1, -1):
                with rounding.moved(seed, sign):
                    there = self.run(self._reference)
                for known, near, want in zip(found, there, self.results, strict=True):
                    with np.errstate(all="ignore"):
                        step = np.abs(_wide(near) - _wide(want)).astype(np.float64)
                    np.maximum(known, np.where(np.isfinite(step), step, 0.0), out=known)
        return found

    def run(self, call: Call) -> list[Array]:
        """The outputs of a call: InOuts and Outs that are given, as copies, and what it returns."""
        names = (p.name for p in self.signature.parameters)
        named = dict(zip(names, self._args, strict=False)) | dict(self._kwargs)
        changed = [p.name for p in self.parameters if named.get(p.name) is not None]
        copies = {name: np.array(named[name]) for name in changed}
        result = call(**named | copies)
        returned = result if isinstance(result, (tuple, list)) else (result,)
        made = (np.asarray(r) for r in returned if r is not None)
        return [copies[p.name] if p.name in copies else next(made) for p in self.parameters]


def compare(expected: Expected, compiled: Call) -> Report:
    """Run compiled code on the same NumPy inputs and compare the outputs.

    InOuts and Outs that are given are copied for each run, so that the caller's stay as they are.
    """
    got, outputs = expected.run(compiled), []
    for i, (p, g, w) in enumerate(zip(expected.parameters, got, expected.results, strict=True)):
        dtype = _dtype(p.tensor.dtype, w)
        output = _output(p.name, g, w, dtype)
        if not output.ok:
            output = _output(p.name, g, w, dtype, expected.reach[i])
        outputs.append(output)
    return Report(expected.signature.text, tuple(outputs))


def _output(name: str, got: Array, want: Array, dtype: DType, reach: Array | None = None) -> Output:
    """The worst element of one output.

    `reach`: how far roundings may carry each element, where that is known.
    """
    if got.shape != want.shape:
        raise AssertionError(f"{name}: got shape {got.shape}, reference {want.shape}")
    if got.size == 0:
        return Output(name, dtype.name, 0.0, 0.0, (), None, None)
    g, w = _wide(got), _wide(want)
    if dtype.is_float:
        finite = np.isfinite(w)
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        # Both infinite or both NaN is no difference; one of them is an infinite one.
        both = finite & np.isfinite(g)
        error = np.where(same, 0.0, np.inf)
        error[both] = np.abs(g[both] - w[both])
        typical = float(np.abs(w[finite]).mean()) if finite.any() else 0.0
        bound = TOLERANCE[dtype.name] * (np.where(finite, np.abs(w), 0.0) + typical)
        if reach is not None and reach.any():
            # By chance an element may have moved less than it can: the others tell.
            bound += 2 * reach + float(np.median(reach[reach > 0]))
    else:
        error = np.abs(g - w).astype(np.float64)
        bound = np.zeros(g.shape) if reach is None else reach
    excess = np.where(bound > 0, error / np.where(bound > 0, bound, 1.0), error)
    index = tuple(int(i) for i in np.unravel_index(int(excess.argmax()), got.shape))
    return Output(
        name,
        dtype.name,
        float(error[index]),
        float(bound[index]),
        index,
        got[index],
        want[index],
    )


def _wide(array: Array) -> Array:
    """Floats as doubles, integers as Python's: neither overflows in a difference."""
    dtype = kdsl_dtype(array.dtype) or f64
    if dtype.is_float:
        return array.astype(np.float64)
    return array.astype(np.int64 if dtype.bits < 64 else object)


def _dtype(declared: DType | DTypeVar, array: Array) -> DType:
    if isinstance(declared, DType):
        return declared
    found = kdsl_dtype(array.dtype)
    assert found is not None, array.dtype
    return found
