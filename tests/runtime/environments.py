"""Python processes that find chosen packages and no others."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
#: What such a process has of ours: where programs are, and the sanitizer that the core may need.
KEPT = ("PATH", "HOME", "LANG", "LD_PRELOAD", "ASAN_OPTIONS", "UBSAN_OPTIONS", "PYTHONMALLOC")
OWN = ROOT / "kdsl" / "runtime" / "compat" / "libtvm_ffi.so"


def link(folder: Path, *names: str) -> str:
    """Fill `folder` with links to these distributions; its path."""
    for name in names:
        for file in metadata.files(name) or ():
            source, target = Path(str(file.locate())), folder / file.parts[0]
            top = source.parents[len(file.parts) - 2] if len(file.parts) > 1 else source
            if file.parts[0] != ".." and not target.exists():
                target.symlink_to(top.resolve())
    return str(folder)


def run(command: list[str], *path: str, **variables: str) -> str:
    """Output of a Python that finds kdsl, and packages in the folders `path`."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-S", "-X", "faulthandler", *command],
        env=kept | {"PYTHONPATH": os.pathsep.join([str(ROOT), *path]), **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
