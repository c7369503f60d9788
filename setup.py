"""What pyproject.toml cannot say: C extension and library, and two folders that a wheel carries.

`include/` and `templates/` stand at the root of a checkout, where C++ and template authors look for
them; in a wheel they lie under `kdsl/share/`. `kdsl.paths` finds either.
"""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
CORE = Path("kdsl/runtime/csrc")
COMPAT = Path("kdsl/runtime/compat")
SHARED = ("include", "templates")
# A Python without the GIL has no limited API (before 3.15): its core is its own.
LIMITED = not sysconfig.get_config_var("Py_GIL_DISABLED")


class BuildWithShare(build_py):
    """build_py that copies the shared folders; an editable install finds them in the checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for folder in SHARED:
                target = Path(self.build_lib, "kdsl", "share", folder)
                shutil.rmtree(target, ignore_errors=True)
                shutil.copytree(ROOT / folder, target)


class BuildLibraries(build_ext):
    """build_ext that gives a plain C library the name by which modules ask for it."""

    def get_ext_filename(self, fullname: str) -> str:
        if fullname.endswith("libtvm_ffi"):
            return os.path.join(*fullname.split(".")) + ".so"
        return str(super().get_ext_filename(fullname))


core = Extension(
    "kdsl.runtime._core",
    sources=sorted(str(path.relative_to(ROOT)) for path in (ROOT / CORE).glob("*.c")),
    depends=sorted(
        str(path.relative_to(ROOT))
        for path in (*(ROOT / CORE).glob("*.h"), *(ROOT / "include/kdsl/ffi").glob("*.h"))
    ),
    include_dirs=["include", str(CORE)],
    define_macros=[("Py_LIMITED_API", "0x030A0000")] if LIMITED else [],
    # Only the module's init function may be visible: two copies of a runtime must not mix.
    extra_compile_args=["-std=gnu11", "-O2", "-g0", "-fvisibility=hidden"],
    extra_link_args=["-Wl,-Bsymbolic"],
    py_limited_api=LIMITED,
)

# For foreign modules where apache-tvm-ffi is not: it shares the containers of the core.
compat = Extension(
    "kdsl.runtime.compat.libtvm_ffi",
    sources=sorted(
        [
            *(str(path.relative_to(ROOT)) for path in (ROOT / COMPAT).glob("*.c")),
            *(str(CORE / name) for name in ("loaded.c", "map.c", "sequence.c")),
        ]
    ),
    depends=sorted(str(path.relative_to(ROOT)) for path in (ROOT / COMPAT).glob("*.h"))
    + core.depends,
    include_dirs=core.include_dirs,
    define_macros=core.define_macros,
    extra_compile_args=core.extra_compile_args,
    extra_link_args=["-Wl,-Bsymbolic", "-Wl,-z,nodelete", "-Wl,-soname,libtvm_ffi.so"],
)

setup(
    ext_modules=[core, compat],
    cmdclass={"build_py": BuildWithShare, "build_ext": BuildLibraries},
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if LIMITED else {},
)
