"""Compile time of one hand-written kernel: kdsl's headers and apache-tvm-ffi's, processor seconds.

Both compile the same file with the same flags, in turns; the smallest of each counts.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
from pathlib import Path

from harness import machine
from tvm_ffi import libinfo

from kdsl import paths

KERNEL = """#include <tvm/ffi/tvm_ffi.h>
namespace ffi = tvm::ffi;
static void add(ffi::TensorView x, ffi::TensorView y, ffi::TensorView o) {
  if (x.ndim() != 1) TVM_FFI_THROW(ValueError) << "x must be a vector, got ndim " << x.ndim();
  const float* a = static_cast<const float*>(x.data_ptr());
  const float* b = static_cast<const float*>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) static_cast<float*>(o.data_ptr())[i] = a[i] + b[i];
}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(add, add);
"""
ROUNDS = 3
GOAL = 10.0


def seconds(command: list[str]) -> float:
    """Processor time of a command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    print(machine())
    headers = {"kdsl": str(paths.include_dir()), "apache-tvm-ffi": libinfo.find_include_path()}
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "add.cc")
        source.write_text(KERNEL)
        for flag in ("-fsyntax-only", "-O2"):
            best = dict.fromkeys(headers, float("inf"))
            for _ in range(ROUNDS):
                for name, include in headers.items():
                    command = ["g++", "-std=c++17", "-fPIC", flag, f"-I{include}", "-c"]
                    took = seconds([*command, str(source), "-o", str(Path(folder, "add.o"))])
                    best[name] = min(best[name], took)
            ratio = best["apache-tvm-ffi"] / best["kdsl"]
            shown = ", ".join(f"{name} {took:.2f} s" for name, took in best.items())
            print(f"{flag:14} {shown}: {ratio:.1f}x (goal {GOAL:.0f}x)")


if __name__ == "__main__":
    main()
