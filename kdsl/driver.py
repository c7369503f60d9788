"""From a kernel's source to compiled functions: the pipeline, and the caches around it.

    source -> frontend.lower -> passes -> cpu.plan -> codegen -> compiler -> runtime.load_module

A module that is in the disk cache is found without importing anything of the middle of that line.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kdsl import config, stamp
from kdsl.cache import MODULE, Cache, digest
from kdsl.codegen import archs, targets
from kdsl.dtypes import DType, f32
from kdsl.errors import BuildError
from kdsl.frontend.signature import MISSING
from kdsl.frontend.source import KernelSource
from kdsl.runtime import load_module
from kdsl.tuning import checked_knobs

if TYPE_CHECKING:
    from kdsl.codegen.context import Compiled, KernelUnit
    from kdsl.codegen.device import DeviceCode, Image
    from kdsl.codegen.targets import Variant
    from kdsl.ir.nodes import Func
    from kdsl.passes.cpu.plan import Plan
    from kdsl.runtime import Function

#: Fixed dims of a size above this run the general variant: unrolled code would not pay.
LARGEST_FIXED = 1024


@dataclass(frozen=True, slots=True)
class Specialisation:
    """What one compiled variant of a kernel is for. `sizes` is empty in the general variant."""

    dtypes: tuple[tuple[str, DType], ...] = ()
    statics: tuple[tuple[str, object], ...] = ()
    sizes: tuple[tuple[str, int], ...] = ()
    #: "cpu", "cuda:sm_80".
    target: str = "cpu"

    def general(self) -> Specialisation:
        return replace(self, sizes=())

    def sized(self, sizes: Mapping[str, int]) -> Specialisation:
        return replace(self, sizes=tuple(sizes.items()))

    def on(self, target: str) -> Specialisation:
        return replace(self, target=target)

    @property
    def on_cuda(self) -> bool:
        return archs.is_cuda(self.target)

    def __str__(self) -> str:
        pairs = (*self.dtypes, *self.statics, *self.sizes)
        return ", ".join(f"{name}={value}" for name, value in pairs)


class Compiler:
    """Compiles one kernel. Safe to use from several threads."""

    def __init__(self, source: KernelSource) -> None:
        self.source = source
        self.tiles: dict[str, int] = {}
        #: Sizes of tiles for CUDA, and `warps` and `slots` of its schedule.
        self.cuda_tiles: dict[str, int] = {}
        self.cuda_knobs: dict[str, object] = {}
        self._lock = threading.RLock()
        self.forget()

    @property
    def schedule(self) -> dict[str, object]:
        """What was tuned for CUDA."""
        return {"tiles": dict(sorted(self.cuda_tiles.items())), **self.cuda_knobs}

    def forget(self) -> None:
        """Drop what was compiled in this process: a captured value or the schedule has changed."""
        with self._lock:  # what another thread still compiles is of before, and is dropped too
            self._raw: dict[Specialisation, Func] = {}
            self._funcs: dict[Specialisation, Func] = {}
            self._plans: dict[Specialisation, Plan] = {}
            self._fixed: dict[Specialisation, tuple[str, ...]] = {}
            self._functions: dict[Specialisation, Function] = {}

    def untune(self) -> None:
        """Go back to what the compiler chooses, on every target."""
        self.tiles.clear()
        self.cuda_tiles.clear()
        self.cuda_knobs.clear()
        self.forget()

    def tune(self, target: str, tiles: Mapping[str, int | None], **knobs: object) -> None:
        """Set tile sizes by loop variable, and what else a target has; None goes back to what the
        compiler chooses. Raises ValueError."""
        from kdsl.frontend.reference import tile_variables

        check_target(target)
        for name, size in tiles.items():
            if not (size is None or (type(size) is int and size > 0)):
                raise ValueError(
                    f"{self.source.name}: tile size of `{name}` must be an integer above 0, "
                    f"got {size!r}"
                )
        known = self._tile_loops()
        for name in tiles:
            if known is not None and name not in known:
                raise ValueError(
                    f"{self.source.name}: no loop over tiles has the variable `{name}`; "
                    f"there are {', '.join(f'`{k}`' for k in known) or 'none'}"
                )
        rows = tile_variables(self.source).values()
        loops = [name for row in rows for name in row.values()]
        for name in tiles:
            if loops.count(name) > 1:
                raise ValueError(
                    f"{self.source.name}: {loops.count(name)} loops over tiles have the variable "
                    f"`{name}`; give each its own to tune them, or name the second `{name}_2`"
                )
        sizes = self.tiles
        if archs.is_cuda(target):
            self.cuda_knobs.update(checked_knobs(self.source.name, knobs))
            sizes = self.cuda_tiles
        elif given := [name for name, value in knobs.items() if value is not None]:
            raise ValueError(f"{self.source.name}: the CPU has no `{given[0]}` to tune")
        for name, size in tiles.items():
            if size is None:
                sizes.pop(name, None)
            else:
                sizes[name] = size
        self.forget()

    def default(
        self,
        dtypes: Mapping[str, DType],
        statics: Mapping[str, object],
        sizes: Mapping[str, int],
    ) -> Specialisation:
        """A specialisation with what is not given chosen: f32 where possible, defaults, False.
        Of an optional tensor, `statics` say whether there is one.

        Raises:
            ValueError: a name that the signature does not have, or a choice it does not allow.
        """
        signature = self.source.signature
        variables = {var.name: var for var in signature.dtype_vars}
        parameters = {p.name: p for p in signature.selectors}
        _known(self.source.name, "dtype variable", dtypes, variables)
        _known(self.source.name, "static", statics, parameters)
        chosen = {
            name: dtypes.get(name, f32 if f32 in var.choices else var.choices[0])
            for name, var in variables.items()
        }
        for name, dtype in chosen.items():
            if dtype not in variables[name].choices:
                choices = ", ".join(d.name for d in variables[name].choices)
                raise ValueError(
                    f"{self.source.name}: {name} is one of {choices}, got "
                    f"{dtype if isinstance(dtype, DType) else repr(dtype)}"
                )
        values = {}
        for name, p in parameters.items():
            if p.type is DType:
                continue
            flag = p.optional or p.type is bool
            known = p.default is not MISSING and not p.optional
            values[name] = statics.get(name, p.default if known else False)
            if not known and name not in statics and not flag:
                raise ValueError(f"{self.source.name}: give a value for the static `{name}`")
            if (flag or p.type is int) and type(values[name]) is not (bool if flag else int):
                text = f"the static `{name}` is {'a bool' if flag else 'an int'}"
                raise ValueError(f"{self.source.name}: {text}, got {values[name]!r}")
        for name, size in sizes.items():
            if type(size) is not int or size < 0:
                raise ValueError(f"{self.source.name}: the dim `{name}` is a size, got {size!r}")
        spec = Specialisation(tuple(chosen.items()), tuple(values.items()))
        _known(self.source.name, "fixed dim", sizes, self.fixed_dims(spec) if sizes else ())
        return spec.sized(sizes)

    def fixed_dims(self, spec: Specialisation, first: Callable[[], None] = lambda: None) -> (
        tuple[str, ...]
    ):  # fmt: skip
        """The dims whose sizes make specialisations of their own.

        Args:
            first: called before a body is looked at for which there is no record on disk.
        """
        spec = spec.general().on("cpu")
        with self._lock:
            if spec not in self._fixed:
                key = self._lookup_key(spec, "fixed")
                record = disk_cache().lookup(key)
                if record is None:
                    from kdsl import passes

                    first()
                    record = " ".join(passes.fixed_dims(self._lowered(spec)))
                    disk_cache().remember(key, record)
                self._fixed[spec] = tuple(record.split())
            return self._fixed[spec]

    def func(self, spec: Specialisation) -> Func:
        """The IR of a specialisation after the target-neutral passes."""
        spec = spec.on("cpu")
        with self._lock:
            if spec not in self._funcs:
                from kdsl import passes

                func = self._lowered(spec.general())
                if spec.sizes:
                    func = passes.specialise(func, dict(spec.sizes))
                self._funcs[spec] = passes.run_pipeline(func)
            return self._funcs[spec]

    def plan(self, spec: Specialisation) -> Plan:
        """The frozen plan of a specialisation for the CPU."""
        spec = spec.on("cpu")
        with self._lock:
            if spec not in self._plans:
                from kdsl.passes.cpu.build import plan

                self._plans[spec] = plan(self.func(spec), self.tiles)
            return self._plans[spec]

    def tile_sizes(self, spec: Specialisation) -> dict[str, int]:
        """Tile sizes by loop variable, as the plan has them."""
        axes = self.plan(spec).func.axes
        return {a.name: a.size for a in axes if a.kind == "tile" and a.size is not None}

    def unit(self, specs: Iterable[Specialisation]) -> KernelUnit:
        """The kernel with these specialisations, as codegen takes it."""
        from kdsl.codegen.context import KernelUnit

        source = self.source
        some = tuple(dict.fromkeys(specs))
        return KernelUnit(
            source.signature,
            source.doc,
            Path(source.file).name,
            source.line,
            hashlib.sha256(source.text.text.encode()).hexdigest(),
            tuple(self._compiled(spec, some) for spec in dict.fromkeys(s.on("cpu") for s in some)),
            tuple(dict.fromkeys(s.target for s in some)),
            source.differentiable,
        )

    def _compiled(self, spec: Specialisation, some: Collection[Specialisation]) -> Compiled:
        """A specialisation with the targets that it has among `some`."""
        from kdsl.codegen.context import Compiled

        of = [s for s in some if s.on("cpu") == spec]
        on_cpu, on_cuda = spec in of, any(s.on_cuda for s in of)
        plan = self.plan(spec) if on_cpu else None
        return Compiled(self.func(spec), plan, spec.dtypes, spec.statics, on_cpu, on_cuda)

    def function(self, spec: Specialisation, first: Callable[[], None] = lambda: None) -> Function:
        """The compiled function of one specialisation: from memory, disk, or the compiler.

        Args:
            first: called before the compiler is, where it has to be.
        """
        with self._lock:
            if spec not in self._functions:
                config.check()
                module = load_module(self._module(spec, first))
                self._functions[spec] = getattr(module, self.source.name)
            return self._functions[spec]

    def any_function(self) -> Function:
        """A compiled function, whichever, to say what is wrong with a call that fits none."""
        with self._lock:
            for function in self._functions.values():
                return function
            return self.function(self.default({}, {}, {}))

    def text(self, spec: Specialisation, what: str) -> str:
        """The generated C++: of the kernel ("cpu"), its host entry ("host") or, for a CUDA target,
        the kernel ("cuda") or what it compiles to ("ptx")."""
        from kdsl.codegen.build import ptx
        from kdsl.codegen.device import Image
        from kdsl.codegen.module import module_sources

        name = self.source.name
        units = (self.unit([spec]),)
        if not spec.on_cuda:
            sources = module_sources(name, units, (targets.best_variant(),))
            return sources[f"{name}_cpu.cc" if what == "cpu" else f"{name}.cc"]
        arch = archs.arch_of(spec.target)
        device = device_code(name, units, (Image(arch, "ptx"),), {name: self.schedule})
        if what == "cuda":
            return device.text
        return ptx(module_sources(name, units, (), device), name, arch)

    def dtype_choices(self) -> dict[str, tuple[DType, ...]]:
        """All choices of each dtype variable."""
        return {var.name: var.choices for var in self.source.signature.dtype_vars}

    def static_choices(self) -> dict[str, tuple[object, ...]]:
        """The values an export compiles when none are listed: both of a bool, an optional tensor
        given and left out, else the default."""
        choices: dict[str, tuple[object, ...]] = {}
        for p in self.source.signature.selectors:
            if p.optional or p.type is bool:
                choices[p.name] = (False, True)
            elif p.default is not MISSING:
                choices[p.name] = (p.default,)
        return choices

    def _tile_loops(self) -> tuple[str, ...] | None:
        """Variables of loops over tiles whose size is open; None when a static must be known."""
        try:
            func = self.func(self.default({}, {}, {}))
        except ValueError:
            return None
        return tuple(a.name for a in func.axes if a.kind == "tile" and a.size is None)

    def _lowered(self, spec: Specialisation) -> Func:
        """The IR as the frontend makes it."""
        if spec not in self._raw:
            from kdsl.frontend import lower

            self._raw[spec] = lower(self.source, dict(spec.dtypes), dict(spec.statics))
        return self._raw[spec]

    def _module(self, spec: Specialisation, first: Callable[[], None]) -> Path:
        cache = disk_cache()
        key = self._lookup_key(spec, "module")
        place = digest(self._texts())
        record = (cache.lookup(key) or "").split()
        # A record of two words is of a module that tells lines of this very text.
        if record and record[1:] in ([], [place]) and (module := cache.find(record[0])):
            return module
        first()
        units = [self.unit([spec])]
        if spec.on_cuda:
            from kdsl import gpus

            images = gpus.images(archs.arch_of(spec.target))
            schedules = {self.source.name: self.schedule}
            module, store = build(self.source.name, units, (), images, schedules)
        else:
            module, store = build(self.source.name, units, (targets.best_variant(),))
        cache.remember(key, f"{store} {place}" if self._tells_lines(spec) else store)
        return module

    def _tells_lines(self, spec: Specialisation) -> bool:
        """Whether errors at run time name a line of the author's text."""
        from kdsl.ir.walk import guards

        return bool(guards(self.func(spec)))

    def _texts(self) -> Iterator[str]:
        """What lines of the author's text depend on: the text and where it stands."""
        for source in (self.source, *self.source.helpers.values()):
            yield f"{source.text.file}:{source.text.first_line}"
            yield source.text.text

    def _lookup_key(self, spec: Specialisation, purpose: str) -> str:
        source = self.source
        cuda: list[str] = []
        if spec.on_cuda:
            from kdsl import gpus
            from kdsl.codegen import toolchain

            images = gpus.images(archs.arch_of(spec.target))
            identity = toolchain.find_toolchain().identity
            cuda = [str(images), identity, repr(sorted(self.schedule.items()))]
        return digest(
            [
                purpose,
                stamp.own_files(),
                targets.find_compiler().identity,
                targets.best_variant().name,
                *cuda,
                source.structure,
                source.doc,
                source.signature.text,
                repr(source.signature.dtype_vars),
                repr(source.captured(dict(spec.statics))),
                f"{source.strict} {source.differentiable}",
                str(spec),
                repr(sorted(self.tiles.items())),
            ]
        )


def build(
    name: str,
    units: Sequence[KernelUnit],
    variants: Sequence[Variant],
    images: Sequence[Image] = (),
    schedules: Mapping[str, Mapping[str, object]] | None = None,
) -> tuple[Path, str]:
    """The module of these kernels, from the store or the compiler, and its key there.

    Args:
        variants: of the CPU; none where nothing is compiled for it.
        images: what is compiled for CUDA.
        schedules: what was tuned for CUDA, by name of the kernel.

    Raises:
        BuildError: the compiler failed; sources and log stay in the cache, the text says where.
        KernelTypeError: what a target cannot do yet.
    """
    from kdsl.codegen.build import build as compile_and_link
    from kdsl.codegen.build import flags_text
    from kdsl.codegen.module import module_sources

    device = device_code(name, units, images, schedules) if images else None
    sources = module_sources(name, units, variants, device)
    texts = (text for pair in sources.items() for text in pair)
    identity = targets.find_compiler().identity
    key = digest([flags_text(variants, images), identity, stamp.headers(), *texts])
    cache = disk_cache()
    count = sum(len(unit.specialisations) for unit in units)
    label = f"{name} ({count} specialisations)" if count > 1 else name

    def write(folder: Path) -> None:
        failed = cache.failed(key)
        try:
            compile_and_link(
                sources, folder / MODULE, variants, failed / "build.log", images, label=label
            )
        except BuildError:
            with contextlib.suppress(OSError):
                _write_all(failed, sources)
            raise
        if config.keep_sources():
            _write_all(folder, sources)

    try:
        return cache.publish(key, write), key
    except (OSError, BuildError) as err:
        if isinstance(err, BuildError) and not cache.is_full():
            raise
        # No space, no rights to a folder inside, a network disk that is gone: not the kernel's
        # fault. Where a private folder is no better, its error tells.
        private = Cache(config.private_cache_dir(str(config.cache_dir())))
        return private.publish(key, write), key


def device_code(
    name: str,
    units: Sequence[KernelUnit],
    images: Sequence[Image],
    schedules: Mapping[str, Mapping[str, object]] | None,
) -> DeviceCode:
    """The CUDA side of a module. Raises KernelTypeError for what CUDA code cannot do yet."""
    from kdsl.codegen.cuda import device_source
    from kdsl.codegen.device import DeviceCode
    from kdsl.passes.cuda.tensor import Schedule

    chosen = (
        replace(unit, specialisations=tuple(s for s in unit.specialisations if s.on_cuda))
        for unit in units
    )
    tuned = {kernel: Schedule(**knobs) for kernel, knobs in (schedules or {}).items()}  # type: ignore[arg-type]
    # One text serves all architectures of a module.
    tensor_cores = all(image.number >= 80 for image in images)
    units = [u for u in chosen if u.specialisations]
    text, kernels = device_source(name, units, tuned, tensor_cores=tensor_cores)
    return DeviceCode(text, kernels, tuple(images))


def _write_all(folder: Path, texts: Mapping[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def disk_cache() -> Cache:
    """The cache of compiled modules in the folder that the environment names at this moment."""
    return Cache(config.cache_dir())


def check_target(target: str) -> None:
    """Raises ValueError for a target that kdsl does not have."""
    if archs.is_cuda(target):
        archs.arch_of(target)
    elif target != "cpu":
        raise ValueError(f'kdsl has no target {target!r}; it has "cpu" and, as "cuda:sm_80", CUDA')


def _known(kernel: str, what: str, given: Iterable[str], known: Collection[str]) -> None:
    for name in given:
        if name not in known:
            has = ", ".join(known) or "none"
            raise ValueError(f"{kernel}: no {what} is called {name!r}; there are: {has}")
