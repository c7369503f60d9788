"""`kernel.check_cuda`: CUDA code on the simulated GPU, against the reference and for mistakes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kdsl import check, config, gpus, sim
from kdsl.dims import Dim, dim_names, evaluate
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
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Run a kernel on the simulated GPU under several schedules, and compare its outputs.

    Args:
        say: is told what runs now.

    Raises:
        RuntimeError: the process has a GPU's driver; one process runs one driver.
    """
    use_simulator()
    # On the CPU first: this refuses wrong arguments, and tells the outputs' shapes.
    say("the reference, on the CPU")
    expected = check.Expected(signature, reference, args, kwargs)
    results = {p.name: w for p, w in zip(expected.parameters, expected.results, strict=True)}
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
            for name, value in results.items()
            if given.get(name) is None
        }
        call(**memory | fresh)
        for name in results.keys() - fresh.keys():
            array, device = given[name], memory[name]
            assert isinstance(array, np.ndarray) and isinstance(device, sim.Memory)
            array[...] = device.numpy()
        return tuple(device.numpy() for device in fresh.values())

    for number, seed in enumerate(seeds, 1):
        say(f"the simulated GPU, schedule {number} of {len(seeds)}")
        sim.configure(seed=seed)
        with separate() as runs:
            compared = check.compare(expected, on_device)
        first = first or tuple(runs)
        reports += [report for run in runs for report in run.reports]
        for output in compared.outputs:
            known = worst.get(output.name)
            if known is None or (not output.ok, output.worst) > (not known.ok, known.worst):
                worst[output.name] = output
    sim.configure()
    return Report(signature.text, tuple(worst.values()), _each_once(reports), first)


#: Sizes of dims that are not given: of the last two axes of tensors, and of those before them,
#: which only repeat the work.
SIZE, REPEATS = 64, 4

#: Elements of a tensor that sizes which are not given may come to.
MOST = 2**18

#: What a tensor may be told to hold.
CONTENTS: dict[str, Callable[[int], np.ndarray]] = {
    "arange": np.arange,
    "zeros": np.zeros,
    "ones": np.ones,
    "permutation": lambda size: np.random.default_rng(0).permutation(size),
}


def random_inputs(
    signature: Signature,
    *,
    dtypes: Mapping[str, DType],
    dims: Mapping[str, int],
    values: Mapping[str, object],
) -> dict[str, object]:
    """Arguments for a kernel: tensors of random values, scalars that are given or their default.

    Floats are normal, integers from 0 to 3 and below every size, so that they may be indices.

    Args:
        values: scalars; and tensors as lists, as the name of a .npy file, or as one of CONTENTS.

    Raises:
        ValueError: a name that the signature has not; a list that is not of the parameter's form.
        OSError: a file that cannot be read.
    """
    _check_names(signature, "dim", dims, signature.dims)
    _check_names(signature, "dtype variable", dtypes, [v.name for v in signature.dtype_vars])
    _check_names(signature, "parameter", values, [p.name for p in signature.parameters])
    tensors = [p for p in signature.parameters if p.is_tensor and p.kind in ("in", "inout")]
    given = {
        p.name: np.load(str(value)) if str(value).endswith(".npy") else np.array(value)
        for p in tensors
        if (value := values.get(p.name)) is not None and value not in [*CONTENTS]
    }
    sizes = _sizes(signature, _told(tensors, given) | dict(dims))
    chosen = {v.name: v.choices[0] for v in signature.dtype_vars} | dict(dtypes)
    rng = np.random.default_rng(0)
    below = max(1, min([4, *sizes.values()]))
    found: dict[str, object] = {}
    for p in signature.parameters:
        if p in tensors:
            declared = p.tensor.dtype
            dtype = chosen[declared.name] if isinstance(declared, DTypeVar) else declared
            shape = [evaluate(e, sizes) for e in p.tensor.shape]
            content = values.get(p.name)
            if p.name in given:
                found[p.name] = given[p.name].astype(numpy_dtype(dtype))
            elif isinstance(content, str):
                filled = CONTENTS[content](int(np.prod(shape)))
                found[p.name] = filled.reshape(shape).astype(numpy_dtype(dtype))
            elif not p.optional:
                found[p.name] = _random(rng, shape, dtype, below)
        elif p.name in values:
            found[p.name] = values[p.name]
        elif not p.is_tensor and p.name not in signature.fixed and p.default is MISSING:
            found[p.name] = _scalar(p, sizes, chosen)
    return found


def _check_names(
    signature: Signature, what: str, given: Iterable[str], known: Iterable[str]
) -> None:
    for name in given:
        if name not in known:
            there = ", ".join(f"`{k}`" for k in known) or "none"
            raise ValueError(f"{signature.text}: no {what} `{name}`; there are: {there}")


def _told(tensors: Iterable[Parameter], given: Mapping[str, np.ndarray]) -> dict[str, int]:
    """Sizes that the arrays which are given have. Raises ValueError."""
    sizes: dict[str, int] = {}
    for p in tensors:
        array = given.get(p.name)
        if array is None:
            continue
        if array.ndim != len(p.tensor.shape):
            raise ValueError(
                f"`{p.name}`: expected {len(p.tensor.shape)} dimensions, got {array.ndim}"
            )
        names = zip(p.tensor.shape, array.shape, strict=True)
        sizes |= {extent.name: size for extent, size in names if isinstance(extent, Dim)}
    return sizes


def _sizes(signature: Signature, given: Mapping[str, int]) -> dict[str, int]:
    """A size for each dim, so that no tensor becomes large where that was not asked for."""
    shapes = [p.tensor.shape for p in signature.parameters if p.is_tensor]
    inner = {n for shape in shapes for extent in shape[-2:] for n in dim_names(extent)}
    size = SIZE
    while True:
        sizes = {n: size if n in inner else REPEATS for n in signature.dims} | dict(given)
        most = max(
            (int(np.prod([evaluate(e, sizes) for e in shape])) for shape in shapes), default=0
        )
        if most <= MOST or size <= 8:
            return sizes
        size //= 2


def _random(rng: np.random.Generator, shape: Sequence[int], dtype: DType, below: int) -> np.ndarray:
    if dtype.is_float:
        return np.asarray(rng.standard_normal(shape)).astype(numpy_dtype(dtype))
    high = 2 if dtype.name == "bool" else below
    return np.asarray(rng.integers(0, high, shape)).astype(numpy_dtype(dtype))


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
