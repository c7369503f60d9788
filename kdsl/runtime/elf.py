"""Read what a shared library defines, lacks and needs, without loading it."""

from __future__ import annotations

import os
import struct

_LOAD, _DYNAMIC = 1, 2
_NEEDED, _STRTAB, _SYMTAB, _HASH, _GNU_HASH = 1, 5, 6, 4, 0x6FFFFEF5
_MACHINES = {"x86_64": 62, "aarch64": 183}


class Symbols:
    """The dynamic symbols of a library (defined, undefined) and the libraries it needs."""

    __slots__ = ("defined", "needed", "undefined")

    def __init__(
        self, defined: tuple[str, ...], undefined: tuple[str, ...], needed: tuple[str, ...]
    ) -> None:
        self.defined, self.undefined, self.needed = defined, undefined, needed


def read(path: str) -> Symbols:
    """The dynamic symbols of the 64-bit little-endian ELF file at `path`.

    Raises:
        OSError: the file cannot be read, or is not such a library.
    """
    with open(path, "rb") as file:
        data = file.read()
    try:
        return _read(data)
    except _NotALibraryError as err:
        raise OSError(f"{path}: not a shared library: {err}") from None
    except (struct.error, IndexError, ValueError, OverflowError):
        raise OSError(f"{path}: not a shared library: the file is damaged") from None


class _NotALibraryError(Exception):
    """Says what the file is instead."""


def _read(data: bytes) -> Symbols:
    if data[:4] != b"\x7fELF":
        raise _NotALibraryError("it does not begin as an ELF file")
    if data[4:6] != b"\x02\x01":
        raise _NotALibraryError("it is not 64-bit little-endian")
    kind, machine = struct.unpack_from("<HH", data, 16)
    if kind != 3:
        raise _NotALibraryError(f"its ELF type is {kind}, not 3 (shared object)")
    wanted = _MACHINES.get(os.uname().machine)
    if wanted is not None and machine != wanted:
        raise _NotALibraryError(f"it is for ELF machine {machine}, this is {wanted}")
    return _Reader(data).symbols()


class _Reader:
    """Follows the tables that the dynamic linker itself uses; section headers may be stripped."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        (offset,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
        self.segments = [
            (at, place, length) for t, _, at, place, _, length in headers if t == _LOAD
        ]
        dynamic = [(at, length) for t, _, at, _, _, length in headers if t == _DYNAMIC]
        if not dynamic:
            raise _NotALibraryError("it has no dynamic section")
        at, length = dynamic[0]
        self.entries = list(struct.iter_unpack("<qQ", data[at : at + length // 16 * 16]))
        self.strings = self._place(self._entry(_STRTAB))

    def symbols(self) -> Symbols:
        table, count = self._place(self._entry(_SYMTAB)), self._symbol_count()
        defined: list[str] = []
        undefined: list[str] = []
        for name, info, section in (
            struct.unpack_from("<IBxH", self.data, table + 24 * i) for i in range(1, count)
        ):
            if info >> 4:  # not local
                (defined if section else undefined).append(self._string(name))
        needed = tuple(self._string(value) for tag, value in self.entries if tag == _NEEDED)
        return Symbols(tuple(defined), tuple(undefined), needed)

    def _entry(self, wanted: int) -> int:
        for tag, value in self.entries:
            if tag == wanted:
                return int(value)
        raise _NotALibraryError(f"its dynamic section lacks entry {wanted}")

    def _place(self, address: int) -> int:
        """The file offset of a virtual address."""
        for offset, start, length in self.segments:
            if start <= address < start + length:
                return int(offset + address - start)
        raise ValueError("address outside every segment")

    def _string(self, offset: int) -> str:
        start = self.strings + offset
        return self.data[start : self.data.index(b"\0", start)].decode("utf-8", "replace")

    def _symbol_count(self) -> int:
        tags = {tag for tag, _ in self.entries}
        if _HASH in tags:
            return int(struct.unpack_from("<II", self.data, self._place(self._entry(_HASH)))[1])
        return self._gnu_symbol_count(self._place(self._entry(_GNU_HASH)))

    def _gnu_symbol_count(self, at: int) -> int:
        """The GNU hash table does not say; its last chain ends at the last symbol."""
        buckets, first, bloom, _ = struct.unpack_from("<IIII", self.data, at)
        heads = at + 16 + 8 * bloom
        last = max(struct.unpack_from(f"<{buckets}I", self.data, heads), default=0)
        if last < first:  # nothing is defined, so nothing is hashed; the strings follow the symbols
            return max(0, self.strings - self._place(self._entry(_SYMTAB))) // 24
        chain = heads + 4 * buckets
        while not struct.unpack_from("<I", self.data, chain + 4 * (last - first))[0] & 1:
            last += 1
        return int(last) + 1
