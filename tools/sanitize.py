"""Build the runtime's C core with a sanitizer and run its tests and a stress run under it.

    python -m tools.sanitize address      AddressSanitizer and UndefinedBehaviorSanitizer: the tests
    python -m tools.sanitize thread       ThreadSanitizer: 16 threads, for a minute

Python itself is not instrumented, so nothing is suppressed: what is reported is the core's doing.
CPython's free lists are off (PYTHONMALLOC=malloc), and leaks are not asked for here, since CPython
leaves much behind at its end; `python -m tools.memory` looks for leaks.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILT = ROOT / "build" / "sanitize"
RUNTIME = Path("kdsl", "runtime")

#: Sanitizer: (compiler flags, library to load first, its options).
KINDS: Mapping[str, tuple[tuple[str, ...], str, Mapping[str, str]]] = {
    "address": (
        ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
        "libasan.so",
        {
            "ASAN_OPTIONS": "detect_leaks=0:detect_odr_violation=0:abort_on_error=0:"
            "allocator_may_return_null=1:handle_segv=0",
            "UBSAN_OPTIONS": "print_stacktrace=1",
        },
    ),
    "thread": (
        ("-fsanitize=thread",),
        "libtsan.so",
        {"TSAN_OPTIONS": "halt_on_error=0:exitcode=66:report_signal_unsafe=0:history_size=4"},
    ),
}
COMMON = ("-std=gnu11", "-O1", "-g", "-fno-omit-frame-pointer", "-fPIC", "-fvisibility=hidden")


def _compile(out: Path, sources: Sequence[Path], flags: Sequence[str]) -> None:
    newest = max(path.stat().st_mtime for path in sources)
    headers = [*ROOT.glob("kdsl/runtime/*/*.h"), *ROOT.glob("include/kdsl/ffi/*.h")]
    newest = max(newest, *(path.stat().st_mtime for path in headers))
    if out.exists() and out.stat().st_mtime > newest:
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    print(f"building {out.relative_to(ROOT)}", flush=True)
    command = ["gcc", "-shared", *flags, *map(str, sources), "-o", str(out)]
    subprocess.run(command, check=True)


def build(kind: str) -> Path:
    """A folder like the checkout, whose package has its libraries with the sanitizer."""
    flags, _, _ = KINDS[kind]
    tree = BUILT / kind
    here, runtime = ROOT / RUNTIME, tree / RUNTIME
    if (tree / "kdsl").exists():
        for link in [*(tree / "kdsl").iterdir(), *runtime.iterdir()]:
            if link.is_symlink():
                link.unlink()
    (runtime / "compat").mkdir(parents=True, exist_ok=True)
    for name in ("tests", "tools", "examples", "include", "templates", "pyproject.toml"):
        if not (tree / name).exists():
            (tree / name).symlink_to(ROOT / name)
    for path in (ROOT / "kdsl").iterdir():
        if path.name != "runtime":
            (tree / "kdsl" / path.name).symlink_to(path)
    for path in here.iterdir():
        if path.suffix != ".so" and path.name not in ("compat", "__pycache__"):
            (runtime / path.name).symlink_to(path)
    common = [*COMMON, *flags, "-DPy_LIMITED_API=0x030A0000", f"-I{ROOT / 'include'}"]
    common += [f"-I{here / 'csrc'}", f"-I{sysconfig.get_path('include')}", "-Wl,-Bsymbolic"]
    core = sorted((here / "csrc").glob("*.c"))
    _compile(runtime / "_core.abi3.so", core, common)
    compat = sorted((here / "compat").glob("*.c"))
    compat += [here / "csrc" / name for name in ("loaded.c", "map.c", "sequence.c")]
    soname = ["-Wl,-z,nodelete", "-Wl,-soname,libtvm_ffi.so"]
    _compile(runtime / "compat" / "libtvm_ffi.so", compat, [*common, *soname])
    return tree


def _library(name: str) -> str:
    """The path of one of the compiler's libraries."""
    ask = ["gcc", f"-print-file-name={name}"]
    return subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()


def environment(kind: str, tree: Path) -> dict[str, str]:
    """What a Python needs to run with that build."""
    _, library, chosen = KINDS[kind]
    # To files: pytest takes hold of stderr.
    options = {name: f"{text}:log_path={tree / 'report'}" for name, text in chosen.items()}
    # JAX throws C++ exceptions: what intercepts them must find the library that they come from.
    first = " ".join(map(_library, (library, "libstdc++.so.6")))
    found = {**os.environ, **options, "PYTHONPATH": str(tree), "LD_PRELOAD": first}
    found |= {"PYTHONMALLOC": "malloc", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**found, "KDSL_RUNTIME": "bundled"} if kind == "thread" else found


def run(kind: str, tree: Path, command: Sequence[str]) -> None:
    """Run Python with that build; a report ends it, and us."""
    # ThreadSanitizer's shadow memory does not go with all random layouts of an address space.
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    for old in tree.glob("report.*"):
        old.unlink()
    print("running", *command, flush=True)
    full = [*fixed, sys.executable, "-X", "faulthandler", *command]
    code = subprocess.run(full, env=environment(kind, tree), cwd=tree).returncode
    reports = [path.read_text(errors="replace") for path in sorted(tree.glob("report.*"))]
    if code or reports:
        print("\n".join(reports)[:20000], file=sys.stderr)
        raise SystemExit(f"{kind}: exit status {code}, {len(reports)} reports in {tree}")
    print(f"{kind}: no report", flush=True)


#: Not under a sanitizer: other Pythons, processes that end on purpose, what a build for users links
#: with, and how much memory is in use: freed memory is kept for a while. Children of a process with
#: threads start none: AddressSanitizer's list of threads is locked for good.
LEFT_OUT = (
    "not each_python and not end_of_python and not runtime_imports and not stack"
    " and not brings_no_other and not recursion and not c_library_alone"
    " and not leave_the_memory and not leave_no_memory and not forked_in_the_middle"
)


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--seconds", type=float, default=60, help="of stress (%(default)s)")
    parser.add_argument("--tests", nargs="*", default=["tests/runtime"], help="for address")
    options = parser.parse_args()
    tree = build(options.kind)
    flags = " ".join(KINDS[options.kind][0])
    if options.kind == "address" and options.tests:
        chosen = ["-q", "-k", LEFT_OUT, *options.tests]
        run(options.kind, tree, ["-m", "pytest", *chosen])
    stress = ["tools/stress.py", f"--seconds={options.seconds}", f"--cflags={flags}"]
    run(options.kind, tree, stress)


if __name__ == "__main__":
    main()
