"""The one door to ninja: from generated texts to one shared library."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ninja

from kdsl import paths
from kdsl.codegen import progress, targets, toolchain
from kdsl.codegen.archs import ARCHS
from kdsl.codegen.device import Image
from kdsl.codegen.device_compile import FLAGS
from kdsl.codegen.render import render
from kdsl.codegen.targets import Compiler, Variant
from kdsl.codegen.toolchain import Toolchain
from kdsl.errors import BuildError

#: Seconds that an interrupted build has to end by itself.
STOP = 5.0


def build(
    sources: Mapping[str, str],
    out_path: Path,
    variants: Sequence[Variant],
    log: Path | None = None,
    images: Sequence[Image] = (),
    *,
    label: str | None = None,
) -> None:
    """Compile and link a module; `out_path` appears complete or not at all.

    Args:
        sources: file names and texts, as `module_sources` gives them. `<name>_cpu.cc` is compiled
            once for each variant, other `.cc` files once.
        log: where the full output of compiler and linker goes when they fail.
        images: what `<name>_cuda.cu` is compiled to.
        label: what a terminal says is being compiled; the module's name when left out.

    Raises:
        BuildError: there is no compiler, or it failed.
    """
    compiler = targets.find_compiler()
    device = toolchain.find_toolchain() if images else None
    out_path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".build-", dir=out_path.parent) as name:
        folder = Path(name)
        for file, text in sources.items():
            (folder / file).write_text(text, encoding="utf-8")
        (folder / "build.ninja").write_text(ninja_text(sources, variants, compiler, images, device))
        name = next((Path(file).stem for file in sources if file.endswith(".cc")), out_path.stem)
        status, output = _run([ninja_path(), "-C", str(folder)], label or name)
        if status != 0:
            raise BuildError(failure(out_path.name, output, sources, kept(output, log)))
        os.replace(folder / "module.so", out_path)


def ptx(sources: Mapping[str, str], name: str, arch: str) -> str:
    """What `<name>_cuda.cu` compiles to for an architecture, as PTX. Raises BuildError."""
    image = Image(arch, "ptx")
    with tempfile.TemporaryDirectory(prefix="kdsl-ptx-") as folder:
        for file, text in sources.items():
            Path(folder, file).write_text(text, encoding="utf-8")
        oldest = "{}.{}".format(*ARCHS[arch])
        options = ["--arch", arch, "--oldest", oldest, "--ptx", image.file(name)]
        command = [*toolchain.find_toolchain().command(), "-I", ".", "-I", str(paths.include_dir())]
        run = subprocess.run(
            [*command, *options, f"{name}_cuda.cu"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
        )
        if run.returncode:
            raise BuildError(failure(name, f"FAILED: .ptx\n{run.stdout}", sources, None))
        return Path(folder, image.file(name)).read_text(encoding="utf-8")


def run_file(folder: Path, text: str, name: str) -> tuple[int, str]:
    """Exit status and output of ninja for a build file of this text, run in `folder`."""
    (folder / "build.ninja").write_text(text, encoding="utf-8")
    return _run([ninja_path(), "-C", str(folder)], name)


def _run(command: Sequence[str], name: str) -> tuple[int, str]:
    """Exit status and output of ninja, with a line on the terminal when it takes its time.

    When the wait is interrupted ninja is told so and awaited: it stops its compilers, and then
    nothing writes to the folder any more.
    """
    # In a group of its own: a Ctrl-C on the terminal reaches Python alone, which decides. Were
    # both to get it, a build of another thread would fail for no reason.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        process_group=0,
    )
    try:
        with progress.line(f"kdsl: compiling {name}") as tick:
            while True:
                try:
                    output, _ = process.communicate(timeout=progress.INTERVAL)
                    return process.returncode, output
                except subprocess.TimeoutExpired:
                    tick()
    except BaseException:
        process.send_signal(signal.SIGINT)
        try:
            process.communicate(timeout=STOP)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
        raise


def kept(output: str, log: Path | None) -> Path | None:
    """The log once it is written; None where there is none or no space for it."""
    if log is not None:
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            log.write_text(output, encoding="utf-8")
        except OSError:
            return None
    return log


def ninja_text(
    sources: Mapping[str, str],
    variants: Sequence[Variant],
    compiler: Compiler,
    images: Sequence[Image] = (),
    device: Toolchain | None = None,
) -> str:
    """The build file. Paths in it are relative to its folder but for the headers'."""
    kernels = [file for file in sources if file.endswith("_cpu.cc")]
    include = shlex.quote(str(paths.include_dir()))
    return render(
        "host/build.ninja.j2",
        cxx=_ninja(shlex.join(compiler.command)),
        include=_ninja(include),
        common=" ".join(targets.COMMON_FLAGS),
        host=" ".join(targets.HOST_FLAGS),
        kernel=" ".join(targets.KERNEL_FLAGS),
        link=" ".join(targets.LINK_FLAGS),
        libraries=" ".join(targets.LIBRARIES),
        hosts=[f for f in sources if f.endswith(".cc") and f not in kernels],
        kernels=kernels,
        variants=variants,
        device=_ninja(f"{shlex.join(device.command())} -I . -I {include}") if device else "",
        codes=[_code(file, images) for file in sources if file.endswith("_cuda.cu")],
        assembly=[file for file in sources if file.endswith(".s")],
    )


@dataclass(frozen=True, slots=True)
class DeviceEdges:
    """How a CUDA file is compiled: for each architecture options, and files that come of it."""

    source: str
    edges: tuple[tuple[str, tuple[str, ...]], ...]

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(file for _, files in self.edges for file in files)


def _code(source: str, images: Sequence[Image]) -> DeviceEdges:
    name = source.removesuffix("_cuda.cu")
    edges = []
    for arch in dict.fromkeys(image.arch for image in images):
        of = [image for image in images if image.arch == arch]
        outs = " ".join(f"--{image.kind} {image.file(name)}" for image in of)
        oldest = "{}.{}".format(*ARCHS[arch])
        edges.append(
            (
                f"--packed --arch {arch} --oldest {oldest} {outs}",
                tuple(image.file(name) for image in of),
            )
        )
    return DeviceEdges(source, tuple(edges))


def flags_text(variants: Sequence[Variant], images: Sequence[Image] = ()) -> str:
    """Every flag that shapes a module, for cache keys."""
    rows = (
        targets.COMMON_FLAGS, targets.HOST_FLAGS, targets.KERNEL_FLAGS, targets.LINK_FLAGS,
        targets.LIBRARIES,
    )  # fmt: skip
    own = [f"{v.name}: {' '.join(v.flags)}" for v in variants]
    if images:
        own += [*map(str, images), " ".join(FLAGS), toolchain.find_toolchain().identity]
    return "\n".join([*map(" ".join, rows), *own])


def ninja_path() -> str:
    """The ninja program of the package of that name."""
    return str(Path(ninja.BIN_DIR) / "ninja")


def failure(module: str, output: str, sources: Mapping[str, str], log: Path | None) -> str:
    """Text of a `BuildError`: the first error, what of the user's it was made from, the log."""
    error = re.compile(r"(?:fatal )?error\s*:|undefined reference|cannot find|not found")
    first = next((line for line in output.splitlines() if error.search(line)), "")
    language = "CUDA" if re.search(r"^FAILED: .*\.(?:cubin|ptx)\b", output, re.M) else "C++"
    text = f"{module}: the {language} compiler failed: {first.strip() or 'it gave no error text'}"
    origin = _origin(first, sources)
    if origin:
        text += f"\nThat code was generated for {origin}."
    if log is not None:
        text += f"\nThe full log is {log}."
    return text


def _origin(error: str, sources: Mapping[str, str]) -> str | None:
    """The mark `// file.py:12` that stands before the place of an error."""
    place = re.match(r"(?:.*/)?([\w.]+)(?::(\d+)(?::\d+)?|\((\d+)\)): ", error)
    if place is not None and place[1].endswith(".py"):
        return f"{place[1]}:{place[2] or place[3]}"  # as #line says
    if place is None or place[2] is None or place[1] not in sources:
        return None
    before = sources[place[1]].splitlines()[: int(place[2])]
    marks = (re.search(r"//.*?(\S+\.py:\d+)", line) for line in reversed(before))
    return next((mark[1] for mark in marks if mark), None)


def _ninja(text: str) -> str:
    """Text as ninja reads it as itself."""
    return text.replace("$", "$$").replace(":", "$:") if "$" in text else text
