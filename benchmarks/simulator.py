"""The simulator on another compiler's kernels: Triton's attention for sm_80, which is right.

Triton comes from PyPI into an environment of its own in kdsl's cache folder, and compiles without a
GPU. Every kernel must equal float64 within f16's rounding and give no report, under each schedule;
then one larger problem is timed with all checks on.

    python benchmarks/simulator.py
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import venv

import numpy as np

from kdsl import config, sim

D = 128
SEEDS = (0, 1, 7)
BOUND = 5e-4  # relative, of the whole output: probabilities and results are rounded to f16

TRITON = """
import json, sys
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

@triton.jit
def attention(q, k, v, o, scale, n, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
              CAUSAL: tl.constexpr):
    start, base = tl.program_id(0) * BM, tl.program_id(1) * n * D
    rows, columns, depth = start + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    queries = tl.load(q + base + rows[:, None] * D + depth[None, :])
    acc = tl.zeros((BM, D), tl.float32)
    top = tl.full((BM,), float("-inf"), tl.float32)
    den = tl.zeros((BM,), tl.float32)
    for at in range(0, start + BM if CAUSAL else n, BN):
        keys = tl.load(k + base + (at + columns)[None, :] * D + depth[:, None])
        s = tl.dot(queries, keys) * scale
        if CAUSAL:
            s = tl.where(rows[:, None] >= (at + columns)[None, :], s, float("-inf"))
        new = tl.maximum(top, tl.max(s, 1))
        p, fix = tl.exp2(s - new[:, None]), tl.exp2(top - new)
        den = den * fix + tl.sum(p, 1)
        values = tl.load(v + base + (at + columns)[:, None] * D + depth[None, :])
        acc = tl.dot(p.to(tl.float16), values, acc * fix[:, None])
        top = new
    tl.store(o + base + rows[:, None] * D + depth[None, :], (acc / den[:, None]).to(tl.float16))

found = []
names = "q k v o scale n D BM BN CAUSAL".split()
types = ["*fp16"] * 4 + ["fp32", "i32"] + ["constexpr"] * 4
for bm, bn, warps, stages, causal in json.loads(sys.argv[1]):
    source = ASTSource(
        fn=attention, signature=dict(zip(names, types)),
        constexprs={"D": 128, "BM": bm, "BN": bn, "CAUSAL": causal},
        attrs={(i,): [["tt.divisibility", 16]] for i in (0, 1, 2, 3, 5)},
    )
    options = {"num_warps": warps, "num_stages": stages}
    made = triton.compile(source, target=GPUTarget("cuda", 80, 32), options=options)
    found.append([made.asm["ptx"], made.metadata.shared, made.metadata.name])
print(json.dumps(found))
"""

#: Rows, keys, warps, stages, causal.
CONFIGURATIONS = (
    (64, 64, 4, 2, False),
    (128, 64, 4, 3, False),
    (128, 64, 8, 3, False),
    (64, 32, 4, 4, True),
    (128, 128, 8, 2, True),
)


def compiled() -> list[tuple[str, int, str]]:
    """PTX, bytes of shared memory and name of each configuration's kernel."""
    folder = config.cache_dir() / "peers" / "triton"
    python = folder / "bin" / "python"
    if not (folder / "ready").exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "triton"], check=True)
        (folder / "ready").touch()
    source = folder / "attention.py"
    source.write_text(TRITON, encoding="utf-8")
    command = [str(python), "-W", "ignore", str(source), json.dumps(CONFIGURATIONS)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [tuple(row) for row in json.loads(done.stdout)]


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool) -> np.ndarray:
    s = np.einsum("hnd,hmd->hnm", q.astype(float), k.astype(float)) / math.sqrt(D)
    if causal:
        s = np.where(np.tril(np.ones(s.shape[1:], bool)), s, -np.inf)
    p = np.exp(s - s.max(-1, keepdims=True))
    return p / p.sum(-1, keepdims=True) @ v.astype(float)


def run(row: tuple[str, int, str], setup: tuple[int, int, int, int, bool], heads: int, n: int,
        seed: int) -> tuple[sim.Run, float]:  # fmt: skip
    """One launch, and how far its output is from float64, relative to the whole."""
    (ptx, shared, name), (rows, _, warps, _, causal) = row, setup
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((heads, n, D)).astype(np.float16) for _ in range(3))
    o = np.zeros_like(q)
    # Two pointers to scratch memory, which this kernel has not, follow the arguments.
    args = [q, k, v, o, math.log2(math.e) / math.sqrt(D), n, 0, 0]
    grid, threads = (n // rows, heads), 32 * warps
    done = sim.run(ptx, name, grid, threads, args, smem=shared, seed=seed)
    want = reference(q, k, v, causal)
    return done, float(np.linalg.norm(o - want) / np.linalg.norm(want))


def main() -> int:
    wrong = 0
    kernels = compiled()
    print(f"{'rows keys warps stages causal':32} {'error':>9} {'reports':>7} {'banks':>6} {'s':>6}")
    for row, setup in zip(kernels, CONFIGURATIONS, strict=True):
        for seed in SEEDS:
            done, error = run(row, setup, 2, 256, seed)
            wrong += bool(done.reports) or error > BOUND
            print(
                f"{setup!s:32} {error:9.2e} {len(done.reports):7} "
                f"{done.counters.bank_factor:6.2f} {done.seconds:6.2f}"
            )
            for report in done.reports:
                print(f"  {report}")
    done, error = run(kernels[1], CONFIGURATIONS[1], 4, 1024, 0)
    rate = done.counters.instructions / done.seconds / 1e6
    print(f"4 heads x 1024 x {D}: {done.seconds:.2f} s, {rate:.1f} M warp instructions a second")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
