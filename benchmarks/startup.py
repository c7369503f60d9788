"""How long a first result takes: cold, from the disk cache, and `import kdsl` alone.

Each number is of a fresh process; "after the imports" is timed inside it. The best of a few warm
runs counts, of the others the median.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import machine

FIRST_RESULT = """
import time
import numpy as np
import kdsl
from kdsl import dot, exp2, log2, maximum, where
x = np.ones((1, 8, 64, 128), np.float32)
start = time.perf_counter()
import attention
attention.attention(x, x, x, 0.1)
print(time.perf_counter() - start)
"""

EXAMPLES = Path(__file__).parent.parent / "examples" / "attention"


def environment(**extra: str) -> dict[str, str]:
    """This one's, but Python may keep its bytecode, as an installed package's is kept."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | extra


def first_result(cache: str) -> float:
    """Seconds from before the decorator to after the first call, in a new process."""
    env = environment(KDSL_CACHE_DIR=cache, PYTHONPATH=str(EXAMPLES))
    command = [sys.executable, "-c", FIRST_RESULT]
    return float(subprocess.run(command, env=env, check=True, capture_output=True).stdout)


def process(code: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], env=environment(), check=True)
    return time.perf_counter() - start


def best(measure: Callable[[], float], runs: int) -> float:
    return min(measure() for _ in range(runs))


def line(title: str, seconds: float, limit: float) -> None:
    verdict = "met" if seconds <= limit else "MISSED"
    print(f"{title:44} {seconds * 1e3:8.1f} ms  (goal {limit * 1e3:.0f} ms: {verdict})", flush=True)


def main() -> None:
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        first_result(f"{folder}/bytecode")
        cold = statistics.median(first_result(f"{folder}/{run}") for run in range(3))
        warm = best(lambda: first_result(f"{folder}/0"), 7)
    line("cold: decorator to first attention result", cold, 1.5)
    line("warm disk cache, new process, after imports", warm, 0.06)
    # Pairs side by side: both processes see the same minute of a shared machine.
    over = statistics.median(process("import kdsl") - process("pass") for _ in range(15))
    line("import kdsl over bare Python", over, 0.06)


if __name__ == "__main__":
    main()
