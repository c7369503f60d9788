"""`kdsl.load_inline`, `kdsl.build`, `kdsl.load`: kernels written by hand in C++, ready to call.

The C++ is TVM FFI's (`<tvm/ffi/tvm_ffi.h>` and its kind), compiled with the headers in `include/`.
What was compiled before is taken from the cache: text, flags, compiler and every header that the
compiler read outside the system's folders are the key.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from kdsl import config, paths, stamp
from kdsl.cache import MODULE, Cache, digest
from kdsl.codegen import targets
from kdsl.errors import BuildError
from kdsl.runtime import Module, load_module

#: For every file; what a caller gives comes behind and wins.
FLAGS = ("-std=c++17", "-O2", "-DTVM_FFI_DLL_EXPORT_INCLUDE_METADATA=1")
LINK_FLAGS = ("-shared", "-Wl,-z,nodelete", "-Wl,-z,defs", "-Wl,--as-needed", "-Wl,--build-id=none")
NVCC_LINK_FLAGS = ("-shared", *(f"-Xlinker {flag[4:]}" for flag in LINK_FLAGS[1:]))

#: The official headers include much of the C++ library, kdsl's next to nothing of it. Text that
#: does not compile for that is compiled once more with all of it.
STD_FLAGS = ("-include", "kdsl/native/std_all.h")
MISSES_STD = re.compile(
    r"error:.*(\bstd\b|was not declared in this scope|does not name a type|incomplete type)"
)

#: Beside a stored module: what the compiler read, and digests of it.
READ = "read.json"

Functions = str | Sequence[str] | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Source:
    """A file to compile. `text` is written into the build's folder; None: it is at `file`."""

    file: str
    text: str | None
    rule: str = "cxx"

    @property
    def object(self) -> str:
        return f"{re.sub(r'[^A-Za-z0-9_.]', '_', self.file)}.o"

    @property
    def path(self) -> str:
        """The file as ninja reads it."""
        return re.sub(r"([$ :])", r"$\1", self.file)

    def content(self) -> str:
        return self.text if self.text is not None else Path(self.file).read_text("utf-8")


@dataclass(frozen=True, slots=True)
class Options:
    """Flags of the compilers and the linker."""

    flags: tuple[str, ...] = ()
    link: tuple[str, ...] = ()
    cuda: tuple[str, ...] = ()


def load_inline(
    name: str,
    cpp: str,
    *,
    functions: Functions = (),
    cuda: str | None = None,
    flags: Sequence[str] = (),
    link: Sequence[str] = (),
    cuda_flags: Sequence[str] = (),
) -> Module:
    """Compile C++ text and load it.

        module = kdsl.load_inline("hello", '''
            void add_one(tvm::ffi::TensorView x, tvm::ffi::TensorView y) { ... }
        ''', functions=["add_one"])
        module.add_one(x, y)

    Args:
        name: of the module, for messages.
        cpp: the text; `<tvm/ffi/tvm_ffi.h>` and the caller's stream and allocator are included.
        functions: of the text that are exported: a name, names, or names and their documentation.
            What the text exports itself needs no mention. Parameters can be passed by name where
            the text names them.
        cuda: CUDA text, compiled with nvcc; the functions in it are declared in `cpp`.
        flags, link, cuda_flags: more flags for the compiler, the linker, nvcc.

    Raises:
        BuildError: there is no compiler, or it failed; the text leads to the line.
        TypeError, ValueError: an argument is none of these.
    """
    _check(name, cpp)
    exported = _named(functions)
    sources = [
        Source(f"{name}.cc", _text(name, cpp, exported, sys._getframe(1).f_code.co_filename))
    ]
    if cuda is not None:
        text = f"#include <tvm/ffi/tvm_ffi.h>\n#include <tvm/ffi/extra/c_env_api.h>\n{cuda}\n"
        sources.append(Source(f"{name}.cu", text, "cuda"))
    return load_module(
        _built(name, sources, Options(_flags(flags), _flags(link), _flags(cuda_flags)))
    )


def build(
    name: str,
    sources: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    flags: Sequence[str] = (),
    link: Sequence[str] = (),
    cuda_flags: Sequence[str] = (),
) -> Path:
    """Compile files of C++ (and `.cu`) into one module; the path of the library, in the cache.

    The files say themselves what they export: `TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add);`. They and
    what they include are watched: a change compiles anew.

    Raises:
        BuildError: there is no compiler, or it failed.
        FileNotFoundError: a source is missing.
        TypeError, ValueError: no name, or no sources.
    """
    _check(name, "")
    given = [sources] if isinstance(sources, (str, PathLike)) else list(sources)
    if not given:
        raise ValueError(f"build: {name!r}: give at least one source file")
    files = [os.path.abspath(os.fspath(source)) for source in given]
    for file in files:
        os.stat(file)
    listed = [Source(file, None, "cuda" if file.endswith(".cu") else "cxx") for file in files]
    return _built(name, listed, Options(_flags(flags), _flags(link), _flags(cuda_flags)))


def load(
    name: str,
    sources: str | PathLike[str] | Iterable[str | PathLike[str]],
    *,
    flags: Sequence[str] = (),
    link: Sequence[str] = (),
    cuda_flags: Sequence[str] = (),
) -> Module:
    """`build`, and the module loaded."""
    return load_module(build(name, sources, flags=flags, link=link, cuda_flags=cuda_flags))


# ---- texts


def _check(name: object, cpp: object) -> None:
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_]\w*", name):
        raise ValueError(f"expected the module's name, an identifier, got {name!r}")
    if not isinstance(cpp, str):
        raise TypeError(f"{name}: expected C++ text, got {type(cpp).__name__}")


def _flags(flags: Sequence[str]) -> tuple[str, ...]:
    if isinstance(flags, str):
        raise TypeError(f"expected a list of flags, got the text {flags!r}; write {flags.split()}")
    return tuple(flags)


def _named(functions: Functions) -> dict[str, str]:
    """Exported functions and their documentation."""
    if isinstance(functions, str):
        functions = [functions]
    named = dict(functions) if isinstance(functions, Mapping) else dict.fromkeys(functions, "")
    for name in named:
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise ValueError(f"functions: expected the name of a C++ function, got {name!r}")
    return named


def _text(name: str, cpp: str, functions: Mapping[str, str], caller: str) -> str:
    lines = [
        "#include <tvm/ffi/tvm_ffi.h>",
        "#include <tvm/ffi/extra/c_env_api.h>",
        _line_mark(name, cpp, caller),
        cpp,
        f'#line 1 "functions of {name}"',
    ]
    for function, doc in functions.items():
        names = ", ".join(parameter_names(cpp, function))
        lines.append(f'KDSL_EXPORT_TYPED_FUNC({function}, {function}, "{names}");')
        if doc:
            lines.append(f"TVM_FFI_DLL_EXPORT_TYPED_FUNC_DOC({function}, {json.dumps(doc)})")
    return "\n".join(lines) + "\n"


def _line_mark(name: str, cpp: str, caller: str) -> str:
    """Where the text begins, so that the compiler speaks of the user's lines."""
    try:
        around = Path(caller).read_text(encoding="utf-8")
    except (OSError, ValueError):
        around = ""
    start = around.find(cpp) if cpp.strip() else -1
    if start < 0:
        return f'#line 1 "{name}.cpp"'
    return f"#line {around.count(chr(10), 0, start) + 1} {json.dumps(caller)}"


def parameter_names(cpp: str, function: str) -> list[str]:
    """The names of a C++ function's parameters; none where the text does not tell all.

    Example:
        >>> parameter_names("int f(const int* x, std::array<int, 2> y = {}) {}", "f")
        ['x', 'y']
    """
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", cpp, flags=re.DOTALL)
    for found in re.finditer(rf"[\w>*&\]]\s+[*&]*{function}\s*\(", text):
        inside, end = _bracketed(text, found.end())
        if re.match(r"\s*(noexcept)?\s*[{;]", text[end:]):
            names = [_name_of(p) for p in inside if p.strip()]
            return [n for n in names if n] if all(names) else []
    return []


def _bracketed(text: str, start: int) -> tuple[list[str], int]:
    """What stands between brackets, split at its commas, and where the closing one ends."""
    parts, depth = [""], 0
    for at in range(start, len(text)):
        char = text[at]
        if char == ")" and depth == 0:
            return parts, at + 1
        depth += (char in "(<[{") - (char in ")>]}")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [], len(text)


def _name_of(parameter: str) -> str | None:
    declared = parameter.partition("=")[0].strip()
    found = re.search(r"[\s*&>]([A-Za-z_]\w*)\s*(\[[^\]]*\])*$", declared)
    types = {"int", "float", "double", "bool", "char", "long", "short", "unsigned", "const"}
    return found[1] if found and found[1] not in types else None


# ---- building


def _built(name: str, sources: Sequence[Source], options: Options) -> Path:
    compiler = targets.find_compiler()
    nvcc = _find_nvcc() if any(s.rule == "cuda" for s in sources) else None
    texts = [part for s in sources for part in (s.file, s.rule, s.content())]
    given = [json.dumps([options.flags, options.link, options.cuda, FLAGS, LINK_FLAGS])]
    key = digest([name, *texts, *given, compiler.identity, nvcc or "", stamp.headers()])
    cache = Cache(config.cache_dir())
    while (found := cache.find(key)) is not None:
        recorded = _recorded(found.parent / READ)
        states = {file: _state(file) for file in recorded}
        if states == recorded:
            return found
        # A header has changed since: that is another module.
        key = digest([key, *(f"{file} {state}" for file, state in sorted(states.items()))])

    def compile_in(folder: Path) -> None:
        _compile(folder, name, sources, options, compiler, nvcc, cache.failed(key) / "build.log")

    return cache.publish(key, compile_in)


def _compile(
    folder: Path,
    name: str,
    sources: Sequence[Source],
    options: Options,
    compiler: targets.Compiler,
    nvcc: str | None,
    log: Path,
) -> None:
    from kdsl.codegen import build as door
    from kdsl.codegen.render import render

    for source in sources:
        if source.text is not None:
            (folder / source.file).write_text(source.text, encoding="utf-8")
    command, include = shlex.join(compiler.command), shlex.quote(f"-I{paths.include_dir()}")

    def build_with(*more: str) -> tuple[int, str]:
        text = render(
            "host/native.ninja.j2",
            cxx=command,
            flags=shlex.join([*FLAGS, "-fPIC", "-fvisibility=hidden"])
            + f" {include} {shlex.join([*more, *options.flags])}",
            nvcc=nvcc,
            cuda_flags=shlex.join([*FLAGS, "-Xcompiler", "-fPIC,-fvisibility=hidden"])
            + f" {include} {shlex.join(options.cuda)}",
            linker=nvcc or command,
            link=" ".join(NVCC_LINK_FLAGS if nvcc else LINK_FLAGS) + f" {shlex.join(options.link)}",
            sources=sources,
        )
        return door.run_file(folder, text, name)

    status, output = build_with()
    if status != 0 and MISSES_STD.search(output):
        status, output = build_with(*STD_FLAGS)
    if status != 0:
        raise BuildError(_failure(name, output, door.kept(output, log)))
    read = {file: _state(file) for file in _read_files(folder, [s.object for s in sources])}
    (folder / READ).write_text(json.dumps(read), encoding="utf-8")
    for path in folder.iterdir():
        if path.name not in (MODULE, READ) and not config.keep_sources():
            path.unlink() if path.is_file() else None


def _failure(name: str, output: str, log: Path | None) -> str:
    """The first error that the compiler or the linker tells, and where all of them are."""
    error = re.compile(r"(?:fatal )?error:|undefined reference|cannot find|not found")
    first = next((line.strip() for line in output.splitlines() if error.search(line)), "")
    text = f"{name}: the C++ compiler failed: {first or 'it gave no error text'}"
    return f"{text}\nThe full log is {log}." if log is not None else text


def _read_files(folder: Path, objects: Iterable[str]) -> set[str]:
    """Headers that the compiler read, but for the system's, kdsl's own and the build's."""
    found: set[str] = set()
    for name in objects:
        file = folder / f"{name}.d"
        if file.exists():
            text = file.read_text(encoding="utf-8").partition(": ")[2].replace("\\\n", " ")
            found |= {os.path.join(folder, word) for word in re.split(r"(?<!\\)\s+", text) if word}
    known = ("/usr/", f"{paths.include_dir()}{os.sep}", f"{folder}{os.sep}")
    return {file for file in found if not file.startswith(known)}


def _recorded(file: Path) -> dict[str, str]:
    try:
        read: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return read


def _state(file: str) -> str:
    """A digest of a file's text; empty where it cannot be read."""
    try:
        return digest([Path(file).read_bytes().hex()])
    except OSError:
        return ""


def _find_nvcc() -> str:
    for folder in (*os.get_exec_path(), "/usr/local/cuda/bin"):
        file = os.path.join(folder, "nvcc")
        if os.access(file, os.X_OK):
            return file
    raise BuildError(
        "cuda text needs nvcc, which is not on PATH; install the CUDA toolkit, or leave out `cuda`"
    )
