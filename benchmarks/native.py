"""Compile time of hand-written kernels: kdsl's headers and apache-tvm-ffi's, processor seconds.

Both compile the same files with the same flags, in turns. A ratio is that of the smallest times;
the spread is the ratio of each round by itself, smallest and largest. `python native.py ROUNDS`.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import machine
from tvm_ffi import libinfo

from kdsl import paths
from kdsl.native import FLAGS

KERNELS = sorted(Path(__file__).parent.joinpath("native").glob("hand_*.cc"))
#: What `kdsl.load_inline` and `kdsl.build` compile with, and the level alone.
LEVELS = {
    "load_inline": [*FLAGS, "-fvisibility=hidden"],
    "-O2": ["-std=c++17", "-O2"],
}
GOAL = 10.0


def seconds(command: list[str]) -> float:
    """Processor time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def compare(source: Path, flags: list[str], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of each round with kdsl's headers and with the official ones."""
    headers = (str(paths.include_dir()), libinfo.find_include_path())
    took: tuple[list[float], list[float]] = ([], [])
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "kernel.o"))
        for _ in range(rounds):
            for include, times in zip(headers, took, strict=True):
                command = ["g++", *flags, "-fPIC", f"-I{include}", "-c", str(source), "-o", out]
                times.append(seconds(command))
    return took


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    print(machine())
    print(
        f"{'level':12} {'source':14} {'kdsl':>7} {'official':>9} {'ratio':>7}  spread of {rounds}"
    )
    worst: tuple[float, str] = (float("inf"), "")
    for level, flags in LEVELS.items():
        for source in KERNELS:
            ours, theirs = compare(source, flags, rounds)
            ratio = min(theirs) / min(ours)
            each = [b / a for a, b in zip(ours, theirs, strict=True)]
            print(
                f"{level:12} {source.stem:14} {min(ours):5.2f} s {min(theirs):7.2f} s"
                f" {ratio:6.1f}x  {min(each):.1f}-{max(each):.1f}x",
                flush=True,
            )
            worst = min(worst, (ratio, f"{source.stem} {level}"))
    print(f"worst: {worst[1]}, {worst[0]:.1f}x (goal {GOAL:.0f}x)")


if __name__ == "__main__":
    main()
