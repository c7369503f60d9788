"""Kernels as lines of CUDA, and the author's lines in what the compiler sees."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MARK = re.compile(r"\s*// (\S+\.py):(\d+)(?:-\d+)?$")


@dataclass(frozen=True, slots=True)
class DeviceText:
    """One kernel; see templates/cuda/kernels.cu.j2."""

    headers: tuple[str, ...]
    symbol: str
    args: str
    threads: int
    comment: str
    head: tuple[str, ...]
    body: tuple[str, ...]
    #: A block takes one iteration after another.
    loops: bool = True


@dataclass(frozen=True, slots=True)
class DeviceModule:
    version: str
    name: str
    origin: str
    headers: tuple[str, ...]
    kernels: tuple[DeviceText, ...]


def with_lines(text: str, file: str) -> str:
    """The text with `#line` before each line that a mark (`// softmax.py:14`) stands over, so that
    tools name the author's line.

    Args:
        text: a generated file.
        file: its name, for lines that come from no author.
    """
    out: list[str] = []
    place: tuple[str, str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        mark = _MARK.match(line)
        if mark is not None:
            place = (mark[1], mark[2])
        elif line.startswith(("}", "extern")):
            if place is not None:
                out.append(f'#line {number} "{file}"')
            place = None
        if place is not None and not line.rstrip().endswith("\\"):
            out.append(f'#line {place[1]} "{place[0]}"')
        out.append(line)
    return "\n".join(out) + "\n"
