"""`kernel.check_cuda`: CUDA code on the simulated GPU, against the reference and for mistakes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kdsl import check, config, gpus, sim
from kdsl.dims import evaluate
from kdsl.dtypes import DType, DTypeVar
from kdsl.lang.arrays import numpy_dtype
from kdsl.sim.driver import separate
from kdsl.frontend.signature import MISSING, Parameter, Signature

#: Schedules that are tried: in order, and two at random.
SEEDS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Report:
    """What `kernel.check_cuda` found.

    Attributes:
        kernel: its signature.
        outputs: the worst element of each output, of the worst schedule.
        reports: mistakes that the simulator saw, each once.
        runs: the launches of the first schedule, with their counters and lines.
    """

    kernel: str
    outputs: tuple[check.Output, ...]
    reports: tuple[sim.Report, ...]
    runs: tuple[sim.Run, ...]

    @property
    def ok(self) -> bool:
        return not self.reports and all(output.ok for output in self.outputs)

    def __str__(self) -> str:
        found = [f"  {report}" for report in self.reports]
        counted = [f"  {line}" for run in self.runs for line in repr(run).splitlines()[:2]]
        return "\n".join([self.kernel, *(f"  {o}" for o in self.outputs), *found, *counted])


def compare(
    signature: Signature,
    call: Callable[..., object],
    reference: Callable[..., object],
    args: Sequence[object],
    kwargs: Mapping[str, object],
    seeds: Sequence[int] = SEEDS,
) -> Report:
    """Run a kernel on the simulated GPU under several schedules, outputs omitted, and compare.

    Raises:
        RuntimeError: the process has a GPU's driver; one process runs one driver.
    """
    use_simulator()
    outs = [p.name for p in signature.of_kind("out")]
    inouts = [p.name for p in signature.of_kind("inout")]
    # On the CPU first: this refuses wrong arguments, and tells the outputs' shapes.
    expected = check.Expected(signature, reference, args, kwargs)
    shapes = expected.results[len(inouts) :]
    worst: dict[str, check.Output] = {}
    reports: list[sim.Report] = []
    first: tuple[sim.Run, ...] = ()

    def on_device(**given: object) -> object:
        memory = {
            name: sim.array(value) if isinstance(value, np.ndarray) else value
            for name, value in given.items()
        }
        fresh = {
            name: sim.empty(value.shape, value.dtype)
            for name, value in zip(outs, shapes, strict=True)
        }
        call(**memory | fresh)
        for name in inouts:
            array, device = given[name], memory[name]
            assert isinstance(array, np.ndarray) and isinstance(device, sim.Memory)
            array[...] = device.numpy()
        return tuple(device.numpy() for device in fresh.values())

    for seed in seeds:
        sim.configure(seed=seed)
        with separate() as runs:
            compared = check.compare(expected, on_device)
        first = first or tuple(runs)
        reports += [report for run in runs for report in run.reports]
        for output in compared.outputs:
            known = worst.get(output.name)
            if known is None or output.worst > known.worst:
                worst[output.name] = output
    sim.configure()
    return Report(signature.text, tuple(worst.values()), _each_once(reports), first)


#: The size of a dim that is not given.
SIZE = 64


def random_inputs(
    signature: Signature,
    *,
    dtypes: Mapping[str, DType],
    dims: Mapping[str, int],
    values: Mapping[str, object],
) -> dict[str, object]:
    """Arguments for a kernel: tensors of random values, scalars that are given or their default.

    Floats are normal, integers from 0 to 3, so that they may be indices.

    Raises:
        ValueError: a name that the signature has not.
    """
    sizes = dict.fromkeys(signature.dims, SIZE) | dict(dims)
    chosen = {v.name: v.choices[0] for v in signature.dtype_vars} | dict(dtypes)
    known = {*signature.dims, *chosen, *(p.name for p in signature.parameters)}
    for name in (*dims, *dtypes, *values):
        if name not in known:
            raise ValueError(f"{signature.text}: no dim, dtype or parameter `{name}`")
    rng = np.random.default_rng(0)
    found: dict[str, object] = {}
    for p in signature.parameters:
        if p.name in values:
            found[p.name] = values[p.name]
        elif p.is_tensor and p.kind in ("in", "inout") and not p.optional:
            declared = p.tensor.dtype
            dtype = chosen[declared.name] if isinstance(declared, DTypeVar) else declared
            found[p.name] = _random(rng, [evaluate(e, sizes) for e in p.tensor.shape], dtype)
        elif not p.is_tensor and p.name not in signature.fixed and p.default is MISSING:
            found[p.name] = _scalar(p, sizes, chosen)
    return found


def _random(rng: np.random.Generator, shape: Sequence[int], dtype: DType) -> np.ndarray:
    if dtype.is_float:
        return np.asarray(rng.standard_normal(shape)).astype(numpy_dtype(dtype))
    return np.asarray(rng.integers(0, 2 if dtype.name == "bool" else 4, shape)).astype(
        numpy_dtype(dtype)
    )


def _scalar(p: Parameter, sizes: Mapping[str, int], chosen: Mapping[str, DType]) -> object:
    if p.name in sizes:
        return sizes[p.name]
    if p.name in chosen:
        return chosen[p.name]
    whole = p.type in (int, bool) or (isinstance(p.type, DType) and not p.type.is_float)
    return 1 if whole else 1.0


def use_simulator() -> None:
    """Let the simulator be the CUDA driver of this process.

    Raises:
        RuntimeError: it has another.
    """
    if config.cuda_driver() is None:
        try:
            gpus.driver()
        except RuntimeError:
            config.use_cuda_driver(gpus.SIMULATOR)
    if config.cuda_driver() is None or not gpus.driver().is_simulator:
        raise RuntimeError(
            "check_cuda runs on the simulated GPU, and this process has the driver of a real one; "
            "set KDSL_CUDA_DRIVER=sim before it starts"
        )


def _each_once(reports: list[sim.Report]) -> tuple[sim.Report, ...]:
    kept: dict[tuple[str, sim.Place], sim.Report] = {}
    for report in reports:
        kept.setdefault((report.kind, report.place), report)
    return tuple(kept.values())
