"""What pyproject.toml cannot say: the C extension, and two folders that a wheel carries along.

`include/` and `templates/` stand at the root of a checkout, where C++ and template authors look for
them; in a wheel they lie under `kdsl/share/`. `kdsl.paths` finds either.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
CORE = Path("kdsl/runtime/csrc")
SHARED = ("include", "templates")


class BuildWithShare(build_py):
    """build_py that copies the shared folders; an editable install finds them in the checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for folder in SHARED:
                target = Path(self.build_lib, "kdsl", "share", folder)
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(ROOT / folder, target)


core = Extension(
    "kdsl.runtime._core",
    sources=sorted(str(path.relative_to(ROOT)) for path in (ROOT / CORE).glob("*.c")),
    depends=sorted(
        str(path.relative_to(ROOT))
        for path in (*(ROOT / CORE).glob("*.h"), *(ROOT / "include/kdsl/ffi").glob("*.h"))
    ),
    include_dirs=["include", str(CORE)],
    define_macros=[("Py_LIMITED_API", "0x030A0000")],
    # Only the module's init function may be visible: two copies of a runtime must not mix.
    extra_compile_args=["-std=gnu11", "-O2", "-g0", "-fvisibility=hidden"],
    extra_link_args=["-Wl,-Bsymbolic"],
    py_limited_api=True,
)

setup(
    ext_modules=[core],
    cmdclass={"build_py": BuildWithShare},
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
