"""Our own libtvm_ffi.so: what it shows, and in the place of the official one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
import tvm_ffi

from tests.runtime.environments import OWN, link, run

PACKAGE = Path(tvm_ffi.__file__).parent
BEHAVIOUR = Path(__file__).parent.parent / "conformance" / "foreign" / "behaviour.py"


def _names(library: Path, *flags: str) -> list[str]:
    command = ["nm", "-D", *flags, str(library)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return [line.split()[-1] for line in done.stdout.splitlines()]


def test_it_shows_the_functions_of_the_c_api_and_nothing_else():
    official = _names(PACKAGE / "lib" / "libtvm_ffi.so", "--defined-only")
    ours = _names(OWN, "--defined-only")
    assert sorted(ours) == sorted(name for name in official if name.startswith("TVMFFI"))


def test_it_needs_the_c_library_alone_and_answers_to_the_official_name():
    command = ["readelf", "-dW", str(OWN)]
    dynamic = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    needed = [line.split("[")[1][:-1] for line in dynamic.splitlines() if "(NEEDED)" in line]
    assert set(needed) <= {"libc.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}
    assert "soname: [libtvm_ffi.so]" in dynamic
    assert "SYMBOLIC" in dynamic
    undefined = [name for name in _names(OWN, "--undefined-only") if "@" not in name]
    assert [name for name in undefined if name.startswith(("Py", "_Py", "TVMFFI"))] == []


@pytest.fixture(scope="module")
def official_packages(tmp_path_factory) -> dict[str, str]:
    """apache-tvm-ffi as it is, and with our library in the place of its own."""
    folders = {}
    for name in ("official", "ours"):
        folder = tmp_path_factory.mktemp(name)
        link(folder, "apache-tvm-ffi", "typing-extensions")
        (folder / "tvm_ffi").unlink()
        shutil.copytree(
            PACKAGE, folder / "tvm_ffi", ignore=shutil.ignore_patterns("include", "src")
        )
        folders[name] = str(folder)
    shutil.copyfile(OWN, Path(folders["ours"]) / "tvm_ffi" / "lib" / "libtvm_ffi.so")
    return folders


def test_the_official_package_behaves_the_same_on_it(foreign, numpy_only, official_packages):
    told = {
        name: run([str(BEHAVIOUR), str(foreign)], numpy_only, folder)
        for name, folder in official_packages.items()
    }
    assert told["ours"] == told["official"]
    assert len(told["ours"].splitlines()) > 60


REFUSED = """
import tvm_ffi
from tvm_ffi.dataclasses import IntEnum, c_class, enum, py_class

def key():
    tvm_ffi.StructuralKey([1])

def python_class():
    @py_class
    class Point(tvm_ffi.Object):
        x: int

def python_class_without_fields():
    @py_class
    class Nothing(tvm_ffi.Object):
        pass

def python_enum():
    class Number(IntEnum, type_key="my.Number"):
        ONE = 1

def state_of_an_enum():
    enum.EnumState()

def made_by_its_fields():  # of a library in C++ that the package loads
    @c_class("testing.TestCxxAutoInitSimple")
    class Simple(tvm_ffi.Object):
        x: int
        y: int

    Simple(1, 2)

for refused in (key, python_class, python_class_without_fields, python_enum, state_of_an_enum,
                made_by_its_fields):
    try:
        refused()
    except RuntimeError as err:
        print(err)
"""


def test_what_it_does_not_have_says_so(numpy_only, official_packages):
    told = run(["-c", REFUSED], numpy_only, official_packages["ours"])
    reason = ": kdsl's own libtvm_ffi.so is for kernels and their hosts; install apache-tvm-ffi"
    assert told.splitlines() == [
        name + reason
        for name in (
            "ffi.StructuralKey",
            "ffi.MakeFieldGetter",
            "ffi._PyClassRegisterTypeAttrColumns",
            "ffi._PyClassRegisterTypeAttrColumns",
            "ffi.EnumState",
            "testing.TestCxxAutoInitSimple",
        )
    ]
