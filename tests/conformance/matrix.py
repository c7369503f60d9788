"""kdsl beside apache-tvm-ffi: releases x headers of foreign modules x orders of loading.

    python -m tests.conformance.matrix [RELEASE ...]

Each release gets an environment of its own, kept under .venv/conformance for the next run, and a
library built from foreign.cc with its headers. `foreign/calls.py` then runs in every environment,
and in one that has no apache-tvm-ffi. Prints a line for each run, a table last; exit status 1 says
that a run failed.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent / "foreign"
KEPT = ROOT / ".venv" / "conformance"

RELEASES = ("0.1.3", "0.1.11", "0.1.13.post2", "newest")
#: Headers older than these need C++ functions of the library.
HEADERS = ("0.1.11", "0.1.13.post2", "newest")
ORDERS = ("tvm_ffi", "kdsl,tvm_ffi", "tvm_ffi,kdsl", "late")
ALONE = "none"


def environment(release: str) -> Path:
    """A virtual environment with NumPy and that release of apache-tvm-ffi ("none": without)."""
    folder = KEPT / release
    stamp = folder / "complete"
    if not stamp.exists():
        say(f"making the environment {release}")
        venv.create(folder, with_pip=True, clear=True)
        wanted = ["numpy"]
        if release != ALONE:
            wanted.append("apache-tvm-ffi" + ("" if release == "newest" else f"=={release}"))
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-qq"]
        run([*pip, "--only-binary", ":all:", *wanted])
        stamp.touch()
    return folder


def site(release: str) -> Path:
    (found,) = environment(release).glob("lib/python3*/site-packages")
    return found


def foreign(headers: str) -> Path:
    """foreign.cc as a shared library, compiled with the headers of that release."""
    source = HERE / "foreign.cc"
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    library = environment(headers) / f"foreign-{digest}.so"
    if not library.exists():
        say(f"compiling foreign.cc with the headers of {headers}")
        compile_foreign(site(headers) / "tvm_ffi", library)
    return library


def compile_foreign(package: Path, library: Path) -> None:
    """Compile foreign.cc with the headers of an installed apache-tvm-ffi."""
    dlpack = next(package.rglob("dlpack/dlpack.h")).parent.parent
    command = ["g++", "-std=c++17", "-O0", "-fPIC", "-shared"]
    command += [f"-I{package / 'include'}", f"-I{dlpack}", str(HERE / "foreign.cc")]
    run([*command, "-o", str(library), f"-L{package / 'lib'}", "-ltvm_ffi"])


def hand() -> Path:
    """A module as kdsl makes them, in C."""
    library = KEPT / "hand.so"
    source = ROOT / "tests" / "runtime" / "modules" / "hand.c"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        library.parent.mkdir(parents=True, exist_ok=True)
        command = ["gcc", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden"]
        run([*command, f"-I{ROOT / 'include'}", str(source), "-o", str(library)])
    return library


def run(command: list[str]) -> None:
    subprocess.run(command, check=True)


def call(python: Path, *arguments: object, **variables: str) -> tuple[bool, str]:
    """Run calls.py; whether it went well, and the last line that it printed."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    command = [str(python), "-X", "faulthandler", str(HERE / "calls.py"), *map(str, arguments)]
    try:
        done = subprocess.run(
            command,
            env=kept | {"PYTHONPATH": str(ROOT), **variables},
            capture_output=True,
            text=True,
            timeout=300,
        )
    except subprocess.TimeoutExpired:
        return False, "no end after 300 s"
    if done.returncode == 0:
        return True, done.stdout.strip()
    return False, f"status {done.returncode}\n{done.stderr.strip()}"


def runs(releases: tuple[str, ...]) -> list[tuple[str, str, str]]:
    """(release, order, headers) of every run."""
    headers = [h for h in HEADERS if h in releases] or ["newest"]
    pairs = [(ALONE, "kdsl")] + [(release, order) for release in releases for order in ORDERS]
    return [(release, order, h) for release, order in pairs for h in headers]


def main(releases: tuple[str, ...]) -> int:
    results: dict[tuple[str, str, str], str] = {}
    for release, order, headers in runs(releases):
        started = time.monotonic()
        home = environment(ALONE if order == "late" else release)
        extra = [str(site(release))] if order == "late" else []
        good, text = call(home / "bin" / "python", order, foreign(headers), hand(), *extra)
        result = results[release, order, headers] = text if good else "FAILED"
        took = time.monotonic() - started
        say(f"{release:14} {order:14} headers {headers:14} {result:12} {took:.1f} s")
        if not good:
            say(text)
    print_table(results)
    return 1 if "FAILED" in results.values() else 0


def print_table(results: dict[tuple[str, str, str], str]) -> None:
    """A row for each release and order, a column for each release whose headers were used."""
    columns = list(dict.fromkeys(headers for _, _, headers in results))
    rows = list(dict.fromkeys((release, order) for release, order, _ in results))
    print("\nprovider in use and result; columns: headers that the foreign module was built with")
    print(f"{'apache-tvm-ffi':15}{'order':15}" + "".join(f"{c:16}" for c in columns))
    for release, order in rows:
        cells = "".join(f"{results[release, order, c]:16}" for c in columns)
        print(f"{release:15}{order:15}{cells}".rstrip())


def say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main(tuple(sys.argv[1:]) or RELEASES))
