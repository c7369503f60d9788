"""A program of its own: compiles one CUDA file for one architecture, with NVRTC or nvcc.

    python device_compile.py --nvrtc libnvrtc.so.13 --arch sm_80 -I include --ptx a.ptx a.cu

It runs in a process of its own so that it can be stopped at any time, and needs nothing but the
standard library. PTX is written for the oldest version that has what it uses: a driver reads PTX of
its own age and older.
"""

from __future__ import annotations

import ctypes
import os
import re
import struct
import subprocess
import sys
import zlib
from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

#: What is contracted or flushed is written so.
FLAGS = ("-std=c++17", "--fmad=false")
#: Lines of the author's: for PTX that is read by tools. In machine code they weigh more than it.
LINES = "-lineinfo"

#: PTX that an architecture needs is in `archs.ARCHS`; this is what instructions need beyond it.
_NEEDS = (
    ((7, 1), r"\bmma\.sync\S*\.sp\b"),
    ((7, 4), r"\.L2::|\.L1::|\bcreatepolicy\b"),
    ((7, 7), r"\bcvta\.param\b"),
    ((7, 8), r"\b(?:tanh|ex2)\.approx\S*\.bf16|\bstmatrix\b|\batom\S*\.bf16|\bred\S*\.bf16"),
    ((7, 8), r"\bcvt\S*\.(?:e4m3|e5m2)x2|\bsetmaxnreg\b|\bbarrier\.cluster\b|\b\w+\.bf16x2?\b"),
    ((8, 0), r"\bwgmma\.|\bcp\.async\.bulk\b|\bmbarrier\.\S*(?:expect_tx|try_wait)"),
    ((8, 1), r"\bmma\.sync\S*\.(?:e4m3|e5m2)|\bcvt\S*\.(?:e4m3|e5m2)x2\S*\.f16x2"),
    ((8, 6), r"\btcgen05\.|\bmulticast::cluster\b"),
)


def lowered(ptx: str, oldest: tuple[int, int]) -> str:
    """PTX for the oldest version, 7.0 and `oldest` at least, that has all its instructions."""
    needed = max(oldest, (7, 0))
    for version, pattern in _NEEDS:
        if version > needed and re.search(pattern, ptx):
            needed = version

    def older(line: re.Match[str]) -> str:
        written = int(line[1]), int(line[2])
        return ".version {}.{}".format(*min(needed, written))

    return re.sub(r"^\.version (\d+)\.(\d+)", older, ptx, count=1, flags=re.MULTILINE)


def without_folders(text: str, folders: Sequence[str]) -> str:
    """PTX whose `.file` lines name files from these folders on: the same text on every machine."""
    roots = "|".join(re.escape(os.path.abspath(f)) for f in folders)
    return re.sub(rf'^(\s*\.file\s+\d+ ")(?:{roots})/', r"\1", text, flags=re.MULTILINE)


def without_folders_in_code(code: bytes, folders: Sequence[str]) -> bytes:
    """The same of machine code, where nothing may move: a folder becomes as many `./`."""
    for folder in sorted((os.path.abspath(f) for f in folders), key=len, reverse=True):
        size = len(os.fsencode(folder))
        dots = b"." + b"/." * ((size - 1) // 2) + b"/" * ((size - 1) % 2)
        code = code.replace(os.fsencode(folder), dots)
    return code


def without_section(code: bytes, name: bytes) -> bytes:
    """Machine code (ELF) with zeros in place of a section; as it is where that cannot be found."""
    if code[:5] != b"\x7fELF\x02":
        return code
    (table,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    rows = [struct.unpack_from("<IIQQQQ", code, table + i * size) for i in range(count)]
    for row in rows:
        start = rows[names][4] + row[0]
        if code[start : code.index(b"\0", start)] == name:
            offset, length = row[4], row[5]
            return code[:offset] + bytes(length) + code[offset + length :]
    return code


def packed(data: bytes) -> bytes:
    """How data lies in a module: its size, that of the rest, and itself as deflate packs it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15, 9)
    rest = packer.compress(data) + packer.flush()
    return struct.pack("<QQ", len(data), len(rest)) + rest


def write(path: str, data: bytes, kind: str, pack: bool) -> None:
    """Write what was compiled. A module has no use for the PTX that machine code carries along."""
    if pack and kind == "ptx":
        data += b"\0"
    elif pack:
        data = without_section(data, b".nv_debug_ptx_txt")
    with open(path, "wb") as file:
        file.write(packed(data) if pack else data)


class Failed(Exception):
    """The compiler's own words."""


class Nvrtc:
    """NVRTC, loaded from a file."""

    def __init__(self, path: str) -> None:
        folder = os.path.dirname(os.path.abspath(path))
        # It looks for its other half by name alone, and finds what is loaded.
        for name in sorted(os.listdir(folder)):
            if name.startswith("libnvrtc-builtins.so"):
                ctypes.CDLL(os.path.join(folder, name), mode=ctypes.RTLD_GLOBAL)
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def compile(
        self, source: str, name: str, options: Sequence[str], kinds: Sequence[str]
    ) -> list[bytes]:
        """What `source` compiles to, in these kinds. Raises Failed."""
        library, program = self._library, ctypes.c_void_p()
        created = library.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), name.encode(), 0, None, None
        )
        self._check(created, "nvrtcCreateProgram")
        arguments = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
        result = library.nvrtcCompileProgram(program, len(options), arguments)
        log = self._get(program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
        if result:
            raise Failed(log or self._words(result))
        sys.stderr.write(log)
        return [self._get(program, {"ptx": "PTX", "cubin": "CUBIN"}[kind]) for kind in kinds]

    def _get(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        asked = getattr(self._library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        self._check(asked, f"nvrtcGet{what}Size")
        data = ctypes.create_string_buffer(size.value)
        self._check(getattr(self._library, f"nvrtcGet{what}")(program, data), f"nvrtcGet{what}")
        return data.raw

    def _words(self, result: int) -> str:
        return str(self._library.nvrtcGetErrorString(result).decode())

    def _check(self, result: int, function: str) -> None:
        if result:
            raise Failed(f"error: {function}: {self._words(result)}")


def with_nvcc(
    nvcc: str, arch: str, source: str, includes: Sequence[str], out: str, flags: Sequence[str]
) -> None:
    """PTX of a file, as nvcc writes it. Raises Failed."""
    options = [f"--gpu-architecture={arch.replace('sm_', 'compute_')}", *FLAGS, *flags]
    _run([nvcc, "--ptx", *options, *(f"-I{i}" for i in includes), source, "-o", out])


def assemble(nvcc: str, arch: str, ptx: str, out: str) -> None:
    """Machine code of PTX. Raises Failed."""
    ptxas = os.path.join(os.path.dirname(os.path.realpath(nvcc)), "ptxas")
    if os.access(ptxas, os.X_OK):  # what nvcc would do, without its own start
        _run([ptxas, f"--gpu-name={arch}", ptx, "-o", out])
    else:
        _run([nvcc, "--cubin", f"--gpu-architecture={arch}", ptx, "-o", out])


def _run(command: Sequence[str]) -> None:
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode:
        raise Failed(f"{run.stdout}{run.stderr}".strip() or f"error: exit status {run.returncode}")
    sys.stderr.write(run.stderr)


def main(arguments: Sequence[str] | None = None) -> int:
    import argparse

    parser = argparse.ArgumentParser(description="compile one CUDA file for one architecture")
    parser.add_argument("--nvrtc")
    parser.add_argument("--nvcc")
    parser.add_argument("--arch", required=True)
    parser.add_argument("--oldest", default="7.0", help="PTX that knows the architecture")
    parser.add_argument("-I", dest="includes", action="append", default=[])
    parser.add_argument("--ptx")
    parser.add_argument("--cubin")
    parser.add_argument("--packed", action="store_true", help="as modules hold it")
    parser.add_argument("source")
    args = parser.parse_args(arguments)
    major, _, minor = args.oldest.partition(".")
    oldest = int(major), int(minor)
    try:
        if args.nvrtc:
            _nvrtc_files(args, oldest)
        else:
            _nvcc_files(args, oldest)
    except (Failed, OSError) as err:
        text = str(err)
        print(text if "error" in text else f"error: {text}")
        return 1
    return 0


def _nvrtc_files(args: argparse.Namespace, oldest: tuple[int, int]) -> None:
    with open(args.source, encoding="utf-8") as file:
        source = file.read()
    includes = [f"-I{i}" for i in args.includes]
    # What stands in a kernel runs there, lambdas too: nvcc takes that for granted.
    lines = [] if args.cubin else [LINES]
    options = [f"--gpu-architecture={args.arch}", *FLAGS, *lines, "-default-device", *includes]
    kinds = [kind for kind in ("ptx", "cubin") if getattr(args, kind)]
    if kinds == ["ptx"]:
        options[0] = options[0].replace("sm_", "compute_")
    compiled = Nvrtc(args.nvrtc).compile(source, args.source, options, kinds)
    folders = (".", *args.includes)
    for kind, data in zip(kinds, compiled, strict=True):
        if kind == "ptx":
            text = without_folders(data.rstrip(b"\0").decode(), folders)
            data = lowered(text, oldest).encode()
        else:
            data = without_folders_in_code(data, folders)
        write(getattr(args, kind), data, kind, args.packed)


def _nvcc_files(args: argparse.Namespace, oldest: tuple[int, int]) -> None:
    ptx = args.ptx or f"{args.cubin}.ptx"
    lines = [] if args.cubin else [LINES]
    with_nvcc(args.nvcc, args.arch, args.source, args.includes, ptx, lines)
    with open(ptx, encoding="utf-8") as file:
        text = lowered(without_folders(file.read(), (".", *args.includes)), oldest)
    with open(ptx, "w", encoding="utf-8") as file:
        file.write(text)
    if args.cubin:
        assemble(args.nvcc, args.arch, ptx, args.cubin)
        with open(args.cubin, "rb") as code:
            data = code.read()
        write(args.cubin, data, "cubin", args.packed)
    if args.ptx:
        write(args.ptx, text.encode(), "ptx", args.packed)


if __name__ == "__main__":
    sys.exit(main())
