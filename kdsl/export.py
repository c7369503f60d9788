"""`kernel.export` and `kdsl.export`: specialisations of one or more kernels in one `.so`."""

from __future__ import annotations

import errno
import itertools
import os
import re
import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Protocol, TypeVar

from kdsl.codegen.archs import arch_of, is_cuda, number
from kdsl.codegen.device import Image
from kdsl.codegen.public import public_headers
from kdsl.codegen.stub import stub
from kdsl.codegen.targets import variants_of
from kdsl.driver import Compiler, Specialisation, build, check_target
from kdsl.dtypes import DType

T = TypeVar("T")


class HasCompiler(Protocol):
    """A kernel, as this module needs it."""

    @property
    def compiler(self) -> Compiler: ...


@dataclass(frozen=True, slots=True)
class Options:
    """Which specialisations an export holds; what is not named gets all its values."""

    dims: Mapping[str, Iterable[int]] = field(default_factory=dict)
    dtypes: Mapping[str, Iterable[DType]] = field(default_factory=dict)
    statics: Mapping[str, Iterable[object]] = field(default_factory=dict)


def export(
    path: str | PathLike[str],
    kernels: Iterable[HasCompiler],
    *,
    targets: str | Iterable[str] = ("cpu",),
    dims: Mapping[str, Iterable[int]] | None = None,
    dtypes: Mapping[str, Iterable[DType]] | None = None,
    statics: Mapping[str, Iterable[object]] | None = None,
) -> None:
    """Write several kernels into one shared library.

        kdsl.export("kernels.so", [softmax, rmsnorm], dtypes={"T": [f32], "rmsnorm.T": [bf16]})

    Args:
        dims, dtypes, statics: as `kernel.export` takes them. A name is that of all kernels that
            have it; `kernel.name` is one kernel's own and goes before it there.

    Raises:
        TypeError: no list of kernels.
        ValueError: no kernel, two of one name, an unknown target, a name that no kernel has, or a
            static without values.
        KernelTypeError: CUDA code cannot do this yet.
        OSError: nothing can be written there. The last folder of the path is made, no others.
        BuildError: a compiler failed or is not there.
    """
    kernels = _listed(kernels)
    if not kernels:
        raise ValueError("export: give at least one kernel")
    compilers = [kernel.compiler for kernel in kernels]
    options = _shared_out(compilers, dims or {}, dtypes or {}, statics or {})
    write(path, list(zip(compilers, options, strict=True)), named(targets))


def _shared_out(
    compilers: Sequence[Compiler],
    dims: Mapping[str, Iterable[int]],
    dtypes: Mapping[str, Iterable[DType]],
    statics: Mapping[str, Iterable[object]],
) -> list[Options]:
    """The options of each kernel, of what names all of them. Raises ValueError."""
    names = [compiler.source.name for compiler in compilers]

    def own(what: str, table: Mapping[str, Iterable[T]], has: Sequence[Collection[str]]) -> (
        list[dict[str, Iterable[T]]]
    ):  # fmt: skip
        rows: list[dict[str, Iterable[T]]] = [{} for _ in compilers]
        # Those of one kernel last: they go before the others there.
        for key, values in sorted(table.items(), key=lambda item: "." in item[0]):
            kernel, _, name = key.rpartition(".")
            owners = [i for i, n in enumerate(names) if kernel in ("", n) and name in has[i]]
            if not owners:
                which = f"no kernel `{kernel}` here has it" if kernel else "no kernel here has it"
                known = ", ".join(dict.fromkeys(n for names in has for n in names)) or "none"
                raise ValueError(f"export: {what}[{key!r}]: {which}; there are: {known}")
            listed = list(_values(what, key, values))
            for i in owners:
                rows[i][name] = listed
        return rows

    types = own("dtypes", dtypes, [[*c.dtype_choices()] for c in compilers])
    chosen = own("statics", statics, [[p.name for p in c.source.signature.selectors]
                                      for c in compilers])  # fmt: skip
    options = [Options({}, t, s) for t, s in zip(types, chosen, strict=True)]
    fixed: list[Collection[str]] = [()] * len(compilers)
    if dims:
        fixed = [
            dict.fromkeys(n for spec in specialisations(c, o) for n in c.fixed_dims(spec))
            for c, o in zip(compilers, options, strict=True)
        ]
    return [
        Options(sizes, o.dtypes, o.statics)
        for o, sizes in zip(options, own("dims", dims, fixed), strict=True)
    ]


def _listed(kernels: object) -> list[HasCompiler]:
    if isinstance(compiler := getattr(kernels, "compiler", None), Compiler):
        name = compiler.source.name
        raise TypeError(f"export: expected a list of kernels, got the kernel `{name}` alone")
    if isinstance(kernels, str) or not isinstance(kernels, Iterable):
        raise TypeError(f"export: expected a list of kernels, got {type(kernels).__name__}")
    listed = list(kernels)
    for kernel in listed:
        if not isinstance(getattr(kernel, "compiler", None), Compiler):
            shown = getattr(kernel, "__name__", None) or repr(kernel)
            raise TypeError(f"export: expected a list of kernels, got `{shown}` in it")
    return listed


def write(
    path: str | PathLike[str],
    kernels: Sequence[tuple[Compiler, Options]],
    targets: tuple[str, ...],
) -> None:
    """Compile; write the library, its headers for C and C++ and its stub for Python, each complete
    or not at all."""
    if not targets:
        raise ValueError('export: name at least one target, e.g. "cpu" or "cuda:sm_80"')
    for target in targets:
        check_target(target)
    names = [compiler.source.name for compiler, _ in kernels]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"export: two kernels are called `{name}`")
    rows = [
        (compiler, list(specialisations(compiler, options, targets)))
        for compiler, options in kernels
    ]
    library = _writable(path)
    units = [compiler.unit(specs) for compiler, specs in rows]
    name = re.sub(r"\W", "_", library.stem)
    schedules = {compiler.source.name: compiler.schedule for compiler, _ in kernels}
    variants = variants_of() if "cpu" in targets else ()
    module, _ = build(name, units, variants, images(targets), schedules)
    _publish(library, module.read_bytes(), 0o755)
    for suffix, text in public_headers(name, units).items():
        _publish(library.with_suffix(suffix), text.encode(), 0o644)
    stub_name, types = stub(library.name, units)
    _publish(library.with_name(stub_name), types.encode(), 0o644)


def _writable(path: str | PathLike[str]) -> Path:
    """The library's path, the last folder of it made: nobody waits for a compilation to hear that
    its result cannot be written. Raises ValueError, OSError."""
    library = Path(path)
    if library.suffix in ("", ".h"):
        kind = "is a header's name" if library.suffix else "has no suffix"
        raise ValueError(
            f"export: {str(path)!r} {kind}; write e.g. {str(library.with_suffix('.so'))!r}"
        )
    try:
        # One folder for the output is a service; a chain of them is a path that was mistyped.
        library.parent.mkdir(exist_ok=True)
        if library.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        handle, name = tempfile.mkstemp(dir=library.parent, suffix=".tmp")
        os.close(handle)
        os.unlink(name)
    except OSError as err:
        why = err.strerror
        if isinstance(err, FileNotFoundError) and not library.parent.exists():
            why = f"there is no folder {str(library.parent.parent)!r}; make it first"
        raise OSError(err.errno, f"export: cannot write {str(path)!r}: {why}") from err
    return library


def images(targets: Iterable[str]) -> tuple[Image, ...]:
    """What the CUDA targets are compiled to: machine code of each, and PTX of the oldest for GPUs
    that none of it runs on."""
    archs = [arch_of(target) for target in targets if is_cuda(target)]
    plain = [arch for arch in archs if arch[-1].isdigit()] or archs
    cubins = tuple(Image(arch, "cubin") for arch in dict.fromkeys(archs))
    return (*cubins, Image(min(plain, key=number), "ptx")) if cubins else ()


def specialisations(
    compiler: Compiler, options: Options, targets: Sequence[str] = ("cpu",)
) -> Iterator[Specialisation]:
    """The product of the options, on each target; on the CPU the general variant of each dtype and
    static, too.

    Raises:
        ValueError: CUDA needs a size that `options` do not list.
    """
    for dtypes in _product("dtypes", {**compiler.dtype_choices(), **options.dtypes}):
        for statics in _product("statics", {**compiler.static_choices(), **options.statics}):
            some = [compiler.default(dtypes, statics, s) for s in _product("dims", options.dims)]
            general = compiler.default(dtypes, statics, {})
            for target in targets:
                if is_cuda(target):
                    _check_sized(compiler, general, options)
                    yield from (s.on(target) for s in some)
                else:
                    yield from (s for s in some if s.sizes)
                    yield general


def _check_sized(compiler: Compiler, general: Specialisation, options: Options) -> None:
    missing = [dim for dim in compiler.fixed_dims(general) if dim not in options.dims]
    if missing:
        raise ValueError(
            f"export: CUDA code of `{compiler.source.name}` is for given sizes of {missing[0]}; "
            f'list them, e.g. dims={{"{missing[0]}": [64, 128]}}'
        )


def _product(what: str, table: Mapping[str, Iterable[T]]) -> Iterator[dict[str, T]]:
    """Every assignment of one value a name, in order, without doubles."""
    columns: dict[str, list[T]] = {}
    for name, values in table.items():
        columns[name] = list(dict.fromkeys(_values(what, name, values)))
        if not columns[name]:
            raise ValueError(f"export: {what}[{name!r}] lists no value")
    for row in itertools.product(*columns.values()):
        yield dict(zip(columns, row, strict=True))


def _values(what: str, name: str, values: Iterable[T]) -> Iterable[T]:
    """Raises ValueError for one value that is not in a list."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ValueError(f"export: {what}[{name!r}] must list values, got {values!r}")
    return values


def _publish(target: Path, data: bytes, mode: int) -> None:
    """Write a file by way of one beside it and a rename, so that no reader sees half of it."""
    handle, name = tempfile.mkstemp(dir=target.parent, suffix=".tmp")
    with os.fdopen(handle, "wb") as file:
        file.write(data)
    # mkstemp keeps others out; a library is for everyone who may read the folder.
    os.chmod(name, mode)
    os.replace(name, target)


def named(targets: str | Iterable[str]) -> tuple[str, ...]:
    """Targets as a tuple; one may be given by itself."""
    return (targets,) if isinstance(targets, str) else tuple(targets)
