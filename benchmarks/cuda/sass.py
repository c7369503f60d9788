"""What machine code tells without running: registers, spills, and the mix of the hot loop."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

_INSTRUCTION = re.compile(r"^\s+/\*([0-9a-f]{4,6})\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_.]+)(.*?);")
_MMA = ("HMMA", "IMMA", "DMMA", "QMMA")


@dataclass(frozen=True)
class Loop:
    """The innermost loop with the most tensor-core instructions."""

    instructions: int
    mma: int
    mix: Counter[str]

    @property
    def others(self) -> float:
        """Instructions that are no MMA for each that is."""
        return (self.instructions - self.mma) / max(1, self.mma)


@dataclass(frozen=True)
class Code:
    """One kernel of a cubin."""

    name: str
    registers: int
    stack: int
    loop: Loop


def read(cubin: Path, cuobjdump: Path) -> list[Code]:
    """The kernels of a cubin; `cuobjdump` is NVIDIA's program of that name."""
    usage = _resources(cubin, cuobjdump)
    found = []
    for name, code in _functions(cubin, cuobjdump).items():
        registers, stack = usage.get(name, (0, 0))
        found.append(Code(name, registers, stack, _hot_loop(code)))
    return found


def _dump(cuobjdump: Path, flag: str, cubin: Path) -> str:
    run = subprocess.run(
        [str(cuobjdump), flag, str(cubin)], capture_output=True, text=True, check=True,
        env={"PATH": str(cuobjdump.parent)},
    )  # fmt: skip
    return run.stdout


def _functions(cubin: Path, cuobjdump: Path) -> dict[str, list[tuple[int, str, str]]]:
    """(address, opcode, operands) of each instruction, by function."""
    found: dict[str, list[tuple[int, str, str]]] = {}
    name = ""
    for line in _dump(cuobjdump, "-sass", cubin).splitlines():
        if (head := re.search(r"Function : (\S+)", line)) is not None:
            name = head[1]
            found[name] = []
        elif name and (row := _INSTRUCTION.match(line)) is not None:
            found[name].append((int(row[1], 16), row[2], row[3]))
    return found


def _resources(cubin: Path, cuobjdump: Path) -> dict[str, tuple[int, int]]:
    """(registers, bytes of stack) by function."""
    found: dict[str, tuple[int, int]] = {}
    name = ""
    for line in _dump(cuobjdump, "-res-usage", cubin).splitlines():
        if (head := re.search(r"Function (\S+):", line)) is not None:
            name = head[1]
        elif name and "REG:" in line:
            values = dict(re.findall(r"(REG|STACK):(\d+)", line))
            found[name] = int(values["REG"]), int(values["STACK"])
            name = ""
    return found


def _hot_loop(code: list[tuple[int, str, str]]) -> Loop:
    """Between a backward branch and its target; the shortest of those with the most MMA."""
    best: tuple[int, int, list[str]] = (0, 0, [])
    for address, opcode, operands in code:
        target = re.findall(r"0x([0-9a-f]+)", operands)
        if not opcode.startswith("BRA") or not target or int(target[-1], 16) >= address:
            continue
        body = [op for at, op, _ in code if int(target[-1], 16) <= at <= address]
        mma = sum(op.startswith(_MMA) for op in body)
        loops = sum(
            op.startswith("BRA") and _is_backward(at, ops)
            for at, op, ops in code
            if int(target[-1], 16) <= at < address
        )
        if loops:
            continue
        if (mma, -len(body)) > (best[0], -best[1]):
            best = (mma, len(body), body)
    mma, length, body = best
    return Loop(length, mma, Counter(op.split(".")[0] for op in body))


def _is_backward(address: int, operands: str) -> bool:
    target = re.findall(r"0x([0-9a-f]+)", operands)
    return bool(target) and int(target[-1], 16) < address
