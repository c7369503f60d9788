"""CUDA code without a GPU: its machine code beside Triton's of the same run, and what it weighs.

    python benchmarks/cuda_static.py [--arch sm_80] [--no-peers]

Counts the instructions of the hot loop that are no MMA for each that is, bytes spilled, bytes of
code and seconds of the compiler; then runs attention in the simulator.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

import kdsl
from benchmarks.cuda import sass, venv
from kdsl import paths
from kdsl.codegen.cuda import device_source
from kdsl.codegen.cuda.text import with_lines
from kdsl.codegen.host import host_module
from kdsl.codegen.render import render
from kdsl.codegen.toolchain import find_toolchain

ROOT = Path(__file__).parent.parent
#: (row, file, kernel, statics, fixed dims, Triton's kernel, most others per MMA, most spilled).
ROWS = (
    ("attention", "attention/attention.py", "attention", {"causal": False}, {"D": 128},
     "attention_w4", 2.75, 100),
    ("attention causal", "attention/attention.py", "attention", {"causal": True}, {"D": 128},
     "attention_causal_w4", 2.75, 100),
    ("matmul + gelu", "matmul_gelu.py", "matmul_gelu", {}, {}, "matmul_gelu", None, 100),
)  # fmt: skip


def kernel(file: str, name: str) -> kdsl.Kernel:
    """A kernel of examples/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def write(own: kdsl.Kernel, statics: dict, dims: dict, folder: Path) -> tuple[Path, str]:
    """The kernel's source in f16, and the symbol of its first phase."""
    compiler = own._compiler
    unit = compiler.unit([compiler.default({"T": kdsl.f16}, statics, dims)])
    text, (device,) = device_source(unit.name, [unit])
    file = folder / f"{unit.name}_cuda.cu"
    file.write_text(with_lines(text, file.name))
    header = render("host/args.h.j2", m=host_module(unit.name, [unit], ()))
    (folder / f"{unit.name}_args.h").write_text(header)
    return file, device.phases[0].symbol


def compile_with(kind: str, source: Path, arch: str) -> tuple[Path, float]:
    """(cubin, seconds of CPU time) as a module is compiled."""
    out = source.with_suffix(f".{kind}.cubin")
    tool = find_toolchain()
    command = [*tool.command()] if tool.kind == kind else None
    if command is None:
        import shutil

        nvcc = shutil.which("nvcc")
        if kind != "nvcc" or nvcc is None:
            raise venv.Missing(f"no {kind}")
        command = [*tool.command()[:-2], "--nvcc", nvcc]
    command += ["--arch", arch, "-I", str(paths.include_dir()), "-I", str(source.parent)]
    before = _children()
    subprocess.run([*command, "--cubin", str(out), str(source)], check=True)
    return out, _children() - before


def _children() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def spilled(source: Path, arch: str) -> tuple[int, list[str]]:
    """(bytes of spill stores, ptxas' warnings), where nvcc is there to tell; else (-1, [])."""
    import shutil

    nvcc = shutil.which("nvcc")
    if nvcc is None:
        return -1, []
    command = [nvcc, "-std=c++17", f"-arch={arch}", "-cubin", "--fmad=false", "-Xptxas", "-v",
               f"-I{paths.include_dir()}", f"-I{source.parent}", str(source), "-o",
               str(source.with_suffix(".spill.cubin"))]  # fmt: skip
    text = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    stores = [int(n) for n in re.findall(r"(\d+) bytes spill stores", text)]
    warnings = [line for line in text.splitlines() if "warning" in line.lower()]
    return max(stores, default=0), warnings


def simulate() -> str:
    """Attention of 4 heads x 1024 x 128 with all checks."""
    import kdsl.sim
    from tests.cuda.launch import build, run

    own = kernel("attention/attention.py", "attention")
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 1, 4, 1024, 128), np.float32).astype(np.float16)
    with tempfile.TemporaryDirectory() as folder:
        built = build(own, Path(folder), dtypes={"T": kdsl.f16}, dims={"D": 128})
        values = {"q": q, "k": k, "v": v, "scale": 128**-0.5}
        start = time.perf_counter()
        _, (phase,), _ = run(built, values)
        seconds = time.perf_counter() - start
    counters = phase.counters
    return (
        f"simulator, attention 4 x 1024 x 128: {seconds:.2f} s (asked 1.5), "
        f"{len(phase.reports)} reports, bank factor {counters.bank_factor:.2f} (asked 1.05), "
        f"sector efficiency {counters.sector_efficiency:.2f} (asked 0.95)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--arch", default="sm_80", help="architecture, e.g. sm_80 (default)")
    parser.add_argument("--no-peers", action="store_true", help="without Triton and its compile")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        dump = venv.cuobjdump()
        if not args.no_peers:
            print("compiling Triton's kernels", file=sys.stderr, flush=True)
            script = ROOT / "benchmarks" / "cuda" / "triton_kernels.py"
            command = [str(venv.python()), "-W", "ignore", str(script), str(folder / "triton"),
                       args.arch.removeprefix("sm_")]  # fmt: skip
            subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
        print(f"{args.arch}, f16, one kernel a row; s: CPU seconds of the compiler")
        print(f"{'':18}{'others/MMA':>11}{'Triton':>8}{'asked':>7}{'loop':>6}{'spilled':>9}"
              f"{'kB':>7}{'nvrtc s':>9}{'nvcc s':>8}{'Triton s':>9}")  # fmt: skip
        for title, file, own, statics, dims, peer, most, _ in ROWS:
            row = folder / title.replace(" ", "_")
            row.mkdir()
            source, symbol = write(kernel(file, own), statics, dims, row)
            seconds: dict[str, float] = {}
            cubin = None
            for kind in ("nvrtc", "nvcc"):
                try:
                    cubin, seconds[kind] = compile_with(kind, source, args.arch)
                except venv.Missing:
                    continue
            assert cubin is not None, "there is no CUDA compiler"
            code = next(c for c in sass.read(cubin, dump) if c.name == symbol)
            spills, warnings = spilled(source, args.arch)
            theirs, peer_seconds = "", ""
            if not args.no_peers:
                triton = sass.read(folder / "triton" / f"{peer}.cubin", dump)[0]
                theirs = f"{triton.loop.others:.2f}"
                about = json.loads((folder / "triton" / f"{peer}.json").read_text())
                peer_seconds = f"{about['seconds']:.1f}"
            print(
                f"{title:18}{code.loop.others:>11.2f}{theirs:>8}{most or theirs:>7}"
                f"{code.loop.instructions:>6}{spills:>9}{cubin.stat().st_size / 1000:>7.0f}"
                f"{seconds.get('nvrtc', float('nan')):>9.2f}"
                f"{seconds.get('nvcc', float('nan')):>8.2f}{peer_seconds:>9}"
            )
            for warning in warnings:
                print(f"  ptxas: {warning}")
        print(simulate())


if __name__ == "__main__":
    main()
