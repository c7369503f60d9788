"""Write attention.so and attention.h: a module that needs no kdsl, no torch and no Python.

    python export.py [folder]

`host.c` beside this file is a C program that calls it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from attention import attention

import kdsl


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    path = folder / "attention.so"
    attention.export(path, dtypes={"T": [kdsl.f32, kdsl.bf16]}, dims={"D": [64, 128]})
    print(f"{path}: {path.stat().st_size // 1024} KiB")
    module = kdsl.load_module(path)
    for name in module:
        print(f"  {module[name].metadata['signature']}")


if __name__ == "__main__":
    main()
