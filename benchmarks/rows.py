"""softmax and rmsnorm over 4096 rows of 4096 f32, one thread, into buffers that stand ready."""

from __future__ import annotations

import os

os.environ["KDSL_NUM_THREADS"] = "1"

import sys
from pathlib import Path

import torch
from harness import interleave, machine, report

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from rmsnorm import rmsnorm
from softmax import softmax

SIZE = 4096
EPS = 1e-6


def main() -> None:
    torch.set_num_threads(1)
    print(machine())
    x, w = torch.randn(SIZE, SIZE), torch.randn(SIZE)
    o = torch.empty_like(x)
    times = interleave(
        {
            "kdsl": lambda: softmax(x, o),
            "torch": lambda: torch.softmax(x, dim=1, out=o),
        }
    )
    report("softmax 4096x4096 f32", times["kdsl"], times["torch"], limit=1.0)

    # torch.rms_norm takes no out=; the peer is the shortest way to write into a buffer.
    def in_place() -> None:
        norm = torch.linalg.vector_norm(x, dim=1, keepdim=True)
        torch.mul(x, torch.rsqrt(norm * norm / SIZE + EPS), out=o).mul_(w)

    times = interleave(
        {
            "kdsl": lambda: rmsnorm(x, w, o, EPS),
            "torch": in_place,
            "rms_norm": lambda: torch.rms_norm(x, (SIZE,), w, EPS),
        }
    )
    report("rmsnorm 4096x4096 f32", times["kdsl"], times["torch"], limit=0.6)
    report("rmsnorm, torch's allocating one", times["kdsl"], times["rms_norm"])


if __name__ == "__main__":
    main()
