"""`kernel.check`: compiled code against the reference run, output by output, with a bound."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kdsl.dtypes import DTYPES, DType, DTypeVar
from kdsl.frontend.signature import Signature

Call = Callable[..., object]

#: How far results may be apart, relative to a value's size plus the typical size of the output.
#: Two roundings to the output's dtype, and for f32 and f64 the sum in another order: about
#: sqrt(n) roundings for n terms, with n up to some thousands.
TOLERANCE = {"f64": 2.0**-46, "f32": 2.0**-18, "f16": 2.0**-9, "bf16": 2.0**-6}
TOLERANCE |= {"f8e4m3": 2.0**-2, "f8e5m2": 2.0**-1}


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


def compare(
    signature: Signature,
    compiled: Call,
    reference: Call,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> Report:
    """Run both on the same NumPy inputs, outputs omitted, and compare what they return.

    An InOut is copied for each run, so that the caller's stays as it is.
    """
    outs = [p for kind in ("inout", "out") for p in signature.of_kind(kind)]
    got, want = (_run(signature, call, args, kwargs) for call in (compiled, reference))
    return Report(
        signature.text,
        tuple(
            _output(p.name, g, w, _dtype(p.tensor.dtype, w))
            for p, g, w in zip(outs, got, want, strict=True)
        ),
    )


def _run(
    signature: Signature, call: Call, args: Sequence[object], kwargs: Mapping[str, object]
) -> list[np.ndarray]:
    """InOuts as they are after a call, then what it returns."""
    inouts = {p.name for p in signature.of_kind("inout")}
    named = dict(zip((p.name for p in signature.parameters), args, strict=False)) | dict(kwargs)
    copies = {name: np.array(value) for name, value in named.items() if name in inouts}
    result = call(**named | copies)
    returned = result if isinstance(result, (tuple, list)) else (result,)
    return [*copies.values(), *(np.asarray(r) for r in returned if r is not None)]


def _output(name: str, got: np.ndarray, want: np.ndarray, dtype: DType) -> Output:
    """The worst element of one output."""
    if got.shape != want.shape:
        raise AssertionError(f"{name}: got shape {got.shape}, reference {want.shape}")
    if got.size == 0:
        return Output(name, dtype.name, 0.0, 0.0, (), None, None)
    wide = np.float64 if dtype.is_float else object
    g, w = got.astype(wide), want.astype(wide)
    if dtype.is_float:
        finite = np.isfinite(w)
        same = (g == w) | (np.isnan(g) & np.isnan(w))
        # Both infinite or both NaN is no difference; one of them is an infinite one.
        both = finite & np.isfinite(g)
        error = np.where(same, 0.0, np.inf)
        error[both] = np.abs(g[both] - w[both])
        typical = float(np.abs(w[finite]).mean()) if finite.any() else 0.0
        bound = TOLERANCE[dtype.name] * (np.where(finite, np.abs(w), 0.0) + typical)
    else:
        error, bound = np.abs(g - w).astype(np.float64), np.zeros(g.shape)
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


def _dtype(declared: DType | DTypeVar, array: np.ndarray) -> DType:
    if isinstance(declared, DType):
        return declared
    return next(d for d in DTYPES.values() if d.numpy == array.dtype.name)
