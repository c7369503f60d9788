"""The command line: `python -m kdsl --help`."""

from __future__ import annotations

import argparse
import ast
import importlib.util
import json
import shlex
import sys
import textwrap
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from kdsl import config, doctor, inspection, paths
from kdsl.cache import Cache
from kdsl.dtypes import DTYPES, DType
from kdsl.frontend.signature import Signature
from kdsl.kernel import Kernel
from kdsl.lang.races import Race
from kdsl.runtime import elf
from kdsl.version import VERSION


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except BrokenPipeError:
        # Whoever reads has seen enough (`kdsl show ... | head`); nor may the interpreter complain.
        sys.stderr.close()
        return 1
    except Exception as err:
        if not isinstance(err, (ValueError, TypeError, OSError, RuntimeError, SyntaxError)):
            raise
        print(f"kdsl: {err}", file=sys.stderr)
        return 1
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kdsl",
        description="A kernel language inside Python: look at kernels, modules and this machine.",
        epilog="`kdsl COMMAND --help` has examples of each command.",
    )
    parser.add_argument("--version", action="version", version=f"kdsl {VERSION}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        name: str, help: str, description: str, examples: Sequence[str]
    ) -> argparse.ArgumentParser:
        lines = "\n".join(f"  python -m kdsl {example}" for example in examples)
        added = commands.add_parser(
            name,
            help=help,
            description=textwrap.fill(description, 78),
            epilog=f"examples:\n{lines}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        added.add_argument("--json", action="store_true", help="print JSON, for programs")
        return added

    show = command(
        "show",
        "print what a kernel becomes",
        "Print a stage of a kernel's compilation; no compiler runs but for PTX.",
        (
            "show attention.py:attention",
            "show attention.py:attention cpu --dtypes T=bf16 --dims D=128",
            "show attention.py:attention plan --statics causal=True",
            "show softmax.py:softmax cuda:sm_80",
        ),
    )
    show.add_argument("kernel", metavar="FILE:KERNEL", help="e.g. attention.py:attention")
    show.add_argument(
        "what",
        nargs="?",
        default="ir",
        metavar="WHAT",
        help="ir, plan, explain, cpu, host, cuda:sm_80 or ptx:sm_80: typed program, loops and "
        "vectors, these in words, C++ of the kernel, of its entry, CUDA code, what it compiles to",
    )
    for option, metavar, help in (
        ("--dtypes", "T=f16", "dtype variables; f32 or the first choice when left out"),
        ("--statics", "NAME=VALUE", "static parameters, as Python literals"),
        ("--dims", "D=64", "sizes of fixed dims; any size when left out"),
    ):
        show.add_argument(option, nargs="+", default=[], metavar=metavar, help=help)
    show.set_defaults(run=_show)

    check = command(
        "check",
        "run a kernel's CUDA code on the simulated GPU and look for mistakes",
        "Random inputs, three schedules: races, accesses out of bounds, missing waits, barriers, "
        "reads of what nothing wrote, and the outputs against the reference. No GPU is used. The "
        "exit status is 1 when something is found. From Python: kernel.check_cuda(*inputs).",
        (
            "check softmax.py:softmax",
            "check attention.py:attention --dims M=300 N=77 D=64 --dtypes T=f16",
            "check scatter.py:scatter --values ids=permutation",
        ),
    )
    check.add_argument("kernel", metavar="FILE:KERNEL", help="e.g. attention.py:attention")
    for option, metavar, help in (
        ("--dtypes", "T=f16", "dtype variables; their first choice when left out"),
        ("--dims", "M=300", "sizes; small ones for those left out"),
        (
            "--values",
            "scale=0.125",
            "scalars and statics, as Python literals, else default or 1; tensors, as lists, "
            "FILE.npy, arange, permutation, zeros or ones, else random",
        ),
    ):
        check.add_argument(option, nargs="+", default=[], metavar=metavar, help=help)
    check.set_defaults(run=_check)

    check = command(
        "doctor",
        "say what kdsl finds on this machine",
        "Report Python, packages, compiler, CPU and cache, and try to compile. The exit status is "
        "1 when something is missing that kdsl needs; the report says what to do about it.",
        ("doctor", "doctor --json"),
    )
    check.set_defaults(run=_doctor)

    cache = command(
        "cache",
        "the disk cache of compiled kernels",
        "dir: where it is; size: how much it holds; list: its modules, the newest last; clear: "
        "remove all of them.",
        ("cache size", "cache list --json", "cache clear"),
    )
    cache.add_argument("action", choices=("dir", "size", "list", "clear"))
    cache.set_defaults(run=_cache)

    settings = command(
        "config",
        "environment variables that kdsl reads",
        "Each variable with its value, whether it is set or a default, and what it means.",
        ("config", "KDSL_KEEP=1 python -m kdsl config"),
    )
    settings.add_argument(
        "--cflags", action="store_true", help="print compiler flags for hand-written kernels"
    )
    settings.add_argument(
        "--includedir", action="store_true", help="print the folder of kdsl's headers"
    )
    settings.set_defaults(run=_config)

    inspect = command(
        "inspect",
        "what a compiled module holds",
        "Print functions, signatures, targets and sizes of any TVM FFI module. Modules that kdsl "
        "did not make are not loaded unless told so: their names are known, their signatures not. "
        "One that says kdsl made it is loaded, so let it be one that you would run.",
        ("inspect attention.so", "inspect attention.so --json", "inspect foreign.so --load"),
    )
    inspect.add_argument("file", metavar="FILE.so")
    inspect.add_argument(
        "--load", action="store_true", help="load it whoever made it, and ask for signatures"
    )
    inspect.set_defaults(run=_inspect)
    return parser


def _show(arguments: argparse.Namespace) -> int:
    kernel = _load(arguments.kernel)
    dtypes = {name: _dtype(value) for name, value in _pairs(arguments.dtypes).items()}
    statics = {name: _literal(name, value) for name, value in _pairs(arguments.statics).items()}
    dims = {name: _size(name, value) for name, value in _pairs(arguments.dims).items()}
    if arguments.what == "explain":
        text = kernel.explain(dtypes=dtypes, statics=statics, dims=dims)
    else:
        text = kernel.show(arguments.what, dtypes=dtypes, statics=statics, dims=dims)
    facts = {"kernel": kernel.signature, "what": arguments.what, "text": text}
    return _print(arguments, facts, text.rstrip("\n"))


def _check(arguments: argparse.Namespace) -> int:
    from kdsl import cuda_check

    kernel = _load(arguments.kernel)
    dtypes = {name: _dtype(value) for name, value in _pairs(arguments.dtypes).items()}
    values: dict[str, object] = {
        name: value
        if value in cuda_check.CONTENTS or value.endswith(".npy")
        else _literal(name, value)
        for name, value in _pairs(arguments.values).items()
    }
    dims = {name: _size(name, value) for name, value in _pairs(arguments.dims).items()}
    signature = kernel.compiler.source.signature
    inputs = cuda_check.random_inputs(signature, dtypes=dtypes, dims=dims, values=values)
    try:
        report = cuda_check.compare(signature, kernel, kernel.reference, (), inputs, say=_progress)
    except (Race, IndexError) as err:
        # The reference ran into it. With other inputs the kernel may be right.
        raise ValueError(
            f"{_where(err, arguments.kernel)}{err}; {_hint(signature, values)}"
        ) from None
    finally:
        _progress("")
    _print(
        arguments, {"kernel": kernel.signature, "ok": report.ok, "text": str(report)}, str(report)
    )
    return 0 if report.ok else 1


def _progress(text: str) -> None:
    """What runs now, on a line of a terminal that the next one takes; "": nothing more."""
    if sys.stderr.isatty():
        shown = f"kdsl: {text} ..." if text else ""
        print(f"\r\033[K{shown}", end="", file=sys.stderr, flush=True)


def _where(err: BaseException, place: str) -> str:
    """`scatter.py:12: `, the innermost line of the kernel's file that an error came through."""
    file = place.rpartition(":")[0]
    lines = [
        f.lineno
        for f in traceback.extract_tb(err.__traceback__)
        if Path(f.filename).name == Path(file).name
    ]
    return f"{file}:{lines[-1]}: " if lines else ""


def _hint(signature: Signature, values: Mapping[str, object]) -> str:
    """How to give the inputs that an index may come from."""
    tensors = [p for p in signature.of_kind("in", "inout") if p.is_tensor and p.name not in values]
    whole = [p.name for p in tensors if isinstance(p.tensor.dtype, DType) and p.tensor.dtype.is_int]
    if not whole:
        return "the inputs were random: kernel.check_cuda(*inputs) takes your own"
    return (
        f"{', '.join(f'`{name}`' for name in whole)} held random integers: give others, e.g. "
        f"--values {whole[0]}=permutation, or a list or FILE.npy"
    )


def _doctor(arguments: argparse.Namespace) -> int:
    findings = doctor.examine()
    missing = [finding.name for finding in findings if finding.state == "missing"]
    facts = {"ok": not missing, "findings": [asdict(finding) for finding in findings]}
    verdict = f"missing: {', '.join(missing)}" if missing else "kernels can be compiled here"
    _print(arguments, facts, "\n".join([*map(str, findings), verdict]))
    return 1 if missing else 0


def _cache(arguments: argparse.Namespace) -> int:
    folder = config.cache_dir()
    cache = Cache(folder)
    match arguments.action:
        case "dir":
            return _print(arguments, {"dir": str(folder)}, str(folder))
        case "size":
            modules, size = cache.size()
            facts: Mapping[str, object] = {"dir": str(folder), "modules": modules, "bytes": size}
            return _print(arguments, facts, f"{folder}: {modules} modules, {size / 1e6:.1f} MB")
        case "list":
            rows = [_module(path) for path in cache.modules()]
            lines = [f"{r['made']}  {r['bytes']:>9}  {r['functions']}  {r['file']}" for r in rows]
            return _print(arguments, rows, "\n".join(lines) or f"{folder}: no modules")
    count = cache.clear()
    return _print(arguments, {"removed": count}, f"removed {count} modules")


def _module(path: Path) -> dict[str, object]:
    """A module of the cache: when it was made, its size, the names of its functions."""
    status = path.stat()
    names = [name for name in elf.read(str(path)).defined if name.startswith("__tvm_ffi_")]
    plain = [name[len("__tvm_ffi_") :] for name in names if not name.startswith("__tvm_ffi__")]
    made = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status.st_mtime))
    functions = ", ".join(sorted(plain))
    return {"file": str(path), "made": made, "bytes": status.st_size, "functions": functions}


def _config(arguments: argparse.Namespace) -> int:
    include = str(paths.include_dir())
    if arguments.includedir or arguments.cflags:
        print(include if arguments.includedir else shlex.join(["-std=c++17", f"-I{include}"]))
        return 0
    rows = config.settings()
    lines = [
        f"{row['name']} = {row['value']} ({row['source']})\n    {row['meaning']}" for row in rows
    ]
    lines += [f"WRONG {problem}" for problem in config.problems()]
    lines += [f"UNKNOWN {name}: nothing reads it" for name in config.unknown()]
    return _print(arguments, rows, "\n".join(lines))


def _inspect(arguments: argparse.Namespace) -> int:
    facts = inspection.inspect(arguments.file, load=arguments.load)
    return _print(arguments, facts, inspection.text(facts))


def _print(arguments: argparse.Namespace, facts: object, text: str) -> int:
    print(json.dumps(facts, indent=2) if arguments.json else text, flush=True)
    return 0


def _pairs(words: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE words as a table. Raises ValueError."""
    for word in words:
        if "=" not in word:
            raise ValueError(f"expected NAME=VALUE, got {word!r}")
    return {name: value for name, _, value in (word.partition("=") for word in words)}


def _dtype(name: str) -> DType:
    if name not in DTYPES:
        raise ValueError(f"no dtype is called {name!r}; there are: {', '.join(DTYPES)}")
    return DTYPES[name]


def _literal(name: str, text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        raise ValueError(f"{name}: {text!r} is no Python literal") from None


def _size(name: str, text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{name}: a size is a number, got {text!r}")
    return int(text)


def _load(place: str) -> Kernel:
    """The kernel that FILE:NAME names. Raises ValueError."""
    name, _, attribute = place.rpartition(":")
    path = Path(name)
    if not name and Path(place).is_file():
        name, path, attribute = place, Path(place), ""
    elif not path.is_file():
        name = name or place
        raise ValueError(f"no file {name!r}; give FILE:KERNEL, e.g. attention.py:attention")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{name} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))
    spec.loader.exec_module(module)
    kernel = getattr(module, attribute, None)
    if not isinstance(kernel, Kernel):
        kernels = [key for key, value in vars(module).items() if isinstance(value, Kernel)]
        if not attribute:
            raise ValueError(
                f"expected FILE:KERNEL, got {place!r}; {name} has {', '.join(kernels) or 'none'}"
            )
        raise ValueError(
            f"{name} has no kernel {attribute!r}; it has {', '.join(kernels) or 'none'}"
        )
    return kernel


if __name__ == "__main__":
    sys.exit(main())
