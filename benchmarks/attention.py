"""Attention against torch's own, one thread: f32 and bf16, (1, 8, 1024, 128), causal and not."""

from __future__ import annotations

import os

os.environ["KDSL_NUM_THREADS"] = "1"

import sys
from pathlib import Path

import torch
from harness import interleave, machine, report

# Before this folder, where a file has the same name.
sys.path.insert(0, str(Path(__file__).parent.parent / "examples" / "attention"))
from attention import attention

SHAPE = (1, 8, 1024, 128)
SCALE = SHAPE[-1] ** -0.5
GOALS = {(torch.float32, False): 1.1}


def compare(dtype: torch.dtype, causal: bool) -> None:
    """Time and error of both on one problem."""
    q, k, v = (torch.randn(SHAPE).to(dtype) for _ in range(3))
    o, lse = torch.empty_like(q), torch.empty(SHAPE[:3])

    def ours() -> torch.Tensor:
        attention(q, k, v, SCALE, o, lse, causal=causal)
        return o

    def theirs(*inputs: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(
            *(inputs or (q, k, v)), scale=SCALE, is_causal=causal
        )

    times = interleave({"kdsl": ours, "torch": theirs})
    title = f"{str(dtype).removeprefix('torch.')} {'causal' if causal else 'full'}"
    report(title, times["kdsl"], times["torch"], limit=GOALS.get((dtype, causal)))
    exact = theirs(q.double(), k.double(), v.double())
    errors = [float((x.double() - exact).abs().max() / exact.abs().max()) for x in (o, theirs())]
    print(f"{'':34} error {errors[0]:.2e} | torch {errors[1]:.2e}")


def main() -> None:
    torch.set_num_threads(1)
    print(machine())
    for dtype in (torch.float32, torch.bfloat16):
        for causal in (False, True):
            compare(dtype, causal)


if __name__ == "__main__":
    main()
