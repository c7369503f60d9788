"""kdsl on a GPU: errors against float64 first, then speed beside torch, cuBLAS and Triton.

    python benchmarks/gpu.py [--quick] [--only attention matmul softmax launch errors sanitizer]

Takes under 8 minutes; the table comes last. It needs a torch with CUDA. Without a GPU the errors
are those of the simulator, and nothing is timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
import torch

import kdsl

ROOT = Path(__file__).parent.parent
PARTS = ("errors", "sanitizer", "attention", "matmul", "softmax", "launch")
#: Rows of the table that is printed last.
TABLE: list[tuple[str, str, str]] = []


def kernel(file: str, name: str) -> kdsl.Kernel:
    """A kernel of examples/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def row(what: str, ours: str, peers: str = "") -> None:
    """A line now, and again in the table at the end."""
    TABLE.append((what, ours, peers))
    print(f"{what:44} {ours:>16}  {peers}", flush=True)


def milliseconds(call: Callable[[], object], rounds: int = 20) -> float:
    """Median time of a call on the GPU, of graph replays where the call can be captured."""
    call()
    torch.cuda.synchronize()
    run: Callable[[], object] = call
    try:
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            call()
        torch.cuda.current_stream().wait_stream(stream)
        with torch.cuda.graph(graph):
            call()
        run = graph.replay
    except RuntimeError:
        torch.cuda.synchronize()
    times = []
    for _ in range(rounds):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def wide_attention(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Attention in float64."""
    q, k, v = (x.double() for x in (q, k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        m, n = s.shape[-2:]
        seen = torch.arange(m, device=s.device)[:, None] + n - m >= torch.arange(n, device=s.device)
        s = s.masked_fill(~seen, float("-inf"))
    return torch.softmax(s, -1) @ v


def relative(got: Any, want: Any) -> float:
    return float((got.double() - want).norm() / want.norm())


def triton_attention(
    q: Any, k: Any, v: Any, o: Any, lse: Any, causal: bool
) -> Callable[[], object] | None:
    """Triton's attention of the same tensors, as a call; None where there is no Triton."""
    try:
        from benchmarks.cuda.triton_kernels import attention
    except ImportError:
        return None
    b, h, n, d = q.shape

    def call() -> object:
        return attention[n // 128, h, b](
            q, k, v, o, lse, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3], *o.stride()[:3],
            *lse.stride()[:2], h, k.shape[1], n, k.shape[2], d**-0.5,
            CAUSAL=causal, ROWS=128, COLS=64, D=d, num_warps=8, num_stages=2,
        )  # fmt: skip

    return call


# ---- parts


def errors(device: str) -> None:
    """Errors against float64, in several shapes and dtypes."""
    own = kernel("attention/attention.py", "attention")
    for dtype in (torch.float16, torch.bfloat16):
        for b, h, m, n, d in ((1, 4, 512, 512, 128), (2, 3, 300, 177, 64), (1, 2, 65, 1000, 40)):
            torch.manual_seed(0)
            q = torch.randn(b, h, m, d, device=device, dtype=dtype)
            k, v = (torch.randn(b, h, n, d, device=device, dtype=dtype) for _ in range(2))
            for causal in (False, True) if n >= m else (False,):
                o, _ = own(q, k, v, d**-0.5, causal=causal)
                error = relative(o, wide_attention(q, k, v, causal))
                peer = torch.nn.functional.scaled_dot_product_attention(q, k, v)
                theirs = relative(peer, wide_attention(q, k, v, False))
                name = f"error {str(dtype)[6:]} {b}x{h}x{m}x{n}x{d}{' causal' * causal}"
                row(name, f"{error:.1e}", "" if causal else f"torch {theirs:.1e}")
    x = torch.randn(1000, 777, device=device)
    got = kernel("softmax.py", "softmax")(x)
    row("error softmax f32", f"{relative(got, torch.softmax(x.double(), -1)):.1e}")


def sanitizer() -> None:
    """compute-sanitizer over the errors part, where it is installed."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        row("compute-sanitizer", "not installed")
        return
    for tool in ("memcheck", "racecheck"):
        command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, __file__,
                   "--only", "errors"]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
        found = [line for line in done.stdout.splitlines() if "ERROR SUMMARY" in line]
        row(f"compute-sanitizer {tool}", found[-1][-30:] if found else f"exit {done.returncode}")


def attention(quick: bool) -> None:
    """TFLOP/s of attention, B16 H16 N4096, beside torch's."""
    own = kernel("attention/attention.py", "attention")
    b, h, n = (2, 8, 2048) if quick else (16, 16, 4096)
    for d in (64, 128):
        for causal in (False, True):
            q, k, v = (
                torch.randn(b, h, n, d, device="cuda", dtype=torch.float16) for _ in range(3)
            )
            o = torch.empty_like(q)
            lse = torch.empty(b, h, n, device="cuda")
            flops = 4 * b * h * n * n * d / (2 if causal else 1)

            def ours(q=q, k=k, v=v, o=o, lse=lse, causal=causal) -> object:
                return own(q, k, v, q.shape[-1] ** -0.5, o, lse, causal=causal)

            def theirs(q=q, k=k, v=v, causal=causal) -> object:
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)

            speed, peer = (flops / milliseconds(f) / 1e9 for f in (ours, theirs))
            beside = f"torch {peer:.0f} ({speed / peer:.2f}x)"
            other = triton_attention(q, k, v, torch.empty_like(o), torch.empty_like(lse), causal)
            if other is not None:
                peer = flops / milliseconds(other) / 1e9
                beside += f", Triton {peer:.0f} ({speed / peer:.2f}x)"
            row(f"attention {b}x{h}x{n}x{d}{' causal' * causal}", f"{speed:.0f} TFLOP/s", beside)


def matmul(quick: bool) -> None:
    """TFLOP/s of a product with bias and gelu, beside cuBLAS and the same in two steps."""
    own = kernel("matmul_gelu.py", "matmul_gelu")
    for size in (1024, 4096) if quick else (1024, 4096, 8192):
        x, w = (torch.randn(size, size, device="cuda", dtype=torch.float16) for _ in range(2))
        bias = torch.randn(size, device="cuda", dtype=torch.float16)
        o = torch.empty_like(x)
        speed = 2 * size**3 / milliseconds(lambda: own(x, w, bias, o)) / 1e9  # noqa: B023
        plain = 2 * size**3 / milliseconds(lambda: torch.mm(x, w, out=o)) / 1e9  # noqa: B023
        both = milliseconds(
            lambda: torch.nn.functional.gelu(torch.addmm(bias, x, w))  # noqa: B023
        )
        row(f"matmul + gelu {size}", f"{speed:.0f} TFLOP/s",
            f"cuBLAS alone {plain:.0f}, with gelu {2 * size**3 / both / 1e9:.0f}")  # fmt: skip


def softmax(quick: bool) -> None:
    """GB/s of softmax, beside torch's."""
    own = kernel("softmax.py", "softmax")
    for m, n in ((4096, 4096),) if quick else ((4096, 4096), (65536, 1024), (512, 32768)):
        for dtype in (torch.float32, torch.float16):
            x = torch.randn(m, n, device="cuda").to(dtype)
            o = torch.empty_like(x)
            moved = 2 * x.numel() * x.element_size()
            speed = moved / milliseconds(lambda: own(x, o)) / 1e6  # noqa: B023
            peer = moved / milliseconds(lambda: torch.softmax(x, -1, out=o)) / 1e6  # noqa: B023
            name = f"softmax {m}x{n} {str(dtype)[6:]}"
            row(name, f"{speed:.0f} GB/s", f"torch {peer:.0f} ({speed / peer:.2f}x)")


def launch(quick: bool) -> None:
    """Microseconds of the host for a small call, beside torch's."""
    own = kernel("add.py", "add")
    x, y = torch.randn(8, 8, device="cuda"), torch.randn(8, device="cuda")
    o = torch.empty_like(x)

    def microseconds(call: Callable[[], object]) -> float:
        for _ in range(100):
            call()
        torch.cuda.synchronize()
        count = 500 if quick else 3000
        start = time.perf_counter()
        for _ in range(count):
            call()
        spent = time.perf_counter() - start
        torch.cuda.synchronize()
        return spent / count * 1e6

    ours, theirs = microseconds(lambda: own(x, y, o)), microseconds(lambda: torch.add(x, y, out=o))
    row("launch of a small kernel", f"{ours:.1f} us", f"torch {theirs:.1f} us")


def simulated() -> None:
    """The errors part where there is no GPU: small shapes, in the simulator."""
    import tempfile

    from kdsl.codegen.toolchain import find_toolchain
    from tests.cuda.launch import build, run

    print(f"no GPU: errors in the simulator, compiled by {find_toolchain().kind}", flush=True)
    own = kernel("attention/attention.py", "attention")
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for causal in (False, True):
            q, k, v = rng.standard_normal((3, 1, 2, 200, 64), np.float32).astype(np.float16)
            built = build(own, Path(folder), dtypes={"T": kdsl.f16}, statics={"causal": causal},
                          dims={"D": 64})  # fmt: skip
            out, (phase,), _ = run(built, {"q": q, "k": k, "v": v, "scale": 0.125})
            want = wide_attention(*map(torch.from_numpy, (q, k, v)), causal)
            error = relative(torch.from_numpy(np.ascontiguousarray(out["o"])), want)
            row(f"error float16 1x2x200x200x64{' causal' * causal}", f"{error:.1e}",
                f"{len(phase.reports)} reports")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="smaller shapes, a minute in all")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART",
                        help=", ".join(PARTS))  # fmt: skip
    args = parser.parse_args()
    if not torch.cuda.is_available():
        simulated()
    else:
        print(torch.cuda.get_device_name(), flush=True)
        for part in args.only:
            if part == "errors":
                errors("cuda")
            elif part == "sanitizer":
                sanitizer()
            else:
                globals()[part](args.quick)
    print()
    for what, ours, peers in TABLE:
        print(f"{what:44} {ours:>16}  {peers}")


if __name__ == "__main__":
    main()
