"""Random arguments, containers and metadata for the runtime, with new seeds until time is up.

The properties are those of tests/runtime/test_fuzz*.py; a seed that finds something is printed, and
ends it with status 1: `pytest --hypothesis-seed=SEED` finds it again.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--minutes", type=float, default=10)
    options = parser.parse_args()
    tests = sorted(str(path) for path in (ROOT / "tests" / "runtime").glob("test_fuzz*.py"))
    end = time.monotonic() + 60 * options.minutes
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        seed = random.SystemRandom().randrange(2**32)
        command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-x"]
        command += [f"--hypothesis-seed={seed}", *tests]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            print(done.stdout[-10000:], done.stderr[-10000:], file=sys.stderr)
            raise SystemExit(f"seed {seed} found something")
        rounds += 1
    print(f"{rounds} seeds found nothing")


if __name__ == "__main__":
    main()
