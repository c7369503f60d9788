"""What code can be generated for, as data: CPU variants, compiler flags, the compiler there is."""

from __future__ import annotations

import functools
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from kdsl import config
from kdsl.errors import BuildError


@dataclass(frozen=True, slots=True)
class Variant:
    """One compiled form of a module's kernels.

    Attributes:
        name: the suffix of its symbols; `-DKDSL_VARIANT=avx2`.
        architecture: of `platform.machine()`.
        level: the `kdsl::CpuLevel` that the module asks for before it uses this variant.
        features: what /proc/cpuinfo must list.
        vector_bytes: width of a vector register.
        flags: for the compiler.
    """

    name: str
    architecture: str
    level: str
    features: frozenset[str]
    vector_bytes: int
    flags: tuple[str, ...]


_AVX2 = frozenset("avx avx2 fma f16c bmi1 bmi2 abm movbe".split())
_AVX512 = _AVX2 | frozenset("avx512f avx512dq avx512cd avx512bw avx512vl".split())

#: Every variant; within an architecture the most demanding first, the one all CPUs run last.
VARIANTS = (
    Variant(
        "avx512",
        "x86_64",
        "kAvx512",
        _AVX512,
        64,
        ("-march=x86-64-v4", "-mprefer-vector-width=512"),
    ),
    Variant("avx2", "x86_64", "kAvx2", _AVX2, 32, ("-march=x86-64-v3",)),
    Variant("sse2", "x86_64", "kBaseline", frozenset(), 16, ("-march=x86-64",)),
    Variant("neon", "aarch64", "kBaseline", frozenset(), 16, ("-march=armv8-a",)),
)

#: Flags of every C++ file. Generated code needs no C++ library and wraps integers.
COMMON_FLAGS = (
    "-std=c++17",
    "-fPIC",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-fno-threadsafe-statics",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fwrapv",
    "-U_FORTIFY_SOURCE",
)

#: The host side runs once a call: what -O1 would add there costs more than it brings (0.7 s to
#: compile for 0.4).
HOST_FLAGS = ("-Og", "-fno-math-errno")

#: Kernels: what is contracted is written so, and nothing asks for errno or traps.
KERNEL_FLAGS = ("-O2", "-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math")

#: One library that any process may load and never unloads.
LINK_FLAGS = (
    "-shared",
    "-nodefaultlibs",
    "-Wl,-z,nodelete",
    "-Wl,-z,relro",
    "-Wl,-z,defs",
    "-Wl,--as-needed",
    "-Wl,--build-id=none",
    "-Wl,-Bsymbolic",
)

#: libdl is part of libc since glibc 2.34 and then not asked for; libgcc is the static one: a few
#: helpers that the compiler itself calls.
LIBRARIES = ("-lc", "-ldl", "-lgcc")


def architecture() -> str:
    """This machine's, as in `Variant.architecture`."""
    return {"AMD64": "x86_64", "arm64": "aarch64"}.get(platform.machine(), platform.machine())


def variants_of(arch: str | None = None) -> tuple[Variant, ...]:
    """All variants of an architecture (this machine's), the most demanding first.

    Raises:
        BuildError: kdsl has none for it.
    """
    arch = arch or architecture()
    found = tuple(v for v in VARIANTS if v.architecture == arch)
    if not found:
        known = ", ".join(dict.fromkeys(v.architecture for v in VARIANTS))
        raise BuildError(f"kdsl has no CPU code for {arch}; it has {known}")
    return found


def best_variant() -> Variant:
    """The most demanding variant that this machine runs, or what KDSL_VARIANT names.

    Raises:
        BuildError: KDSL_VARIANT names none of this architecture.
    """
    choices = variants_of()
    asked = config.variant()
    if asked is not None:
        for variant in choices:
            if variant.name == asked:
                return variant
        names = ", ".join(v.name for v in choices)
        raise BuildError(f"KDSL_VARIANT={asked}: this architecture has {names}")
    have = cpu_features()
    return next(v for v in choices if v.features <= have)


@functools.cache
def cpu_features() -> frozenset[str]:
    """Feature flags of this CPU that the system lets programs use; empty where it does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler. `identity` changes when the compiler does, without running it."""

    command: tuple[str, ...]
    identity: str


def find_compiler() -> Compiler:
    """The compiler that CXX names, else the first of g++, c++, clang++ on PATH.

    Raises:
        BuildError: there is none; the text says what was tried.
    """
    return _find_compiler(config.compiler(), os.pathsep.join(os.get_exec_path()))


#: Commands that are tried, in this order, where CXX is not set.
COMPILERS = ("g++", "c++", "clang++")

_REMEDY = (
    "Install one (Debian, Ubuntu: apt install g++; Fedora: dnf install gcc-c++; Alpine: apk add "
    "g++ musl-dev; conda: conda install gxx) or set CXX. A library that `kernel.export` wrote "
    "needs no compiler"
)


@functools.cache
def _find_compiler(asked: str | None, path: str) -> Compiler:
    import shlex

    candidates = (asked,) if asked else COMPILERS
    for candidate in candidates:
        words = shlex.split(candidate)
        found = _which(words[0], path) if words else None
        if found:
            real = Path(found).resolve()
            stat = real.stat()
            identity = f"{' '.join(words[1:])} {real} {stat.st_size} {stat.st_mtime_ns}".strip()
            return Compiler((found, *words[1:]), identity)
    if asked:
        raise BuildError(
            f"no C++ compiler: CXX is {asked!r}, which is not on PATH ({path}). {_REMEDY}"
        )
    raise BuildError(
        f"no C++ compiler: CXX is not set, and none of {', '.join(candidates)} is on PATH "
        f"({path}). {_REMEDY}"
    )


def _which(command: str, path: str) -> str | None:
    """`shutil.which`, without an import that costs a cached start several milliseconds."""
    folders = [""] if os.sep in command else path.split(os.pathsep)
    for folder in folders:
        file = os.path.join(folder, command)
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    return None
