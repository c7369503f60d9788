"""Build the C core for a Python without the GIL and run the stress with the GIL off.

    python -m tools.freethreaded /path/to/python3.13t

The core is built in a folder of its own; nothing is installed into that Python.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ASK = (
    "import sysconfig as s; print(s.get_config_var('Py_GIL_DISABLED'), s.get_path('include'), "
    "s.get_config_var('EXT_SUFFIX'), sep='\\n')"
)


def main() -> None:
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=formatter)
    parser.add_argument("python", help="an interpreter built with --disable-gil")
    parser.add_argument("--seconds", type=float, default=20, help="of stress (%(default)s)")
    options = parser.parse_args()
    said = subprocess.run([options.python, "-c", ASK], capture_output=True, text=True, check=True)
    disabled, include, suffix = said.stdout.split()
    if disabled != "1":
        raise SystemExit(f"{options.python} has the GIL")
    with tempfile.TemporaryDirectory() as folder:
        runtime = Path(folder, "kdsl", "runtime")
        runtime.mkdir(parents=True)
        for path in (ROOT / "kdsl").iterdir():
            if path.name != "runtime":
                (runtime.parent / path.name).symlink_to(path)
        for path in (ROOT / "kdsl" / "runtime").iterdir():
            if path.suffix != ".so":
                (runtime / path.name).symlink_to(path)
        sources = sorted(map(str, (ROOT / "kdsl" / "runtime" / "csrc").glob("*.c")))
        command = ["gcc", "-shared", "-std=gnu11", "-O2", "-fPIC", "-fvisibility=hidden"]
        command += [f"-I{ROOT / 'include'}", f"-I{include}", "-Wl,-Bsymbolic", "-Wall", "-Wextra"]
        subprocess.run([*command, *sources, "-o", str(runtime / f"_core{suffix}")], check=True)
        environment = {**os.environ, "PYTHONPATH": folder}
        check = "import sys, kdsl.runtime; raise SystemExit(sys._is_gil_enabled())"
        if subprocess.run([options.python, "-P", "-c", check], env=environment).returncode:
            raise SystemExit("importing the core turned the GIL on")
        stress = [options.python, "-X", "faulthandler", str(ROOT / "tools" / "stress.py")]
        code = subprocess.run([*stress, f"--seconds={options.seconds}"], env=environment).returncode
    raise SystemExit(code)


if __name__ == "__main__":
    main()
