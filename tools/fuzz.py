"""Random arguments, containers and metadata for the runtime, and random kernels for both targets,
with new seeds until time is up.

The properties are those of tests/runtime/test_fuzz*.py and tests/*/test_random*.py; a seed that
finds something is printed, and ends it with status 1:
`KDSL_TEST_SEED=SEED pytest --hypothesis-seed=SEED` finds it again.
"""

from __future__ import annotations

import argparse
import os
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
    found = (ROOT / "tests").glob("*/test_*.py")
    tests = sorted(str(p) for p in found if p.name.startswith(("test_fuzz", "test_random")))
    end = time.monotonic() + 60 * options.minutes
    rounds = 0
    while rounds == 0 or time.monotonic() < end:
        seed = random.SystemRandom().randrange(2**32)
        command = [sys.executable, "-X", "faulthandler", "-m", "pytest", "-q", "-x"]
        command += [f"--hypothesis-seed={seed}", *tests]
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, check=False,
            env=os.environ | {"KDSL_TEST_SEED": str(seed)},
        )  # fmt: skip
        if done.returncode:
            print(done.stdout[-10000:], done.stderr[-10000:], file=sys.stderr)
            raise SystemExit(f"seed {seed} found something")
        rounds += 1
    print(f"{rounds} seeds found nothing")


if __name__ == "__main__":
    main()
